"""SDF files: what names refer to in worlds, nested and merged models, and what is named because it isn't read."""

# Files are easier to read in whole lines.
# ruff: noqa: E501

import numpy as np
import pytest
import trimesh

import sim
from sim.model.poses import compose
from sim.simulation.stepping.collision import may_touch
from tests.errors import raises_naming, strictly
from tests.importers.test_sdf import SPHERE, model, pose_of, read

INCLUDED = """<sdf version='1.9'><model name='inc'{}><link name='l'><pose>0 0 1 0 0 0</pose></link>
<link name='m'><pose>0 0 3 0 0 0</pose></link><frame name='f'><pose>1 0 0 0 0 1.5707963267948966</pose></frame>
<frame name='free'><pose relative_to='l'>0 1 0 0 0 0</pose></frame>
<joint name='j' type='revolute'><parent>l</parent><child>m</child><axis><xyz>0 1 0</xyz></axis></joint></model></sdf>"""


def world(text: str) -> str:
    return f"<sdf version='1.9'><world name='w'>{text}</world></sdf>"


def including(folder, attributes=""):
    (folder / "inc.sdf").write_text(INCLUDED.format(attributes))


def test_a_world_has_the_gravity_of_the_specification(tmp_path):
    body = "<model name='r'><link name='a'/></model>"
    assert read(tmp_path, world(body)).parameters["gravity"].tolist() == [0.0, 0.0, -9.8]
    assert read(tmp_path, world(f"<gravity>0 0 -3</gravity>{body}")).parameters["gravity"].tolist() == [0.0, 0.0, -3.0]
    assert read(tmp_path, model("<link name='a'/>")).parameters["gravity"].tolist() == [0.0, 0.0, -9.81]


