"""SDF files: beside PyBullet's reading and MuJoCo's of the same robot, poses, joints, worlds, includes, messages."""

# Files are easier to read in whole lines.
# ruff: noqa: E501

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.importers.reference import BULLET

SPHERE = "<geometry><sphere><radius>0.1</radius></sphere></geometry>"
INERTIAL = """<inertial><pose>0.1 0.2 0.3 0.4 0.5 0.6</pose><mass>2</mass><inertia><ixx>0.1</ixx><iyy>0.2</iyy><izz>0.25</izz>
<ixy>0.01</ixy><ixz>0.02</ixz><iyz>0.03</iyz></inertia></inertial>"""


def model(text: str, version: str = "1.9") -> str:
    return f"<sdf version='{version}'><model name='r'>{text}</model></sdf>"


def read(folder: Path, text: str, **options) -> sim.Model:
    (folder / "r.sdf").write_text(text)
    return sim.load(folder / "r.sdf", dtype="float64", **options)


def pose_of(model: sim.Model, frame: str, q: np.ndarray | None = None) -> np.ndarray:
    """Position and rotation vector of a link or frame in the world."""
    found = model.frame(frame)
    position = found.placement
    if found.link >= 0:
        from sim.model.poses import compose

        q = model.q0 if q is None else q
        position = compose(sim.forward_kinematics(model, q[None]).numpy()[0, found.link], position)
    return np.concatenate([position[:3], Rotation.from_quat(position[3:]).as_rotvec()])


@pytest.mark.filterwarnings("ignore::sim.SDFWarning")
def test_masses_and_places_beside_pybullet():
    """Of all links of an iiwa, at a position of all joints."""
    path = BULLET / "kuka_iiwa/model.sdf"
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    import pybullet

    client = pybullet.connect(pybullet.DIRECT)
    try:
        pybullet.setAdditionalSearchPath(str(BULLET))
        bodies = pybullet.loadSDF(str(path))
        model = sim.load(path, dtype="float64", collapse_fixed=False)
        q, rng, compared = model.q0.copy(), np.random.default_rng(0), 0
        for body in bodies:
            for joint in range(pybullet.getNumJoints(body)):
                info = pybullet.getJointInfo(body, joint)
                if info[2] in (pybullet.JOINT_REVOLUTE, pybullet.JOINT_PRISMATIC):
                    angle = float(rng.uniform(-0.1, 0.1))
                    pybullet.resetJointState(body, joint, angle)
                    q[model.q_slice(info[1].decode())] = angle
        poses = sim.forward_kinematics(model, q[None]).numpy()[0]
        for body in bodies:
            for joint in range(pybullet.getNumJoints(body)):
                link = model.link(pybullet.getJointInfo(body, joint)[12].decode())
                assert model.parameters["mass"][link] == pytest.approx(
                    pybullet.getDynamicsInfo(body, joint)[0], abs=1e-9
                )
                turn = Rotation.from_quat(poses[link, 3:])
                centre = poses[link, :3] + turn.apply(model.parameters["com"][link])
                there = pybullet.getLinkState(body, joint, computeForwardKinematics=True)[0]
                np.testing.assert_allclose(centre, there, atol=2e-6)  # PyBullet's places are in single precision
                compared += 1
        assert compared == 7
    finally:
        pybullet.disconnect(client)


