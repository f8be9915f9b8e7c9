"""Models written as URDF: Pinocchio's reading of the file, and ours, are the model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from scenes import quadruped, throw
from sim.exporters import write_urdf
from sim.exporters.urdf.elements import roll_pitch_yaw
from tests.dynamics.trees import Link, build
from tests.errors import quietly, refuses, strictly, warned
from tests.exporters.models import (
    assert_same_dynamics,
    assert_same_joints,
    assert_same_masses,
    assert_same_shapes,
    motion,
)
from tests.exporters.test_mjcf import TETRAHEDRON
from tests.importers.mjcf_zoo import random_state
from tests.importers.reference import GYMNASIUM, ROBOTS, installed
from tests.importers.usd_scenes import everything
from warp_kernels import types as codes

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer  # noqa: E402


def states(model, count=3):
    q, qd = zip(*(random_state(model, seed) for seed in range(count)), strict=True)
    return np.array(q), np.array(qd)


def assert_pinocchio_agrees(model, path, bound=1e-10):
    """Mass matrix and nonlinear effects of Pinocchio's model of the file; rotors, springs and dampers aside."""
    free = (pin.JointModelFreeFlyer(),) if model.joint_type[0] == codes.FREE else ()
    armature = model.parameters["armature"].copy()
    peer = Peer(model, pin.buildModelFromUrdf(str(path), *free))
    peer.peer.armature[:] = 0.0
    peer.peer.gravity = pin.Motion(model.parameters["gravity"], np.zeros(3))
    q, qd = states(model, 2)
    masses, biases = sim.mass_matrix(model, q).numpy(), sim.bias_forces(model, q, qd).numpy()
    for world in range(len(q)):
        bias = peer.inverse_dynamics(q[world], qd[world], np.zeros(model.nv)) - peer.passive_force(q[world], qd[world])
        for found, expected in ((peer.mass_matrix(q[world]), masses[world] - np.diag(armature)), (bias, biases[world])):
            assert_allclose(found, expected, rtol=0, atol=bound * max(np.abs(expected).max(initial=0.0), 1e-3))


@pytest.mark.parametrize(
    ("name", "floating"),
    [("panda", False), ("panda", True), ("solo12", True), ("talos", False), ("iiwa", False), ("ur5", False)],
)
def test_robots_come_back(name, floating, tmp_path):
    """Names, order and numbers of a URDF file; the meshes of one robot are enough."""
    options = {"dtype": "float64", "floating_base": floating, "visual": name == "iiwa"}
    model = quietly(sim.load, installed(ROBOTS[name]), collapse_fixed=False, **options)
    written = quietly(write_urdf, tmp_path / f"{name}.urdf", model)
    again = quietly(sim.load, written, collapse_fixed=False, **options)
    assert again.link_names == model.link_names
    assert_pinocchio_agrees(quietly(sim.load, written, **options), written)
    assert_same_joints(model, again)
    assert_same_masses(model, again)
    assert_same_dynamics(model, again, *states(model))
    for key in ("effort_limit", "velocity_limit", "q0", "joint_axis"):
        assert_allclose(getattr(again, key), getattr(model, key), rtol=1e-14, atol=1e-15)
    assert again.equalities.coupling_names == model.equalities.coupling_names
    assert_same_shapes(model, again, lambda geometry: geometry.collides)
    assert_same_shapes(model, again, lambda geometry: geometry.visible)
    # With its fixed links merged it is the same robot; the merged ones come back as links.
    merged = quietly(sim.load, ROBOTS[name], **options)
    again = quietly(sim.load, quietly(write_urdf, tmp_path / "merged.urdf", merged), **options)
    assert (again.link_names, again.joint_names[1:]) == (merged.link_names, merged.joint_names[1:])
    assert {frame.name for frame in merged.frames} <= {frame.name for frame in again.frames}
    assert_same_dynamics(merged, again, *states(merged))


