"""What a rollout keeps: its states and its controls, and nothing else that grows with the number of steps."""

import numpy as np
import pytest

import sim
from bench.memory import bytes_per_step
from bench.standing import standing
from sim.simulation.engine import memory
from tests.simulation.worlds import DT, hopper, rollout


@pytest.mark.slow
def test_growth_of_the_peak_per_step():
    """5,000 steps of the quadruped on its feet, forward and back: nq + nv + nu scalars and three low words per step and
    world.

    The gradient of the controls is as large as the controls and belongs to the user: the peak over both passes has
    it, too.
    """
    kept, peak = bytes_per_step(5000, device="cpu", dtype="float32", worlds=16)
    state_and_control = 4 * (19 + 3 + 18 + 18)
    # The measured growth of the process is whole pages, and the interpreter's own small change.
    assert kept < 1.02 * state_and_control
    assert peak < 1.02 * (state_and_control + 4 * 18)
    assert kept > 0.9 * (state_and_control - 4 * 18)


def test_the_way_back_of_newtons_method_takes_an_eighth_of_the_history_of_sweeps():
    """Of the quadruped on its feet: 12 kB in place of 98, per world in float32."""

    def backward(contact: sim.ContactMethod) -> int:
        case = standing(2, device="cpu", dtype="float32", cores=1, contact=contact)
        (shard,) = case.simulator.engine.shards
        trajectory = case.simulator.rollout(case.state, steps=1)
        before = memory.bytes_of(shard.step)
        trajectory.backward(np.ones((2, case.simulator.model.nq)))
        return memory.bytes_of(shard.step) - before

    assert 0 < 7 * backward(sim.HardContact()) < backward(sim.PgsContact())


def test_only_states_are_new():
    """A trajectory holds the arrays of its states, a copy of the forces, and a number or two for each world."""
    simulator = sim.Simulator(hopper("float32"), DT, 3, "cpu")
    for interval, states in ((1, 51), (7, 9)):
        state = simulator.initial_state()
        tau = np.zeros((50, 3, simulator.model.nv))
        trajectory = simulator.rollout(state, tau, checkpoint_interval=interval)
        trajectory.backward(np.ones((3, simulator.model.nq)))
        held = {name for name, value in vars(trajectory).items() if not isinstance(value, int | None)}
        assert held == {"simulator", "parameters", "_rows", "_fingerprint"}
        recorded = {name for name, rows in trajectory._rows.items() if rows is not None}
        assert recorded == {"q", "q_low", "qd", "tau", "bad_state"}
        assert trajectory.bad_state.size == 3
        assert trajectory._fingerprint.size == 3
        assert trajectory.q.capacity == states * 3 * simulator.model.nq * 4
        assert trajectory.qd.capacity == states * 3 * simulator.model.nv * 4


def test_working_arrays_do_not_grow_with_steps():
    simulator = sim.Simulator(hopper("float32"), DT, 3, "cpu")

    def working_bytes() -> int:
        (shard,) = simulator.engine.shards
        arrays: dict[int, int] = {}
        seen: set[int] = set()

        def visit(thing: object) -> None:
            if id(thing) in seen:
                return
            seen.add(id(thing))
            if hasattr(thing, "capacity") and hasattr(thing, "ptr"):
                arrays[int(thing.ptr or 0)] = int(thing.capacity)
            elif isinstance(thing, dict):
                [visit(value) for value in thing.values()]
            elif isinstance(thing, (list, tuple)):
                [visit(value) for value in thing]
            elif type(thing).__module__.startswith("sim."):
                visit(vars(thing))

        visit(shard)
        return sum(arrays.values())

    rollout(simulator, 2).backward(np.ones((3, simulator.model.nq)))
    before = working_bytes()
    assert before > 10_000
    rollout(simulator, 500).backward(np.ones((3, simulator.model.nq)))
    assert working_bytes() == before