def test_the_same_robot_in_mjcf(tmp_path):
    """Inertia, joints away from their links' origins, axes, springs, damping: the same mass matrix and bias forces."""
    text = f"""<pose>1 2 3 0.1 0.2 0.3</pose>
    <link name='base'>{INERTIAL}</link>
    <link name='arm'><pose>0.5 0 0.1 0.3 0 0.2</pose>{INERTIAL}</link>
    <link name='hand'><pose relative_to='arm'>0 0.4 0 0 0.5 0</pose>{INERTIAL}</link>
    <joint name='a' type='revolute'><pose>0.02 -0.03 0.04 0.2 0 0</pose><parent>base</parent><child>arm</child>
    <axis><xyz>0 1 0.3</xyz><limit><lower>-1</lower><upper>2</upper><effort>5</effort></limit>
    <dynamics><damping>0.3</damping><friction>0.1</friction></dynamics></axis></joint>
    <joint name='b' type='prismatic'><parent>arm</parent><child>hand</child><axis><xyz expressed_in='base'>1 0 0</xyz>
    <dynamics><spring_stiffness>7</spring_stiffness><spring_reference>0.2</spring_reference></dynamics></axis></joint>"""
    ours = read(tmp_path, model(text))
    axes = Rotation.from_euler("xyz", (0.4, 0.5, 0.6)).as_matrix()
    inertia = axes @ np.array([[0.1, 0.01, 0.02], [0.01, 0.2, 0.03], [0.02, 0.03, 0.25]]) @ axes.T
    numbers = " ".join(map(repr, inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]].tolist()))
    inertial = f'<inertial pos="0.1 0.2 0.3" mass="2" fullinertia="{numbers}"/>'
    turned = Rotation.from_euler("xyz", (0.3, 0.0, 0.2)) * Rotation.from_euler("xyz", (0.0, 0.5, 0.0))
    axis_b = " ".join(map(repr, turned.inv().apply((1.0, 0.0, 0.0)).tolist()))
    axis_a = " ".join(map(repr, Rotation.from_euler("x", 0.2).apply((0.0, 1.0, 0.3)).tolist()))
    (tmp_path / "r.xml").write_text(f"""<mujoco><compiler angle="radian" eulerseq="XYZ"/><worldbody>
    <body name="base" pos="1 2 3" euler="0.1 0.2 0.3"><freejoint/>{inertial}
      <body name="arm" pos="0.5 0 0.1" euler="0.3 0 0.2">
        <joint name="a" pos="0.02 -0.03 0.04" axis="{axis_a}" range="-1 2" damping="0.3" frictionloss="0.1"/>{inertial}
        <body name="hand" pos="0 0.4 0" euler="0 0.5 0">
          <joint name="b" type="slide" axis="{axis_b}" stiffness="7" springref="0.2"/>{inertial}
    </body></body></body></worldbody></mujoco>""")
    theirs = sim.load(tmp_path / "r.xml", dtype="float64")
    np.testing.assert_allclose(ours.q0, theirs.q0, atol=1e-14)
    rng = np.random.default_rng(0)
    q, qd = sim.integrate(ours, ours.q0[None], rng.normal(size=(1, 8)), 1.0).numpy(), rng.normal(size=(1, 8))
    for function in (lambda m: sim.mass_matrix(m, q), lambda m: sim.bias_forces(m, q, qd)):
        np.testing.assert_allclose(function(ours).numpy(), function(theirs).numpy(), atol=1e-11)
    for name in ("lower_limit", "upper_limit", "damping", "friction_loss", "stiffness", "rest_position"):
        np.testing.assert_array_equal(ours.parameters[name], theirs.parameters[name], err_msg=name)
    np.testing.assert_allclose(pose_of(ours, "arm/origin", q[0]), pose_of(theirs, "arm/origin", q[0]), atol=1e-12)


def test_poses(tmp_path):
    """Degrees, quaternions, frames on frames, nested models, and the names of what is in them."""
    found = read(
        tmp_path,
        model(f"""<pose degrees='true'>0 0 1 0 0 90</pose><static>true</static><link name='a'><pose>1 0 0 0 0 0</pose></link>
        <frame name='f' attached_to='a'><pose rotation_format='quat_xyzw'>0 1 0 0 0 1 1</pose></frame>
        <frame name='g'><pose relative_to='f'>1 0 0 0 0 0</pose></frame>
        <model name='n'><pose relative_to='g'>0 0 2 0 0 0</pose><link name='b'><collision name='c'>{SPHERE}</collision></link>
        <frame name='h' attached_to='b'/></model>"""),
    )
    half = np.pi / 2.0
    for name, expected in {
        "a": (0, 1, 1, 0, 0, half), "f": (-1, 1, 1, 0, 0, np.pi), "g": (-2, 1, 1, 0, 0, np.pi),
        "n::b": (-2, 1, 3, 0, 0, np.pi), "n::h": (-2, 1, 3, 0, 0, np.pi),
    }.items():  # fmt: skip
        np.testing.assert_allclose(np.abs(pose_of(found, name)), np.abs(expected), atol=1e-12, err_msg=name)
    assert [each.name for each in found.geometries] == ["n::b/c"]