def test_models_stand_relative_to_frames_of_their_world_and_to_other_models(tmp_path):
    found = read(
        tmp_path,
        world("""<frame name='shelf'><pose>5 0 0 0 0 1.5707963267948966</pose></frame>
        <frame name='edge' attached_to='p::tip'><pose>0 0 1 0 0 0</pose></frame>
        <model name='a'><pose relative_to='shelf'>1 0 0 0 0 0</pose><link name='l'/></model>
        <model name='b'><pose relative_to='p'>1 0 0 0 0 0</pose><link name='l'/></model>
        <model name='c'><pose relative_to='edge'>1 0 0 0 0 0</pose><link name='l'/></model>
        <model name='p'><pose>2 0 0 0 0 0</pose><link name='z'/><frame name='tip' attached_to='z'><pose>0 3 0 0 0 0</pose></frame></model>"""),
    )
    for name, expected in {"a/l": (5, 1, 0), "b/l": (3, 0, 0), "c/l": (3, 3, 1), "p/z": (2, 0, 0)}.items():
        np.testing.assert_allclose(pose_of(found, name)[:3], expected, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("first", ["link", "joint"])
def test_a_joint_with_the_name_of_a_link(tmp_path, first):
    """As in libsdformat, files before version 1.7 may have one; it gets another name, with a warning."""
    link = "<link name='a'/><link name='a_joint'/>"
    joint = (
        "<joint name='a' type='revolute'><parent>a</parent><child>a_joint</child><axis><xyz>0 1 0</xyz></axis></joint>"
    )
    text = "<sdf version='{}'><model name='r'>" + (link + joint if first == "link" else joint + link) + "</model></sdf>"
    with pytest.warns(sim.SDFWarning, match="joint 'a' is called 'a_joint_', since a link has its name"):
        old = read(tmp_path, text.format("1.6"))
    assert old.joint_names[old.link("a_joint")] == "a_joint_"
    with raises_naming("the name 'a' is taken", error=sim.ImportFileError):
        read(tmp_path, text.format("1.7"))


@pytest.mark.parametrize("stated_by", ["include", "model"])
def test_a_placement_frame_is_where_the_pose_says(tmp_path, stated_by):
    """The frame f of the model, turned by a quarter and 1 m away, stands unturned at (0, 0, 2)."""
    including(tmp_path, " placement_frame='f'" if stated_by == "model" else "")
    frame = "<placement_frame>f</placement_frame>" if stated_by == "include" else ""
    include = f"<include><uri>inc.sdf</uri>{frame}<pose>0 0 2 0 0 0</pose></include>"
    alone = read(tmp_path, world(include))
    np.testing.assert_allclose(pose_of(alone, "f"), (0, 0, 2, 0, 0, 0), atol=1e-12)
    np.testing.assert_allclose(pose_of(alone, "l")[:3], (0, 1, 3), atol=1e-12)
    nested = read(tmp_path, model(f"<pose>7 0 0 0 0 0</pose><link name='a'/>{include}"))
    np.testing.assert_allclose(pose_of(nested, "inc::l")[:3], (7, 1, 3), atol=1e-12)


def test_a_frame_goes_to_the_canonical_link(tmp_path):
    """To the one that the model names, or the first one of its own, before those of nested models."""
    inner = "<model name='n'{}><link name='x'/><link name='y'/><frame name='g'/></model>"
    text = "{}<link name='a'/><link name='b'/><frame name='f'><pose>0 0 1 0 0 0</pose></frame>{}"
    for outer, deep, expected in (
        ("", "", ("a", "n::x")),
        (" canonical_link='b'", " canonical_link='y'", ("b", "n::y")),
        (" canonical_link='n::y'", "", ("n::y", "n::x")),
    ):
        content = text.format(inner.format(deep), "<frame name='h' attached_to='n'/>")
        found = read(tmp_path, f"<sdf version='1.9'><model name='r'{outer}>{content}</model></sdf>")
        links = [found.link_names[found.frame(name).link] for name in ("f", "n::g", "h")]
        assert links == [*expected, expected[1]]
    with raises_naming("canonical_link 'q'", error=sim.ImportFileError):
        read(tmp_path, "<sdf version='1.9'><model name='r' canonical_link='q'><link name='a'/></model></sdf>")


def test_an_included_model_is_merged(tmp_path):
    """Its links and joints become those of the model that includes it, where its pose says."""
    including(tmp_path, " canonical_link='m'")
    found = read(
        tmp_path,
        model("""<link name='a'/><include merge='true'><uri>inc.sdf</uri><pose>0 0 0 0 0 1.5707963267948966</pose></include>
        <joint name='x' type='fixed'><parent>a</parent><child>l</child></joint>"""),
        collapse_fixed=False,
    )
    assert found.link_names == ("a", "l", "m")
    np.testing.assert_allclose(pose_of(found, "free")[:3], (-1, 0, 1), atol=1e-12)
    assert found.link_names[found.frame("free").link] == "m"
    with raises_naming("model", "world", error=sim.ImportFileError):
        read(tmp_path, world("<include merge='true'><uri>inc.sdf</uri></include>"))


def test_a_joint_may_name_a_frame_or_a_nested_model(tmp_path):
    found = read(
        tmp_path,
        model("""<link name='a'/><link name='b'/><frame name='f' attached_to='b'/><model name='n'><link name='x'/></model>
        <joint name='j' type='ball'><parent>a</parent><child>f</child></joint>
        <joint name='k' type='ball'><parent>f</parent><child>n</child></joint>"""),
    )
    assert [found.link_names[parent] for parent in found.link_parent[1:]] == ["a", "b"]


def test_names_in_an_included_model_are_its_own(tmp_path):
    """Its axes are those of the version of its own file, and ``__model__`` is itself, merged or not."""
    quarter = "<pose>0 0 0 0 0 1.5707963267948966</pose>"
    joint = """<link name='a'/><link name='b'>{}</link><joint name='j' type='continuous'><parent>a</parent><child>b</child>
        <axis><xyz{}>1 0 0</xyz></axis></joint>"""
    for version, stated, merge, along in (
        ("1.4", "", "false", (0, 1, 0)),
        ("1.9", "", "false", (-1, 0, 0)),
        ("1.9", " expressed_in='__model__'", "false", (0, 1, 0)),
        ("1.9", " expressed_in='__model__'", "true", (0, 1, 0)),
    ):
        (tmp_path / "inc.sdf").write_text(model(joint.format(quarter, stated), version))
        found = read(tmp_path, model(f"""<include merge='{merge}'><uri>inc.sdf</uri>{quarter}</include><joint name='w' type='fixed'>
            <parent>world</parent><child>{"" if merge == "true" else "r::"}a</child></joint>"""))  # fmt: skip
        axis = sim.jacobian(found, found.q0[None], found.link_names[-1]).numpy()[0, :3, 0]
        np.testing.assert_allclose(axis, along, atol=1e-12)


def test_an_included_file_includes_from_beside_itself(tmp_path):
    (tmp_path / "deep").mkdir()
    including(tmp_path / "deep")
    (tmp_path / "deep/outer.sdf").write_text(model("<include><uri>inc.sdf</uri></include>"))
    found = read(tmp_path, model("<include><uri>deep/outer.sdf</uri></include>"))
    assert found.parts[0].links == ("r::inc::l", "r::inc::m")


def test_meshes_of_models_in_gazebos_folders(tmp_path, monkeypatch):
    """By the environment, also those of a model that isn't included."""
    folder = tmp_path / "library/crate/meshes"
    folder.mkdir(parents=True)
    trimesh.creation.box((1, 2, 3)).export(folder / "crate.stl")
    shape = "<geometry><mesh><uri>model://crate/meshes/crate.stl</uri></mesh></geometry>"
    text = model(f"<link name='a'><visual name='v'>{shape}</visual></link>")
    (tmp_path / "robots").mkdir()
    with raises_naming("mesh 'model://crate/", "not found", "package_dirs", error=sim.ImportFileError):
        read(tmp_path / "robots", text)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "library"))
    assert len(read(tmp_path / "robots", text).geometries) == 1


