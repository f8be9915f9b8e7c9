"""Files that are wrong: the error names the file, the element and the line, and the builder stays as it was."""

import copy
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.errors import URDFWarning
from tests.errors import raises_naming

HEAD = "<robot name='r'>"
INERTIAL = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
LINKS = f"<link name='a'>{INERTIAL}</link>\n<link name='b'>{INERTIAL}</link>"
ENDS = "<parent link='a'/><child link='b'/>"


def inertial(inside):
    return f"{HEAD}\n<link name='a'><inertial>{inside}</inertial></link></robot>"


def hinge(inside, type="revolute"):
    return f"{HEAD}\n{LINKS}\n<joint name='j' type='{type}'>{ENDS}{inside}</joint></robot>"


def shape(inside, kind="collision"):
    return f"{HEAD}\n<link name='a'>{INERTIAL}<{kind}>{inside}</{kind}></link></robot>"


def joints(*ends):
    names = sorted({name for pair in ends for name in pair})
    text = "".join(f"<link name='{name}'/>" for name in names)
    for number, (parent, child) in enumerate(ends):
        text += f"\n<joint name='j{number}' type='continuous'><parent link='{parent}'/><child link='{child}'/></joint>"
    return f"{HEAD}{text}</robot>"


BALL = "<geometry><sphere radius='1'/></geometry>"
MASS, INERTIA = "<mass value='1'/>", "<inertia ixx='1' iyy='1' izz='1'/>"
LIMIT = "<limit lower='0' upper='1'/>"
J = "joint 'j' (line 4)"  # the joint of hinge()
WRONG = {
    "empty": ("", "empty"),
    "blank": (" \n ", "empty"),
    "broken": ("<robot><link name='a'></robot>", "XML", "mismatched tag", "line 1"),
    "text": ("solid cube", "XML"),
    "encoding": ("<?xml version='1.0' encoding='klingon'?><robot/>", "XML", "encoding"),
    "other root": ("<sdf/>", "URDF", "root element", "<sdf>"),
    "no links": (f"{HEAD}</robot>", "<robot> (line 1)", "<link>"),
    "xacro": (f"{HEAD}\n<xacro:arm/></robot>", "<xacro:arm> (line 2)", "xacro macro"),
    "nameless link": (f"{HEAD}<link/></robot>", "<link> (line 1)", "'name'", "missing"),
    "empty name": (f"{HEAD}<link name=' '/></robot>", "(line 1)", "'name'", "empty"),
    "two links of a name": (f"{HEAD}<link name='a'/>\n<link name='a'/></robot>", "link 'a' (line 2)", "name", "line 1"),
    "two joints of a name": (
        hinge(LIMIT).replace("</robot>", "\n<joint name='j' type='fixed'/></robot>"),
        *("joint 'j' (line 5)", "name", "line 4"),
    ),
    "no type": (hinge("").replace(" type='revolute'", ""), J, "'type'", "missing"),
    "unknown type": (hinge("", "hinge"), J, "'hinge'", "fixed", "revolute"),
    "planar": (hinge("", "planar"), J, "planar", "prismatic"),
    "no parent": (hinge("").replace("<parent link='a'/>", ""), J, "no <parent>"),
    "unknown parent": (
        hinge("").replace("parent link='a'", "parent link='x'"),
        *("joint 'j', <parent> (line 4)", "unknown", "'x'"),
    ),
    "unknown child": (
        hinge("").replace("child link='b'", "child link='x'"),
        *("joint 'j', <child> (line 4)", "unknown", "'x'"),
    ),
    "two parents": (
        joints("ab", "bd", "ac", "cd"),
        *("joint 'j3' (line 5)", "link 'd'", "child", "joint 'j1' (line 3)"),
    ),
    "two roots": (joints("ab", "cd"), "2 root links", "'a', 'c'"),
    "loop": (joints("ab", "ba"), "joints", "loop"),
    "own child": (joints("aa"), "joints", "loop"),
    "loop beside the root": (joints("xy", "bc", "cb"), "link 'b'", "loop", "root link 'x'", "'b', 'c'"),
    "no limit": (hinge(""), J, "revolute", "<limit>", "continuous"),
    "no limit of a slider": (hinge("", "prismatic"), J, "prismatic", "<limit>"),
    "limit nan": (hinge("<limit lower='nan' upper='1'/>"), "<limit>", "'lower'", "not a number", "'nan'"),
    "zero axis": (hinge(LIMIT + "<axis xyz='0 0 0'/>"), J, "axis", "zero"),
    "axis without xyz": (hinge(LIMIT + "<axis/>"), "joint 'j', <axis>", "'xyz'", "missing"),
    "short vector": (hinge(LIMIT + "<origin xyz='0 0'/>"), "joint 'j', <origin>", "'xyz'", 2, 3),
    "words": (hinge(LIMIT + "<origin rpy='0 zero 0'/>"), "<origin>", "'rpy'", "numeric", "'0 zero 0'"),
    "macro": (hinge(LIMIT + "<origin rpy='0 ${pi} 0'/>"), "numeric", "'0 ${pi} 0'", "xacro"),
    "infinite": (hinge(LIMIT + "<origin xyz='0 inf 0'/>"), "'xyz'", "not finite", "'0 inf 0'"),
    "two origins": (hinge(LIMIT + "<origin/>\n<origin/>"), J, "2 <origin> elements", "line 5"),
    "negative damping": (hinge(LIMIT + "<dynamics damping='-1'/>"), J, "damping", "-1.0", "finite"),
    "no mass": (inertial(INERTIA), "link 'a', <inertial>", "no <mass>"),
    "negative mass": (inertial("<mass value='-1'/>" + INERTIA), "link 'a' (line 2)", "mass", "-1.0", "finite"),
    "mass in words": (
        inertial("<mass value='heavy'/>" + INERTIA),
        *("link 'a', <mass>", "'value'", "numeric", "'heavy'"),
    ),
    "no moment": (inertial(MASS + "<inertia ixx='1' iyy='1'/>"), "link 'a', <inertia>", "'izz'", "missing"),
    "moment nan": (inertial(MASS + "<inertia ixx='nan' iyy='1' izz='1'/>"), "'ixx'", "not finite", "'nan'"),
    "no geometry": (shape(""), "link 'a', <collision>", "no <geometry>"),
    "empty geometry": (shape("<geometry/>"), "link 'a', <geometry>", "one of <box>"),
    "unknown geometry": (shape("<geometry><cone/></geometry>"), "link 'a', <geometry>", "<cone>", "one of <box>"),
    "two geometries": (
        shape("<geometry><box size='1 1 1'/><sphere radius='1'/></geometry>"),
        *("<box>, <sphere>", "exactly one"),
    ),
    "negative box": (shape("<geometry><box size='1 -1 1'/></geometry>"), "link 'a', <box>", "size", "negative"),
    "flat box": (shape("<geometry><box size='1 0 1'/></geometry>"), "link 'a', <collision>", "size", "positive"),
    "angles and a quaternion": (
        shape(f"<origin rpy='0 0 1' quat_xyzw='0 0 0 1'/>{BALL}"),
        *("link 'a', <origin>", "both", "rpy", "quat_xyzw"),
    ),
    "no rotation": (shape(f"<origin quat_xyzw='0 0 0 0'/>{BALL}"), "<origin>", "quat_xyzw", "zero"),
    "negative visual": (
        shape("<geometry><sphere radius='-1'/></geometry>", "visual"),
        *("link 'a', <sphere>", "size", "negative"),
    ),
    "colour": (
        shape(BALL + "<material name='m'><color rgba='1 0'/></material>", "visual"),
        *("link 'a', <color>", "'rgba'", 2, 4),
    ),
    "no file name": (shape("<geometry><mesh/></geometry>"), "link 'a', <mesh>", "'filename'", "missing"),
    "flattening scale": (
        shape("<geometry><mesh filename='a.stl' scale='1 0 1'/></geometry>"),
        *("link 'a', <mesh>", "scale", "zero"),
    ),
    "endless mesh name": (
        shape(f"<geometry><mesh filename='{300 * 'a'}.stl'/></geometry>"),
        *("link 'a', <mesh>", f"mesh '{300 * 'a'}.stl'", "not found"),
    ),
    "missing mesh": (
        shape("<geometry><mesh filename='gone.stl'/></geometry>"),
        *("link 'a', <mesh>", "mesh 'gone.stl'", "not found", "/gone.stl"),
    ),
}


