"""Files that are wrong: the error names the file, the element and the line, and the builder stays as it was."""

import copy
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.errors import URDFWarning

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
WRONG = {
    "empty": (
        "",
        "the file is empty",
    ),
    "blank": (
        " \n ",
        "the file is empty",
    ),
    "broken": (
        "<robot><link name='a'></robot>",
        "is not well-formed XML: mismatched tag: line 1",
    ),
    "text": (
        "solid cube",
        "is not well-formed XML",
    ),
    "encoding": (
        "<?xml version='1.0' encoding='klingon'?><robot/>",
        "is not well-formed XML: unknown encoding",
    ),
    "other root": (
        "<sdf/>",
        "is not a URDF: its root element is <sdf>",
    ),
    "no links": (
        f"{HEAD}</robot>",
        r"<robot> \(line 1\): the robot has no links",
    ),
    "xacro": (
        f"{HEAD}\n<xacro:arm/></robot>",
        r"<xacro:arm> \(line 2\): is a xacro macro; expand",
    ),
    "nameless link": (
        f"{HEAD}<link/></robot>",
        r"<link> \(line 1\): attribute 'name' is missing",
    ),
    "empty name": (
        f"{HEAD}<link name=' '/></robot>",
        r"\(line 1\): attribute 'name' is empty",
    ),
    "two links of a name": (
        f"{HEAD}<link name='a'/>\n<link name='a'/></robot>",
        r"link 'a' \(line 2\): a link of this name exists already, in line 1",
    ),
    "two joints of a name": (
        hinge(LIMIT).replace("</robot>", "\n<joint name='j' type='fixed'/></robot>"),
        r"joint 'j' \(line 5\): a joint of this name exists already, in line 4",
    ),
    "no type": (
        hinge("").replace(" type='revolute'", ""),
        r"joint 'j' \(line 4\): attribute 'type' is missing",
    ),
    "unknown type": (
        hinge("", "hinge"),
        r"joint 'j' \(line 4\): unknown joint type 'hinge'; known are fixed, revolute",
    ),
    "planar": (
        hinge("", "planar"),
        r"joint 'j' \(line 4\): planar joints are not supported; use two prismatic",
    ),
    "no parent": (
        hinge("").replace("<parent link='a'/>", ""),
        r"joint 'j' \(line 4\): has no <parent> element",
    ),
    "unknown parent": (
        hinge("").replace("parent link='a'", "parent link='x'"),
        r"joint 'j', <parent> \(line 4\): unknown parent link 'x'",
    ),
    "unknown child": (
        hinge("").replace("child link='b'", "child link='x'"),
        r"joint 'j', <child> \(line 4\): unknown child link 'x'",
    ),
    "two parents": (
        joints("ab", "bd", "ac", "cd"),
        r"joint 'j3' \(line 5\): its child link 'd' is the child of joint 'j1' \(line 3\)",
    ),
    "two roots": (
        joints("ab", "cd"),
        "has 2 root links, 'a', 'c'",
    ),
    "loop": (
        joints("ab", "ba"),
        "the joints form a loop",
    ),
    "own child": (
        joints("aa"),
        "the joints form a loop",
    ),
    "loop beside the root": (
        joints("xy", "bc", "cb"),
        "link 'b' .*: is in a loop of joints that never reaches the root link 'x': 'b', 'c'",
    ),
    "no limit": (
        hinge(""),
        r"joint 'j' \(line 4\): a revolute joint needs a <limit>; or make it continuous",
    ),
    "no limit of a slider": (
        hinge("", "prismatic"),
        r"a prismatic joint needs a <limit>$",
    ),
    "limit nan": (
        hinge("<limit lower='nan' upper='1'/>"),
        "<limit> .*: attribute 'lower' is not a number: 'nan'",
    ),
    "zero axis": (
        hinge(LIMIT + "<axis xyz='0 0 0'/>"),
        r"joint 'j' \(line 4\): the axis is zero",
    ),
    "axis without xyz": (
        hinge(LIMIT + "<axis/>"),
        "joint 'j', <axis> .*: attribute 'xyz' is missing",
    ),
    "short vector": (
        hinge(LIMIT + "<origin xyz='0 0'/>"),
        "joint 'j', <origin> .*: attribute 'xyz' has 2 numbers, expected 3",
    ),
    "words": (
        hinge(LIMIT + "<origin rpy='0 zero 0'/>"),
        "<origin> .*: attribute 'rpy' is not numeric: '0 zero 0'",
    ),
    "macro": (
        hinge(LIMIT + "<origin rpy='0 ${pi} 0'/>"),
        "is not numeric: '0 .*'; expand the macros with xacro first",
    ),
    "infinite": (
        hinge(LIMIT + "<origin xyz='0 inf 0'/>"),
        "attribute 'xyz' is not finite: '0 inf 0'",
    ),
    "two origins": (
        hinge(LIMIT + "<origin/>\n<origin/>"),
        r"joint 'j' \(line 4\): has 2 <origin> elements, the second in line 5",
    ),
    "negative damping": (
        hinge(LIMIT + "<dynamics damping='-1'/>"),
        r"joint 'j' \(line 4\): Spring: damping is -1.0; it must be finite",
    ),
    "no mass": (
        inertial(INERTIA),
        "link 'a', <inertial> .*: has no <mass> element",
    ),
    "negative mass": (
        inertial("<mass value='-1'/>" + INERTIA),
        r"link 'a' \(line 2\): mass is -1.0; it must be finite and not negative",
    ),
    "mass in words": (
        inertial("<mass value='heavy'/>" + INERTIA),
        "link 'a', <mass> .*: attribute 'value' is not numeric: 'heavy'",
    ),
    "no moment": (
        inertial(MASS + "<inertia ixx='1' iyy='1'/>"),
        "link 'a', <inertia> .*: attribute 'izz' is missing",
    ),
    "moment nan": (
        inertial(MASS + "<inertia ixx='nan' iyy='1' izz='1'/>"),
        "attribute 'ixx' is not finite: 'nan'",
    ),
    "no geometry": (
        shape(""),
        "link 'a', <collision> .*: has no <geometry> element",
    ),
    "empty geometry": (
        shape("<geometry/>"),
        "link 'a', <geometry> .*: contains nothing; it needs exactly one of <box>",
    ),
    "unknown geometry": (
        shape("<geometry><cone/></geometry>"),
        "link 'a', <geometry> .*: contains <cone>; it needs exactly one of <box>",
    ),
    "two geometries": (
        shape("<geometry><box size='1 1 1'/><sphere radius='1'/></geometry>"),
        "contains <box>, <sphere>; it needs exactly one",
    ),
    "negative box": (
        shape("<geometry><box size='1 -1 1'/></geometry>"),
        "link 'a', <box> .*: its size is negative",
    ),
    "flat box": (
        shape("<geometry><box size='1 0 1'/></geometry>"),
        "link 'a', <collision> .*: size .* must be positive",
    ),
    "angles and a quaternion": (
        shape(f"<origin rpy='0 0 1' quat_xyzw='0 0 0 1'/>{BALL}"),
        "link 'a', <origin> .*: has both rpy and quat_xyzw; leave one out",
    ),
    "no rotation": (shape(f"<origin quat_xyzw='0 0 0 0'/>{BALL}"), "<origin> .*: its quat_xyzw is zero"),
    "negative visual": (
        shape("<geometry><sphere radius='-1'/></geometry>", "visual"),
        "link 'a', <sphere> .*: its size is negative",
    ),
    "colour": (
        shape(BALL + "<material name='m'><color rgba='1 0'/></material>", "visual"),
        "link 'a', <color> .*: attribute 'rgba' has 2 numbers, expected 4",
    ),
    "no file name": (
        shape("<geometry><mesh/></geometry>"),
        "link 'a', <mesh> .*: attribute 'filename' is missing",
    ),
    "flattening scale": (
        shape("<geometry><mesh filename='a.stl' scale='1 0 1'/></geometry>"),
        "link 'a', <mesh> .*: scale .* has a zero",
    ),
    "endless mesh name": (
        shape(f"<geometry><mesh filename='{300 * 'a'}.stl'/></geometry>"),
        r"link 'a', <mesh> .*: mesh 'a*\.stl' not found",
    ),
    "missing mesh": (
        shape("<geometry><mesh filename='gone.stl'/></geometry>"),
        "link 'a', <mesh> .*: mesh 'gone.stl' not found; searched .*gone.stl",
    ),
}


