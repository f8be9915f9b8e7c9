"""Newton's method in a heap, whose sweeps begin with the impulses of the step before."""

import functools

import numpy as np
import pytest
import warp as wp
from scipy.spatial.transform import Rotation

import sim
from tests.contact.test_gradients import box

H, BOXES, STEPS = 1.0 / 240.0, 24, 160  # until the heap presses on itself in many places
WARM, COLD = sim.HardContact(warm_start=True), sim.HardContact()


@functools.cache
def heap() -> sim.Model:
    """Boxes in four layers, each turned by itself."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.6))
    turns = Rotation.from_rotvec(2.0 * np.random.default_rng(0).normal(size=(BOXES, 3))).as_quat()
    for number, turn in enumerate(turns):
        position = (0.16 * (number % 3), 0.16 * (number // 3 % 2), 0.1 + 0.16 * (number // 6))
        builder.add_box(
            half_extents=(0.05, 0.05, 0.05),
            mass=0.5,
            position=position,
            orientation=turn,
            surface=sim.Surface(friction=0.6),
        )
    return builder.finalize("float64")


@pytest.fixture(scope="module")
def settled() -> sim.State:
    """A heap that has fallen and still moves, with the impulses of its last step."""
    simulator = sim.Simulator(heap(), H, 1, "cpu", WARM, threads=1)
    return simulator.rollout(simulator.initial_state(), steps=STEPS).final_state


def test_the_solution_does_not_depend_on_it(settled):
    """Forty steps of the heap; each begins where the one before has led, warm and cold."""
    warm, cold = (sim.Simulator(heap(), H, 1, "cpu", contact, threads=1) for contact in (WARM, COLD))
    state, systems = settled, {"warm": 0, "cold": 0}
    for _ in range(40):
        begun = state
        state = warm.step(begun)
        other = cold.step(sim.State(begun.q, begun.qd))
        assert warm.residual[0] < 1e-9
        assert cold.residual[0] < 1e-9
        np.testing.assert_allclose(state.qd.numpy(), other.qd.numpy(), rtol=0, atol=1e-8)
        systems["warm"] += int(warm.solver_iterations[0])
        systems["cold"] += int(cold.solver_iterations[0])
    assert int(warm.engine.shards[0].step.constraint_stage.constraints.count.numpy()[0]) > 64, (
        "fewer begin without sweeps"
    )
    # Cold steps recall impulses that are about as near. A rounding, such as of another order of threads, changes the
    # numbers by a hundredth.
    assert systems["warm"] < 1.05 * systems["cold"]


def test_sweeps_begin_with_the_impulses_of_the_state(settled):
    """A contact is known again wherever it stands in the list; one that is new begins without an impulse."""
    simulator = sim.Simulator(heap(), H, 1, "cpu", WARM, threads=1)
    simulator.step(settled)
    step = simulator.engine.shards[0].step
    count = int(step.constraint_stage.constraints.count.numpy()[0])
    source, start = step.warm_start.start_source.numpy()[:count, 0], step.warm_start.start.numpy()[:count, 0]
    before = settled.impulses.value.numpy()[0]
    assert (source >= 0).mean() > 0.8
    np.testing.assert_array_equal(start, np.where((source >= 0)[:, None], before[source], 0.0))


def test_each_stored_state_leads_to_the_next_one_bit_for_bit(settled):
    simulator = sim.Simulator(heap(), H, 1, "cpu", WARM, threads=1)
    trajectory = simulator.rollout(settled, steps=12)
    expected, impulses = trajectory.qd.numpy().copy(), trajectory.impulses.value.numpy().copy()
    for number in reversed(range(12)):
        state = simulator.step(trajectory.state(number))
        np.testing.assert_array_equal(state.qd.numpy(), expected[number + 1])
        np.testing.assert_array_equal(state.impulses.value.numpy(), impulses[number + 1])


def check_gradient(simulator: sim.Simulator, start: sim.State, steps: int) -> None:
    """Of velocities and impulses after some steps in directions of qd, against central differences.

    Nothing flows to the first impulses: the solution doesn't depend on them.
    """
    rng = np.random.default_rng(5)
    trajectory = simulator.rollout(start, steps=steps)
    weights = rng.normal(size=trajectory.qd.numpy().shape[1:])
    pushes = rng.normal(size=trajectory.impulses.value.numpy().shape[1:])
    found = trajectory.backward(None, weights, impulse_grad=pushes)
    assert not found.impulses.numpy().any()
    assert np.abs(trajectory.impulses.value.numpy()[-1]).max() > 1e-3

    def loss(qd: np.ndarray) -> float:
        moved = sim.State(start.q, wp.array(qd, dtype=wp.float64, device="cpu"), start.impulses)
        end = simulator.rollout(moved, steps=steps)
        np.testing.assert_array_equal(end.impulses.key.numpy()[-1], trajectory.impulses.key.numpy()[-1])
        return float((end.qd.numpy()[-1] * weights).sum() + (end.impulses.value.numpy()[-1] * pushes).sum())

    qd, size = start.qd.numpy(), 1e-7
    for _ in range(4):
        direction = rng.normal(size=qd.shape)
        difference = (loss(qd + size * direction) - loss(qd - size * direction)) / (2.0 * size)
        np.testing.assert_allclose((found.qd.numpy() * direction).sum(), difference, rtol=1e-4)


def test_gradients_in_a_heap(settled):
    check_gradient(sim.Simulator(heap(), H, 1, "cpu", WARM, threads=1), settled, 3)


def test_gradients_of_a_sliding_box():
    """A small world, which is solved beside others and begins without the impulses."""
    simulator = sim.Simulator(box(), H, 1, "cpu", WARM)
    start = simulator.rollout(simulator.state(box().q0, [2.0, 0.7, 0.0, 0.0, 0.0, 0.4]), steps=3).final_state
    check_gradient(simulator, start, 3)


def test_worlds_of_all_shards():
    """Each of four worlds goes on with its own impulses, bit for bit as if it were alone."""
    model, rng = heap(), np.random.default_rng(1)
    qd = 0.3 * rng.normal(size=(4, model.nv))
    many = sim.Simulator(model, H, 4, "cpu", WARM, threads=2)
    found = many.rollout(many.state(model.q0, qd), steps=60)
    for world in range(4):
        alone = sim.Simulator(model, H, 1, "cpu", WARM, threads=1)
        expected = alone.rollout(alone.state(model.q0, qd[world]), steps=60)
        for one, other in ((found.qd, expected.qd), (found.impulses.value, expected.impulses.value)):
            np.testing.assert_array_equal(one.numpy()[:, world], other.numpy()[:, 0])