def snapshot(builder):
    return {name: copy.deepcopy(value) for name, value in vars(builder).items() if name != "gravity"}


@pytest.mark.parametrize("case", WRONG)
def test_error_names_file_element_and_line(tmp_path, case):
    text, *items = WRONG[case]
    path = tmp_path / "wrong.urdf"
    path.write_text(text)
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=1.0, mass=1.0)
    before = repr(snapshot(builder))
    with raises_naming(*items, error=sim.ImportFileError) as caught:
        builder.add_urdf(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.__cause__ is None
    assert repr(snapshot(builder)) == before


def test_missing_file(tmp_path):
    with raises_naming("gone.urdf", "No such file", error=sim.ImportFileError):
        sim.load(tmp_path / "gone.urdf")


def test_folder(tmp_path):
    (tmp_path / "folder.urdf").mkdir()
    with raises_naming("folder.urdf", "Is a directory", error=sim.ImportFileError):
        sim.load(tmp_path / "folder.urdf")


def test_floating_joint_inside_a_moving_robot(tmp_path):
    path = tmp_path / "wrong.urdf"
    path.write_text(hinge("", "floating"))
    assert sim.load(path).nv == 6
    with raises_naming("joint 'j'", "floating", "parent", "'a'", error=sim.ImportFileError):
        sim.load(path, floating_base=True)


def test_builder_is_left_alone_when_a_warning_is_an_error(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(f"{HEAD}<link name='a'/><gazebo/></robot>")
    builder = sim.ModelBuilder()
    with pytest.raises(URDFWarning):  # the test run turns warnings into errors
        builder.add_urdf(path)
    assert not builder.links
    assert not builder.parts
    with pytest.warns(URDFWarning):
        builder.add_urdf(path)
    assert list(builder.links) == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "name is empty"),
        ({"position": (0.0, 0.0)}, "add_urdf: position: shape"),
        ({"position": (0.0, 0.0, np.nan)}, "add_urdf: position: .* is not finite"),
        ({"orientation": (0.0, 0.0, 0.0, 0.0)}, "add_urdf: the orientation is the zero quaternion"),
        ({"friction": -1.0}, r"link 'a', <collision> .*friction is -1.0"),
        ({"restitution": 2.0}, r"link 'a', <collision> .*restitution is 2.0"),
    ],
)
def test_wrong_arguments(tmp_path, options, message):
    path = tmp_path / "robot.urdf"
    path.write_text(shape("<geometry><sphere radius='1'/></geometry>"))
    with pytest.raises(sim.ModelError, match=message):
        sim.load(path, **options)


