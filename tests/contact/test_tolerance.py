"""Sweeps that end early: how many there are, what they leave, and the gradient of those that ran."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import sim
from tests.contact.test_gradients import BODY, arm_and_ball, box
from tests.errors import raises_naming
from tests.simulation.differences import case, check
from tests.simulation.worlds import DT, hopper, inputs


def sweeps_of(c) -> list[int]:
    """Sweeps of each step of a case."""
    simulator = c.simulator()
    state = simulator.state(c.q, c.qd)
    counts = []
    for tau in c.tau:
        state = simulator.step(state, tau)
        counts += simulator.solver_iterations.tolist()
    return counts


def test_zero_takes_all_sweeps():
    simulator = sim.Simulator(box(), DT, 2, "cpu", sim.PgsContact(sweeps=7))
    simulator.rollout(simulator.initial_state(), steps=3)
    assert simulator.solver_iterations.tolist() == [7, 7]


@pytest.mark.parametrize("warm_start", [False, True])
def test_each_world_ends_for_itself_as_if_it_had_been_told_so(warm_start):
    """A world that took n sweeps has the state that the option sweeps=n gives it; what they leave is small enough."""
    model = hopper()
    q, qd, tau = inputs(model, 30, 6)
    early = sim.PgsContact(tolerance=1e-4, warm_start=warm_start)
    simulator = sim.Simulator(model, DT, 6, "cpu", early)
    state = simulator.rollout(simulator.state(q, qd), tau).final_state
    after = simulator.step(state)
    counts = simulator.solver_iterations
    assert counts.max() < 50
    assert len(set(counts.tolist())) > 1
    assert (simulator.residual < 1e-4).all()
    for world, count in enumerate(counts.tolist()):
        options = sim.PgsContact(sweeps=count, warm_start=warm_start)
        told = sim.Simulator(model, DT, 6, "cpu", options)
        expected = told.step(state)
        np.testing.assert_array_equal(after.qd.numpy()[world], expected.qd.numpy()[world])
        if count > 1:
            less = sim.Simulator(model, DT, 6, "cpu", dataclasses.replace(options, sweeps=count - 1))
            less.step(state)
            assert less.residual[world] >= 1e-4


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("friction", ["cone", "pyramid"])
class TestGradients:
    """Of the sweeps that ran, away from where their number changes."""

    def test_sliding_box(self, friction, warm_start):
        options = sim.PgsContact(friction=friction, tolerance=1e-3, warm_start=warm_start)
        c = case(box(), 10, qd=[2.0, 0.7, 0.0, 0.0, 0.0, 0.4], contact=options)
        assert max(sweeps_of(c)) < 50
        check(c, BODY)

    def test_robot_ball_limits_and_dry_friction(self, friction, warm_start):
        c = arm_and_ball(friction)
        c = replace(c, contact=dataclasses.replace(c.contact, tolerance=1e-3, warm_start=warm_start))
        counts = sweeps_of(c)
        assert max(counts) < 50
        assert len(set(counts)) > 1
        check(c, ["mass", "friction", "friction_loss", "upper_limit", "lower_limit"])


def test_a_negative_tolerance_is_refused():
    with raises_naming("tolerance", -1):
        sim.HardContact(tolerance=-1.0)
