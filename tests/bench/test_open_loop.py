"""Torques that lift a pendulum are found, and listed."""

import torch

import sim
from bench import open_loop
from sim.envs import make_task


def test_two_links_are_lifted():
    row = open_loop.search(2, 1)
    assert row.best >= 0.999 * 2.0
    assert 0.0 < row.miss < 0.1
    assert row.miss_with_quarter_steps > 10.0 * row.miss


def test_distance_is_that_of_the_environment():
    """The return of an episode with the same actions is n² / 2 - 2 d²."""
    env = sim.envs.make("Pendulum-2", 3, device="cpu", substeps=2)
    control = torch.rand(100, 3, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    env.reset()
    total = sum(env.step(action)[1] for action in control)
    task = make_task("Pendulum-2", substeps=2)
    simulator = sim.Simulator(task.model(), task.dt, 3, "cpu")
    distance = open_loop.final_distance(task, simulator, control)
    torch.testing.assert_close(total, 2.0 - 2.0 * distance**2, rtol=1e-4, atol=1e-4)


def test_rows_are_listed():
    row = {"links": 3, "substeps": 8, "best": 4.4986, "iterations": 62, "seconds": 1.66, "miss": 0.026}
    text = open_loop.section({"rows": [{**row, "miss_with_quarter_steps": 0.177}]})
    assert text.endswith("| 3 | 8 | 0.9997 | 62 | 1.7 | 0.026 | 0.177 |")