VALID = f"""<?xml version='1.0' encoding='utf-8'?>
<robot name='valid'>
<material name='m'><color rgba='1 0 0 1'/></material>
<link name='a'>{INERTIAL}<visual><geometry><box size='1 1 1'/></geometry><material name='m'/></visual></link>
<link name='b'><inertial><origin xyz='0 0 0.1' rpy='0.1 0 0'/><mass value='2'/>
<inertia ixx='0.1' iyy='0.1' izz='0.1' ixy='0' ixz='0' iyz='0'/></inertial>
<collision><origin xyz='0 0 1'/><geometry><cylinder radius='0.1' length='1'/></geometry></collision></link>
<link name='c'>{INERTIAL}
<collision><geometry><mesh filename='package://p/c.stl' scale='1 1 1'/></geometry></collision></link>
<joint name='j' type='revolute'><origin xyz='0 0 1' rpy='0 0 1'/><parent link='a'/><child link='b'/><axis xyz='0 1 0'/>
<limit lower='-1' upper='1' effort='10' velocity='5'/><dynamics damping='0.1' friction='0.2'/></joint>
<joint name='k' type='fixed'><parent link='b'/><child link='c'/></joint>
</robot>
"""
PIECES = (
    *("<", ">", "/>", "</", "'", '"', "&", "&amp;", "<!--", "]]>", "\0", "é", "-", "0", "1e400", "nan", "inf", "-1"),
    *("", " ", "<link name='z'/>", "<origin/>", "<inertial/>", "<joint/>", "<mesh/>", "<robot>", "<geometry/>"),
    *("a", "b", "j", "world", "fixed", "floating", "planar", "spherical", "prismatic", "package://", "http://x"),
    "<mimic joint='j'/>",
)


