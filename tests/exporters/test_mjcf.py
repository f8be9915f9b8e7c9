"""Models written as MJCF: MuJoCo's reading of the file, and ours, are the model."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from scenes import golf, quadruped, throw
from sim.exporters import write_mjcf
from sim.model.geometries import Mesh
from tests.dynamics.trees import build, forests
from tests.errors import quietly, raises_naming, strictly, warned
from tests.exporters.models import (
    assert_same_dynamics,
    assert_same_joints,
    assert_same_masses,
    assert_same_shapes,
    motion,
    surfaces,
)
from tests.importers.mjcf_zoo import compiled, random_state, write_zoo
from tests.importers.reference import GYMNASIUM, ROBOTS, installed
from tests.importers.test_mjcf_against_mujoco import axes, still_medium
from tests.importers.usd_scenes import everything
from warp_kernels import types as codes

FILES = [*(GYMNASIUM / f"{name}.xml" for name in ("ant", "humanoid", "hopper", "half_cheetah", "pusher_v5")),
         *(ROBOTS[name] for name in ("panda", "solo12", "talos", "iiwa"))]  # fmt: skip
ACTUATOR = (
    "gear", "kp", "kd", "gain", "offset", "kp_per_input", "kd_per_input", "force_centre", "force_limit",
    "control_lower", "control_upper",
)  # fmt: skip
TETRAHEDRON = Mesh(
    np.concatenate([np.zeros((1, 3)), np.eye(3)]), np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
)


def states(model, count=3):
    q, qd = zip(*(random_state(model, seed) for seed in range(count)), strict=True)
    return np.array(q), np.array(qd)


def assert_mujoco_agrees(model, path, bound=1e-9):
    """Initial coordinates, mass matrix and bias force of MuJoCo's model of the file."""
    peer = compiled(path)
    still_medium(peer)
    qpos, _ = sim.to_mujoco(model, model.q0, np.zeros(model.nv))
    if not (model.joint_type == codes.SPHERICAL).any():
        assert_allclose(peer.qpos0, qpos, atol=1e-12)
    data = mujoco.MjData(peer)
    q, qd = states(model, 2)
    masses, biases = sim.mass_matrix(model, q).numpy(), sim.bias_forces(model, q, qd).numpy()
    for world in range(len(q)):
        data.qpos, data.qvel = sim.to_mujoco(model, q[world], qd[world])
        mujoco.mj_forward(peer, data)
        full = np.zeros((peer.nv, peer.nv))
        mujoco.mj_fullM(peer, data, full)
        turn = axes(model, q[world])
        for found, expected in ((turn.T @ full @ turn, masses[world]), (turn.T @ data.qfrc_bias, biases[world])):
            assert_allclose(found, expected, rtol=0, atol=bound * max(np.abs(expected).max(initial=0.0), 1e-3))


@pytest.mark.parametrize(
    ("path", "collapse_fixed"),
    [*((path, True) for path in (None, *FILES)), (None, False), (ROBOTS["panda"], False)],
    ids=["zoo", *(path.stem for path in FILES), "zoo-fixed-links", "panda-fixed-links"],
)
def test_robots_come_back(path, collapse_fixed, tmp_path):
    path = write_zoo(tmp_path) if path is None else installed(path)
    # The meshes of one robot are enough.
    visual = path == ROBOTS["iiwa"] or path.suffix == ".xml"
    model = quietly(sim.load, path, dtype="float64", collapse_fixed=collapse_fixed, visual=visual)
    written = quietly(write_mjcf, tmp_path / "written.xml", model)
    again = strictly(sim.load, written, dtype="float64", collapse_fixed=collapse_fixed)
    assert_mujoco_agrees(model, written)
    assert again.link_names == model.link_names
    assert_same_dynamics(model, again, *states(model))
    assert_same_joints(model, again)
    assert_same_masses(model, again)
    assert_allclose(sim.difference(model, model.q0[None], again.q0[None]).numpy(), 0.0, atol=1e-12)
    assert again.actuator_names == model.actuator_names
    for key in ("gravity", *(f"actuator_{name}" for name in ACTUATOR if model.nu)):
        assert_allclose(again.parameters[key], model.parameters[key], rtol=1e-12)
    # No friction that a contact has is less than 1e-5 in MuJoCo.
    assert surfaces(again) == {pair: pytest.approx(values, abs=1.1e-5) for pair, values in surfaces(model).items()}
    assert_same_shapes(model, again, lambda geometry: geometry.collides)
    assert_same_shapes(model, again, lambda geometry: geometry.visible)
    assert again.parts[0].timestep == (model.parts[0].timestep or 0.002)
    assert again.parts[0].keyframes.keys() == model.parts[0].keyframes.keys()
    for name, state in model.parts[0].keyframes.items():
        assert_allclose(again.parts[0].keyframes[name].q, state.q, atol=1e-12)
        assert_allclose(again.parts[0].keyframes[name].qd, state.qd, atol=1e-12)
        assert again.parts[0].keyframes[name].control == state.control


