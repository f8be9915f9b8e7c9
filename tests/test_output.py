"""Writing files: whole or not at all, whatever happens, and nothing left behind."""

import contextlib
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sim
from sim import output
from sim.cli.main import main
from sim.exporters import write_mjcf, write_urdf
from sim.render import write_gif, write_mp4, write_png
from sim.usd import UsdRecorder, write_usd

ROOT = Path(__file__).parents[1]
LITTLE = 200  # bytes that a file may have on the full disk


@contextlib.contextmanager
def full_disk():
    """No file grows beyond LITTLE bytes: the system refuses to write more, as it does on a full disk."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def ball():
    builder = sim.ModelBuilder()
    builder.add_sphere(name="ball", radius=0.1, mass=1.0)
    return builder.finalize("float64")


def arm():
    builder = sim.ModelBuilder()
    builder.add_link("upper", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="upper", limits=sim.Limits(-1.0, 1.0))
    return builder.finalize("float64")


def poses(frames):
    return np.tile([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], (frames, 1, 1))


def record(path):
    with UsdRecorder(path, ball(), fps=25.0) as recorder:
        recorder.append(poses(1)[0])


PICTURES = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
WRITERS = {
    "a.usda": lambda path: write_usd(path, ball(), poses(20), fps=25.0),
    "a.usdc": lambda path: write_usd(path, ball(), poses(20), fps=25.0),
    "recorded.usdc": record,
    "a.urdf": lambda path: write_urdf(path, arm()),
    "a.xml": lambda path: write_mjcf(path, ball()),
    "a.gif": lambda path: write_gif(path, PICTURES, 25.0),
    "a.png": lambda path: write_png(path, PICTURES[0]),
    "a.mp4": lambda path: write_mp4(path, PICTURES, 25.0),
    "a.json": lambda path: output.write_text(path, "[1]" * LITTLE),
}


def test_a_full_disk_keeps_the_layer_that_was_written_over_a_stage(tmp_path):
    model = sim.load(write_usd(tmp_path / "scene.usdc", ball(), poses(1), fps=25.0))
    path = tmp_path / "motion.usda"
    path.write_bytes(b"old")
    with full_disk(), pytest.raises(sim.ModelError, match="cannot be written"):
        write_usd(path, model, poses(20), fps=25.0, over=tmp_path / "scene.usdc")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"old")
    with full_disk(), pytest.raises(sim.ModelError) as caught:
        WRITERS[name](path)
    assert str(caught.value).startswith(f"{path}: cannot be written: ")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert path.read_bytes() != b"old"


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_folder_is_one_sentence(name, monkeypatch, tmp_path):
    def refused(*given, **named):
        raise PermissionError(13, "Permission denied", "/tmp/secret")

    monkeypatch.setattr(output.tempfile, "mkdtemp", refused)
    with pytest.raises(sim.ModelError) as caught:
        WRITERS[name](tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: cannot be written: Permission denied"


@pytest.mark.parametrize(
    ("name", "said"),
    [("a\0b", "no file can have a zero byte in its name"), ("a" * 300, "cannot be written: File name too long")],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_names_that_no_file_can_have(tmp_path, name, said, writer):
    with pytest.raises(sim.ModelError, match=said):
        WRITERS[writer](tmp_path / f"{name}{Path(writer).suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [write_urdf, write_mjcf, lambda path, model: UsdRecorder(path, model, fps=1)])
def test_what_is_no_model_is_named(tmp_path, write):
    suffix = {write_urdf: ".urdf", write_mjcf: ".xml"}.get(write, ".usda")
    with pytest.raises(sim.ModelError, match=r"model is a ModelBuilder; it must be a sim\.Model"):
        write(tmp_path / f"a{suffix}", sim.ModelBuilder())


def test_the_command_line_says_it_in_one_sentence(tmp_path, capsys):
    out = tmp_path / "states.npz"
    with full_disk():
        status = main(["simulate", str(ROOT / "scenes/robots/arm.urdf"), "--steps", "50", "--out", str(out)])
    assert status == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {out}: cannot be written: File too large"
    assert not out.exists()


def test_leftovers_of_a_killed_process_go_and_those_of_a_living_one_stay(tmp_path):
    stay = f"""if True:
        import sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from sim.output import write_file
        def write(name):
            open(name, "w").write("half")
            print(name, flush=True)
            time.sleep(100.0)
        write_file(sys.argv[1], (".txt",), write)"""
    command = [sys.executable, "-c", stay, str(tmp_path / "a.txt")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        half, other = (Path(process.stdout.readline().strip()) for process in (first, second))
        assert half.parent != other.parent
        first.kill()
        first.wait()
        assert half.read_text() == "half"
        output.write_text(tmp_path / "b.txt", "whole")
        assert not half.parent.exists()
        assert other.read_text() == "half"
        second.kill()
    assert not (tmp_path / "a.txt").exists()


def test_a_folder_taken_before_it_is_locked_is_made_again(monkeypatch, tmp_path):
    lock, taken = output._lock, []

    def steal(folder):
        if not taken:
            taken.append(folder)
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(output, "_lock", steal)
    output.write_text(tmp_path / "a.txt", "whole")
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_every_file_is_written_beside_its_place():
    """Nothing else in these packages opens a file for writing."""
    # Those of benchmarks, untrusted files, headers, payloads and examples in docstrings write into temporary folders,
    # or not into files; the one of kernels has no name. The page of a report is written under the name that it is
    # given beside its place. The logs of bench.gpu are written as long as their commands run.
    known = {
        "sim/arrays/headers.py", "sim/arrays/kernels.py", "sim/arrays/shipped.py", "sim/importers/child.py",
        "sim/importers/untrusted.py", "sim/importers/text.py",
        "sim/output.py", "sim/exporters/files.py", "sim/exporters/urdf/changes.py", "examples/learning.py",
        "sim/exporters/mjcf/exporter.py", "sim/exporters/urdf/exporter.py", "sim/usd/write.py",
        "sim/learn/evaluation.py", "sim/learn/policy_files.py",
        "sim/identify/logs/readers.py", "sim/identify/report.py", "sim/model/model.py", "sim/render/files.py",
        "sim/render/texture_files.py",
        "examples/payload.py", "examples/rl/carry.py", "examples/rl/walk.py", "bench/walking.py", "bench/skills.py",
        "sim/importers/mjcf/importer.py", "sim/importers/sdf/importer.py", "sim/importers/usd/importer.py",
        "sim/importers/usd/motion.py",
        "bench/cameras.py", "bench/gpu.py", "bench/peers.py", "bench/processes.py", "bench/rays.py",
        "bench/resident.py", "bench/robot.py", "bench/tables/__main__.py", "bench/beside_mujoco/differences.py",
    }  # fmt: skip
    signs = (".write_text(", ".write_bytes(", '"w")', '"wb")', "tempfile")
    found = {
        str(path.relative_to(ROOT))
        for package in ("sim", "examples", "bench")
        for path in (ROOT / package).rglob("*.py")
        if any(sign in path.read_text() for sign in signs)
    }
    assert found - known == set()
