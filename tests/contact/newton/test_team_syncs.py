"""Every ``sync`` of the team solver is needed: the checks of a rehearsal report each one that is left out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import sim
import warp_kernels.solver.newton.team as package
from sim.simulation.stepping.solvers import teams as solvers
from tests.contact.newton.test_solution import pressed_legs
from tests.golden import mujoco_law, plain
from tests.golden.case import Case
from tests.team_syncs import not_missed, numbered_copy

# What MuJoCo's law does without.
OF_THE_HARD_LAW = {
    "steps.sweep",
    "steps.linear_impulses",
    "steps.linear_residual",
    "steps.keep_impulses",
    "steps.prepare",
    "regularisation_adjoint.team_regularisation_adjoint",
}
# What only sweeps need.
OF_SWEEPS = {"impulse.team_velocity_adjoint"}
# What the solver uses of the package.
USED = {
    "Levels",
    "team_adjoint_kernels",
    "team_impulse_kernels",
    "team_newton_kernels",
    "team_regularisation_kernels",
    "team_work_struct",
}


def rolling(contact: sim.ContactMethod) -> Callable[[], Any]:
    """Bodies that slide and roll."""
    return run_of(replace(plain.skis((0.01, 0.03)), contact=contact))


def sweeping() -> Callable[[], Any]:
    """Bodies whose impulses are swept after the solution."""
    return run_of(mujoco_law.noslip("elliptic"))


def run_of(case: Case, steps: int = 3) -> Callable[[], Any]:
    """A rollout by teams, with its gradient."""
    case = replace(case, steps=steps, options={**case.options, "threads_per_world": 32})
    simulator, given = case.simulator(), case.inputs()
    return lambda: simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"]).backward(given["q"])


def wedged() -> Callable[[], Any]:
    """Legs that friction presses onto the ground, for which Newton's method tries all that it has."""
    case = pressed_legs(0.002)
    simulator = case.simulator().replace(1, threads_per_world=32)
    return lambda: case.rollout(simulator).backward(case.q[None])


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The functions of the calls of ``sync``; meanwhile steps are those of the copy, and all adjoints are refined."""
    refined = {"scalar(1000.0 * ": "scalar(0.0 * "}
    with numbered_copy(package, solvers, USED, tmp_path_factory.mktemp("numbered"), refined) as found:
        yield found


@pytest.mark.slow
def test_every_sync_is_needed(calls):
    assert len(calls) > 25
    standing = plain.standing()
    hard = [rolling(sim.HardContact()), wedged(), run_of(standing, 8)]
    assert set(not_missed(calls, hard)) == OF_SWEEPS
    mujoco = [rolling(sim.MujocoContact()), sweeping(), run_of(replace(standing, contact=sim.MujocoContact()), 8)]
    assert set(not_missed(calls, mujoco)) == OF_THE_HARD_LAW
