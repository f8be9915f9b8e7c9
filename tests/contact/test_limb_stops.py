"""Limbs of robots are not carried through thin static triangle meshes, however fast they are thrown or swung."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.contact.test_stops import HALF, plate
from tests.simulation.differences import METHODS, case, check

H = 1 / 60
LIMBS: dict[str, dict[str, Any]] = {
    "sphere": {"type": "sphere", "size": (0.015, 0.0, 0.0)},
    "capsule": {"type": "capsule", "size": (0.01, 0.04, 0.0)},
    "box": {"type": "box", "size": (0.01, 0.012, 0.045)},
    "cylinder": {"type": "cylinder", "size": (0.012, 0.04, 0.0)},
}


def chain(
    base: str, joint: str, limb: str, thickness: float = 0.002, points: int = 2, damping: float = 1e-3, dtype="float64"
) -> sim.Model:
    """A base with three limbs one behind the other, in front of the plate; base: the type of its joint."""
    surface = sim.Surface(friction=0.3)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    mesh = plate(thickness, points)
    builder.add_static_mesh(mesh.vertices, mesh.faces, surface=surface)
    builder.add_link("base", mass=0.5, inertia=(2e-3, 3e-3, 2.5e-3), com=(0.0, 0.01, -0.02))
    builder.add_joint("base", base, parent="world", child="base", position=(-0.2, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    builder.add_geometry("base", "box", size=(0.02, 0.03, 0.02), position=(0.0, 0.0, -0.03), surface=surface)
    for number, axis in enumerate(((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))):
        name, parent = f"limb_{number}", f"limb_{number - 1}" if number else "base"
        builder.add_link(name, mass=0.2, inertia=(3e-4, 3.2e-4, 1e-4), com=(0.0, 0.002, -0.06))
        turning = {"axis": axis} if joint == "revolute" else {}
        placed = {"position": (0.0, 0.0, -0.12 if number else -0.06), "spring": sim.Spring(damping=damping)}
        builder.add_joint(name, joint, parent=parent, child=name, **turning, **placed)
        builder.add_geometry(name, position=(0.001, 0.0, -0.06), surface=surface, **LIMBS[limb])
    return builder.finalize(dtype)


def throws(model: sim.Model, speed: float, worlds: int, seed: int, spin: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    """States in front of the plate: thrown at it, or with a base that turns towards it."""
    rng = np.random.default_rng(seed)
    q, qd = np.tile(model.q0, (worlds, 1)), spin * rng.normal(size=(worlds, model.nv))
    joints = 7 if model.nq > model.nv else 1
    if joints == 7:
        q[:, 0] = -0.5 - rng.uniform(0.0, speed * H, worlds)
        q[:, 3:7] = Rotation.random(worlds, rng=rng).as_quat()
        qd[:, :3] = speed * np.column_stack([np.ones(worlds), 0.2 * rng.normal(size=(worlds, 2))])
    else:
        q[:, 0] = rng.uniform(0.5, 2.0, worlds)
        qd[:, 0] = -speed / 0.4
    if model.nq - joints == 12:
        q[:, joints:] = Rotation.random(3 * worlds, rng=rng).as_quat().reshape(worlds, 12)
    else:
        q[:, joints:] = rng.uniform(-0.5, 0.5, (worlds, model.nq - joints))
    return q, qd


def furthest(model: sim.Model, trajectory: sim.Trajectory) -> float:
    """The largest x of a geometry's centre that is over the plate, in worlds that start in front and stay finite."""
    q = trajectory.q.numpy()
    q = q[:, np.isfinite(q).all(axis=(0, 2)) & (np.abs(trajectory.qd.numpy()) < 1e3).all(axis=(0, 2))]
    pose = sim.forward_kinematics(model, q.reshape(-1, model.nq)).numpy().reshape(-1, model.num_links, 7)
    largest = []
    for geometry in model.geometries[1:]:
        turned = Rotation.from_quat(pose[:, geometry.link, 3:]).apply(geometry.placement[:3])
        centre = pose[:, geometry.link, :3] + turned
        over = (np.abs(centre[:, 1:]) < HALF - 0.1).all(axis=1)
        largest.append(np.where(over, centre[:, 0], -np.inf).reshape(q.shape[:2]))
    x = np.max(largest, axis=0)
    starts_in_front = x[0] < -0.02
    assert starts_in_front.sum() > 10
    return float(x[:, starts_in_front].max())


