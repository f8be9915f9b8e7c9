"""Long use: memory, open files and threads of a process don't grow with single steps or with simulators."""

import gc
import os
import threading

import numpy as np
import pytest

import sim

PAGE = os.sysconf("SC_PAGE_SIZE")
# Memory that the allocator keeps [bytes]; a leak of 1 kB a step or of 20 kB a simulator takes more in the long tests.
SLACK = 30e6


def boxes() -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground()
    for k in range(2):
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, 0.1 + 0.2 * k))
    return builder.finalize("float64")


def used() -> np.ndarray:
    """Return memory [bytes], open files and threads of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * PAGE
    return np.array([resident, len(os.listdir("/proc/self/fd")), threading.active_count()])


def grown(function, before: int, times: int) -> np.ndarray:
    """Return how much a process has grown by calls of a function, after some first calls."""
    for _ in range(before):
        function()
    start = used()
    for _ in range(times):
        function()
    return used() - start


@pytest.mark.parametrize("steps", [300, pytest.param(50_000, marks=pytest.mark.slow)])
def test_single_steps(steps):
    simulator = sim.Simulator(boxes(), 0.005, device="cpu", threads=1)
    state = simulator.initial_state()

    def step() -> None:
        nonlocal state
        state = simulator.step(state)

    memory, files, threads = grown(step, 100, steps)
    assert memory < SLACK
    assert (files, threads) == (0, 0)
    assert np.isfinite(state.q.numpy()).all()


@pytest.mark.parametrize("count", [10, pytest.param(2000, marks=pytest.mark.slow)])
def test_simulators(count):
    model = boxes()

    def simulate() -> None:
        simulator = sim.Simulator(model, 0.005, num_worlds=2, device="cpu", threads=2)
        trajectory = simulator.rollout(simulator.initial_state(), steps=2)
        trajectory.backward(np.ones((2, model.nq)))

    memory, files, threads = grown(simulate, 10, count)
    assert memory < SLACK
    assert (files, threads) == (0, 0)