@given(forests(), st.booleans())
@settings(max_examples=25)
def test_random_trees_come_back(tmp_path_factory, links, collapse_fixed):
    """All joint types, in any order, with springs, dampers and rotors; several trees."""
    model = build(links, "float64", collapse_fixed)
    for link in np.flatnonzero(model.joint_type == codes.FREE):
        model.parameters["friction_loss"][model.dofs_of(link)] = 0.0
    path = quietly(write_mjcf, tmp_path_factory.mktemp("tree") / "tree.xml", model)
    assert_mujoco_agrees(model, path)
    again = strictly(sim.load, path, dtype="float64", collapse_fixed=collapse_fixed)
    assert again.link_names == model.link_names
    assert_same_joints(model, again)
    assert_same_dynamics(model, again, *states(model))


def workshop(restitution=0.0):
    """What MJCF can hold beyond a robot: a chain without mass, meshes, hills, pairs, constraints, servos, frames."""
    rng = np.random.default_rng(1)
    turn = Rotation.random(3, rng=rng).as_quat()
    builder = sim.ModelBuilder(gravity=(0.3, -0.2, -7.0))
    builder.add_ground(surface=sim.Surface(friction=0.8, torsional_friction=0.01))
    builder.add_heightfield(rng.uniform(0.1, 0.4, (3, 4)), spacing=0.5, position=(3, 0, -1), orientation=turn[0])
    for number, kind in enumerate(("revolute", "prismatic", "spherical")):
        heavy = {"mass": 2.0, "com": (0.1, 0, 0.2), "inertia": np.diag([0.3, 0.4, 0.5]) + 0.05} if number == 2 else {}
        builder.add_link(f"l{number}", **heavy)
        builder.add_joint(f"j{number}", kind, child=f"l{number}", parent=f"l{number - 1}" if number else "world",
                          position=(0.1, 0.2, 1.0), orientation=turn[number], axis=(1, 2, 3),
                          spring=sim.Spring(damping=0.2),
                          q0=turn[0] if number == 2 else (0.3,), armature=0.1, friction_loss=0.01)  # fmt: skip
    builder.add_link("one_sided", mass=1.0, inertia=(0.1, 0.1, 0.2))
    builder.add_joint("k", "revolute", child="one_sided", parent="l2", position=(0, 0, 0.5),
        limits=sim.Limits(upper=0.4, margin=0.02, effort=9.0), q0=(-0.2,),
                      orientation=turn[1], spring=sim.Spring(stiffness=3.0, rest=0.1))  # fmt: skip
    builder.add_link("tool", mass=0.1, inertia=(0.01, 0.01, 0.02))
    builder.add_joint("fix", "fixed", child="tool", parent="one_sided", position=(0, 0.1, 0))
    builder.add_geometry("l2", "convex", name="a/wedge", mesh=TETRAHEDRON, size=(0.5, 0.4, 0.3),
        surface=sim.Surface(friction=0.5, restitution=restitution),
                         orientation=turn[2], rgba=(0.2, 0.4, 0.6, 1.0))  # fmt: skip
    builder.add_geometry(
        "tool", "ellipsoid", size=(0.1, 0.2, 0.3), surface=sim.Surface(friction=0.0, rolling_friction=0.002)
    )
    builder.add_geometry("tool", "convex", name="A/Wedge", mesh=TETRAHEDRON, size=(1, 1, 1), collides=False)
    builder.add_geometry(
        "one_sided",
        "cylinder",
        size=(0.1, 0.2, 0),
        surface=sim.Surface(friction=0.9),
        position=(0, 0, 0.5),
        visible=False,
    )
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, name="box", position=(1, 2, 3), orientation=turn[1],
                    surface=sim.Surface(friction=0.7, restitution=restitution))  # fmt: skip
    builder.add_sphere(
        radius=0.1, mass=0.5, name="ball", position=(1, 1, 1), surface=sim.Surface(friction=0.6, group=2, mask=3)
    )
    builder.add_geometry(
        "box", "sphere", name="knob", size=(0.05, 0, 0), position=(0, 0, 0.3), surface=sim.Surface(friction=1.3)
    )
    builder.exclude_geometries("knob", "ball/geometry")
    builder.add_point_constraint("hook", "box", "ball", position_a=(0.1, 0.2, 0.0))
    builder.add_weld_constraint("weld", "box", "world", position_a=(0.1, 0.0, 0.0), orientation_a=turn[2])
    builder.add_joint_coupling("j1", "j0", ratio=1.3, offset=0.2)
    builder.add_actuator("j0", "torque", gear=3.0, force_limit=0.3, control_range=(-0.2, 0.4))
    builder.add_actuator(
        "k",
        "position",
        name="servo",
        gear=2.0,
        gains=sim.Gains(kp=13.0, kd=0.7),
        force_limit=4.0,
        control_range=(-np.inf, 1.5),
    )
    builder.add_actuator("j1", "velocity", gains=sim.Gains(kd=0.9))
    builder.add_actuator(
        "j1", "affine", name="law",
        gains=sim.Gains(gain=2.0, offset=-0.3, kp=4.0, kd=0.2, kp_per_input=-0.7, kd_per_input=0.6),
        force_limit=(-0.5, 2.0), control_range=(0.0, 3.0),
    )  # fmt: skip
    builder.add_frame("tip", "tool", (0.1, 0.2, 0.3), turn[0])
    builder.add_frame("hook/a", "world")
    return builder.finalize("float64")