def rollout(model: sim.Model, q: np.ndarray, qd: np.ndarray, steps: int, **options: Any) -> tuple[Any, Any]:
    simulator = sim.Simulator(model, H, len(q), "cpu", threads=1, **options)
    return simulator, simulator.rollout(simulator.state(q, qd), steps=steps)


@pytest.mark.filterwarnings("ignore::sim.NotFiniteWarning")
@pytest.mark.parametrize(("base", "joint", "limb"), [("free", "revolute", "capsule"), ("revolute", "revolute", "box")])
def test_no_limb_passes_through_a_thin_mesh(base, joint, limb):
    model = chain(base, joint, limb)
    _, trajectory = rollout(model, *throws(model, 50.0, 60, seed=1), steps=12)
    assert furthest(model, trajectory) < 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sim.NotFiniteWarning")
@pytest.mark.parametrize(("limb", "solver"), [*((limb, "newton") for limb in LIMBS), ("box", "pgs")])
def test_no_limb_passes_whatever_its_speed(limb, solver):
    rng = np.random.default_rng(11)
    for base in ("free", "revolute"):
        for joint in ("revolute", "spherical"):
            given = {"thickness": rng.choice([0.0005, 0.002, 0.01]), "points": rng.choice([2, 41])}
            speed, dtype = rng.choice([20.0, 50.0]), rng.choice(["float32", "float64"])
            model = chain(base, joint, limb, damping=0.02, dtype=dtype, **given)
            q, qd = throws(model, speed, 60, int(rng.integers(1000)))
            _, trajectory = rollout(model, q, qd, steps=round(5 * 50 / speed), contact=METHODS[solver]())
            assert furthest(model, trajectory) < 0.0, (base, joint, speed, dtype, given)


def shares(simulator: sim.Simulator) -> np.ndarray:
    """The share of the last step for which the tree moved, by world."""
    return np.concatenate([shard.step.stops.tree_share.numpy()[0] for shard in simulator.engine.shards])


def slowed(simulator: sim.Simulator) -> np.ndarray:
    """Worlds in which a stop slowed the tree in the last step, for part of it."""
    share = shares(simulator)
    return np.flatnonzero((share < 1.0) & (share > 0.0))


@pytest.mark.parametrize(("base", "joint"), [("free", "revolute"), ("free", "spherical"), ("revolute", "revolute")])
def test_a_stop_slows_the_whole_tree(base, joint):
    """Velocities have one factor for the whole tree, and the limb that determines it stays in front."""
    model = chain(base, joint, "capsule")
    simulator, trajectory = rollout(model, *throws(model, 50.0, 200, seed=3), steps=1)
    worlds = slowed(simulator)
    assert len(worlds) > 3
    solved = np.concatenate([shard.step.joint_damping.qd_solved.numpy() for shard in simulator.engine.shards])
    # The velocity of a free base's origin follows its centre of mass.
    turning = slice(3 if base == "free" else 0, None)
    after, expected = trajectory.qd.numpy()[-1], shares(simulator)[:, None] * solved
    np.testing.assert_allclose(after[:, turning], expected[:, turning], rtol=1e-12)
    assert furthest(model, trajectory) < 0.0


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize(("base", "joint"), [("free", "revolute"), ("free", "spherical"), ("revolute", "revolute")])
def test_gradients_in_parameters(base, joint, solver):
    """Of a step that a limb's stop shortens, in states and parameters, beside differences."""
    model = chain(base, joint, "capsule")
    q, qd = throws(model, 50.0, 60, seed=3)
    simulator, _ = rollout(model, q, qd, steps=1, contact=METHODS[solver]())
    world = slowed(simulator)[0]
    c = case(model, 1, q=q[world], qd=qd[world], contact=METHODS[solver](), dt=H)
    names = ["mass", "com", "inertia", "geometry_size", "geometry_placement", "joint_placement"]
    check(c, [*names, "friction"] if base == "free" else names, bound=2e-5)


def test_slow_trees_are_not_slowed():
    model = chain("revolute", "revolute", "box")
    q, qd = throws(model, 0.5, 20, seed=0, spin=0.1)
    simulator, _ = rollout(model, q, qd, steps=1)
    assert (shares(simulator) == 1.0).all()
