"""The options of files: spelled out where users look for them, and checked."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.importers.formats import FORMATS, format_of
from sim.importers.load import read_file
from tests.errors import raises_naming

QUADRUPED = Path(__file__).parents[2] / "scenes/robots/quadruped.urdf"
INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
URDF = f"<robot name='r'><link name='a'>{INERTIAL}</link></robot>"
WITH_WARNINGS = {
    ".urdf": f"<robot name='r'><link name='a'>{INERTIAL}</link><gazebo/></robot>",
    ".sdf": "<sdf version='1.10'><model name='m'><link name='a'/><plugin/></model></sdf>",
    ".xml": """<mujoco>
    <worldbody><body name='a'><joint name='j'/><geom size='1'/></body></worldbody>
    <actuator><general joint='j' dyntype='user'/></actuator>
</mujoco>""",
    ".usda": """#usda 1.0
def Cube "box" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {
    vector3f physics:velocity = (1, 0, 0)
}
""",
}
MJCF = "<mujoco><worldbody><body name='a'><freejoint/><geom size='1'/></body></worldbody></mujoco>"


@pytest.mark.parametrize("name", FORMATS)
def test_importers_are_the_methods_of_the_builder(name):
    method = getattr(sim.ModelBuilder, f"add_{name}")
    assert method is FORMATS[name].add
    _, *arguments = inspect.signature(method).parameters
    assert arguments[0] == "path"
    assert all(f"{argument}: " in method.__doc__ for argument in arguments)


@pytest.mark.parametrize("name", FORMATS)
def test_options_that_load_names_are_of_all_formats(name):
    named = {"name", "position", "orientation", "visual", "collision", "friction", "restitution", "decompose"}
    assert named < set(inspect.signature(FORMATS[name].add).parameters)
    assert all(f"``{option}``" in sim.load.__doc__ for option in named)


@pytest.mark.parametrize("name", ["a.urdf", "a.sdf", "a.xml", "a.usda"])
def test_warnings_point_to_the_line_that_adds_the_file(tmp_path, name):
    path = tmp_path / name
    path.write_text(WITH_WARNINGS[path.suffix])
    with pytest.warns(UserWarning, match=re.escape(name)) as caught:
        getattr(sim.ModelBuilder(), f"add_{format_of(path)}")(path)
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}


def test_no_method_of_the_builder_hides_its_arguments():
    methods = {name: f for name, f in inspect.getmembers(sim.ModelBuilder, callable) if not name.startswith("_")}
    assert len(methods) >= 20
    for name, method in methods.items():
        kinds = {p.kind for p in inspect.signature(method).parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}, name


@pytest.mark.parametrize(
    "kind", ["sphere", "box", "capsule", "cylinder", "ellipsoid", "ground", "heightfield", "static_mesh"]
)
def test_shapes_have_the_arguments_of_a_geometry(kind):
    """But for what they fix themselves; with the same types, and the same defaults where nothing else is documented."""
    own = {"position", "name"} if kind == "ground" else {"name"}
    differ = {"restitution", "rgba"} if kind in ("ground", "heightfield", "static_mesh") else set()
    given = inspect.signature(getattr(sim.ModelBuilder, f"add_{kind}")).parameters
    for name, expected in inspect.signature(sim.ModelBuilder.add_geometry).parameters.items():
        if name in {"self", "link", "type", "size", "mesh", "heights"} | own:
            continue
        assert given[name].annotation == expected.annotation
        assert name in differ or given[name].default == expected.default, name


def test_options_of_another_format_are_refused(tmp_path):
    urdf, mjcf, usd = (tmp_path / name for name in ("a.urdf", "a.xml", "a.usda"))
    urdf.write_text(URDF)
    mjcf.write_text(MJCF)
    usd.write_text("#usda 1.0\n")
    for path, options, message in (
        (
            urdf,
            {"drives": "springs"},
            r"a\.urdf: drives .* URDF files; ModelBuilder\.add_urdf takes name, ",
        ),
        (mjcf, {"floating_base": False, "mimic": "free"}, r"a\.xml: floating_base, mimic .* MJCF files"),
        (urdf, {"colour": 1}, r"colour .* URDF files; .* name, .*, package_dirs$"),
        (usd, {"self_collision": True}, r"a\.usda: self_collision .* USD files; .* drives$"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            sim.load(path, **options)
    # An .xml file may hold a robot of either format.
    mjcf.write_text(URDF)
    assert sim.load(mjcf, floating_base=True).nv == 6
    assert sim.load(mjcf, floating_base=None).nv == 0


def test_defaults_of_the_format():
    """An option that is not given is left to the method of the builder."""
    builder = sim.ModelBuilder()
    builder.add_urdf(QUADRUPED)
    model = builder.finalize()
    assert sim.load(QUADRUPED).excluded_pairs == read_file(QUADRUPED).finalize().excluded_pairs == model.excluded_pairs
    assert sim.load(QUADRUPED, self_collision=True).excluded_pairs < model.excluded_pairs
    np.testing.assert_array_equal(sim.load(QUADRUPED).parameters["friction"], model.parameters["friction"])
    assert (sim.load(QUADRUPED, friction=0.3).parameters["friction"] == 0.3).any()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 3}, "name is 3; it must be text"),
        ({"name": ""}, "name is empty"),
        ({"friction": "x"}, "friction is 'x'; it must be one number"),
        ({"restitution": np.ones(2)}, r"restitution is array\(.*; it must be one number"),
        ({"visual": "false"}, "visual is 'false'; it must be True or False"),
    ],
)
def test_what_no_reader_can_use_is_named(format, options, message):
    """Before the file is looked for."""
    with pytest.raises(sim.ModelError, match=f"^add_{format}: {message}"):
        getattr(sim.ModelBuilder(), f"add_{format}")(f"gone.{format}", **options)


@pytest.mark.parametrize("folders", [3, [3]])
def test_package_dirs_that_are_no_folders(folders):
    with raises_naming("package_dirs", 3, "folder"):
        sim.load(QUADRUPED, package_dirs=folders)