def test_a_workshop_comes_back(tmp_path):
    model = workshop()
    said = warned(write_mjcf, tmp_path / "shop.xml", model)
    assert "not written: names of links without mass ('l0', 'l1')" in said
    assert "initial orientations of spherical joints ('j2'); keyframe 'initial' holds them" in said
    assert "parts ('box', 'ball')" in said
    again = quietly(sim.load, tmp_path / "shop.xml", dtype="float64")
    assert_mujoco_agrees(model, tmp_path / "shop.xml")
    assert again.link_names == ("l2/j0", "l2/j1", "l2", "one_sided", "box", "ball")
    assert_same_joints(model, again)
    assert_same_dynamics(model, again, *states(model))
    assert_same_shapes(model, again, lambda geometry: geometry.collides and "wedge" not in geometry.name)
    looks = [sorted(geometry.rgba for geometry in m.geometries if geometry.visible) for m in (model, again)]
    assert_allclose(*looks, atol=1e-7)
    assert_allclose(again.effort_limit, model.effort_limit)
    for key in ("gravity", *(f"actuator_{name}" for name in ACTUATOR)):
        assert_allclose(again.parameters[key], model.parameters[key])
    for key in ("coupling_ratio", "coupling_offset"):
        assert_allclose(again.parameters[key], model.parameters[key], atol=1e-12)
    for key in ("anchor_a", "anchor_b"):
        expected, found = model.parameters[key], again.parameters[key]
        assert_allclose(found[:, :3], expected[:, :3], atol=1e-12)
        # A point has no orientation; quaternions of either sign are one rotation.
        assert_allclose(np.abs(found[1, 3:]), np.abs(expected[1, 3:]), atol=1e-12)
    assert_allclose(again.parts[0].keyframes["initial"].q, model.q0, atol=1e-12)
    tips = [next(frame for frame in m.frames if frame.name == "tip") for m in (model, again)]
    assert_allclose(np.abs(tips[1].placement), np.abs(tips[0].placement), atol=1e-12)
    # No friction that a contact has is less than 1e-5 in MuJoCo.
    assert surfaces(again) == {pair: pytest.approx(values, abs=1.1e-5) for pair, values in surfaces(model).items()}
    # Once more: nothing piles up.
    third = quietly(sim.load, quietly(write_mjcf, tmp_path / "third.xml", again), dtype="float64")
    assert third.link_names == again.link_names
    assert {frame.name for frame in third.frames} == {frame.name for frame in again.frames}


