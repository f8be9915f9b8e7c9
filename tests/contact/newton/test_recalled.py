"""Impulses of the previous step, which the solver recalls from the state."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes import crowd
from sim.simulation.stepping.solvers.newton import Newton

DT = 1.0 / 240.0


def heap(count: int, dtype: str, worlds: int) -> tuple[sim.Model, np.ndarray, np.ndarray]:
    """Boxes that begin to fall on each other, otherwise in each world."""
    scene = crowd.loose("box", count, dtype, spacing=0.14, height=-0.001, layers=2)
    rng = np.random.default_rng(count)
    q = np.repeat(scene.q0.reshape(1, count, 7), worlds, axis=0)
    q[..., 3:] = Rotation.from_rotvec(0.3 * rng.normal(size=(worlds * count, 3))).as_quat().reshape(worlds, count, 4)
    return scene.model, q.reshape(worlds, -1), 0.05 * rng.normal(size=(worlds, scene.model.nv))


def forget(monkeypatch: Any) -> None:
    """Let steps begin without the impulses of the step before them."""
    gather = Newton.gather

    def without(solver: Newton) -> None:
        gather(solver)
        solver.problem.bias_change = solver._step.worlds_last(0)

    monkeypatch.setattr(Newton, "gather", without)


def box_at(height: float, speed: float, device: str, dtype: str = "float64", away: float = 0.0) -> Any:
    """Return the stage of constraints of a box without gravity, after a step; away: its distance from the origin."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(away, 0.0, 0.1 + height))
    model = builder.finalize(dtype)
    simulator = sim.Simulator(model, DT, 1, device)
    qd = np.zeros(6)
    qd[2] = speed
    simulator.step(simulator.state(model.q0, qd))
    return simulator.engine.shards[0].step.constraint_stage


@pytest.mark.parametrize(("height", "speed"), [(-1e-3, 0.03), (-1e-3, -0.05), (2e-4, -0.02), (1e-4, 0.1), (-0.02, 0.1)])
def test_change_of_the_bias(height, speed, device):
    """It is the bias now minus the one a step ago, when the box had covered its way since."""
    now = box_at(height, speed, device)
    before = box_at(height - DT * speed, 0.0, device)
    count = int(now.constraints.count.numpy()[0])
    assert count == int(before.constraints.count.numpy()[0]) == 4
    bias = now.row_value_before.numpy()[:4, 0, 0] - speed
    change = bias - before.row_value_before.numpy()[:4, 0, 0]
    assert height == -0.02 or np.abs(change).min() > 1e-3
    np.testing.assert_allclose(now.row_bias_change.numpy()[:4, 0], change, atol=1e-12)


@pytest.mark.parametrize(("away", "speed"), [(2.0, 4e-5), (100.0, 2e-3)])
def test_a_distance_below_the_rounding_of_positions_is_none(away, speed, device):
    """The largest coordinate of the box counts, which is the one along the ground."""
    still = box_at(-1e-3, speed, device, "float32", away)
    assert (still.row_bias_change.numpy()[:4] == 0.0).all()
    moving = box_at(-1e-3, 10.0 * speed, device, "float32", away)
    assert (moving.row_bias_change.numpy()[:4] > 0.0).all()


def test_balls_that_touch_at_rest_are_apart(device):
    """No impulse is recalled between balls side by side, so that each is solved alone."""
    scene = crowd.loose("ball", 49, spacing=2.0 * crowd.SIZE, height=0.001)
    simulator = sim.Simulator(scene.model, DT, 1, device)
    state = simulator.rollout(simulator.initial_state(), steps=200).final_state
    stage = simulator.engine.shards[0].step.constraint_stage
    for _ in range(20):
        state = simulator.step(state)
        count = int(stage.constraints.count.numpy()[0])
        between = (stage.constraints.tail.numpy()[: 2 * count, 0].reshape(count, 2) >= 0).all(axis=1)
        recalled = stage.row_value_before.numpy()[:count, 0, 0] - stage.row_bias_change.numpy()[:count, 0]
        assert between.sum() > 49
        assert (recalled[between] >= 0.0).all()
        assert (recalled[~between] < 0.0).all()


@pytest.mark.parametrize(("count", "worlds"), [(6, 1), (6, 16), (12, 1)])
def test_motion_is_that_without_them(monkeypatch, count, worlds, device):
    """World by world, by lane groups and by islands; gradients too."""
    model, q, qd = heap(count, "float64", worlds)
    seed = np.random.default_rng(0).normal(size=(6, worlds, model.nq))
    found = []
    for recalls in (True, False):
        if not recalls:
            forget(monkeypatch)
        simulator = sim.Simulator(model, DT, worlds, device)
        trajectory = simulator.rollout(simulator.state(q, qd), steps=5)
        assert simulator.residual.max() < 1e-8
        found.append((trajectory.qd.numpy(), trajectory.backward(seed, parameters=["friction"])))
    (motion, gradient), (expected, known) = found
    assert np.abs(np.diff(expected, axis=0)).max() > 0.1
    np.testing.assert_allclose(motion, expected, atol=1e-8)
    scale = np.abs(known.qd.numpy()).max()
    np.testing.assert_allclose(gradient.qd.numpy(), known.qd.numpy(), atol=1e-6 * scale)
    np.testing.assert_allclose(gradient.parameters["friction"], known.parameters["friction"], rtol=1e-5, atol=1e-7)


def systems(worlds: int, device: str) -> float:
    """Return the mean number of linear systems of a step of ten boxes that sink into each other and come apart."""
    scene = crowd.loose("box", 10, "float32", spacing=2.0 * crowd.SIZE - 2e-4, height=-1e-3, layers=2)
    simulator = sim.Simulator(scene.model, DT, worlds, device)
    q = np.tile(scene.q0.reshape(1, 10, 7), (worlds, 1, 1))
    q[..., 2] += 2e-4 * np.random.default_rng(5).normal(size=q.shape[:2])
    state = simulator.state(q.reshape(worlds, -1))
    counts = []
    for _ in range(40):
        state = simulator.step(state)
        counts.append(float(np.mean(simulator.solver_iterations)))
    return float(np.mean(counts))


@pytest.mark.parametrize("worlds", [1, 16])
def test_a_heap_settles_in_few_systems(monkeypatch, worlds, device):
    recalled = systems(worlds, device)
    forget(monkeypatch)
    forgotten = systems(worlds, device)
    assert recalled < 0.75 * forgotten, (recalled, forgotten)
