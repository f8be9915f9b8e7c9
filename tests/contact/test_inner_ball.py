"""The ball inside of a shape, which nothing passes however a hit sets the shape spinning."""

from typing import Any

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh
from tests.simulation.differences import METHODS, case, check
from warp_kernels.collision.touch.inner_ball import INNER_BALL

H = 1 / 240
# Seeds of orientations in which bodies are hit far from their centres.
TURNED_ASIDE = {"ellipsoid": 12, "cylinder": 18, "stone": 12}


def body_over_plate(kind: str, friction: float, dtype: str = "float32", height: float = 0.3) -> sim.Model:
    """A body of 1 to 3 cm over a plate of 2 mm."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(1.5, 1.5, 0.001), surface=sim.Surface(friction=1.0))
    placed: Any = {"mass": 0.1, "position": (0.0, 0.0, height), "surface": sim.Surface(friction=friction)}
    if kind == "sphere":
        builder.add_sphere(radius=0.02, **placed)
    elif kind == "capsule":
        builder.add_capsule(radius=0.01, half_length=0.02, **placed)
    elif kind == "cylinder":
        builder.add_cylinder(radius=0.01, half_length=0.02, **placed)
    elif kind == "coin":
        builder.add_cylinder(radius=0.02, half_length=0.001, **placed)
    elif kind == "box":
        builder.add_box(half_extents=(0.01, 0.02, 0.03), **placed)
    elif kind == "ellipsoid":
        builder.add_ellipsoid(semi_axes=(0.01, 0.02, 0.03), **placed)
    else:
        stone(builder, **placed)
    return builder.finalize(dtype)


def stone(builder: sim.ModelBuilder, mass: float, position: tuple[float, float, float], surface: sim.Surface) -> None:
    """The hull of thirty random points of an ellipsoid."""
    vertices = np.random.default_rng(5).normal(size=(30, 3))
    vertices *= np.array([0.01, 0.02, 0.03]) / np.linalg.norm(vertices, axis=1, keepdims=True)
    hull = trimesh.convex.convex_hull(vertices)
    hull.apply_translation(-hull.center_mass)
    hull.density = mass / hull.volume
    builder.add_link("stone", mass=mass, inertia=hull.moment_inertia)
    builder.add_joint("stone", "free", parent="world", child="stone", position=position)
    mesh = Mesh(hull.vertices, hull.faces)
    # The ball of a mesh that is stretched alike in all directions has a kink in its size.
    builder.add_geometry("stone", "convex", size=(0.98, 1.0, 1.02), mesh=mesh, surface=surface)


@pytest.mark.parametrize("oblique", [False, True])
@pytest.mark.parametrize("speed", [5.0, 20.0, 50.0, 100.0])
@pytest.mark.parametrize("kind", ["sphere", "capsule", "cylinder", "coin", "box", "ellipsoid", "stone"])
def test_nothing_passes_through_a_thin_plate(kind, speed, oblique):
    """Straight without friction, at 45 degrees with it; a hit may set the body spinning by a turn a step."""
    worlds, rng = 120, np.random.default_rng(0)
    model = body_over_plate(kind, 1.0 if oblique else 0.0)
    q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 6))
    q[:, 2] += rng.uniform(0.0, speed * H, worlds)
    q[:, 3:] = Rotation.random(worlds, rng=rng).as_quat()
    qd[:, 2] = -speed
    if oblique:
        q[:, 0] = -q[:, 2]
        qd[:, 0] = speed
    qd[:, 3:] = 10.0 * rng.normal(size=(worlds, 3))
    simulator = sim.Simulator(model, H, worlds, "cpu")
    trajectory = simulator.rollout(simulator.state(q, qd), steps=round(0.6 / (speed * H)) + 10)
    assert trajectory.q.numpy()[..., 2].min() > 0.0


def normal_forces(model: sim.Model, q: np.ndarray, qd: np.ndarray, solver: str) -> tuple[np.ndarray, np.ndarray]:
    """Normal forces of a body's contacts in one step [N]: those of inner balls, and the others."""
    simulator = sim.Simulator(model, H, device="cpu", contact=METHODS[solver]())
    contacts = simulator.contacts(simulator.state(q, qd))
    step = simulator.engine.shards[0].step
    slot = step.constraint_stage.constraints.item.numpy()[: len(contacts), 0]
    of_ball = step.contact_stage.slot_feature.numpy()[slot, 0] >= INNER_BALL
    force = (contacts.normal * contacts.force).sum(axis=1)
    return force[of_ball], force[~of_ball]


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("kind", TURNED_ASIDE)
@pytest.mark.parametrize("moment", ["touch", "spin"])
def test_gradients(kind, moment, solver):
    """Of a ball that the plate stops: in a step in which the body touches, and while it spins beside the plate."""
    height = 0.1 if moment == "touch" else 0.02
    model = body_over_plate(kind, 0.2, "float64", height)
    q = model.q0.copy()
    q[3:] = Rotation.random(rng=np.random.default_rng(TURNED_ASIDE[kind])).as_quat()
    qd = [3.0, 2.0, -40.0, 2.0, -1.0, 0.5] if moment == "touch" else [3.0, 2.0, -8.0, 150.0, 100.0, 60.0]
    of_ball, others = normal_forces(model, q, np.array(qd), solver)
    assert of_ball.max() > 0.05 * others.max() > 0.0
    c = case(model, 1, q=q, qd=qd, contact=METHODS[solver](), dt=H)
    check(c, ["mass", "com", "inertia", "friction", "geometry_size", "geometry_placement"])