def test_mujoco_lets_touch_what_may_with_the_same_friction(tmp_path):
    """With a large margin MuJoCo finds a contact for every pair that it looks at."""
    model = workshop()
    peer = compiled(quietly(write_mjcf, tmp_path / "shop.xml", model), margin=9.0)
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    theirs = {}
    for contact in data.contact:
        pair = frozenset(peer.geom(int(number)).name for number in contact.geom)
        theirs[pair] = tuple(contact.friction[[0, 2, 3]] * (contact.dim >= np.array([3, 4, 6])))
    ours = surfaces(model)
    assert any(values[0] == 0.0 for values in ours.values())
    # MuJoCo looks at the pairs that heightfields are near, and at none with less friction than this.
    assert theirs.keys() - {pair for pair in theirs if "heightfield" in pair} == {
        pair for pair in ours if "heightfield" not in pair
    }
    for pair, values in theirs.items():
        assert values == pytest.approx(ours[pair], abs=1.1e-5), pair


@pytest.mark.parametrize("name", ["quadruped", "throw", "golf"])
def test_scenes_move_as_before(name, tmp_path):
    """Contact, limits, friction and joint torques."""
    if name == "golf":
        # The club bounces off the ground, if it meets it.
        scene = golf.build(dtype="float64", restitution=0.0)
        # In MuJoCo what resists rolling resists spinning, by no less than this.
        scene.model.parameters["torsional_friction"][-1] = 1e-5
        path = quietly(write_mjcf, tmp_path / "scene.xml", scene.model, lossy=True)
    else:
        scene = quadruped.build("float64") if name == "quadruped" else throw.build(dtype="float64")
        path = quietly(write_mjcf, tmp_path / "scene.xml", scene.model)
    again = quietly(sim.load, path, dtype="float64")
    dt, tau = getattr(scene, "dt", 1 / 240), getattr(scene, "hold", None)
    moved = [motion(model, scene.q0, np.full(model.nv, 0.1), 100, dt, tau) for model in (scene.model, again)]
    assert np.abs(moved[0] - scene.q0).max() > 0.01
    assert_allclose(moved[1], moved[0], rtol=0, atol=1e-9)


def test_what_mjcf_cannot_hold_is_refused_or_said(tmp_path):
    """All of it in one message; with lossy=True in warnings."""
    path = tmp_path / "all.xml"
    with pytest.raises(sim.ModelError) as refused:
        write_mjcf(path, everything())
    for words in ("swing limits ('3')", "twist limits ('3')", "compliant limits ('1')", "compliant contact ('a b/geo",
                  "restitution (", "friction across a direction of a geometry", "all.xml: MJCF",
                  "lossy=True"):  # fmt: skip
        assert words in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    said = warned(write_mjcf, path, everything(), lossy=True)
    for words in (
        "all.xml: not written: swing limits ('3'), which changes the motion",
        "largest velocities ('1')",
        "parts (",
    ):
        assert words in said
    # What is held is right all the same; the ball joint starts upright.
    assert_mujoco_agrees(everything(), path)


