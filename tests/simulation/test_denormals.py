"""Numbers below the normal ones, which take a processor a hundred times as long."""

import numpy as np

import sim

TINY = 1e-39


def floating(dtype: str) -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_sphere(radius=0.05, mass=0.2)
    return builder.finalize(dtype)


def test_steps_take_them_as_zero_and_leave_the_thread_as_it_was():
    """In float32 a body that is all but at rest stops; afterwards the thread has such numbers again."""
    small = np.full(1, 1e-20, dtype=np.float32)
    assert (small * small)[0] > 0.0
    simulator = sim.Simulator(floating("float32"), 1 / 240, 1, "cpu", threads=1)
    state = simulator.state(np.array([0, 0, 0, 0, 0, 0, 1.0]), np.full(6, TINY))
    assert (state.qd.numpy() > 0.0).all()
    trajectory = simulator.rollout(state, steps=2)
    assert (trajectory.qd.numpy()[-1] == 0.0).all()
    assert (small * small)[0] > 0.0
    trajectory.backward(np.full(trajectory.q.shape, TINY))
    assert (small * small)[0] > 0.0


def test_in_float64_they_are_far_below():
    simulator = sim.Simulator(floating("float64"), 1 / 240, 1, "cpu", threads=1)
    state = simulator.step(simulator.state(np.array([0, 0, 0, 0, 0, 0, 1.0]), np.full(6, TINY)))
    np.testing.assert_allclose(state.qd.numpy()[0], np.full(6, TINY), rtol=1e-12)