@st.composite
def trees(draw):
    """One tree of up to eight links, the first joint of any type that a URDF has."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = ["fixed", "revolute", "continuous", "prismatic"]
    links = [Link.random(-1, draw(st.sampled_from([*kinds, "free"])), rng)]
    for number in range(1, draw(st.integers(2, 8))):
        links.append(Link.random(draw(st.integers(0, number - 1)), draw(st.sampled_from(kinds)), rng))
    return links


@given(trees(), st.booleans())
@settings(max_examples=25)
def test_random_trees_come_back(tmp_path_factory, links, collapse_fixed):
    moving = any(link.kind != "fixed" for link in links)
    model = build(links, "float64", collapse_fixed)
    if not moving and collapse_fixed:
        return  # all of it belongs to the world
    path = tmp_path_factory.mktemp("tree") / "tree.urdf"
    said = warned(write_urdf, path, model, lossy=True)
    assert ("springs (" in said) == bool((model.parameters["stiffness"] > 0.0).any())
    options = {"dtype": "float64", "collapse_fixed": collapse_fixed}
    if links[0].kind == "free":
        assert "floating_base=True" in said
        options["floating_base"] = True
    again = quietly(sim.load, path, **options)
    if model.nv:
        assert_pinocchio_agrees(model, path)
        without_rotors = build([Link(**{**link.__dict__, "passive": {}}) for link in links], "float64", collapse_fixed)
        assert_same_dynamics(without_rotors, again, *states(model))
    assert_same_masses(model, again)


def gadget():
    """What URDF can hold beyond the robots: limits on one side, capsules, coupled joints, frames, scenery."""
    rng = np.random.default_rng(1)
    turn = Rotation.random(3, rng=rng).as_quat()
    builder = sim.ModelBuilder()
    inertia = np.diag([0.3, 0.4, 0.5]) + 0.05
    builder.add_link("first", mass=2.0, com=(0.1, 0, 0.2), inertia=inertia)
    builder.add_joint("slide", "prismatic", child="first", position=(0.1, 0.2, 0.3), orientation=turn[0],
                      axis=(1, 2, 3), friction_loss=0.3, spring=sim.Spring(damping=0.1))  # fmt: skip
    builder.add_link("second", mass=1.0, inertia=inertia)
    builder.add_joint(
        "turn",
        "revolute",
        child="second",
        parent="first",
        orientation=turn[1],
        limits=sim.Limits(upper=0.4, effort=7.0),
    )
    builder.add_link("third", mass=1.0, inertia=inertia)
    builder.add_joint(
        "follower", "continuous", child="third", parent="second", limits=sim.Limits(velocity=3.0), position=(0, 0, 1)
    )
    builder.add_joint_coupling("follower", "turn", ratio=-1.5, offset=0.1)
    builder.add_frame("tip", "third", (0.1, 0.2, 0.3), turn[2])
    builder.add_frame("post", "world", (1, 0, 0), turn[1])
    look = {"orientation": turn[2], "position": (0.1, 0, 0)}
    builder.add_geometry("world", "box", size=(0.1, 0.2, 0.3), **look)
    builder.add_geometry("first", "capsule", size=(0.1, 0.2, 0), visible=False, **look)
    builder.add_geometry("first", "cylinder", size=(0.1, 0.2, 0), rgba=(0.1, 0.2, 0.3, 0.4), collides=False, **look)
    builder.add_geometry("second", "convex", size=(0.5, 0.6, 0.7), mesh=TETRAHEDRON, rgba=(1, 0, 0, 1), **look)
    builder.add_geometry("third", "sphere", size=(0.1, 0, 0), rgba=(1, 0, 0, 1), **look)
    builder.add_geometry("third", "ellipsoid", size=(0.1, 0.2, 0.3), collides=False, **look)
    builder.exclude_collision("first", "third")
    builder.exclude_collision("first", "world")
    return builder.finalize("float64")


def test_a_gadget_comes_back(tmp_path):
    model = gadget()
    path = strictly(write_urdf, tmp_path / "gadget.urdf", model)
    again = strictly(sim.load, path, dtype="float64")
    assert_pinocchio_agrees(model, path)
    assert (again.link_names, again.joint_names) == (model.link_names, model.joint_names)
    assert_same_joints(model, again)
    assert_same_masses(model, again)
    assert_same_dynamics(model, again, *states(model))
    for key in ("coupling_ratio", "coupling_offset"):
        assert_allclose(again.parameters[key], model.parameters[key])
    for key in ("q0", "effort_limit", "velocity_limit"):
        assert_allclose(getattr(again, key), getattr(model, key))
    frames = [{frame.name: frame for frame in m.frames} for m in (model, again)]
    for name in ("tip", "post"):
        assert frames[1][name].link == frames[0][name].link
        assert_allclose(np.abs(frames[1][name].placement), np.abs(frames[0][name].placement), atol=1e-15)
    assert_same_shapes(model, again, lambda geometry: geometry.collides)
    assert_same_shapes(model, again, lambda geometry: geometry.visible)
    colours = [sorted(geometry.rgba for geometry in m.geometries if geometry.visible) for m in (model, again)]
    assert_allclose(*colours, atol=1e-15)
    # Pinocchio knows the capsule, since the file says that it is of the version that has them.
    peer = pin.buildModelFromUrdf(str(path))
    shapes = pin.buildGeomFromUrdf(peer, str(path), pin.COLLISION, package_dirs=[str(tmp_path)])
    assert {type(item.geometry).__name__ for item in shapes.geometryObjects} >= {"Capsule", "Box", "Sphere"}
    # Once more: nothing piles up.
    third = strictly(sim.load, strictly(write_urdf, tmp_path / "third.urdf", again), dtype="float64")
    assert {frame.name for frame in third.frames} == {frame.name for frame in again.frames}


@pytest.mark.parametrize("name", ["ant", "half_cheetah", "inverted_double_pendulum"])
def test_from_mjcf(name, tmp_path):
    """What moves comes over; rotors and springs are refused, or left out."""
    model = quietly(sim.load, installed(GYMNASIUM / f"{name}.xml"), dtype="float64")
    path = tmp_path / "robot.urdf"
    with pytest.raises(sim.ModelError, match=r"robot.urdf: URDF .*(armature|margins of limits) \("):
        write_urdf(path, model)
    said = warned(write_urdf, path, model, lossy=True)
    assert "not written: geometry of the world ('floor'" in said
    assert "not written: actuators (" in said
    assert ("armature (" in said) == (name != "inverted_double_pendulum")
    assert_pinocchio_agrees(model, path)
    gravity = model.parameters["gravity"]
    again = quietly(sim.load, path, dtype="float64", floating_base=name == "ant", gravity=gravity)
    assert_same_joints(model, again, gone=("armature", "stiffness", "limit_margin"))
    q, qd = states(model)
    still = np.diag(model.parameters["armature"])
    assert_allclose(sim.mass_matrix(again, q).numpy(), sim.mass_matrix(model, q).numpy() - still, atol=1e-10)
    assert_allclose(sim.bias_forces(again, q, qd).numpy(), sim.bias_forces(model, q, qd).numpy(), atol=1e-9)


def test_a_robot_stands_as_before(tmp_path):
    """The quadruped alone, set down on a ground that is added where the file is read."""
    model = quadruped.build("float64").model
    said = warned(write_urdf, tmp_path / "robot.urdf", model)
    for words in ("geometry of the world ('ground')", "floating_base=True (--floating-base), and position="):
        assert words in said
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    builder.add_urdf(tmp_path / "robot.urdf", floating_base=True, friction=1.0)
    again = builder.finalize("float64")
    start = quadruped.build("float64").q0
    moved = [motion(one, start, np.full(model.nv, 0.1), 60, 1 / 240) for one in (model, again)]
    assert_allclose(moved[1], moved[0], rtol=0, atol=1e-9)


def test_what_urdf_cannot_hold_is_refused(tmp_path):
    path = tmp_path / "a.urdf"
    refuses(lambda: write_urdf(path, throw.build(dtype="float64").model), "'ball'")
    refuses(lambda: write_urdf(path, everything()), "'loose', 'other'")
    refuses(lambda: write_urdf(path, sim.ModelBuilder().finalize()), "no links")
    builder = sim.ModelBuilder(gravity=(0, 0, -1.6))
    builder.add_link("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("j", "free", child="a", spring=sim.Spring(damping=0.1))
    builder.add_link("b", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("k", "revolute", child="b", parent="a", armature=0.1, spring=sim.Spring(stiffness=1.0),
        limits=sim.Limits(-1, 1, margin=0.1, stiffness=10.0), q0=(0.5,))  # fmt: skip
    builder.add_point_constraint("hook", "b", "world")
    builder.add_geometry("b", "ellipsoid", size=(1, 2, 3), name="egg", surface=sim.Surface(friction=0.3))
    builder.add_geometry("a", "plane", name="tray")
    builder.add_actuator("k", name="motor")
    model = builder.finalize()
    with pytest.raises(sim.ModelError) as refused:
        write_urdf(path, model)
    grave = ("armature ('k')", "springs ('k')", "margins of limits ('k')", "compliant limits ('k')",
             "closed loops ('hook')", "damping of the free base ('j')", "ellipsoids, except as meshes ('egg')",
             "planes and heightfields")  # fmt: skip
    for words in grave:
        assert words in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    said = warned(write_urdf, path, model, lossy=True)
    for words in (*grave, "actuators ('motor')", "gravity [0.0, 0.0, -1.6]", "initial coordinates ('k')",
                  "surface values ('egg')"):  # fmt: skip
        assert words in said
    assert quietly(sim.load, path, floating_base=True).link_names == ("a", "b")
    builder.add_link("c", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("ball", "spherical", child="c", parent="b")
    refuses(lambda: write_urdf(path, builder.finalize(), lossy=True), "joint 'ball'", "spherical")
    refuses(lambda: write_urdf(tmp_path / "a.xml", model), ".urdf")


@given(st.floats(-7, 7), st.floats(-7, 7), st.floats(-7, 7), st.sampled_from([0.0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-5]))
@settings(max_examples=100)
def test_angles_are_exact_near_a_pitch_of_a_right_angle_too(roll, pitch, yaw, off):
    for near in (pitch, np.pi / 2 - off, off - np.pi / 2):
        turn = Rotation.from_euler("xyz", (roll, near, yaw))
        again = Rotation.from_euler("xyz", roll_pitch_yaw(turn.as_quat()))
        assert_allclose(again.as_matrix(), turn.as_matrix(), rtol=0, atol=2e-15)