@pytest.mark.parametrize("attribute", ["", "relative_to='a'", "relative_to=''", "frame=''"])
def test_inertia_is_placed_in_the_frame_of_its_link(tmp_path, attribute):
    text = f"<link name='a'><pose>3 0 0 0 0 1</pose><inertial><pose {attribute}>0 0.5 0 0 0 0</pose></inertial></link>"
    found = read(tmp_path, model(text))
    np.testing.assert_allclose(found.parameters["com"][0], (0.0, 0.5, 0.0))


def test_a_frame_for_the_origin_of_a_link_only_where_its_joint_is_elsewhere(tmp_path):
    """Whatever the rounding of oblique poses."""
    for oblique in np.random.default_rng(0).uniform(-2, 2, (20, 6)):
        pose = f"<pose>{' '.join(map(str, oblique))}</pose>"
        found = read(tmp_path, model(f"""{pose}<frame name='f'>{pose}</frame><link name='a'>{pose}</link><link name='b'>{pose}</link>
            <link name='c'><pose relative_to='f'>0 0 1 0 0 0</pose></link>
            <joint name='j' type='ball'><parent>a</parent><child>b</child></joint>
            <joint name='k' type='ball'><pose relative_to='f'/><parent>b</parent><child>c</child></joint>"""))  # fmt: skip
        assert [frame.name for frame in found.frames if frame.name.endswith("/origin")] == ["c/origin"]
        np.testing.assert_allclose(found.frame("c/origin").placement, (0, 0, 1, 0, 0, 0, 1), atol=1e-14)


@pytest.mark.parametrize(
    ("version", "flag", "along"),
    [
        ("1.4", "", 0),
        ("1.4", "0", 1),
        ("1.6", "true", 0),
        ("1.6", "false", 1),
        ("1.9", "", 1),
        ("1.10", "", 1),
        ("1.12", "", 1),
    ],
)
def test_axes_of_older_versions(tmp_path, version, flag, along):
    """Before 1.5 along the axes of the model, until 1.7 where a flag says so, then along those of the joint."""
    inside = f"<use_parent_model_frame>{flag}</use_parent_model_frame>" if flag else ""
    found = read(tmp_path, model(f"""<link name='a'/><link name='b'><pose>0 0 0 0 0 1.5707963267948966</pose></link>
        <joint name='w' type='fixed'><parent>world</parent><child>a</child></joint>
        <joint name='j' type='continuous'><parent>a</parent><child>b</child><axis><xyz>1 0 0</xyz>{inside}</axis></joint>""",
        version))  # fmt: skip
    axis = sim.jacobian(found, found.q0[None], "b").numpy()[0, :3, 0]
    np.testing.assert_allclose(axis, np.eye(3)[along], atol=1e-12)


def test_a_world_with_included_models(tmp_path):
    """A ball that falls onto a static ground; the model is found by its folder, and comes twice."""
    folder = tmp_path / "ball"
    folder.mkdir()
    (folder / "model.config").write_text("<model><sdf version='1.9'>ball.sdf</sdf></model>")
    surface = "<surface><friction><ode><mu>0.3</mu></ode></friction></surface>"
    (folder / "ball.sdf").write_text(model(f"<link name='l'><collision name='c'>{SPHERE}{surface}</collision></link>"))
    include = "<include><uri>model://ball</uri><name>{}</name><pose>{} 0 1 0 0 0</pose></include>"
    world = f"""<sdf version='1.9'><world name='w'><gravity>0 0 -5</gravity><light name='sun'/>
    <model name='ground'><static>1</static><link name='l'><collision name='c'><geometry><plane/></geometry></collision></link>
    <plugin name='p' filename='q'/></model>{include.format("one", 0)}{include.format("two", 3)}</world></sdf>"""
    (tmp_path / "w.sdf").write_text(world)
    with pytest.warns(sim.SDFWarning, match=r"w\.sdf: ignored elements: <plugin> \(1\)"):
        found = sim.load(tmp_path / "w.sdf", dtype="float64")
    assert [part.name for part in found.parts] == ["ground", "one", "two"]
    assert found.parameters["gravity"].tolist() == [0, 0, -5]
    assert found.parameters["friction"].tolist() == [1.0, 0.3, 0.3]
    simulator = sim.Simulator(found, 0.004)
    end = simulator.rollout(simulator.initial_state(), steps=400).final_state
    heights = end.q.numpy()[0].reshape(2, 7)[:, 2]
    np.testing.assert_allclose(heights, 0.1, atol=1e-3)


