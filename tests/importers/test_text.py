"""Models from text and open files: the same as from the file, in every format."""

import io
import warnings
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.importers.text import text_file

ROBOTS = Path(__file__).parents[2] / "scenes/robots"
BALL = '<mujoco><worldbody><body name="ball"><freejoint/><geom {geom}/></body></worldbody></mujoco>'
SDF = """<sdf version="1.9"><model name="block"><link name="block">
<inertial><mass>2</mass></inertial></link></model></sdf>"""


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".usda", ".usdc"])
def test_text_and_open_files_give_the_model_of_the_file(suffix, tmp_path):
    original = sim.load(ROBOTS / "arm.urdf", dtype="float64")
    path, format = tmp_path / f"arm{suffix}", {".urdf": "urdf", ".xml": "mjcf"}.get(suffix, "usd")
    if suffix in (".usda", ".usdc"):
        sim.usd.write_usd(path, original, sim.forward_kinematics(original, original.q0[None]).numpy(), fps=24.0)
    else:
        write = sim.exporters.write_urdf if suffix == ".urdf" else sim.exporters.write_mjcf
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the format doesn't have
            write(path, original, lossy=True)
    wanted = sim.load(path, dtype="float64")
    sources = [path.read_bytes(), io.BytesIO(path.read_bytes())]
    if suffix != ".usdc":
        sources += [path.read_text(), io.StringIO(path.read_text())]
    for source in sources:
        found = sim.load_text(source, format, folder=tmp_path, dtype="float64")
        assert found.link_names == wanted.link_names
        assert found.joint_names == wanted.joint_names
        for name, values in wanted.parameters.items():
            np.testing.assert_array_equal(found.parameters[name], values)


def test_sdf():
    assert sim.load_text(SDF, "sdf").parameters["mass"].tolist() == [2.0]


def test_meshes_beside_the_text(tmp_path):
    """From the folder, and in a folder below it; a file of the folder may have the name of the temporary one."""
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    for place in ("a.obj", "deep/b.obj", "text.xml"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(corners + "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    for place in ("a.obj", "deep/b.obj"):
        text = BALL.format(geom='type="mesh" mesh="m"')
        text = text.replace("<worldbody>", f'<asset><mesh name="m" file="{place}"/></asset><worldbody>')
        assert len(sim.load_text(text, "mjcf", folder=tmp_path).geometries[0].mesh.vertices) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.obj", "deep", "text.xml"]


def test_texts_are_added_to_scenes():
    scene = sim.ModelBuilder()
    for name in ("one", "other"):
        with text_file(BALL.format(geom='size="0.1"'), "mjcf") as path:
            scene.add_mjcf(path, name=name)
    assert not path.exists()
    assert scene.finalize().link_names == ("one/ball", "other/ball")


@pytest.mark.parametrize(
    ("source", "format", "options", "named"),
    [
        ("<robot/>", "xacro", {}, "'xacro'"),
        (3, "urdf", {}, "text"),
        ("<robot/>", "urdf", {"folder": "nowhere"}, "nowhere"),
        (BALL.format(geom='size="-1"'), "mjcf", {}, "text.xml"),
        ("<robot", "urdf", {}, "text.urdf"),
        ("#usda 1.0\n(", "usd", {}, "text.usda"),
        (BALL.format(geom='size="0.1"'), "mjcf", {"floating_base": True}, "floating_base"),
    ],
)
def test_what_is_wrong_is_named(source, format, options, named):
    with pytest.raises(sim.ModelError, match=named):
        sim.load_text(source, format, **options)


def test_paths_that_lead_through_a_folder_above(tmp_path):
    """And a text whose file had another encoding."""
    (tmp_path / "robot/meshes").mkdir(parents=True)
    (tmp_path / "robot/urdf").mkdir()
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "robot/meshes/a.obj").write_text(f"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n{faces}")
    mesh = "<collision><geometry><mesh filename='../meshes/a.obj'/></geometry></collision>"
    text = f"<?xml version='1.0' encoding='ISO-8859-1'?><robot name='r'><link name='\u00e4'>{mesh}</link></robot>"
    model = sim.load_text(text, "urdf", folder=tmp_path / "robot/urdf", collapse_fixed=False)
    assert model.link_names == ("\u00e4",)
    assert len(model.geometries[0].mesh.vertices) == 4
