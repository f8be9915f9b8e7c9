"""USD files that were written here come back as they were."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped
from sim.model.model import Keyframe
from sim.usd import write_usd
from tests.errors import quietly, strictly
from tests.importers.reference import ROBOTS
from tests.importers.usd_scenes import (
    CENTIMETRES_Y_UP,
    assert_same_models,
    everything,
    frictions_of_pairs,
    poses_at,
    read,
)
from warp_kernels import types as codes

# Prims of links whose names no prim can have.
PRIM_NAMES = {"a b": "a_b", "a_b": "a_b_2"}


def test_everything_comes_back(tmp_path):
    model = everything()
    path = write_usd(tmp_path / "all.usda", model, poses_at(model, model.q0), fps=30)
    again = strictly(sim.load, path, dtype="float64")
    assert_same_models(model, again)
    tips = [next(frame for frame in m.frames if frame.name == "tip") for m in (model, again)]
    assert tips[0].link == tips[1].link
    assert_allclose(tips[0].placement, tips[1].placement, atol=1e-15)
    assert again.equalities.anchor_names == ("hook", "weld")


def test_a_robot_moves_as_before(tmp_path):
    scene = quadruped.build(dtype="float64")
    poses = poses_at(scene.model, scene.model.q0)
    again = sim.load(write_usd(tmp_path / "robot.usdc", scene.model, poses, fps=30), dtype="float64")
    assert_same_models(scene.model, again)
    q = np.asarray(scene.q0)[None]
    masses = [sim.mass_matrix(model, q).numpy() for model in (scene.model, again)]
    assert_allclose(masses[1], masses[0], rtol=1e-10, atol=1e-12)
    ends = []
    for model in (scene.model, again):
        simulator = sim.Simulator(model, dt=1 / 240, num_worlds=1, device="cpu")
        state = simulator.state(scene.q0, np.full(model.nv, 0.1))
        for _ in range(60):
            state = simulator.step(state)
        ends.append(state.q.numpy())
    np.testing.assert_array_equal(ends[1], ends[0])


MJCF = """<mujoco model="scene">
  <option timestep="0.004"/>
  <worldbody>
    <body name="loose" pos="0 0 2"><freejoint/><geom name="ball" size="0.1" condim="6"/></body>
    <body name="arm"><joint name="hinge" axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/>
      <body name="hand" pos="1 0 0"><joint name="ball" type="ball"/><geom size="0.1" pos="0.3 0 0"/></body>
    </body>
    <body name="weight" pos="0 3 0">
      <joint name="slide" type="slide"/><geom name="block" size="0.1" priority="2"/></body>
  </worldbody>
  <contact><pair geom1="ball" geom2="block" condim="4" friction="0.3 0.4 0.02"/></contact>
  <actuator><motor name="drive" joint="hinge"/>
    <position name="servo" joint="slide" kp="3" forcerange="-7 7"/></actuator>
  <keyframe>
    <key name="up" qpos="0 1 2 0.6 0.8 0 0  0.4  0.8 0 0.6 0  0.7" qvel="1 2 3 4 5 6  7  8 9 10  11" ctrl="0.1 0.2"/>
    <key name="home"/>
  </keyframe>
</mujoco>
"""


@pytest.fixture
def keyed(tmp_path):
    """A model of several trees with keyframes, and a USD file of it."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    path = tmp_path / "scene.xml"
    path.write_text(MJCF)
    model = sim.load(path, dtype="float64")
    return model, write_usd(tmp_path / "scene.usdc", model, poses_at(model, model.q0), fps=30)


def test_keyframes_parts_and_efforts_come_back(keyed):
    model, path = keyed
    again = strictly(sim.load, path, dtype="float64")
    # The loose body stays before the arm, which a reader of other files starts with.
    assert_same_models(model, again)
    assert frictions_of_pairs(again) == {frozenset(("ball", "block")): (0.3, 0.4, 0.02, 0.0, 0.0)}
    np.testing.assert_array_equal(again.effort_limit, model.effort_limit)
    (old,), (new,) = model.parts, again.parts
    assert new.timestep == 0.004
    assert list(new.keyframes) == ["up", "home"]
    for name, state in old.keyframes.items():
        assert_allclose(new.keyframes[name].q, state.q, rtol=0, atol=1e-15)
        assert_allclose(new.keyframes[name].qd, state.qd, rtol=0, atol=1e-15)
        assert new.keyframes[name].control == state.control


