"""Untrusted files: read in another process, whose end is an error message."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.cli.main import main
from sim.importers.load import read_file
from sim.importers.model_file import model_from_bytes, model_to_bytes
from sim.importers.untrusted import Limits, ReadingProcess
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import PART, ZOO
from tests.importers.test_scaling import chain

NEST = "#usda 1.0\n" + 'def Xform "a" {\n' * 100_000 + "}" * 100_000


def crashing(folder: Path) -> Path:
    """A file that makes the USD library crash: its sublayer is nested too deep."""
    (folder / "deep.usda").write_text(NEST)
    (folder / "nest.usda").write_text("#usda 1.0\n(\n    subLayers = [@./deep.usda@]\n)\n")
    return folder / "nest.usda"


@pytest.fixture(scope="module")
def process():
    with ReadingProcess(Limits()) as started:
        yield started


@pytest.fixture
def zoo(tmp_path):
    (tmp_path / "part.xml").write_text(PART)
    (tmp_path / "zoo.xml").write_text(ZOO)
    return tmp_path / "zoo.xml"


def same(a, b):
    """Whether two values hold the same, arrays of the same types among them."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return type(a) is type(b) and a == b


# A medium, a pair with a softness of its own, a ball with a limit, an actuator with a state.
FISH = """<mujoco><option density="1000"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
  <body pos="0 0 1"><freejoint/><geom name="fish" size="0.1"/>
    <body><joint name="fin" axis="0 1 0"/><geom size="0.05"/></body>
    <body><joint type="ball" range="0 30"/><geom size="0.05"/></body></body></worldbody>
  <contact><pair geom1="floor" geom2="fish" solref="0.03 1"/></contact>
  <actuator><general joint="fin" dyntype="filter" dynprm="0.1"/></actuator></mujoco>"""


def test_models_survive_as_bytes(zoo, tmp_path):
    (tmp_path / "fish.xml").write_text(FISH)
    for path in (zoo, chain(tmp_path / "chain.urdf", 5), tmp_path / "fish.xml"):
        model = read_file(path).finalize("float64", collapse_fixed=False)
        assert same(model, model_from_bytes(model_to_bytes(model)))


def test_shared_meshes_stay_shared():
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=np.ones(3))
    builder.add_joint("j", "free", child="a")
    mesh = sim.model.geometries.Mesh(np.eye(3), np.array([[0, 1, 2]], dtype=np.int32))
    for _ in range(2):
        builder.add_geometry("a", "convex", size=(1.0, 1.0, 1.0), mesh=mesh, collides=False)
    a, b = model_from_bytes(model_to_bytes(builder.finalize())).geometries
    assert a.mesh is b.mesh


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 7, b"\xff" * 20, b"\x02" + b"\0" * 7 + b"{}", b"\x01" + b"\0" * 7 + b"1"]
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match="not the bytes of a model"):
        model_from_bytes(data)


def test_the_same_model_and_warnings(process, zoo):
    zoo.write_text(ZOO.replace("<worldbody>", '<option actuatorgroupdisable="0" impratio="2"/><worldbody>', 1))
    with pytest.warns(sim.errors.MJCFWarning) as expected:
        model = sim.load(zoo, gravity=(0.0, 0.0, -1.0), restitution=0.5)
    assert len(expected) > 1
    with pytest.warns(sim.errors.MJCFWarning) as said:
        read = process.load(zoo, {"gravity": np.array([0.0, 0.0, -1.0]), "restitution": 0.5})
    assert same(model, read)
    assert [str(each.message) for each in said] == [str(each.message) for each in expected]


def test_the_same_errors(process, tmp_path):
    path = tmp_path / "wrong.urdf"
    path.write_text("<robot name='r'>\n<link name='a'/><link name='b'/></robot>")
    for file, options, kind in (
        (path, {}, sim.ImportFileError),
        (tmp_path / "gone.urdf", {}, sim.ImportFileError),
        (tmp_path / "gone.foo", {}, sim.ModelError),
        (path, {"drives": "springs"}, sim.ModelError),
        (path, {"position": (0.0, 0.0, np.inf)}, sim.ModelError),
    ):
        with pytest.raises(sim.ModelError) as expected:
            sim.load(file, **options)
        with pytest.raises(kind) as raised:
            process.load(file, options)
        assert str(raised.value) == str(expected.value)


def test_a_crash_is_an_error_and_the_next_file_is_read(process, tmp_path):
    crashing(tmp_path)
    with raises_naming("nest.usda", "crash", "SIGSEGV", error=sim.ImportFileError):
        process.load(tmp_path / "nest.usda", {})
    assert process.load(chain(tmp_path / "good.urdf", 3), {}).nv == 2


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(cpu_seconds=1.0), r"long\.urdf: took more than 1 s of processor time to read"),
        (Limits(seconds=0.2), r"long\.urdf: took longer than 0\.2 s to read"),
    ],
)
def test_time(tmp_path, limits, message):
    path = chain(tmp_path / "long.urdf", 8000)
    with pytest.raises(sim.ImportFileError, match=message):
        sim.load(path, untrusted=limits)


def test_memory(tmp_path):
    path = tmp_path / "big.xml"
    heights = '<hfield name="h" nrow="3000" ncol="3000" size="1 1 1 1"/>'
    path.write_text(f'<mujoco><asset>{heights}</asset><worldbody><geom type="hfield" hfield="h"/></worldbody></mujoco>')
    start = time.monotonic()
    with pytest.raises(sim.ImportFileError, match=r"big\.xml: .*(more than 150 MB|[Cc]ould not allocate|bad_alloc)"):
        sim.load(path, untrusted=Limits(memory=1.5e8))
    assert time.monotonic() - start < 60.0


def test_no_process_and_no_file_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with ReadingProcess(Limits()) as process:
        process.load(chain(tmp_path / "good.urdf", 3), {})
        pid = process._process.pid
    assert [path.name for path in tmp_path.iterdir()] == ["good.urdf"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_check(tmp_path, capsys):
    good = chain(tmp_path / "good.urdf", 3)
    assert main(["check", "--untrusted", "--floating-base", str(good)]) == 0
    assert "good, 0 warnings" in capsys.readouterr().out
    assert main(["check", "--untrusted", "--ground", "0", str(good)]) == 2
    assert "--ground can't be combined with --untrusted" in capsys.readouterr().err
    crashing(tmp_path)
    assert main(["check", "--untrusted", str(tmp_path / "nest.usda")]) == 1
    assert "error: " in capsys.readouterr().err