def snapshot(builder):
    return {name: copy.deepcopy(value) for name, value in vars(builder).items() if name != "gravity"}


@pytest.mark.parametrize("case", WRONG)
def test_error_names_file_element_and_line(tmp_path, case):
    text, message = WRONG[case]
    path = tmp_path / "wrong.urdf"
    path.write_text(text)
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=1.0, mass=1.0)
    before = repr(snapshot(builder))
    with pytest.raises(sim.ImportFileError, match=message) as caught:
        builder.add_urdf(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.__cause__ is None
    assert repr(snapshot(builder)) == before


def test_missing_file(tmp_path):
    with pytest.raises(sim.ImportFileError, match=r"gone\.urdf: can't be read: No such file"):
        sim.load(tmp_path / "gone.urdf")


def test_folder(tmp_path):
    (tmp_path / "folder.urdf").mkdir()
    with pytest.raises(sim.ImportFileError, match=r"folder\.urdf: can't be read: Is a directory"):
        sim.load(tmp_path / "folder.urdf")


def test_floating_joint_inside_a_moving_robot(tmp_path):
    path = tmp_path / "wrong.urdf"
    path.write_text(hinge("", "floating"))
    assert sim.load(path).nv == 6
    with pytest.raises(
        sim.ImportFileError,
        match=r"joint 'j' .*: a floating joint needs a parent .*, 'a' is not",
    ):
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
    *(
        "<",
        ">",
        "/>",
        "</",
        "'",
        '"',
        "&",
        "&amp;",
        "<!--",
        "]]>",
        "\0",
        "é",
        "-",
        "0",
        "1e400",
        "nan",
        "inf",
        "-1",
        "",
        " ",
    ),
    *("<link name='z'/>", "<origin/>", "<inertial/>", "<joint/>", "<mesh/>", "<robot>", "<geometry/>"),
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
    *(
        "",
        " ",
        "0",
        "-1",
        "1 1 1",
        "0 0 0",
        "-1 2 -3",
        "1 2",
        "nan nan nan",
        "1e300 0 0",
        "1e308",
        "inf",
        "nan",
        "1,5",
        "${x}",
    ),
    *(
        "a",
        "b",
        "c",
        "j",
        "k",
        "world",
        "m",
        "fixed",
        "continuous",
        "floating",
        "planar",
        "ball",
        "prismatic",
        "\u00e9\u2028",
    ),
    *("package://", "package://p/", "package://p/c.stl", "file://", "..", "p", "http://x", "a" * 300),
)


@st.composite
def tree_mutations(draw):
    """The valid file, well-formed still, with elements lost, repeated or moved and attributes lost or changed."""
    root = ElementTree.fromstring(VALID.partition("\n")[2])
    for _ in range(draw(st.integers(1, 4))):
        elements = list(root.iter())
        element, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        match draw(st.sampled_from(("set", "set", "set", "unset", "drop", "copy", "rename"))):
            case "set":
                element.set(draw(st.sampled_from(sorted(element.attrib) or ["name"])), draw(st.sampled_from(VALUES)))
            case "unset" if element.attrib:
                del element.attrib[draw(st.sampled_from(sorted(element.attrib)))]
            case "drop" if len(element):
                element.remove(draw(st.sampled_from(list(element))))
            case "copy":
                other.append(copy.deepcopy(element))
            case "rename":
                element.tag = other.tag
    return ElementTree.tostring(root, encoding="unicode")


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