def test_joints_that_follow_and_springs(tmp_path):
    axis = "<axis><xyz>0 0 1</xyz>{}</axis>"
    mimic = "<mimic joint='j'><multiplier>2</multiplier><offset>0.3</offset><reference>0.1</reference></mimic>"
    found = read(
        tmp_path,
        model(f"""<link name='a'/><link name='b'/><link name='c'><gravity>false</gravity></link>
        <joint name='j' type='revolute'><parent>a</parent><child>b</child>{axis.format("")}</joint>
        <joint name='k' type='revolute'><parent>b</parent><child>c</child>{axis.format(mimic)}</joint>"""),
    )
    assert found.parameters["coupling_ratio"].tolist() == [2.0]
    np.testing.assert_allclose(found.parameters["coupling_offset"], 0.1)
    assert np.isinf(found.parameters["upper_limit"][-2:]).all()
    assert found.parameters["gravity_compensation"].tolist() == [0.0, 0.0, 1.0]


JOINT = "<joint name='j' type='{}'><parent>{}</parent><child>{}</child><axis><xyz>0 0 1</xyz></axis>{}</joint>"
TWO = "<link name='a'/><link name='b'/>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (model(TWO + JOINT.format("gearbox", "a", "b", "")), r"joint 'j' \(line 1\): a gearbox joint is not supported"),
        (model(TWO + JOINT.format("screw", "a", "b", "<thread_pitch>1</thread_pitch>")), "<screw_thread_pitch>"),
        (model(TWO + JOINT.format("universal", "a", "b", "")), "<axis2>"),
        (model(TWO + JOINT.format("fixed", "a", "x", "")), "its child 'x' .*model 'r'"),
        (model(TWO + JOINT.format("ball", "a", "world", "")), "its child is the world"),
        (model(TWO + JOINT.format("fixed", "b", "b", "")), "loop"),
        (model(TWO + JOINT.format("fixed", "a", "b", "") + JOINT.format("ball", "a", "b", "").replace("'j'", "'k'")),
         "link 'b' has a joint already, 'j'; loops are not supported"),
        (model("<link name='a'><pose relative_to='x'/></link>"), "frame 'x' in model 'r'"),
        (model("<frame name='f' attached_to='f'/><link name='a'/>"), "the pose of 'f' depends on itself"),
        (model("<link name='a'><pose>0 0 1</pose></link>"), "has 3 numbers, expected 6"),
        (model("<link name='a'><inertial auto='true'/></link>"), r"inertia from shapes \(auto\) is not supported"),
        (
            model("<frame name='f'/><link name='a'><inertial><pose relative_to='f'>0 0 0 0 0 0</pose></inertial></link>"),
            "its pose is relative to 'f'",
        ),
        (model("<link name='a'><collision name='c'><geometry><cone/></geometry></collision></link>"), "<cone> is not"),
        (model("<include><uri>model://none</uri></include>"), "'model://none' not found; searched"),
        (model("<static>maybe</static><link name='a'/>"), "it must be true or false"),
        (model("<link name='a::b'/>"), "which SDF reserves for nested models"),
        ("<robot name='r'/>", "is not an SDF: its root element is <robot>"),
        ("<sdf version='1.9'/>", "contains no models"),
        ("<sdf version='1.9'><world name='a'/><world name='b'/></sdf>", "a file must have one"),
    ],
)  # fmt: skip
def test_messages(tmp_path, text, said):
    with pytest.raises(sim.ImportFileError, match=said):
        read(tmp_path, text)