@st.composite
def mutations(draw):
    """The valid file with a few stretches cut out, replaced or repeated; ends at quotes and brackets are likelier."""
    text = VALID
    for _ in range(draw(st.integers(1, 4))):
        edges = [0, len(text), *(at for at, letter in enumerate(text) if letter in "<>'= \n")]
        start = draw(st.one_of(st.sampled_from(edges), st.integers(0, len(text))))
        length = draw(st.one_of(st.integers(0, 12), st.integers(0, 200)))
        with_ = draw(st.one_of(st.sampled_from(PIECES), st.text(max_size=4), st.just(text[start : start + 2 * length])))
        text = text[:start] + with_ + text[start + length :]
    return text


VALUES = (
    *("", " ", "0", "-1", "1 1 1", "0 0 0", "-1 2 -3", "1 2", "nan nan nan", "1e300 0 0", "1e308", "inf", "nan"),
    *("1,5", "${x}", "a", "b", "c", "j", "k", "world", "m", "fixed", "continuous", "floating", "planar", "ball"),
    *("prismatic", "\u00e9\u2028", "package://", "package://p/", "package://p/c.stl", "file://", "..", "p"),
    *("http://x", "a" * 300),
)


def mutated_tree(draw, text, count, values):
    """A file, well-formed still, with elements lost, repeated or moved and attributes lost or changed."""
    root = ElementTree.fromstring(text)
    for _ in range(count):
        elements = list(root.iter())
        element, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        match draw(st.sampled_from(("set", "set", "set", "unset", "drop", "copy", "rename"))):
            case "set":
                element.set(draw(st.sampled_from(sorted(element.attrib) or ["name"])), draw(st.sampled_from(values)))
            case "unset" if element.attrib:
                del element.attrib[draw(st.sampled_from(sorted(element.attrib)))]
            case "drop" if len(element):
                element.remove(draw(st.sampled_from(list(element))))
            case "copy":
                other.append(copy.deepcopy(element))
            case "rename":
                element.tag = other.tag
    return ElementTree.tostring(root, encoding="unicode")


@st.composite
def tree_mutations(draw):
    return mutated_tree(draw, VALID.partition("\n")[2], draw(st.integers(1, 4)), VALUES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the package that the valid file refers to."""
    import trimesh

    root = tmp_path_factory.mktemp("fuzz")
    (root / "p").mkdir()
    trimesh.creation.icosphere(subdivisions=0).export(root / "p/c.stl")
    return root


@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
def test_valid_file_for_mutations_is_valid(folder):
    path = folder / "valid.urdf"
    path.write_text(VALID)
    assert sim.load(path).num_geometries == 3


def caught(kind, function, *args, **options):
    """The error of this kind that a call raises, or None."""
    try:
        function(*args, **options)
    except kind as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
@given(text=st.one_of(mutations(), tree_mutations()), floating=st.booleans())
@settings(max_examples=400)
def test_mutated_files_raise_import_errors_only(folder, text, floating):
    path = folder / "mutated.urdf"
    path.write_bytes(text.encode("utf-8", "replace"))
    builder = sim.ModelBuilder()
    error = caught(sim.ImportFileError, builder.add_urdf, path, floating_base=floating)
    if error is not None:
        assert str(error).startswith(f"{path}: ")
        assert [*builder.links, *builder.joints, *builder.geometries] == []
        return
    error = caught(sim.ModelError, builder.finalize)
    # What only the whole world shows: a moving link without mass, or with a negative moment of inertia, and the mass of
    # links that a fixed joint makes one, where single precision has no such number.
    assert error is None or "moves" in str(error) or "is not a finite float32" in str(error)


@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_raise_import_errors_only(folder, data):
    path = folder / "bytes.urdf"
    path.write_bytes(data)
    with pytest.raises(sim.ImportFileError):
        sim.ModelBuilder().add_urdf(path)
