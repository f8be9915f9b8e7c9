"""Centres of free bodies are not carried through thin static triangle meshes, however a hit sets them spinning."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.model.geometries import Mesh
from tests.simulation.differences import METHODS, case, check

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "stick": ("box", {"half_extents": (0.01, 0.01, 0.05)}),
    "box": ("box", {"half_extents": (0.01, 0.02, 0.03)}),
    "cylinder": ("cylinder", {"radius": 0.01, "half_length": 0.04}),
    "disc": ("cylinder", {"radius": 0.04, "half_length": 0.01}),
    "capsule": ("capsule", {"radius": 0.01, "half_length": 0.04}),
    "ellipsoid": ("ellipsoid", {"semi_axes": (0.01, 0.02, 0.05)}),
}
HALF = 5.0
FINE = 41


def plate(thickness: float, points: int = 2) -> Mesh:
    """A thin plate across x with open sides; points: along each side of both faces."""
    y, z = np.meshgrid(np.linspace(-HALF, HALF, points), np.linspace(-HALF, HALF, points), indexing="ij")
    corner = (points * np.arange(points - 1)[:, None] + np.arange(points - 1)).ravel()
    lower, upper = (corner, corner + points + 1, corner + points), (corner, corner + 1, corner + points + 1)
    back = np.concatenate([np.stack(lower, 1), np.stack(upper, 1)])[:, ::-1]
    sides = [np.stack([np.full(y.size, x), y.ravel(), z.ravel()], axis=1) for x in (-thickness, 0.0)]
    return Mesh(np.concatenate(sides), np.concatenate([back[:, ::-1], back + y.size]))


def shots(
    kind: str,
    seed: int = 0,
    worlds: int = 40,
    thickness: float = 0.002,
    points: int = 2,
    speed: float = 50.0,
    spin: float = 0.0,
    restitution: float = 0.0,
    friction: float = 0.5,
    offset: float = 0.0,
    solver: str = "newton",
    dtype: str = "float64",
) -> tuple[sim.Simulator, np.ndarray, np.ndarray]:
    """Bodies that meet the plate in the first step of 1/60 s. offset: of the centre of mass of a cylinder [m]."""
    rng = np.random.default_rng(seed)
    surface = sim.Surface(friction=friction, restitution=restitution)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    mesh = plate(thickness, points)
    builder.add_static_mesh(mesh.vertices, mesh.faces, surface=surface)
    shape, size = BODIES[kind]
    if offset:
        builder.add_link("body", mass=0.01, inertia=(4e-6, 5e-6, 8e-6), com=(offset, -offset, 0.0))
        builder.add_joint("body", "free", parent="world", child="body")
        builder.add_geometry("body", shape, size=(*size.values(), 0.0), surface=surface)
    else:
        getattr(builder, f"add_{shape}")(**size, mass=0.01, surface=surface)
    velocity = speed * np.column_stack([np.ones(worlds), 0.2 * rng.normal(size=(worlds, 2))])
    start = np.column_stack([-0.07 - rng.uniform(0.0, speed / 60.0, worlds), rng.uniform(-0.2, 0.2, (worlds, 2))])
    q = np.column_stack([start, Rotation.random(worlds, rng=rng).as_quat()])
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, 1 / 60, worlds, "cpu", threads=1, contact=METHODS[solver]())
    return simulator, q, np.column_stack([velocity, spin * rng.normal(size=(worlds, 3))])


def furthest(simulator: sim.Simulator, q: np.ndarray, qd: np.ndarray, steps: int = 12) -> float:
    """The largest x of a centre of mass that is over the plate."""
    found = simulator.rollout(simulator.state(q, qd), steps=steps).q.numpy()
    assert np.isfinite(found).all()
    over = (np.abs(found[..., 1:3]) < HALF - 0.1).all(axis=2)
    assert over[: steps // 2].mean() > 0.9
    return float(found[over, 0].max())


@pytest.mark.parametrize("restitution", [0.0, 0.5])
@pytest.mark.parametrize("kind", BODIES)
def test_nothing_passes_through_a_thin_mesh(kind, restitution):
    assert furthest(*shots(kind, restitution=restitution)) < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("kind", BODIES)
def test_nothing_passes_whatever_its_speed(kind, solver, dtype):
    rng = np.random.default_rng(7)
    for speed in (5.0, 20.0, 50.0, 100.0):
        for spin in (0.0, 20.0, 300.0):
            given = {
                "thickness": rng.choice([0.0002, 0.0005, 0.002, 0.01]),
                "points": rng.choice([2, FINE]),
                "restitution": rng.choice([0.0, 0.3, 0.9]),
                "friction": rng.choice([0.0, 0.5, 1.0]),
            }
            found = furthest(
                *shots(kind, rng.integers(1000), 100, speed=speed, spin=spin, solver=solver, dtype=dtype, **given)
            )
            assert found < 0.0, (speed, spin, given)


def stopped(simulator: sim.Simulator) -> np.ndarray:
    """Which worlds had a stop in the last step."""
    return np.concatenate([(shard.step.stops.stop_pair.numpy() >= 0).any(axis=0) for shard in simulator.engine.shards])


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("restitution", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["disc", "ellipsoid"])
def test_gradients_of_stops(kind, restitution, solver):
    """In the velocities, in many worlds of which some touch a second triangle."""
    simulator, q, qd = shots(kind, restitution=restitution, solver=solver, spin=5.0, worlds=200)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=q.shape), 0.01 * rng.normal(size=qd.shape)

    def value(velocity: np.ndarray) -> np.ndarray:
        end = simulator.rollout(simulator.state(q, velocity), steps=1)
        return (weights[0] * end.q.numpy()[-1]).sum(axis=1) + (weights[1] * end.qd.numpy()[-1]).sum(axis=1)

    trajectory = simulator.rollout(simulator.state(q, qd), steps=1)
    found = np.asarray(trajectory.backward(q_grad=weights[0], qd_grad=weights[1]).qd)
    held = stopped(simulator)
    assert held.sum() > 5
    differences = np.zeros_like(qd)
    for k in range(6):
        step = np.zeros_like(qd)
        step[:, k] = 1e-5
        differences[:, k] = (value(qd + step) - value(qd - step)) / 2e-5
    error = np.abs(found - differences).max(axis=1) / np.abs(differences).max(axis=1)
    assert np.median(error[held]) < 1e-5
    assert error[held].max() < 1e-4


@pytest.mark.parametrize("solver", ["newton", "pgs"])
def test_gradients_in_parameters(solver):
    """Of a stop, with the shape beside the centre of mass; places and sizes of both sides included."""
    simulator, q, qd = shots("disc", spin=5.0, offset=0.003, solver=solver, friction=0.3)
    simulator.rollout(simulator.state(q, qd), steps=1)
    world = np.flatnonzero(stopped(simulator))[0]
    c = case(simulator.model, 1, q=q[world], qd=qd[world], contact=METHODS[solver](), dt=1 / 60)
    names = ["mass", "com", "inertia", "friction", "geometry_size", "geometry_placement"]
    check(c, names, bound=2e-5 if solver == "newton" else 2e-6)


def test_a_stop_in_the_matrices_of_a_step():
    simulator, q, qd = shots("disc", spin=5.0)
    simulator.rollout(simulator.state(q, qd), steps=1)
    world = np.flatnonzero(stopped(simulator))[0]
    single = sim.Simulator(simulator.model, 1 / 60, 1, "cpu")
    state = single.state(q[world], qd[world])
    found = single.linearise(state).B_tau
    step, nv = 1e-4, single.model.nv
    for k in range(nv):
        ends = []
        for sign in (1.0, -1.0):
            tau = np.zeros(nv)
            tau[k] = sign * step
            ends.append(single.step(state, tau).qd.numpy()[0])
        expected = (ends[0] - ends[1]) / (2.0 * step)
        np.testing.assert_allclose(found[0, nv:, k], expected, atol=1e-3 * np.abs(found[0, nv:]).max())


@pytest.mark.parametrize("kind", BODIES)
def test_what_a_wall_is_through_leaves_on_the_side_of_its_centre(kind):
    """Bodies at rest with their centres 3 mm in front of the plate."""
    simulator, q, _ = shots(kind, worlds=60)
    q[:, 0] = -0.005
    end = simulator.rollout(simulator.state(q), steps=120).final_state.q.numpy()
    assert (end[:, 0] < -0.002).all()
    assert (end[:, 0] < -0.0095).mean() > 0.9


@pytest.mark.parametrize("kind", ["disc", "ellipsoid", "cylinder", "stick"])
def test_what_spins_with_a_wall_through_it_leaves(kind):
    """Bodies whose ends are further through the plate than their balls reach; random orientations and spins."""
    simulator, q, qd = shots(kind, worlds=60, speed=1e-9, spin=30.0)
    q[:, 0] = np.random.default_rng(1).uniform(-0.035, -0.015, len(q))
    end = simulator.rollout(simulator.state(q, qd), steps=400).final_state.q.numpy()
    axes = Rotation.from_quat(end[:, 3:]).as_matrix()[:, 0]
    size = [*BODIES[kind][1].values()]
    if kind == "ellipsoid":
        extent = np.linalg.norm(axes * size[0], axis=1)
    elif kind == "stick":
        extent = np.abs(axes) @ size[0]
    else:
        extent = np.linalg.norm(axes[:, :2], axis=1) * size[0] + np.abs(axes[:, 2]) * size[1]
    assert (end[:, 0] + extent).max() < 1e-3


def test_only_free_bodies_and_meshes_have_stops():
    def stops_of(contact: sim.ContactMethod, mesh: bool) -> object:
        builder = sim.ModelBuilder()
        if mesh:
            builder.add_static_mesh(plate(0.002).vertices, plate(0.002).faces)
        builder.add_sphere(radius=0.1, mass=1.0)
        return sim.Simulator(builder.finalize(), 1 / 60, 1, "cpu", contact=contact).engine.shards[0].step.stops

    assert stops_of(sim.HardContact(), True) is not None
    assert stops_of(sim.HardContact(), False) is None
    assert stops_of(sim.MujocoContact(), True) is None