def test_keyframes_move_with_the_stage(keyed):
    """A copy elsewhere: links and their velocities in a keyframe are those of the original, moved."""
    model, path = keyed
    position, turn = np.array([1.0, 2.0, 3.0]), Rotation.from_rotvec((0.1, 0.2, 0.3))
    builder = sim.ModelBuilder()
    (part,) = builder.add_usd(path, name="copy", position=position, orientation=turn.as_quat())
    moved, state = builder.finalize("float64"), model.parts[0].keyframes["up"]
    key = part.keyframes["up"]
    assert key.control == {"copy/drive": 0.1, "copy/servo": 0.2}
    poses, moved_poses = poses_at(model, state.q)[0], poses_at(moved, key.q)[0]
    assert_allclose(moved_poses[:, :3], turn.apply(poses[:, :3]) + position, atol=1e-12)
    rates, moved_rates = (
        sim.link_velocities(m, k.q[None], k.qd[None]).numpy()[0] for m, k in ((model, state), (moved, key))
    )
    for half in (slice(0, 3), slice(3, 6)):
        assert_allclose(moved_rates[:, half], turn.apply(rates[:, half]), atol=1e-12)


def test_keyframes_of_edited_joints_are_reported(keyed):
    _, path = keyed
    stage = Usd.Stage.Open(str(path))
    hinge = next(prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.RevoluteJoint))
    UsdPhysics.FixedJoint.Define(stage, hinge.GetPath())
    stage.GetRootLayer().Save()
    lost = "keyframes up, home "
    with pytest.warns(sim.USDWarning, match="not read: physics:axis"), pytest.warns(sim.USDWarning, match=lost):
        sim.load(path)


def test_keyframes_that_fit_no_slice_are_reported(tmp_path):
    """Joints of a part with another between them have no place in q."""
    builder = sim.ModelBuilder()
    for name in "abc":
        builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(name, "revolute", child=name)
    builder.add_part("outer", ["a", "c"], ["a", "c"], keyframes={"far": Keyframe(np.ones(2), np.zeros(2), {})})
    model = builder.finalize("float64")
    with pytest.warns(sim.USDWarning, match="keyframe 'far'.*part 'outer'"):
        write_usd(tmp_path / "parts.usda", model, poses_at(model, model.q0), fps=30)


