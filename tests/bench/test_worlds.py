"""The scenes of bench.worlds are the same in both engines."""

import mujoco
import numpy as np
import pytest
import warp as wp

import sim
from bench import speed_page, worlds
from bench.timing import machine


@pytest.mark.slow
def test_ants_move_alike():
    """Both engines take the same steps, so that their times are those of the same work."""
    case = worlds.from_file("Ant", worlds.ASSETS / "ant.xml", "euler")
    states, warm = case.states()
    nq, count = case.peer.nq, 4
    inputs = case.inputs(worlds.STEPS, count, seed=1)
    found, _ = worlds.Rollout(nthread=0).rollout(
        case.peer, mujoco.MjData(case.peer), states[:count], inputs.transpose(1, 0, 2), initial_warmstart=warm[:count]
    )
    simulator = sim.Simulator(case.model, num_worlds=count, device="cpu", threads=1, **case.settings)
    start = simulator.state(*sim.from_mujoco(case.model, states[:count, 1 : 1 + nq], states[:count, 1 + nq :]))
    control = wp.array(inputs, dtype=case.model.scalar, device="cpu")
    own = simulator.rollout(start, control=control, steps=worlds.STEPS).q.numpy()[-1]
    there, _ = sim.from_mujoco(case.model, found[:, -1, 1 : 1 + nq], found[:, -1, 1 + nq :])
    assert np.abs(own - there).max() < 1e-3  # float32 and float64 over twenty steps
    (row,) = worlds.measure(case, [2], 1)
    assert row["forward_us"] < row["gradient_us"]


def test_table_of_worlds():
    """A line for each row, and the ratios that the text explains."""
    row = {
        "case": "Ant", "worlds": 1024, "contacts": 1.0, "forward_us": 2.0, "gradient_us": 7.0, "mujoco_us": 8.0,
        "mujoco_fast_us": 6.0, "mujoco_pgs_us": 9.0, "pgs_us": 5.0,
    }  # fmt: skip
    record = {"machine": machine(), "rows": [row, {**row, "worlds": 1}]}
    text = speed_page.worlds(record)
    assert "| Ant | 1024 | 1.0 | 2.0 | 7.0 | 8.0 | 6.0 | 4.0 | 0.9 |" in text
    assert text.count("| Ant | 5.0 | 9.0 |") == 2
    assert speed_page.worlds_in_short(record).count("| Ant ") == 1
