"""The table of the stack, made small."""

import pytest

import sim
from bench import stack
from scenes.physics import piles


def test_rows_of_two_boxes():
    """They stand with the default options; MuJoCo's contacts, which are soft, sag."""
    newton = stack.own(sim.HardContact(), boxes=2, seconds=0.2)
    assert newton.solver == "Newton"
    assert newton.at_end < 1e-5  # 4e-6: the sag of the regularisation
    own = stack.own(sim.PgsContact(), boxes=2, seconds=0.2)
    assert own.solver == "50 sweeps, cold"
    assert own.at_end < 1e-5  # 1e-6: what the sweeps leave
    peer = stack.peer(piles.stack(2, 0.2), "PGS", 50, warm_start=False)
    assert 1e-4 < peer.at_end < 2e-3
    lines = stack.table([own, peer, stack.Row("MuJoCo", "none", 0.01, 1.0)]).splitlines()
    assert len(lines) == 5
    assert lines[4] == "| MuJoCo | none | 10 | fallen |"
    assert float(lines[3].split("|")[4]) == pytest.approx(1e3 * peer.at_end, rel=0.1)