def test_shapes_stand_relative_to_any_frame_of_their_model(tmp_path):
    """The link moves to the joint that carries it; the shape stays where its frame says."""
    shape = f"<{{0}} name='{{0}}'><pose relative_to='{{1}}'>1 0 0 0 0 0</pose>{SPHERE}</{{0}}>"
    nested = f"""<model name='n'><pose>0 0 7 0 0 0</pose><link name='b'><pose>5 5 5 0 1 0</pose>{shape.format("visual", "__model__")}
        {shape.format("collision", "f")}</link><frame name='f'><pose>0 2 0 0 0 1.5707963267948966</pose></frame></model>"""
    found = read(tmp_path, model(f"""<link name='a'/>{nested}<joint name='j' type='revolute'><pose>0 0 3 0 0 0</pose>
        <parent>world</parent><child>n::b</child><axis><xyz>0 0 1</xyz></axis></joint>"""))  # fmt: skip
    poses = sim.forward_kinematics(found, found.q0[None]).numpy()[0]
    positions = {each.name: compose(poses[each.link], each.placement)[:3] for each in found.geometries}
    np.testing.assert_allclose(positions["n::b/visual"], (1, 0, 7), atol=1e-12)
    np.testing.assert_allclose(positions["n::b/collision"], (0, 3, 7), atol=1e-12)


def test_empty_elements_state_nothing(tmp_path):
    """As in SDF's own reader; geometry may be empty, and a colour may have no opacity."""
    found = read(
        tmp_path,
        model(f"""<link name='a'><pose/><gravity/><inertial><pose> </pose><mass/></inertial>
        <visual name='v'><pose rotation_format='quat_xyzw'/><geometry><empty/></geometry></visual>
        <visual name='u'>{SPHERE}<material><diffuse>1 0 0.5</diffuse></material></visual></link>"""),
    )
    assert found.parameters["mass"].tolist() == [1.0]
    assert {geometry.name: geometry.rgba for geometry in found.geometries} == {"a/u": (1.0, 0.0, 0.5, 1.0)}


def test_bits_of_collisions(tmp_path):
    """Two collisions touch where their masks share a bit; without a mask they have all."""
    bits = {"a": "0x01", "b": "2", "c": "3", "d": "0", "e": None}

    def link(name, mask):
        contact = (
            "" if mask is None else f"<surface><contact><collide_bitmask>{mask}</collide_bitmask></contact></surface>"
        )
        return f"<link name='{name}'><collision name='c'>{SPHERE}{contact}</collision></link>"

    links = "".join(link(name, mask) for name, mask in bits.items())
    found = read(tmp_path, model(f"<self_collide>1</self_collide>{links}"))
    touching = {
        found.geometries[i].name[0] + found.geometries[j].name[0]
        for i in range(5)
        for j in range(i + 1, 5)
        if may_touch(found, i, j)
    }
    assert touching == {"ac", "bc", "ae", "be", "ce"}


