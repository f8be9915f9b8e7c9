"""Contacts ahead of their touch: nothing that isn't hit leaves a trace, what is hit is hit where it touches."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from tests.simulation.differences import METHODS, case, check, contact_times

G = 9.81
H = 1 / 240
SOLVERS = pytest.mark.parametrize("solver", ["newton", "pgs"])


def tiles(friction: float, dtype: str) -> sim.Model:
    """A box on a row of tiles with flush tops, the first of which it stands on."""
    builder = sim.ModelBuilder()
    for number in range(10):
        position = (float(number), 0.0, -0.1)
        builder.add_geometry(
            "world", "box", size=(0.5, 0.5, 0.1), position=position, surface=sim.Surface(friction=friction)
        )
    builder.add_box(half_extents=(0.1, 0.1, 0.05), mass=1.0, position=(0.0, 0.0, 0.05))
    return builder.finalize(dtype)


def slide(model: sim.Model, speed: float, seconds: float, solver: str) -> tuple[np.ndarray, np.ndarray]:
    simulator = sim.Simulator(model, H, device="cpu", contact=METHODS[solver]())
    state = simulator.state(model.q0, [speed, 0.0, 0.0, 0.0, 0.0, 0.0])
    trajectory = simulator.rollout(state, steps=round(seconds / H))
    return trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]


@SOLVERS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("speed", [1.0, 2.0, 8.0])
def test_flush_seams_leave_no_trace(speed, dtype, solver):
    q, qd = slide(tiles(0.0, dtype), speed, 1.0, solver)
    assert q[-1, 0] > 0.99 * speed  # over one seam, two, or eight
    assert qd[-1, 0] > 0.999 * speed
    assert np.abs(q[:, 2] - 0.05).max() < 1e-4


@SOLVERS
def test_friction_stops_a_box_on_tiles_where_it_does_on_a_floor(solver):
    q, qd = slide(tiles(0.3, "float32"), 2.0, 1.0, solver)
    assert np.abs(qd[-1]).max() < 1e-3
    np.testing.assert_allclose(q[-1, 0], 2.0**2 / (2 * 0.3 * G), rtol=0.01)


def passes_edge(clearance: float, start: float) -> sim.Model:
    """A ball that is to pass over the edge of a box."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(0.2, 0.5, 0.2))
    builder.add_sphere(radius=0.02, mass=1.0, position=(start - 0.2, 0.0, 0.22 + clearance))
    return builder.finalize("float32")


def passes_ball(clearance: float, start: float) -> sim.Model:
    """A ball that is to pass over another."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_sphere(radius=0.02, mass=1.0, position=(start, 0.0, 0.04 + clearance))
    builder.add_sphere(radius=0.02, mass=1.0)
    return builder.finalize("float32")


def passes_corner(clearance: float, start: float) -> sim.Model:
    """A box that turns as it flies is to pass over the corner of another."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_geometry("world", "box", size=(0.2, 0.5, 0.2))
    turned = Rotation.from_rotvec([0.3, 0.2, 0.1]).as_quat()
    reach = np.linalg.norm([0.02, 0.03, 0.02])
    position = (start - 0.2, 0.0, 0.2 + reach + clearance)
    builder.add_box(half_extents=(0.02, 0.03, 0.02), mass=1.0, position=position, orientation=turned)
    return builder.finalize("float32")


@pytest.mark.parametrize("build", [passes_edge, passes_ball, passes_corner])
@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1e-2])
@pytest.mark.parametrize("speed", [2.0, 20.0])
def test_near_misses_leave_no_trace(speed, dt, build):
    """Wherever in its step the ball is when it comes near."""
    for clearance in (0.002, 0.06):
        for phase in (0.0, 0.25, 0.5, 0.75):
            model = build(clearance, (phase - 0.5) * speed * dt - 0.05 * speed)
            simulator = sim.Simulator(model, dt, device="cpu")
            qd = np.zeros(model.nv)
            qd[0] = speed
            final = simulator.rollout(simulator.state(model.q0, qd), steps=round(0.2 / dt)).final_state
            np.testing.assert_allclose(final.qd.numpy()[0], qd, atol=1e-3 * speed)


def hits(kind: str) -> tuple[sim.Model, list[float]]:
    """A fast body that within a step hits what it doesn't face at its beginning: the normal is that of the touch."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, -1.0))
    if kind == "ball on edge":
        builder.add_geometry("world", "box", size=(0.2, 0.5, 0.2), surface=sim.Surface(friction=0.3))
        builder.add_sphere(radius=0.05, mass=0.4, position=(-0.3, 0.01, 0.21), surface=sim.Surface(friction=0.2))
    elif kind == "ball on ball":
        builder.add_sphere(radius=0.05, mass=0.4, position=(-0.12, 0.01, 0.03), surface=sim.Surface(friction=0.4))
        builder.add_sphere(radius=0.04, mass=0.2, surface=sim.Surface(friction=0.1))
    else:
        builder.add_geometry("world", "box", size=(0.2, 0.5, 0.2), surface=sim.Surface(friction=0.3))
        turned = Rotation.from_rotvec([0.3, 0.5, 0.1]).as_quat()
        builder.add_box(
            half_extents=(0.04, 0.03, 0.02),
            mass=0.4,
            position=(-0.3, 0.01, 0.21),
            orientation=turned,
            surface=sim.Surface(friction=0.8),
        )
    model = builder.finalize("float64")
    qd = [12.0, 2.5, -0.5, 0.5, -0.8, 0.3]
    return model, qd + [0.0] * (model.nv - 6)


@SOLVERS
@pytest.mark.parametrize("kind", ["ball on edge", "ball on ball", "box on edge"])
def test_gradients_of_a_hit_within_a_step(kind, solver):
    model, qd = hits(kind)
    c = case(model, 3, qd=qd, contact=METHODS[solver](), dt=0.01)
    times = contact_times(c)
    assert ((times > 0.0) & (times < 1.0)).any()
    check(c, ["mass", "com", "inertia", "friction", "geometry_size", "geometry_placement", "gravity"])


@SOLVERS
def test_gradients_of_a_slight_overlap(solver):
    """Two ellipsoids that close, and overlap by less than what counts: they touch now, not at a time before."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_ellipsoid(semi_axes=(0.1, 0.06, 0.08), mass=1.0, name="a", orientation=(0.1, 0.2, 0.3, 0.9))
    builder.add_ellipsoid(
        semi_axes=(0.05, 0.12, 0.07), mass=0.5, name="b", position=(0.0, 0.02, 0.3), orientation=(-0.3, 0.2, 0.1, 0.9)
    )
    model = builder.finalize("float64")
    q = model.q0.copy()
    for _ in range(20):
        found = sim.geometry_distances(model, q[None], [("a/geometry", "b/geometry")])
        q[9] -= (found.distance.numpy()[0, 0] + 1e-5) / found.normal.numpy()[0, 0, 2]
    qd = [0.0, 0.0, 0.5, 3.0, -2.0, 4.0, 0.2, 0.1, -0.7, -5.0, 4.0, 2.0]
    simulator = sim.Simulator(model, 0.005, contact=METHODS[solver]())
    report = sim.check_gradients(simulator, simulator.state(q, qd), None, ["q", "qd", "geometry_size"], steps=1)
    assert max(entry.error for entry in report.entries) < 3e-7, str(report)
