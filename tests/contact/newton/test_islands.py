"""Worlds of many bodies, which Newton's method solves island by island."""

import numpy as np
import pytest

import sim
from scenes import crowd
from sim.simulation.stepping.solvers import newton
from sim.simulation.stepping.solvers.newton import Newton
from warp_kernels.solver.newton.parts import FACTORED

DT = 1.0 / 240.0


def layer(count: int, dtype: str = "float64") -> crowd.Crowd:
    """Balls on the ground that nearly touch, in a square."""
    return crowd.loose("ball", count, dtype, spacing=2.0 * crowd.SIZE + 1e-5, height=1e-4)


def pushed(scene: crowd.Crowd) -> tuple[np.ndarray, np.ndarray]:
    """The balls roll in random directions, and the first one fast."""
    qd = 0.02 * np.random.default_rng(3).normal(size=scene.model.nv)
    qd[:2] = 0.6
    return scene.q0, qd


def motion(scene: crowd.Crowd, device: str, steps: int = 6) -> tuple[sim.Trajectory, sim.Simulator]:
    simulator = sim.Simulator(scene.model, DT, 1, device)
    return simulator.rollout(simulator.state(*pushed(scene)), steps=steps), simulator


@pytest.mark.parametrize("count", [12, 49])
def test_islands_move_as_in_one_world(monkeypatch, count, device):
    """Motion and gradient are those of a world that is solved as a whole, to the tolerance of the solver."""
    scene = layer(count)
    trajectory, simulator = motion(scene, device)
    islands = simulator.engine.shards[0].step.solver.islands.island.numpy()[:, 0]
    assert len(np.unique(islands)) > 3
    monkeypatch.setattr("sim.simulation.stepping.stages.stages.choose_solver", lambda step: Newton)
    expected, _ = motion(scene, device)
    np.testing.assert_allclose(trajectory.qd.numpy(), expected.qd.numpy(), atol=1e-9)
    assert np.abs(np.diff(expected.qd.numpy()[:, 0], axis=0)).max() > 0.1
    seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
    found, known = (each.backward(seed, parameters=["friction"]) for each in (trajectory, expected))
    scale = np.abs(known.qd.numpy()).max()
    np.testing.assert_allclose(found.qd.numpy(), known.qd.numpy(), atol=1e-6 * scale)
    np.testing.assert_allclose(found.parameters["friction"], known.parameters["friction"], rtol=1e-5, atol=1e-9)


