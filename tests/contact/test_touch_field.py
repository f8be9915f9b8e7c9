"""Heightfields ahead of their touch: what passes them leaves no trace, what hits them does so where it touches."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.collision.harness import hull_mesh, pebble
from tests.simulation.differences import METHODS, case, check, contact_times

G = 9.81
TOP, SPACING = 0.3, 0.05
BODIES = ["sphere", "capsule", "cylinder", "ellipsoid", "box", "convex"]
SIZES = {
    "sphere": {"radius": 0.02},
    "capsule": {"radius": 0.02, "half_length": 0.04},
    "cylinder": {"radius": 0.02, "half_length": 0.04},
    "ellipsoid": {"semi_axes": (0.02, 0.032, 0.02)},
    "box": {"half_extents": (0.04, 0.04, 0.02)},
}
PEBBLE = (0.04, 0.03, 0.02) * pebble().vertices


def add_body(builder: sim.ModelBuilder, kind: str, **options: object) -> None:
    if kind != "convex":
        getattr(builder, f"add_{kind}")(mass=0.4, **SIZES[kind], **options)
        return
    builder.add_link("hull", mass=0.4, inertia=(2e-4, 2e-4, 2e-4))
    builder.add_joint("hull_free", "free", child="hull")
    builder.add_geometry("hull", "convex", size=(1.0, 1.0, 1.0), mesh=hull_mesh(PEBBLE), **options)


def lowest(kind: str, turn: Rotation) -> float:
    """How far a body reaches below its origin."""
    down = turn.inv().apply((0.0, 0.0, -1.0))
    size = SIZES.get(kind, {})
    if kind == "convex":
        return float((PEBBLE @ down).max())
    if kind == "box":
        return float(np.abs(down) @ size["half_extents"])
    if kind == "ellipsoid":
        return float(np.linalg.norm(down * size["semi_axes"]))
    across = np.hypot(down[0], down[1]) if kind == "cylinder" else 1.0
    return float(size["radius"] * across + size.get("half_length", 0.0) * abs(down[2]))


def terrain(kind: str) -> np.ndarray:
    """Heights up to ``TOP``: a step upwards, one downwards, a ridge or a peak in the middle."""
    x = SPACING * (np.arange(41) - 20)
    across, along = np.meshgrid(x, x)
    near = SPACING / 2
    shape = {"step": across > near, "drop": across < -near, "ridge": abs(across) < near}
    return TOP * shape.get(kind, (abs(across) < near) & (abs(along) < near)).astype(float)


def check_near_misses(builder: sim.ModelBuilder, kind: str, dt: float, edge: tuple[float, float, float]) -> None:
    """Let bodies of all orientations pass 2 mm above an edge; their velocity stays."""
    worlds, rng = 8, np.random.default_rng(1)
    add_body(builder, kind)
    model = builder.finalize("float32")
    simulator = sim.Simulator(model, dt, worlds, "cpu")
    for speed in (2.0, 20.0):
        for yaw in (0.0, 0.5):
            direction = np.array([np.cos(yaw), np.sin(yaw), 0.0])
            q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 6))
            for world in range(worlds):
                turn = Rotation.random(rng=rng)
                start = -0.4 + world / worlds * speed * dt
                q[world] = *(start * direction + edge + (0.0, 0.0, 0.002 + lowest(kind, turn))), *turn.as_quat()
            qd[:, :3] = speed * direction
            final = simulator.rollout(simulator.state(q, qd), steps=round(0.8 / (speed * dt))).final_state
            np.testing.assert_allclose(final.qd.numpy(), qd, atol=1e-3 * speed)


@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1e-2])
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("shape", ["step", "drop", "ridge", "peak"])
def test_near_misses_leave_no_trace(shape, kind, dt):
    """Bodies of all orientations pass 2 mm above the middle, wherever in their step they are when they come near."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_heightfield(terrain(shape), spacing=SPACING)
    check_near_misses(builder, kind, dt, (0.0, 0.0, TOP))


@pytest.mark.parametrize("yaw", [0.0, np.pi / 4.0])
@pytest.mark.parametrize(("friction", "speed"), [(0.0, 1.0), (0.0, 2.0), (0.0, 8.0), (0.3, 1.0), (0.3, 2.0)])
def test_a_box_slides_on_a_flat_field_as_on_a_floor(friction, speed, yaw):
    """Without friction it keeps its speed and doesn't lift, with friction it stops where it should."""
    builder = sim.ModelBuilder()
    builder.add_heightfield(np.zeros((101, 101)), spacing=0.1)
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=1.0, surface=sim.Surface(friction=friction))
    model = builder.finalize("float32")
    simulator = sim.Simulator(model, 1 / 240, device="cpu")
    direction = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    start = (0.013, 0.027, 0.05) - 0.5 * speed * direction
    q0, qd0 = [*start, *Rotation.from_rotvec([0.0, 0.0, yaw]).as_quat()], [*(speed * direction), 0.0, 0.0, 0.0]
    trajectory = simulator.rollout(simulator.state(q0, qd0), steps=240)
    q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
    assert np.abs(q[:, 2] - 0.05).max() < 1e-4
    if friction:
        np.testing.assert_allclose((q[-1, :3] - start) @ direction, speed**2 / (2 * friction * G), rtol=0.015)
    else:
        assert qd[-1, :3] @ direction > 0.999 * speed