def test_a_limit_of_twist_alone_keeps_its_axis(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("ball", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("j", "spherical", child="ball", axis=(0, 0.6, 0.8), limits=sim.Limits(twist=0.5))
    builder.add_part("ball", ["ball"], ["j"])
    model = builder.finalize("float64")
    again = sim.load(write_usd(tmp_path / "ball.usda", model, poses_at(model, model.q0), fps=30), dtype="float64")
    assert_same_models(model, again)


def test_an_edited_value_wins(tmp_path):
    """What another program changed counts, though the value that we wrote stands beside it."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.1, name="box", surface=sim.Surface(friction=0.7))
    model = builder.finalize("float64")
    path = write_usd(tmp_path / "box.usda", model, poses_at(model, model.q0), fps=30)
    stage = Usd.Stage.Open(str(path))
    prim = next(prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.MassAPI))
    UsdPhysics.MassAPI(prim).GetMassAttr().Set(2.0)
    stage.GetRootLayer().Save()
    again = sim.load(path, dtype="float64")
    assert again.parameters["mass"][0] == 2.0
    assert again.parameters["friction"][0] == 0.7


@pytest.mark.parametrize("robot", ["panda", "anymal_c"])
def test_published_robots_come_back(tmp_path, robot):
    if not ROBOTS[robot].exists():
        pytest.skip("the robots come with example-robot-data")
    model = quietly(sim.load, ROBOTS[robot], dtype="float64", visual=False)
    again = sim.load(write_usd(tmp_path / "robot.usdc", model, poses_at(model, model.q0), fps=30), dtype="float64")
    q = model.q0[None] + 0.1
    masses = [sim.mass_matrix(m, q).numpy() for m in (model, again)]
    assert_allclose(masses[1], masses[0], rtol=1e-10, atol=1e-12)
    assert {g.name for g in again.geometries} == {g.name for g in model.geometries}


@pytest.mark.slow  # Newton compiles kernels of its own
def test_newton_reads_the_same(tmp_path):
    """Masses, centres of mass and inertias in the world as Newton's reader has them, which leaves units to its user."""
    newton = pytest.importorskip("newton", reason="Newton is not installed")
    pytest.importorskip("newton_usd_schemas", reason="Newton's USD schemas are not installed")
    model = everything()
    ours = write_usd(tmp_path / "ours.usda", model, poses_at(model, model.q0), fps=30)
    hand = tmp_path / "hand.usda"
    hand.write_text(CENTIMETRES_Y_UP)
    for path, kilograms, metres in ((ours, 1.0, 1.0), (hand, 1e-3, 1e-2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            builder = newton.ModelBuilder()
            builder.add_usd(str(path))
        theirs = {}
        for label, pose, mass, com, inertia in zip(
            builder.body_label, builder.body_q, builder.body_mass, builder.body_com, builder.body_inertia, strict=True
        ):
            turn = Rotation.from_quat(np.array(pose)[3:])
            tensor = turn.as_matrix() @ np.array(inertia).reshape(3, 3) @ turn.as_matrix().T
            centre = (np.array(pose)[:3] + turn.apply(np.array(com))) * metres
            theirs[label.rsplit("/", 1)[-1]] = (mass * kilograms, centre, tensor * kilograms * metres**2)
        mine = sim.load(path, dtype="float64")
        assert len(theirs) == mine.num_links
        poses = poses_at(mine, mine.q0)[0]
        for link, name in enumerate(mine.link_names):
            turn = Rotation.from_quat(poses[link, 3:]).as_matrix()
            mass, com, inertia = (mine.parameters[key][link] for key in ("mass", "com", "inertia"))
            found = theirs[PRIM_NAMES.get(name, name)]
            assert_allclose(found[0], mass, rtol=1e-6)
            assert_allclose(found[1], poses[link, :3] + turn @ com, atol=1e-5)
            assert_allclose(found[2], turn @ inertia @ turn.T, rtol=1e-4, atol=1e-5 * np.abs(inertia).max())


def test_a_weld_that_holds_bodies_apart_from_where_they_start(tmp_path):
    """Its anchors needn't meet at the start, and a file that was written here says nothing of that."""
    builder = sim.ModelBuilder()
    for name, position in (("a", (0, 0, 0)), ("b", (1, 0, 0))):
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, name=name, position=position)
    builder.add_weld_constraint("weld", "a", "b", position_a=(0.4, 0.1, 0), position_b=(-0.2, 0, 0),
                                orientation_b=(0, 0, 0, 1))  # fmt: skip
    model = builder.finalize("float64")
    path = write_usd(tmp_path / "a.usda", model, poses_at(model, model.q0), fps=30)
    again = strictly(sim.load, path, dtype="float64")
    assert_allclose(again.parameters["anchor_a"], model.parameters["anchor_a"], atol=0)
    stage = Usd.Stage.Open(str(path))
    UsdPhysics.Joint(stage.GetPrimAtPath("/World/Constraints/weld")).GetLocalPos0Attr().Set(Gf.Vec3f(0.5, 0, 0))
    stage.GetRootLayer().Save()
    with pytest.warns(sim.USDWarning, match="its frames are 0.3 m and 0 rad apart"):
        sim.load(path)


def test_links_may_be_called_as_what_a_stage_holds(tmp_path):
    """Free bodies with the names of the prims beside them stay where they are."""
    names = ("World", "Joints", "Constraints", "Contacts", "Static", "Lights", "Camera", "Materials")
    builder = sim.ModelBuilder()
    for x, name in enumerate(names):
        builder.add_sphere(radius=0.1, mass=1.0, name=name, position=(x, 0, 1))
    builder.add_point_constraint("pin", "World", "Joints", position_a=(0.5, 0, 0))
    builder.add_ground()
    model = builder.finalize("float64")
    path = tmp_path / "names.usda"
    with sim.usd.UsdRecorder(path, model, fps=30) as recorder:
        simulator = sim.Simulator(model, dt=1 / 60)
        recorder.append(poses_at(model, model.q0)[0], simulator.contacts(simulator.initial_state()))
    with pytest.warns(sim.USDWarning, match="not drawn: PointInstancer"):
        again = sim.load(path, dtype="float64")
    assert again.link_names == names
    assert_allclose(again.q0, model.q0, atol=1e-12)


def test_links_without_mass_keep_their_inertia(tmp_path):
    """A rotor without mass on a hinge, which carries an arm, and a link without inertial data."""
    builder = sim.ModelBuilder()
    builder.add_link("rotor", mass=0.0, inertia=(0.1, 0.2, 0.3))
    builder.add_link("arm", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    builder.add_link("pointer")
    for parent, link in (("world", "rotor"), ("rotor", "arm"), ("arm", "pointer")):
        builder.add_joint(f"hinge of {link}", "continuous", parent=parent, child=link, axis=(0, 0, 1))
    model = builder.finalize("float64")
    again = sim.load(write_usd(tmp_path / "arm.usda", model, poses_at(model, model.q0), fps=30), dtype="float64")
    assert again.massless_links == model.massless_links == ("pointer",)
    assert_allclose(again.parameters["inertia"], model.parameters["inertia"], atol=1e-15)


SHAPES = {
    "box": (0.1, 0.2, 0.3),
    "sphere": (0.1, 0.0, 0.0),
    "capsule": (0.1, 0.2, 0.0),
    "cylinder": (0.1, 0.2, 0.0),
    "ellipsoid": (0.1, 0.2, 0.3),
}


def shaped(**options):
    """Each shape on a link of its own."""
    builder = sim.ModelBuilder()
    for kind, size in SHAPES.items():
        builder.add_link(kind, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(kind, "free", child=kind)
        turned = (0.0, 0.6, 0.0, 0.8)
        builder.add_geometry(kind, kind, name=kind, size=size, position=(0, 0, 1 / 3), orientation=turned, **options)
    return builder.finalize("float64")


@pytest.mark.parametrize("options", [{"collides": False}, {"visible": False}])
def test_shapes_that_are_only_drawn_or_only_collide_come_back(tmp_path, options):
    """The first came back as meshes, the second visible, since nothing else shows their links."""
    model = shaped(**options)
    again = sim.load(write_usd(tmp_path / "a.usda", model, poses_at(model, model.q0), fps=30), dtype="float64")
    assert {one.name: one.type for one in again.geometries} == {one.name: one.type for one in model.geometries}
    assert {one.name: (one.collides, one.visible) for one in again.geometries} == dict.fromkeys(
        SHAPES, (options.get("collides", True), options.get("visible", True))
    )
    order = [again.geometry(one.name) for one in model.geometries]
    for name in ("geometry_size", "geometry_placement"):
        assert_allclose(again.parameters[name][order], model.parameters[name], rtol=0.0, atol=1e-15)


def test_a_drawn_shape_that_was_edited_is_read_as_it_is(tmp_path):
    model = shaped(collides=False)
    path = write_usd(tmp_path / "a.usda", model, poses_at(model, model.q0), fps=30)
    stage = Usd.Stage.Open(str(path))
    prim = next(prim for prim in stage.Traverse() if prim.GetName() == "sphere" and prim.IsA(UsdGeom.Mesh))
    points = prim.GetAttribute("points")
    points.Set([2.0 * point for point in points.Get()])
    stage.GetRootLayer().Save()
    again = sim.load(path, dtype="float64")
    sphere = again.geometries[again.geometry("sphere")]
    assert sphere.type == codes.CONVEX
    assert sphere.mesh is not None
    assert_allclose(np.abs(sphere.mesh.vertices).max(), 0.2, rtol=1e-6)


@pytest.fixture
def hinge(tmp_path):
    """A model and the prim of its hinge with an armature, in a file of it."""
    model = everything()
    path = write_usd(tmp_path / "all.usda", model, poses_at(model, model.q0), fps=30)
    stage = Usd.Stage.Open(str(path))
    return model, stage, next(prim for prim in stage.Traverse() if prim.HasAttribute("newton:armature"))


@pytest.mark.parametrize(("armature", "found"), [(0.5, 0.5), (0.0, 0.0), (None, 0.013)])
def test_an_armature_that_another_program_states_counts(hinge, armature, found):
    _, stage, prim = hinge
    assert prim.GetAttribute("newton:armature").Get() == pytest.approx(0.013)
    if armature is None:
        prim.RemoveProperty("newton:armature")
    else:
        prim.GetAttribute("newton:armature").Set(armature)
    again = read(stage)
    assert again.parameters["armature"][again.qd_slice("1")] == found


def test_a_state_that_is_not_that_of_the_bodies_is_noted(hinge):
    model, stage, prim = hinge
    angle = prim.GetAttribute("state:angular:physics:position")
    assert angle.Get() == pytest.approx(np.degrees(0.3))
    angle.Set(40.0)
    with pytest.warns(sim.USDWarning, match="its state differs"):
        again = read(stage)
    assert_allclose(sim.difference(model, again.q0[None], model.q0[None]).numpy(), 0.0, atol=1e-14)


def test_pairs_with_two_equal_numbers_keep_both(tmp_path):
    """Both numbers are parameters, so that they may differ later; a pair with one number has one."""
    builder = sim.ModelBuilder()
    ground = builder.add_ground()
    for name, friction in (("one", 0.5), ("two", (0.5, 0.5))):
        builder.add_box(name=name, half_extents=(0.1, 0.1, 0.1), mass=1.0)
        builder.set_pair_friction(ground, f"{name}/geometry", friction=friction, rolling_friction=0.01)
    model = builder.finalize("float64")
    assert sorted(pair.is_isotropic for pair in model.pair_frictions) == [False, True]
    path = write_usd(tmp_path / "pairs.usda", model, poses_at(model, model.q0), fps=30)
    again = sim.load(path, dtype="float64")
    assert [pair.is_isotropic for pair in again.pair_frictions] == [pair.is_isotropic for pair in model.pair_frictions]
    assert_same_models(model, again)