def test_values_of_single_axes_are_refused(tmp_path):
    """MuJoCo has one damping for all axes of a ball or free joint."""
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=1.0, mass=1.0, name="ball")
    model = builder.finalize()
    model.parameters["damping"][4] = 0.1
    with raises_naming("joint", "'ball_free'"):
        write_mjcf(tmp_path / "a.xml", model)


def test_mujoco_never_cuts_off_what_actuators_may_exert(tmp_path):
    """It enforces effort limits, which here are those of actuators that have none of their own."""
    builder = sim.ModelBuilder()
    for name, effort in (("weak", 1.0), ("strong", 9.0), ("none", 0.0)):
        builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(f"{name}_joint", "revolute", child=name, limits=sim.Limits(effort=effort))
    builder.add_actuator("weak_joint", gear=2.0, force_limit=3.0)
    builder.add_actuator("strong_joint", gear=2.0)
    said = warned(write_mjcf, tmp_path / "a.xml", builder.finalize())
    assert "effort limits that are zero or that actuators exceed ('weak_joint', 'none_joint')" in said
    peer = compiled(tmp_path / "a.xml")
    assert peer.jnt_actfrclimited.tolist() == [0, 1, 0]
    assert peer.jnt_actfrcrange[1].tolist() == [-9.0, 9.0]
    assert peer.actuator_forcerange[:, 1].tolist() == [3.0, 4.5]


def test_restitution_that_nothing_meets_is_nothing(tmp_path):
    """The ground's 1 stands for the other's: of robots without restitution there is nothing to lose."""
    quietly(write_mjcf, tmp_path / "a.xml", quadruped.build("float64").model)
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(1, 1, 1), mass=1.0, name="box", surface=sim.Surface(restitution=0.1))
    with raises_naming("restitution", "'ground'", "'box/geometry'"):
        write_mjcf(tmp_path / "b.xml", builder.finalize())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.add_link("m"), "link 'm' .*has no mass"),
        (lambda b: b.add_link("m", mass=1.0), "link 'm' .*has no mass, or no inertia about some axis"),
        (lambda b: b.add_link("m", mass=1.0, inertia=(1, 1, 3), allow_unphysical=True), r"\[1.0, 1.0, 3.0\] are neg"),
        (lambda b: (b.add_link("m", mass=1, inertia=(1, 1, 1)), b.add_geometry("m", "plane", name="p")), "'p': MuJoCo"),
    ],
)  # fmt: skip
def test_what_mujoco_refuses_is_named(tmp_path, change, message):
    builder = sim.ModelBuilder()
    change(builder)
    builder.add_joint("j", "revolute", child="m")
    with pytest.raises(sim.ModelError, match=message):
        write_mjcf(tmp_path / "a.xml", builder.finalize())
    assert list(tmp_path.iterdir()) == []