@pytest.mark.parametrize("restitution", [0.0, 0.8])
@pytest.mark.parametrize("ground", ["plane", "box", "field"])
def test_a_frictionless_ball_gets_no_spin_from_an_oblique_hit(ground, restitution):
    """The lever of a hit is that of its moment, however far the ball goes in a step."""
    worlds, speed, dt = 16, 20.0, 1 / 240
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    if ground == "plane":
        builder.add_ground(surface=sim.Surface(restitution=1.0))
    elif ground == "box":
        builder.add_geometry(
            "world", "box", size=(3.0, 3.0, 0.1), position=(0.0, 0.0, -0.1), surface=sim.Surface(restitution=1.0)
        )
    else:
        builder.add_heightfield(np.zeros((41, 41)), spacing=0.1)
    builder.add_sphere(radius=0.05, mass=1.0, surface=sim.Surface(friction=0.0, restitution=restitution))
    model = builder.finalize("float64")
    q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 6))
    direction = np.array([np.cos(0.5), 0.0, -np.sin(0.5)])
    q[:, :3] = (0.0, 0.0, 0.05) - np.outer(0.5 + np.arange(worlds) / worlds * speed * dt, direction)
    qd[:, :3] = speed * direction
    simulator = sim.Simulator(model, dt, worlds, "cpu")
    final = simulator.rollout(simulator.state(q, qd), steps=round(0.8 / (speed * dt))).final_state.qd.numpy()
    np.testing.assert_allclose(final[:, [0, 1]], qd[:, [0, 1]], atol=1e-9)
    np.testing.assert_allclose(final[:, 3:], 0.0, atol=1e-9)
    np.testing.assert_allclose(final[:, 2], -restitution * qd[:, 2], atol=0.01)


def test_frictionless_balls_get_no_spin_from_each_other():
    """Equal balls that meet off centre swap what is along the line between their centres, as in the textbook."""
    radius, speed, dt, worlds = 0.03, 10.0, 1 / 240, 16
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for _ in range(2):
        builder.add_sphere(radius=radius, mass=0.2, surface=sim.Surface(friction=0.0, restitution=1.0))
    model = builder.finalize("float64")
    offset = 0.6 * 2.0 * radius
    q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 12))
    q[:, 0] = -0.3 - np.arange(worlds) / worlds * speed * dt
    q[:, 1] = offset
    qd[:, 0] = speed
    simulator = sim.Simulator(model, dt, worlds, "cpu")
    final = simulator.rollout(simulator.state(q, qd), steps=16).final_state.qd.numpy()
    line = np.array([0.8, -0.6, 0.0])
    swapped = (qd[:, :3] @ line)[:, None] * line
    np.testing.assert_allclose(final[:, 6:9], swapped, atol=1e-6)
    np.testing.assert_allclose(final[:, :3], qd[:, :3] - swapped, atol=1e-6)
    np.testing.assert_allclose(final[:, [3, 4, 5, 9, 10, 11]], 0.0, atol=1e-6)


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("speed", [5.0, 20.0])
def test_nothing_that_is_thrown_at_flat_ground_gets_below(kind, speed):
    """Spinning bodies, steeply and at 20 degrees: centres stay above, unless they turn far in the step of the hit."""
    worlds, rng, dt = 40, np.random.default_rng(2), 1 / 240
    builder = sim.ModelBuilder()
    builder.add_heightfield(np.zeros((61, 61)), spacing=SPACING)
    add_body(builder, kind, surface=sim.Surface(friction=0.5))
    model = builder.finalize("float32")
    q, qd = np.tile(model.q0, (worlds, 1)), np.zeros((worlds, 6))
    angle = np.where(np.arange(worlds) % 2 == 0, 0.35, 1.4)
    direction = np.stack([np.cos(angle), 0.0 * angle, -np.sin(angle)], axis=1)
    q[:, :3] = -(0.2 / np.sin(angle) + rng.uniform(0.0, speed * dt, worlds))[:, None] * direction
    q[:, 3:] = Rotation.random(worlds, rng=rng).as_quat()
    qd[:, :3], qd[:, 3:] = speed * direction, 10.0 * rng.normal(size=(worlds, 3))
    simulator = sim.Simulator(model, dt, worlds, "cpu")
    motion = simulator.rollout(simulator.state(q, qd), steps=round(0.9 / (speed * dt)) + 10).q.numpy()
    assert motion[..., 2].min() > (0.0 if speed < 10.0 else -0.002)


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("hit", [True, False])
@pytest.mark.parametrize("kind", BODIES)
def test_gradients_of_hits_and_misses_within_a_step(kind, hit, solver):
    """Through the time at which a ridge is touched; over one that isn't, contacts are those of the step's end."""
    # No two triangles in a plane: each change of a height would make a new edge.
    heights = 0.1 * (np.arange(7) == 3) + np.random.default_rng(3).uniform(-0.004, 0.0, (3, 7))
    # Where it doesn't hit, gravity presses it down on the ridge.
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -1.0 if hit else -800.0))
    builder.add_heightfield(heights, spacing=(SPACING, 0.1), surface=sim.Surface(friction=0.6))
    add_body(builder, kind, surface=sim.Surface(friction=0.5))
    model = builder.finalize("float64")
    turn = Rotation.from_rotvec([0.3, 0.5, 0.1])
    height = 0.06 if hit else 0.107 + lowest(kind, turn)
    q, qd = np.array([-0.12 if hit else -0.11, 0.013, height, *turn.as_quat()]), [12.0, 0.7, -0.5, 0.5, -0.8, 0.3]
    c = case(model, 2, q, qd, contact=METHODS[solver](), dt=0.01)
    times = contact_times(c)
    assert len(times)
    assert ((times > 0.0) & (times < 1.0)).all() if hit else (times == 1.0).all(), times
    names = ["mass", "com", "inertia", "geometry_size", "geometry_placement", "gravity", "height"]
    # Pressed down by 800 m/s2, rounding leaves some 1e-6 in the usual differences.
    check(c, [*names, "friction"] if hit else names, most=30, width=2.0 if hit else 4.0)
