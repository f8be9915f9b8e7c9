"""The options of files: spelled out where users look for them, the same wherever they are written."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.importers.load import read_file
from sim.importers.mjcf import add_mjcf
from sim.importers.sdf import add_sdf
from sim.importers.urdf import add_urdf
from sim.importers.usd import add_usd

QUADRUPED = Path(__file__).parents[2] / "scenes/robots/quadruped.urdf"
READERS = {"urdf": add_urdf, "sdf": add_sdf, "mjcf": add_mjcf, "usd": add_usd}
INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
URDF = f"<robot name='r'><link name='a'>{INERTIAL}</link></robot>"
MJCF = "<mujoco><worldbody><body name='a'><freejoint/><geom size='1'/></body></worldbody></mujoco>"


def parameters(function):
    return [(p.name, p.kind, p.default, p.annotation) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("format", READERS)
def test_methods_of_the_builder_spell_out_the_options(format):
    """Name, order, default and type of every argument but the builder itself."""
    method, reader = getattr(sim.ModelBuilder, f"add_{format}"), inspect.unwrap(READERS[format])
    ours, theirs = parameters(method)[1:], parameters(reader)[1:]
    assert [entry[:3] for entry in ours] == [entry[:3] for entry in theirs]
    # Of modules with postponed annotations these are text.
    written = inspect.signature(reader, eval_str=True)
    assert [entry[3] for entry in ours] == [p.annotation for p in list(written.parameters.values())[1:]]
    assert inspect.signature(method).return_annotation == written.return_annotation
    for name, *_ in ours:
        assert f"{name}: " in method.__doc__


def test_load_has_the_options_of_all_formats():
    own = {"path", "dtype", "collapse_fixed", "gravity", "untrusted"}
    union = {name for format in READERS for name, *_ in parameters(getattr(sim.ModelBuilder, f"add_{format}"))}
    assert set(inspect.signature(sim.load).parameters) == (union - {"self"}) | own
    assert all(f"{name}: " in sim.load.__doc__ for name in union - {"self"})


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
            r"a\.urdf: drives is no option of URDF files; ModelBuilder\.add_urdf takes name, ",
        ),
        (mjcf, {"floating_base": False, "mimic": "free"}, r"a\.xml: floating_base, mimic are no options of MJCF files"),
        (usd, {"self_collision": True}, r"a\.usda: self_collision is no option of USD files; .* drives$"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            sim.load(path, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        sim.load(urdf, colour=1)
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


@pytest.mark.parametrize("format", READERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 3}, "name is 3; it must be text"),
        ({"name": ""}, "name is empty; leave it out to use the names of the file"),
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
    with pytest.raises(sim.ModelError, match=r"package_dirs is .*3.*; it must be a folder, or a list of folders"):
        sim.load(QUADRUPED, package_dirs=folders)
