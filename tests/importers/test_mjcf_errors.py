"""MJCF files that are wrong: the error names file and element, the builder stays as it was."""

import copy
import sys
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.errors import raises_naming, refuses
from tests.importers.mjcf_zoo import PART, ZOO
from tests.importers.test_urdf_errors import mutated_tree


def world(inside, after=""):
    return f"<mujoco>\n<worldbody>{inside}</worldbody>{after}</mujoco>"


CLOTH = '<flexcomp name="f" type="grid" dim="2" count="3 3 1" spacing=".1 .1 .1" mass="1"/>'
BODY = '<body name="b"><joint name="j"/><geom name="g" size="1"/></body>'
WRONG = {
    "empty": ("", "empty"),
    "text": ("solid cube", "XML", "root element", "<mujoco>"),
    "other root": ("<sdf/>", "MJCF", "root element", "<sdf>"),
    "urdf": ("<!-- <mujoco> --><robot name='r'><link name='a'/></robot>", "URDF", "add_urdf"),
    "broken": ("<mujoco>\n<worldbody></mujoco>", "XML_ERROR_MISMATCHED_ELEMENT", "Line number=2"),
    "unknown element": ("<mujoco>\n<links/></mujoco>", "unrecognized element", "line 2"),
    "words": (world('<body pos="here"/>'), "attribute 'pos'", "line 2"),
    "no mass": (world('<body name="b"><joint/></body>'), "mass and inertia", "'b'", "line 2"),
    "crossed limits": (world(BODY.replace('"j"', '"j" range="2 1" limited="true"')), "range", "'j'", "line 2"),
    "two of a name": (world(BODY + '<body name="b"/>'), "name 'b'", "body"),
    "include with a long name": (f"<mujoco><include file='{'n' * 300}'/></mujoco>", "n" * 300),
    "missing include": ("<mujoco><include file='gone.xml'/></mujoco>", "gone.xml"),
    "missing mesh": (
        "<mujoco><asset><mesh file='gone.stl'/></asset><worldbody><geom type='mesh' mesh='gone'/></worldbody></mujoco>",
        "gone.stl",
    ),
    "endless include": ("<mujoco><include file='wrong.xml'/></mujoco>", "already included"),
    "deep": (world("<body>" * 2000 + "</body>" * 2000), "XML_ELEMENT_DEPTH_EXCEEDED"),
    "huge": (
        "<mujoco><asset><hfield name='h' nrow='2147483647' ncol='2147483647' size='1 1 1 1'/></asset></mujoco>",
        *("hfield 'h' (line 1)", "2147483647 x 2147483647"),
    ),
    "flex": (world(f'<body name="b">{CLOTH}</body>'), "deformable bodies"),
    "infinite": (world('<body name="b"><joint/><geom size="1e300"/></body>'), "body 'b' (line 2)", "mass", "inf"),
    "gear": (
        world(BODY, '\n<actuator><motor name="m" joint="j" gear="0"/></actuator>'),
        "actuator 'm' (line 3)",
        "gear",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_error_names_file_and_element(tmp_path, case):
    text, *items = WRONG[case]
    path = tmp_path / "wrong.xml"
    path.write_text(text)
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=1.0, mass=1.0)
    before = repr(copy.deepcopy(vars(builder)))
    with raises_naming(*items, error=sim.ImportFileError) as raised:
        builder.add_mjcf(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert repr(vars(builder)) == before
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_missing_file_and_folder(tmp_path):
    (tmp_path / "folder.xml").mkdir()
    refuses(lambda: sim.load(tmp_path / "gone.xml"), "gone.xml", "No such file", error=sim.ImportFileError)
    refuses(lambda: sim.load(tmp_path / "folder.xml"), "folder.xml", "Is a directory", error=sim.ImportFileError)


def test_files_are_told_apart_by_their_first_element(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text("<?xml version='1.0'?><!-- <mujoco> --><robot name='r'><link name='a'/></robot>")
    assert sim.load(path).parts[0].name == "r"
    path.write_text("<!-- -- no XML, but MuJoCo reads it -- -->" + world(BODY))
    assert sim.load(path).parts[0].name == "robot"
    other = tmp_path / "robot.urdf"
    other.write_text(world(BODY))
    with raises_naming("URDF", "MJCF", "add_mjcf", error=sim.ImportFileError):
        sim.load(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "add_mjcf: name is empty"),
        ({"position": (0.0, 0.0)}, "add_mjcf: position: shape"),
        ({"orientation": (0.0, 0.0, 0.0, 0.0)}, "add_mjcf: the orientation is the zero quaternion"),
        ({"friction": -1.0}, r"geom 'g' \(line 2\): Surface: friction is -1.0"),
        ({"restitution": 2.0}, r"geom 'g' \(line 2\): Surface: restitution is 2.0"),
    ],
)
def test_wrong_arguments(tmp_path, options, message):
    path = tmp_path / "robot.xml"
    path.write_text(world(BODY))
    with pytest.raises(sim.ModelError, match=message):
        sim.load(path, **options)


def test_without_mujoco_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "robot.xml"
    path.write_text(world(BODY))
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with raises_naming("robot.xml", "backswing[mjcf]"):
        sim.load(path)


VALUES = (
    *("", "0", "-1", "1 1 1", "0 0 0", "nan", "inf", "1e300 0 0", "1 2", "6", "99999999", "2147483648", "0 0 0 0"),
    *("true", "flap", "world", "hinge", "free", "ball", "slide", "plane", "mesh", "hfield", "sdf", "a" * 300),
    "é\u2028",
)
PIECES = ("<", ">", "/>", "'", '"', "&", "<!--", "\0", "1e400", "<body/>", "<joint/>", "<include file='zoo.xml'/>")


def caught(function, *args):
    """The model error that a call raises, or None; warnings aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.MJCFWarning)
        try:
            function(*args)
        except sim.ModelError as error:
            return error
    return None


@st.composite
def mutations(draw):
    """The zoo with elements lost, repeated or moved, attributes changed, and perhaps a stretch of text."""
    text = mutated_tree(draw, ZOO, draw(st.integers(1, 3)), VALUES)
    if draw(st.integers(0, 4)) == 0:
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(st.sampled_from(PIECES)) + text[start + draw(st.integers(0, 20)) :]
    return text


@given(text=mutations())
@settings(max_examples=150)
def test_mutated_files_raise_model_errors_only(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    (folder / "part.xml").write_text(PART)
    path = folder / "mutated.xml"
    path.write_bytes(text.encode("utf-8", "replace"))
    builder = sim.ModelBuilder()
    error = caught(builder.add_mjcf, path)
    if error is not None:
        assert str(error).startswith(f"{path}: ")
        assert not builder.links
    else:
        caught(builder.finalize)