def test_a_push_through_a_row_joins_islands(monkeypatch, device):
    """The first of twelve balls in a row runs into the others, farther than rounds go one by one."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number in range(12):
        position = (0.1 * number + (1e-6 * number if number else -1e-4), 0.0, 0.0)
        builder.add_sphere(
            radius=0.05, mass=0.2, position=position, name=f"ball{number}", surface=sim.Surface(friction=0.5)
        )
    model = builder.finalize("float64")
    qd = np.zeros(model.nv)
    qd[0] = 3.0

    def step() -> tuple[np.ndarray, np.ndarray]:
        simulator = sim.Simulator(model, DT, 1, device)
        state = simulator.step(simulator.state(model.q0, qd))
        return state.qd.numpy()[0].reshape(-1, 6)[:, 0], simulator.residual

    speeds, residual = step()
    assert (speeds > 0.0).all()
    assert residual[0] < 1e-9
    np.testing.assert_allclose(speeds.sum(), 3.0, rtol=1e-9)  # the momentum stays
    monkeypatch.setattr("sim.simulation.stepping.stages.stages.choose_solver", lambda step: Newton)
    np.testing.assert_allclose(speeds, step()[0], atol=1e-8)


def test_bodies_without_constraints_are_free(device):
    """Of twelve balls one falls, and begins with the velocity that would stop it."""
    scene = layer(12)
    q = scene.q0.copy()
    q[9] += 5.0
    simulator = sim.Simulator(scene.model, DT, 1, device)
    state = simulator.step(simulator.state(q, np.zeros(scene.model.nv)))
    np.testing.assert_allclose(state.qd.numpy()[0, 6:9], [0.0, 0.0, -9.81 * DT], atol=1e-12)


def test_single_contacts_move_as_in_one_world(monkeypatch, device):
    """Balls apart from each other: at rest, sliding, rolling, thrown down and up, and spinning."""
    scene = crowd.loose("ball", 12, "float64", spacing=3.0 * crowd.SIZE, height=1e-5)
    qd = np.zeros((12, 6))
    qd[1, 0], qd[2, 1], qd[3, :3] = 0.01, 1.5, (1.0, 0.5, -8.0)
    qd[4, 0], qd[4, 4] = 1.0, 1.0 / crowd.SIZE
    qd[5, 2], qd[6, 2], qd[7, 3:] = -2.0, 1.0, (3.0, -40.0, 20.0)
    qd[8:] = np.random.default_rng(2).uniform(-0.8, 0.8, size=(4, 6))

    def moved() -> tuple[np.ndarray, np.ndarray, sim.Simulator]:
        simulator = sim.Simulator(scene.model, DT, 1, device)
        trajectory = simulator.rollout(simulator.state(scene.q0, qd.reshape(-1)), steps=5)
        seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
        return trajectory.qd.numpy(), trajectory.backward(seed).qd.numpy(), simulator

    found, gradient, simulator = moved()
    assert len(np.unique(simulator.engine.shards[0].step.solver.islands.island.numpy()[:, 0])) == 12
    assert simulator.residual[0] < 1e-12
    monkeypatch.setattr("sim.simulation.stepping.stages.stages.choose_solver", lambda step: Newton)
    expected, known, _ = moved()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(gradient, known, atol=1e-7 * np.abs(known).max())


def test_a_ball_at_rest_is_held_by_its_weight(device):
    """In float32 too: the last digit of its height is some 1 % of what holds it, as the regularisation has it."""
    scene = crowd.loose("ball", 12, "float32", spacing=3.0 * crowd.SIZE, height=0.0)
    simulator = sim.Simulator(scene.model, DT, 1, device)
    simulator.rollout(simulator.initial_state(), steps=100)
    impulse = simulator.engine.shards[0].step.constraint_stage.impulse.numpy()[:12, 0]
    np.testing.assert_allclose(impulse[:, 0], crowd.MASS * 9.81 * DT, rtol=1e-5)


def one_step(scene: crowd.Crowd, device: str) -> tuple[np.ndarray, np.ndarray, sim.Simulator]:
    """After a step in which one ball falls: velocities, derivatives of a mix of them in those before, the simulator."""
    q = scene.q0.copy()
    q[9] += 5.0
    simulator = sim.Simulator(scene.model, DT, 1, device)
    qd = 0.001 * np.random.default_rng(3).normal(size=scene.model.nv)
    trajectory = simulator.rollout(simulator.state(q, qd), steps=1)
    seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
    return trajectory.final_state.qd.numpy(), trajectory.backward(seed).qd.numpy(), simulator


def test_factors_of_islands_serve_the_way_back(monkeypatch, device):
    """Those of all islands stand side by side, of a falling ball and of two that touch too. The gradient is right."""
    scene = layer(12)
    _, found, simulator = one_step(scene, device)
    step = simulator.engine.shards[0].step
    assert step.solver.iterate.part.numpy()[FACTORED, 0] == 1
    assert len(np.unique(step.solver.islands.island.numpy()[:, 0])) == 11
    assert simulator.adjoint_residual[0] < 1e-9
    monkeypatch.setattr("sim.simulation.stepping.stages.stages.choose_solver", lambda step: Newton)
    _, expected, _ = one_step(scene, device)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_islands_without_room_beside_each_other_take_turns(monkeypatch, device):
    """Each is solved; of factors nothing is left."""
    scene = layer(12)
    known, _, _ = one_step(scene, device)
    monkeypatch.setattr(newton, "ENTRIES", 80)
    monkeypatch.setattr(newton, "ENTRIES_PER_CONSTRAINT", 0)
    found, _, simulator = one_step(scene, device)
    np.testing.assert_array_equal(found, known)
    assert simulator.engine.shards[0].step.solver.iterate.part.numpy()[FACTORED, 0] == 0


def test_the_system_of_many_takes_memory_in_proportion():
    """Of a few thousand bodies a triangle over all of them would take gigabytes."""
    few, many = (layer(count).model for count in (20, 60))
    assert newton.system_room(few, 100, True) == few.nv * (few.nv + 1) // 2
    assert newton.system_room(many, 100, False) == many.nv * (many.nv + 1) // 2
    large = crowd.loose("ball", 600).model
    rooms = [newton.system_room(large, constraints, True) for constraints in (20_000, 24_000)]
    assert rooms == [256 * 20_000, 256 * 24_000]
    assert rooms[1] < large.nv * (large.nv + 1) // 2


def test_a_system_without_room_is_swept_and_has_no_gradient(monkeypatch, device):
    """Sweeps alone come near the solution. A gradient would be wrong: it isn't a number, its residual infinite."""
    scene = crowd.loose("ball", 12, "float64", spacing=0.099, layers=3)
    known, _ = motion(scene, device, 1)
    monkeypatch.setattr(newton, "ENTRIES", 80)
    monkeypatch.setattr(newton, "ENTRIES_PER_CONSTRAINT", 0)
    found, simulator = motion(scene, device, 1)
    np.testing.assert_allclose(found.qd.numpy(), known.qd.numpy(), atol=0.01)
    gradient = found.backward(np.ones(found.q.shape))
    assert np.isnan(gradient.qd.numpy()).all()
    assert simulator.adjoint_residual[0] == np.inf