def test_joints_without_room_are_no_free_ones(tmp_path):
    """A range from 0 to 0 is none in MuJoCo, others without room it refuses."""
    builder = sim.ModelBuilder()
    builder.add_link("m", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("locked", "revolute", child="m", limits=sim.Limits(0.0, 0.0))
    with raises_naming("limits", "('locked')"):
        write_mjcf(tmp_path / "a.xml", builder.finalize())


@pytest.mark.parametrize(
    "moments", [(1.0, 2.0, 3.0), (0.1, 0.2, 0.1 + 0.2), (1e-3, 2e-3, 3e-3 + 1e-18), (0.7, 0.1, 0.8)]
)
def test_flat_bodies_pass_mujocos_test_for_inertias(tmp_path, moments):
    """A plate's largest moment is the sum of the others, and MuJoCo allows no rounding."""
    builder = sim.ModelBuilder()
    axes = Rotation.from_euler("xyz", (0.3, 0.5, 0.7)).as_matrix()
    builder.add_link("m", mass=1.0, inertia=axes @ np.diag(moments) @ axes.T)
    builder.add_joint("j", "free", child="m")
    model = builder.finalize("float64")
    assert_mujoco_agrees(model, strictly(write_mjcf, tmp_path / "a.xml", model))


def test_a_mesh_of_one_triangle_is_left_out(tmp_path):
    builder = sim.ModelBuilder()
    for name, collides in (("sign", False), ("blade", True)):
        mesh = Mesh(np.eye(3), np.array([[0, 1, 2]]))
        builder.add_geometry("world", "convex", name=name, mesh=mesh, size=(1, 1, 1), collides=collides)
    with raises_naming("meshes", "points", "'blade'"):
        write_mjcf(tmp_path / "a.xml", builder.finalize())
    said = warned(write_mjcf, tmp_path / "a.xml", builder.finalize(), lossy=True)
    assert "not written: meshes of fewer than four points ('sign')" in said
    assert compiled(tmp_path / "a.xml").ngeom == 0


def test_names_that_xml_cannot_hold(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=1.0, mass=1.0, name='é <&"\n/')
    written = strictly(write_mjcf, tmp_path / "a.xml", builder.finalize())
    assert strictly(sim.load, written).link_names == ('é <&"\n/',)
    builder.add_sphere(radius=1.0, mass=1.0, name="bell\a")
    with raises_naming("characters", "XML"):
        quietly(write_mjcf, tmp_path / "b.xml", builder.finalize())
    assert not (tmp_path / "b.xml").exists()


def test_targets_are_checked_and_replaced(tmp_path):
    model = workshop()
    for name, message in (
        ("a.mjcf", "must end in .xml"),
        ("gone/a.xml", "gone"),
        ("d.xml", "is a folder"),
    ):
        (tmp_path / "d.xml").mkdir(exist_ok=True)
        with pytest.raises(sim.ModelError, match=message):
            write_mjcf(tmp_path / name, model)
    for _ in range(2):
        assert quietly(write_mjcf, tmp_path / "a.xml", model) == tmp_path / "a.xml"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xml", "a_xml_meshes", "d.xml"]
    (tmp_path / "b_xml_meshes").write_text("")
    with raises_naming("folder"):
        quietly(write_mjcf, tmp_path / "b.xml", model)
    (tmp_path / "b_xml_meshes").unlink()
    # Names that differ in capitals alone have files of their own.
    assert sorted(path.name for path in (tmp_path / "a_xml_meshes").iterdir()) == ["a_wedge.obj", "a_wedge_2.obj"]


def test_dry_friction_of_a_free_joint_has_other_axes(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("stone", mass=1.0, inertia=np.eye(3))
    builder.add_joint("flight", "free", child="stone", friction_loss=0.3)
    with raises_naming("friction", "joints", "'flight'"):
        write_mjcf(tmp_path / "a.xml", builder.finalize())


def test_gravity_compensation_below_zero_alone_is_refused(tmp_path):
    """MuJoCo leaves it out where no body has one above zero."""
    builder = sim.ModelBuilder()
    for name, share in (("stone", -0.5), ("balloon", 0.5)):
        builder.add_link(name, mass=1.0, inertia=np.eye(3), gravity_compensation=share)
        builder.add_joint(name, "free", child=name)
        if name == "stone":
            with raises_naming("gravity compensation", "('stone')"):
                write_mjcf(tmp_path / "a.xml", builder.finalize())
    write_mjcf(tmp_path / "a.xml", builder.finalize())
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "a.xml")).body_gravcomp.tolist() == [0.0, -0.5, 0.5]


def test_sensors_of_limits_that_are_not_there_are_left_out(tmp_path):
    """MuJoCo refuses them."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=np.eye(3))
    builder.add_joint("hinge", "revolute", parent="world", child="arm", axis=(0, 1, 0))
    builder.add_fixed_tendon("cord", {"hinge": 1.0})
    builder.add_sensor("angle", "joint_position", "hinge")
    for kind, target in (("joint_limit_velocity", "hinge"), ("tendon_limit_position", "cord")):
        builder.add_sensor(kind, kind, target)
    said = warned(write_mjcf, tmp_path / "a.xml", builder.finalize())
    assert "not written: sensors" in said
    assert "('joint_limit_velocity', 'tendon_limit_position')" in said
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "a.xml")).nsensor == 1
