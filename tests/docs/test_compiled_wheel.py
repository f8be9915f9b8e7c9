"""A wheel with compiled kernels: its files, their list with hashes, and the platform that its name says."""

import base64
import hashlib
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import warp as wp

from sim.arrays import kernels
from warp_kernels import registry
from warp_kernels.cpu import processor

ROOT = Path(__file__).parents[2]
TAG = "py3-none-manylinux_2_28_x86_64"
INFO = "thing-1.2.3.dist-info"
FILES = {
    "thing/__init__.py": "word = 'found'\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.2.3\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n\n",
}


@pytest.fixture
def compiled_wheel(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import compiled_wheel

    yield compiled_wheel
    sys.modules.pop("compiled_wheel", None)


def line(path: str, content: bytes) -> str:
    """A line of a wheel's list."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}"


def test_a_wheel_with_archives_has_its_files_and_a_platform(compiled_wheel, tmp_path):
    plain = tmp_path / "thing-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(plain, "w") as target:
        for path, text in FILES.items():
            target.writestr(path, text)
        rows = [*(line(path, text.encode()) for path, text in FILES.items()), f"{INFO}/RECORD,,"]
        target.writestr(f"{INFO}/RECORD", "\n".join([*rows, ""]))
    archive = tmp_path / "x86-64-v3-1.19.0.zip"
    archive.write_bytes(bytes(range(256)) * 40)
    before = plain.read_bytes()
    made = compiled_wheel.with_archives(plain, [archive], TAG)
    assert made.name == f"thing-1.2.3-{TAG}.whl"
    assert plain.read_bytes() == before
    with zipfile.ZipFile(made) as wheel:
        assert wheel.testzip() is None
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    assert len(contents) == len(FILES) + 2
    described = contents[f"{INFO}/WHEEL"].decode().splitlines()
    assert {"Root-Is-Purelib: false", f"Tag: {TAG}"} <= set(described)
    assert "Tag: py3-none-any" not in described
    assert contents["warp_kernels/compiled/x86-64-v3-1.19.0.zip"] == archive.read_bytes()
    assert contents["thing/__init__.py"].decode() == FILES["thing/__init__.py"]
    record = contents.pop(f"{INFO}/RECORD").decode().splitlines()
    assert sorted(record) == sorted([*(line(path, text) for path, text in contents.items()), f"{INFO}/RECORD,,"])
    # pip compares the list and the name with the machine, and installs it.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    if sys.platform == "linux" and platform.machine() == "x86_64":
        subprocess.run([*pip, "--target", tmp_path / "there", made], check=True)
        assert (tmp_path / "there/warp_kernels/compiled" / archive.name).read_bytes() == archive.read_bytes()


def test_a_module_whose_files_are_unknown_is_an_error(compiled_wheel, tmp_path, monkeypatch):
    """A wheel without its kernels would compile them in silence."""
    module = wp.Module("test.unknown_files")
    monkeypatch.setattr(registry, "all_modules", lambda *_arguments, **_options: [module])
    monkeypatch.setattr(kernels, "load_modules", lambda *_arguments: None)
    monkeypatch.setattr(kernels.CachedModule, "compiled", None)
    with pytest.raises(RuntimeError, match="how this version of Warp names compiled files"):
        compiled_wheel.write_archive(tmp_path, processor.level())
    assert not list(tmp_path.iterdir())


def test_the_platform_is_that_of_warp(compiled_wheel):
    assert compiled_wheel.platform_of_warp().startswith("py3-none-")


NEEDED = """if True:
    import warp as wp
    import sim
    from scenes import quadruped
    from sim.arrays import launch
    from warp_kernels.registry import all_modules
    needed, load = set(), launch.load_modules

    def noted(modules, device):
        modules = list(modules)
        needed.update(module.name for module in modules)
        load(modules, device)

    launch.load_modules = noted
    scene = quadruped.build("float32")
    for worlds in (1, 64):
        simulator = sim.Simulator(scene.model, dt=1e-3, num_worlds=worlds, device="cpu")
        trajectory = simulator.rollout(simulator.initial_state(), steps=2)
        trajectory.backward(wp.ones_like(trajectory.final_state.q))
    known = {m.name for scalar in (wp.float32, wp.float64) for m in all_modules(scalar, (1, 8), looping=True)}
    assert len(needed) > 30 and any(name.endswith(".looping") for name in needed), needed
    print(sorted(needed - known))
"""


def test_all_kernels_are_those_that_a_cpu_needs():
    """Simulators load no module that a wheel lacks; they run in a new process, which has loaded nothing yet."""
    done = subprocess.run([sys.executable, "-c", NEEDED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
