"""Threads are as many as the cores that the process may use, which may be fewer than the machine has."""

import os

import pytest

import sim
from sim.cores import usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system doesn't restrict processes")
def test_a_simulator_has_a_thread_for_each_usable_core():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    model, allowed = builder.finalize(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        assert usable_cores() == [max(allowed)]
        assert sim.Simulator(model, 0.01, num_worlds=8, device="cpu").threads == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_where_processes_are_not_restricted_all_cores_are_usable(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usable_cores() == [0, 1, 2]