def test_a_slow_body_has_no_such_contact():
    model = body_over_plate("box", 0.5, height=0.011)
    of_ball, others = normal_forces(model, model.q0, np.array([1.0, 0.5, -1.0, 2.0, -3.0, 5.0]), "newton")
    assert len(of_ball) == 0
    assert others.max() > 0.0


BULLETS = {
    "stick": ("box", {"half_extents": (0.01, 0.01, 0.05)}),
    "cylinder": ("cylinder", {"radius": 0.01, "half_length": 0.04}),
    "disc": ("cylinder", {"radius": 0.04, "half_length": 0.01}),
    "ellipsoid": ("ellipsoid", {"semi_axes": (0.01, 0.02, 0.05)}),
}


def shots(kind: str, restitution: float) -> tuple[sim.Simulator, np.ndarray, np.ndarray]:
    """Bodies that meet a plate across x in the first step of 1/60 s, turned anyhow, at 50 m/s."""
    worlds, rng = 60, np.random.default_rng(3)
    surface = sim.Surface(friction=0.5, restitution=restitution)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(0.001, 20.0, 20.0), surface=surface)
    shape, size = BULLETS[kind]
    getattr(builder, f"add_{shape}")(**size, mass=0.01, surface=surface)
    velocity = 50.0 * np.column_stack([np.ones(worlds), 0.2 * rng.normal(size=(worlds, 2))])
    start = np.column_stack([-rng.uniform(0.1, 0.6, worlds), rng.uniform(-0.2, 0.2, (worlds, 2))])
    q = np.column_stack([start, Rotation.random(worlds, random_state=3).as_quat()])
    simulator = sim.Simulator(builder.finalize("float64"), 1 / 60, worlds, "cpu", threads=1)
    return simulator, q, np.column_stack([velocity, np.zeros((worlds, 3))])


@pytest.mark.parametrize("restitution", [0.5, 0.9])
@pytest.mark.parametrize("kind", BULLETS)
def test_nothing_that_bounces_passes(kind, restitution):
    """Positions go along the old velocity until the bounce, and have the rest of the step for the new one alone."""
    simulator, q, qd = shots(kind, restitution)
    assert (simulator.rollout(simulator.state(q, qd), steps=6).q.numpy()[..., 0] < 0.0).all()


@pytest.mark.parametrize("kind", BULLETS)
def test_gradients_of_a_bounce_after_which_the_ball_is_held(kind):
    simulator, q, qd = shots(kind, 0.5)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=q.shape), 0.01 * rng.normal(size=qd.shape)

    def value(velocity: np.ndarray) -> np.ndarray:
        end = simulator.rollout(simulator.state(q, velocity), steps=1)
        return (weights[0] * end.q.numpy()[-1]).sum(axis=1) + (weights[1] * end.qd.numpy()[-1]).sum(axis=1)

    trajectory = simulator.rollout(simulator.state(q, qd), steps=1)
    found = np.asarray(trajectory.backward(q_grad=weights[0], qd_grad=weights[1]).qd)
    stages = [shard.step.contact_stage for shard in simulator.engine.shards]
    held = np.concatenate([stage.contact_restitution.numpy().min(axis=0) < 0.0 for stage in stages])
    assert held.sum() > 20
    differences = np.zeros_like(qd)
    for k in range(6):
        step = np.zeros_like(qd)
        step[:, k] = 1e-5
        differences[:, k] = (value(qd + step) - value(qd - step)) / 2e-5
    error = np.abs(found - differences).max(axis=1) / np.abs(differences).max(axis=1)
    assert np.median(error) < 2e-5
    assert error.max() < 3e-4