def test_a_flat_mesh_does_not_collide(tmp_path):
    (tmp_path / "sheet.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    shape = "<geometry><mesh><uri>sheet.obj</uri></mesh></geometry>"
    with pytest.warns(sim.SDFWarning, match="ignored: collision 'body/plate', whose mesh is flat"):
        found = read(tmp_path, model(f"<link name='body'><collision name='plate'>{shape}</collision></link>"))
    assert found.num_geometries == 0


def test_a_visual_without_geometry_is_ignored(tmp_path):
    path = tmp_path / "bare.sdf"
    path.write_text("""<sdf version="1.6"><model name="m"><link name="base"><inertial><mass>1</mass></inertial>
<visual name="v"/></link></model></sdf>""")
    with pytest.warns(sim.SDFWarning, match="'base/v'"):
        assert len(sim.load(path).geometries) == 0


BODY = """<link name="b"><inertial><mass>2</mass><inertia><ixx>0.03</ixx><iyy>0.03</iyy><izz>0.03</izz></inertia></inertial>
</link><joint name="j" type="{type}"><parent>world</parent><child>b</child>{inside}</joint>"""


def test_a_universal_joint_turns_about_its_first_axis_then_its_second(tmp_path):
    axes = """<axis><xyz>0 0 1</xyz><limit><lower>-1</lower><upper>2</upper></limit></axis>
<axis2><xyz>0 1 0</xyz><dynamics><damping>0.5</damping></dynamics></axis2>"""
    for type in ("universal", "revolute2"):
        found = read(tmp_path, model(BODY.format(type=type, inside=axes)))
        assert found.joint_names == ("j", "j/axis2")
        assert found.parameters["upper_limit"].tolist() == [2.0, np.inf]
        assert found.parameters["damping"].tolist() == [0.0, 0.5]
        pose = sim.forward_kinematics(found, np.array([[0.3, 0.7]])).numpy()[0, found.link("b")]
        wanted = Rotation.from_euler("ZY", [0.3, 0.7])
        np.testing.assert_allclose(Rotation.from_quat(pose[3:]).as_matrix(), wanted.as_matrix(), atol=1e-12)


def test_a_screw_falls_slowly(tmp_path):
    """Upright, 5 cm a turn: (m k^2 + I) times the angular acceleration is -m g k."""
    inside = "<axis><xyz>0 0 1</xyz></axis><screw_thread_pitch>0.05</screw_thread_pitch>"
    found = read(tmp_path, model(BODY.format(type="screw", inside=inside)))
    k, dt, steps = 0.05 / (2.0 * np.pi), 1e-3, 500
    simulator = sim.Simulator(found, dt=dt, device="cpu", contact=sim.HardContact())
    last = simulator.rollout(simulator.initial_state(), steps=steps).final_state
    rate = 2.0 * found.parameters["gravity"][2] * k / (2.0 * k**2 + 0.03) * dt * steps
    np.testing.assert_allclose(last.qd.numpy()[0], [rate, k * rate], rtol=1e-6)
    angle, height = last.q.numpy()[0]
    assert height == pytest.approx(k * angle, rel=1e-4)


def test_bodies_of_a_universal_joint_do_not_collide(tmp_path):
    ball = "<collision name='c'><geometry><sphere><radius>0.2</radius></sphere></geometry></collision>"
    text = f"<self_collide>true</self_collide><link name='a'>{ball}</link><link name='b'>{ball}</link>"
    axes = "<axis2><xyz>0 1 0</xyz></axis2>"
    found = read(tmp_path, model(text + JOINT.format("universal", "a", "b", axes)))
    assert [sorted(found.geometries[k].name for k in pair) for pair in found.excluded_pairs] == [["a/c", "b/c"]]


def test_a_mimic_of_a_second_axis(tmp_path):
    axes = "<axis2><xyz>0 1 0</xyz></axis2>"
    follower = JOINT.format("revolute", "b", "c", "").replace("'j'", "'k'")
    for axis, other in (("axis", "j"), ("axis2", "j/axis2")):
        mimic = f"<mimic joint='j' axis='{axis}'><multiplier>2</multiplier></mimic></axis>"
        text = follower.replace("</axis>", mimic)
        found = read(tmp_path, model(TWO + "<link name='c'/>" + JOINT.format("universal", "a", "b", axes) + text))
        names = [found.joint_names[found.dof_link[dof]] for dof in found.equalities.coupling_other]
        assert names == [other]
