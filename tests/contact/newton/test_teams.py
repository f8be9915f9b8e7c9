"""Newton's method by a team of threads per world, under both laws, compared with that of one thread: a team of one on a
CPU.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import warp as wp

import sim
from scenes import quadruped
from sim.simulation.stepping.solvers.teams import MujocoTeams, NewtonTeams
from tests.contact import solution_checks as checks
from tests.contact.mujoco import test_gradients as mujoco_gradients
from tests.errors import raises_naming
from tests.golden import mechanisms, mujoco_law, plain
from tests.golden.case import Case
from tests.golden.record import TABLE, record
from tests.simulation import differences
from tests.team_checks import reverse_items, team_faults
from warp_kernels.solver.newton.team import solve as team_kernels
from warp_kernels.solver.newton.team.adjoint import team_adjoint_kernels
from warp_kernels.solver.newton.team.impulse import team_impulse_kernels
from warp_kernels.solver.newton.team.regularisation_adjoint import team_regularisation_kernels

INSIDE = 1e-4  # [m]
TEAM = {"threads_per_world": 32}
PYRAMID, NOSLIP = sim.HardContact(friction="pyramid"), sim.HardContact(noslip=True)
CASES: dict[str, Callable[[], Case]] = {
    "quadruped": lambda: plain.standing(worlds=3, steps=20),
    "quadruped on a pyramid": lambda: plain.standing(worlds=2, steps=10, contact=PYRAMID),
    "quadruped without slip": lambda: plain.standing(steps=10, contact=NOSLIP),
    "stack": lambda: plain.stack(3, worlds=2, steps=10),
    "stack with a warm start": lambda: plain.stack(3, steps=10, contact=sim.HardContact(warm_start=True)),
    "balls in layers": lambda: replace(plain.balls(9), steps=8),
    "bouncing bodies": lambda: replace(plain.bouncing(2), steps=20),
    "sliding and rolling": lambda: plain.skis((0.01, 0.03), worlds=2),
    "arm": lambda: replace(plain.arm(2), steps=20),
    "arm with tendons": lambda: mechanisms.tendons(worlds=2, steps=20),
    "loops": lambda: replace(mechanisms.loops(), steps=10),
    "MuJoCo's law: quadruped": lambda: plain.standing(worlds=3, steps=20, contact=mujoco_law.CONE),
    "MuJoCo's law: quadruped on a pyramid": lambda: plain.standing(worlds=2, steps=10, contact=mujoco_law.PYRAMID),
    "MuJoCo's law: bodies": lambda: mujoco_law.bodies(worlds=2),
    "MuJoCo's law: bodies on pyramids": lambda: mujoco_law.bodies("pyramidal"),
    "MuJoCo's law: friction of all dimensions": lambda: mujoco_law.bodies(box=6),
    "MuJoCo's law: sliding and rolling": lambda: plain.skis((0.01, 0.03), contact=mujoco_law.CONE),
    "MuJoCo's law: rolling on pyramids": lambda: plain.skis((0.01, 0.03), contact=mujoco_law.PYRAMID),
    "MuJoCo's law: sweeps without slip": lambda: replace(mujoco_law.noslip("elliptic"), steps=5),
    "MuJoCo's law: sweeps on pyramids": lambda: replace(mujoco_law.noslip("pyramidal"), steps=5),
    "MuJoCo's law: tendons by Runge-Kutta": lambda: replace(mujoco_law.tendons("rk4"), steps=5),
    "MuJoCo's law: loops": lambda: replace(mechanisms.loops(contact=mujoco_law.CONE), steps=10),
}


@pytest.mark.parametrize("name", CASES)
def test_as_one_thread(name):
    """States, impulses, gradients in all inputs and parameters, and the Jacobian of a step."""
    case = CASES[name]()
    one, team = record(case), record(replace(case, options={**case.options, **TEAM}))
    assert one.keys() - set_of_tables(one) == team.keys() - set_of_tables(team)
    for key in one.keys() - set_of_tables(one) - {"residual", "adjoint_residual"}:
        if one[key].dtype.kind == "f":
            atol = 1e-8 * max(np.abs(one[key][np.isfinite(one[key])]).max(initial=0.0), 1e-6)
            np.testing.assert_allclose(team[key], one[key], rtol=0, atol=atol, err_msg=key)
        elif key == "sweeps":
            # A residual that is nearly rounding may take one more system.
            np.testing.assert_allclose(team[key], one[key], rtol=0, atol=1)
        else:
            np.testing.assert_array_equal(team[key], one[key], err_msg=key)
    assert (team["residual"] < 1e-9).all()
    assert (team["adjoint_residual"] < 1e-9).all()


def set_of_tables(found: dict[str, np.ndarray]) -> set[str]:
    return {key for key in found if key.startswith(TABLE)}


@pytest.mark.parametrize(
    ("contact", "solver"), [(sim.HardContact(), NewtonTeams), (mujoco_law.CONE, MujocoTeams)], ids=["hard", "MuJoCo's"]
)
def test_in_single_precision(contact, solver):
    """As close to double precision as one thread."""
    found = {}
    for name, dtype, options in (("exact", "float64", {}), ("one", "float32", {}), ("team", "float32", TEAM)):
        scene = quadruped.build(dtype, height=0.002, servo=True)
        simulator = sim.Simulator(scene.model, 1 / 240, 2, "cpu", contact, **options)
        trajectory = simulator.rollout(simulator.state(scene.q0), steps=30, control=quadruped.standing_legs())
        gradient = trajectory.backward(np.ones((2, scene.model.nq)))
        found[name] = (trajectory.q.numpy()[-1], trajectory.qd.numpy()[-1], gradient.q.numpy())
    assert type(simulator.engine.shards[0].step.solver) is solver
    for exact, one, team, bound in zip(found["exact"], found["one"], found["team"], (1e-6, 1e-4, 1e-4), strict=True):
        errors = [np.abs(values - exact).max() / np.abs(exact).max() for values in (one, team)]
        assert errors[1] < max(3.0 * errors[0], bound), errors


@pytest.fixture
def reversed_items(monkeypatch):
    """Kernels of teams take the items of a phase in reversed order, and note items that meet."""
    reverse_items(monkeypatch)
    factories = (
        team_kernels.team_newton_kernels,
        team_adjoint_kernels,
        team_impulse_kernels,
        team_regularisation_kernels,
    )
    for factory in factories:
        factory.cache_clear()
    yield
    for factory in factories:
        factory.cache_clear()


@pytest.mark.slow
def test_items_of_a_phase_do_not_meet(reversed_items):
    """Bodies that slide, roll and spin, bodies on each other, and a robot with branches."""
    names = ("sliding and rolling", "stack", "balls in layers", "quadruped", "MuJoCo's law: sliding and rolling")
    for case in (CASES[name]() for name in names):
        ends = []
        for options in ({}, TEAM):
            simulator = replace(case, options=options).simulator()
            given = case.inputs()
            trajectory = simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"])
            gradient = trajectory.backward(np.ones_like(given["q"]))
            ends.append((trajectory.q.numpy()[-1], trajectory.qd.numpy()[-1], gradient.qd.numpy()))
        for one, team in zip(*ends, strict=True):
            np.testing.assert_allclose(team, one, rtol=0, atol=1e-8 * np.abs(one).max())
    assert team_faults() == []
    solver = team_kernels.team_newton_kernels(wp.float64, "cone", 32, 0)
    for kernels in (solver, team_impulse_kernels(wp.float64, 32), team_regularisation_kernels(wp.float64, 32)):
        assert kernels.module.name.startswith("backswing.tests.reversed.")


@pytest.fixture
def with_teams(monkeypatch):
    """Gradients are those of teams; the differences are those of one thread."""
    of_one_thread = differences.Case.simulator

    def of_teams(case: differences.Case, num_worlds: int = 1, *others: str, **parameters: np.ndarray) -> sim.Simulator:
        return of_one_thread(case, num_worlds, *others, **parameters).replace(num_worlds, **TEAM)

    monkeypatch.setattr(differences.Case, "simulator", of_teams)


@pytest.mark.parametrize(
    ("check_scene", "inside"),
    [
        (checks.check_sliding_ball, (INSIDE,)),
        (checks.check_spinning_and_rolling_friction, (INSIDE,)),
        (checks.check_robot, ()),
    ],
)
def test_gradients_by_differences(check_scene, inside, with_teams):
    check_scene(sim.HardContact(), *inside)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_gradients_under_the_law_of_mujoco(cone, with_teams, tmp_path):
    mujoco_gradients.test_sliding_rolling_and_at_limits(tmp_path, cone, 1.0, (0.02, 1.0), 6)


def test_what_teams_do_not_solve():
    model = quadruped.build("float64").model
    for width in (0, 2, 64, "8"):
        with raises_naming("threads_per_world is", "1, 8, 16 or 32"):
            sim.Simulator(model, 0.01, device="cpu", threads_per_world=width)
    with raises_naming("threads_per_world=8 requires sim.HardContact or sim.MujocoContact", "PgsContact"):
        sim.Simulator(model, 0.01, device="cpu", contact=sim.PgsContact(), threads_per_world=8)
    with raises_naming("no smoothed gradients"):
        sim.Simulator(model, 0.01, device="cpu", contact=sim.HardContact(gradient_smoothing=0.1), threads_per_world=8)
    with raises_naming("allows 64 degrees of freedom", "threads_per_world=1"):
        sim.Simulator(plain.stack(12).model, 0.01, device="cpu", threads_per_world=32)