SURFACES = {
    "<contact><collide_without_contact>true</collide_without_contact></contact>": "<surface><contact><collide_without_contact>",
    "<bounce><restitution_coefficient>0.8</restitution_coefficient></bounce>": "<surface><bounce><restitution_coefficient>",
    "<friction><bullet><friction>0.3</friction></bullet></friction>": "<surface><friction><bullet>",
    "<friction><torsional><coefficient>0.2</coefficient></torsional></friction>": "<surface><friction><torsional>",
    "<friction><ode><mu>0.3</mu><mu2>0.1</mu2></ode></friction>": "<surface><friction><ode><mu2>",
    "<soft_contact/>": "<surface><soft_contact>",
}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *((f"<link name='a'><collision name='c'>{SPHERE}<surface>{inside}</surface></collision></link>", said)
          for inside, said in SURFACES.items()),
        ("<link name='a'><inertial><mass>1</mass><fluid_added_mass><xx>1</xx></fluid_added_mass></inertial></link>",
         "<inertial><fluid_added_mass>"),
        ("""<link name='a'/><link name='b'/><joint name='j' type='revolute'><parent>a</parent><child>b</child>
            <axis><xyz>0 0 1</xyz><limit><stiffness>5</stiffness></limit></axis></joint>""", "<axis><limit><stiffness>"),
        ("<link name='a'/><model name='n'><link name='b'/><plugin name='p' filename='q'/></model>", "<plugin>"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(tmp_path, text, named):
    with pytest.warns(sim.SDFWarning, match=rf"ignored elements: {named} \(1\)"):
        read(tmp_path, model(text))


def test_what_changes_nothing_is_not_named(tmp_path):
    surface = """<surface><friction><ode><mu>0.3</mu><mu2>0.3</mu2><slip1>0</slip1></ode></friction>
    <bounce><restitution_coefficient>0</restitution_coefficient></bounce><contact/></surface>"""
    strictly(read, tmp_path, model(f"<link name='a'><collision name='c'>{SPHERE}{surface}</collision></link>"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (world("<model name='o'><pose relative_to='wf'/><link name='a'/></model>"), "there is no frame 'wf' in world 'w'"),
        (world("<model name='o'><pose relative_to='o'/><link name='a'/></model>"), "the pose of 'o' depends on itself"),
        (model("<link name='a'/><model name='n'><static>1</static><link name='b'/></model>"), "is static inside model 'r'"),
        ("<sdf version='1.9'><model name='r' placement_frame='x'><link name='a'/></model></sdf>",
         "placement_frame 'x'"),
        (world("<include><uri>inc.sdf</uri><placement_frame>f</placement_frame></include>"), "<pose>"),
        (model(f"""<link name='a'><collision name='c'>{SPHERE}<surface><contact><collide_bitmask>x</collide_bitmask></contact>
            </surface></collision></link>"""), "it must be an integer"),
        (world("<model name='o'><link name='a'/></model><joint name='j' type='fixed'><parent>o</parent><child>o::a</child></joint>"),
         r"joint 'j' \(line 1\): joins models of a world; nest them in one model"),
        (model("<link name='a'><pose rotation_format='rpy'>0 0 0 0 0 0</pose></link>"), "it must be euler_rpy or quat_xyzw"),
        (model("<link name='a'><visual name='v'><geometry><mesh><submesh/></mesh></geometry></visual></link>"),
         r"^[^:]*r\.sdf: link 'a', <mesh> \(line 1\): <submesh> is not supported"),
        (model("<link name='a'/>", "1.9x"), "version '1.9x' is not one of SDF, such as 1.9 or 1.12"),
    ],
)  # fmt: skip
def test_messages(tmp_path, text, said):
    including(tmp_path)
    with pytest.raises(sim.ImportFileError, match=said):
        read(tmp_path, text)


def test_whether_nested_models_collide_with_themselves_is_as_for_the_whole(tmp_path):
    nested = "<model name='n'><self_collide>1</self_collide><link name='b'/></model>"
    with pytest.warns(sim.SDFWarning, match="model 'n': whether it collides with itself is as for 'r'"):
        read(tmp_path, model(f"<link name='a'/>{nested}"))
