"""Gradient, L-BFGS and CMA-ES on the same problems; constraints; interruptions."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import sim
import sim.optimise as so
from scenes import throw
from sim.simulation.engine.rollout import run_steps
from tests.errors import raises_naming, refuses
from tests.optimise.problems import sliders, swing


def rails(**options: object) -> so.Problem:
    """A linear system: all costs are quadratic."""
    costs = [so.Posture([0.5, 0.2], 50.0, at=-1), so.Velocity(weight=5.0, at=-1), so.Effort(0.05)]
    return so.Problem(sliders(), 12, costs, q0=[1.0, -0.5], **options)


def test_methods_agree():
    """On the least cost of a convex problem with limits that matter."""
    problem = rails(limits=(-1.2, 1.2))
    best = so.ilqr(problem)
    assert (np.abs(best.controls) == 1.2).any()
    for found, bound in (
        (so.gradient(problem, iterations=400), 1e-4),
        (so.lbfgs(problem, tolerance=1e-14, iterations=300), 1e-7),
        (so.cmaes(problem, iterations=400), 1e-3),
    ):
        assert best.cost * (1.0 - 1e-9) <= found.cost < best.cost * (1.0 + bound), found
        assert np.abs(found.controls).max() <= 1.2
        assert found.q.shape == (13, 2)
        assert found.rollouts >= len(found.history) - 1
        assert (np.diff(found.history) <= 0.0).all()
        assert found.cost == pytest.approx(problem.costs_of(found.unknowns[None])[0], rel=1e-12)


def test_gradient_reaches_by_the_smallest_change():
    """A place to reach and nothing else: of all controls those with the least sum of squares, by least squares."""
    problem = so.Problem(sliders(), 12, [so.Posture([0.5, 0.2], at=-1)], q0=[1.0, -0.5], scale=[1.0, 2.0])
    found = so.gradient(problem, iterations=3)
    x = torch.zeros(1, problem.size, dtype=torch.float64)

    def end(x):
        return problem.motion(x[None]).q[-1, 0]

    J = torch.func.jacrev(end)(x[0]).numpy()
    weighted = J * np.tile([1.0, 2.0], 12)
    expected = np.tile([1.0, 2.0], 12) * (np.linalg.pinv(weighted) @ ([0.5, 0.2] - end(x[0]).numpy()))
    np.testing.assert_allclose(found.unknowns, expected, rtol=1e-5, atol=1e-8)
    assert found.cost < 1e-10
    # Two residuals, each with a world of its own.
    assert found.rollouts == 2 * len(found.history)


def test_gradient_of_a_throw_steps_as_far_as_it_may():
    """Contact and 9000 unknowns: the first iteration moves the ball's end by the longest step."""
    scene = throw.build((1.4, 0.1, 0.5), steps=1000)
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu")

    def miss(q, qd, controls):
        return q[-1:, :, scene.ball_position] - q.new_tensor(scene.target)

    costs = [so.LeastSquares(miss, longest=0.01)]
    problem = so.Problem(simulator, scene.steps, costs, q0=scene.q0, joints=scene.arm, limits=(-np.inf, np.inf))
    motors = scene.model.qd_slice(scene.arm)
    # Before the ball falls: its end follows the hand.
    guess = np.tile(scene.hold[motors], (scene.steps, 1))
    found = [so.gradient(problem, guess, iterations=n, patience=9) for n in (0, 1)]
    before, after = (each.q[-1, scene.ball_position] for each in found)
    assert np.linalg.norm(after - before) == pytest.approx(0.01, rel=0.1)
    direction = (scene.target - before) / np.linalg.norm(scene.target - before)
    assert (after - before) @ direction == pytest.approx(0.01, rel=0.1)


def test_starts_are_searched_side_by_side():
    problem = swing()
    guess = 0.3 * np.random.default_rng(1).standard_normal((3, 50, 1))
    together = so.gradient(problem, guess, starts=3, iterations=6)
    alone = [so.gradient(problem, each, iterations=6).cost for each in guess]
    np.testing.assert_allclose(together.starts, alone, rtol=1e-7)
    first, second = (so.gradient(problem, starts=3, spread=0.3, seed=5, iterations=3) for _ in range(2))
    np.testing.assert_array_equal(first.unknowns, second.unknowns)
    one, two = (so.cmaes(problem, iterations=3, seed=7) for _ in range(2))
    np.testing.assert_array_equal(one.unknowns, two.unknowns)


def test_searches_join_one_that_is_caught():
    """A mass on a rail that ends in a small valley, beside a deep one: others leave from guesses of their own."""

    def valleys(q, qd, controls):
        end = q[-1, :, 0]
        return end**2 + 1.0 - torch.cos(4.0 * np.pi * end)

    problem = so.Problem(sliders(1), 12, [valleys], q0=[0.6])
    options: dict[str, Any] = {"iterations": 60, "patience": 3, "goal": 1e-6, "spread": 0.5}
    caught = so.gradient(problem, **options)
    assert caught.cost > 0.05
    assert caught.message == "no further improvement"
    states: list[dict[str, Any]] = []
    found = so.gradient(problem, joining=4, save=states.append, **options)
    assert found.message == "goal reached"
    begun = next(state["joined"] for state in states if state["joined"])
    assert found.history[:begun] == caught.history[:begun]
    assert found.rollouts == begun + 5 * (len(found.history) - begun)
    assert found.starts.shape == (5,)
    # Interrupted before they join, and after.
    for stop in (begun - 3, begun + 2):
        again = so.gradient(problem, joining=4, resume=states[stop], **options)
        np.testing.assert_array_equal(again.unknowns, found.unknowns)
        assert again.history == found.history
    refuses(lambda: so.gradient(problem, joining=-1), "joining", -1)
    for starts in (0, None):
        with pytest.raises(sim.ModelError, match=f"starts is {starts}; it must be a whole number"):
            so.gradient(problem, starts=starts, joining=2)
    with raises_naming("gradient", "resume", "shape"):
        so.gradient(so.Problem(sliders(), 3, [so.Effort(0.1)]), resume=states[0])
    with raises_naming("resume", "'trust'"):
        so.gradient(problem, resume={name: each for name, each in states[0].items() if name != "trust"})


def test_policy_learns_to_hold_a_pendulum():
    """A linear law that holds it upright, from zeros: by gradients of the motion, with L-BFGS."""
    law = torch.nn.Linear(2, 1, bias=False).double()
    torch.nn.init.zeros_(law.weight)
    problem = swing(controls=so.Policy(law, lambda q, qd, stage: torch.cat([q - np.pi, qd], dim=1)))
    problem.q0 = np.array([np.pi - 0.3])
    falls = problem.costs_of(np.zeros((1, 2)))[0]
    found = so.lbfgs(problem, iterations=40)
    assert found.cost < 1e-2 * falls
    assert found.unknowns[0] < -0.1, "it pushes back"
    # No law near it is better, by a search without gradients.
    simplex = found.unknowns + np.array([[0.0, 0.0], [0.2, 0.0], [0.0, 0.2]])
    other = minimize(
        lambda x: problem.costs_of(x[None])[0], found.unknowns, method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": 40},
    )  # fmt: skip
    assert found.cost <= other.fun * (1.0 + 1e-6)
    np.testing.assert_array_equal(law.weight.detach(), 0.0)


def test_a_policy_on_another_device_takes_unknowns():
    """They come from NumPy; the memory of a GPU is another device's, as that of nothing is here."""
    net = torch.nn.Linear(2, 1, bias=False).to("meta")
    assert so.Policy(net).load(np.ones(2)).weight.is_meta


def test_frozen_layers_of_a_policy_stay():
    """What requires no gradient is no unknown, and is used as it is."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
    net[0].requires_grad_(False)
    frozen = net[0].weight.clone()
    torch.nn.init.zeros_(net[2].weight)
    problem = swing(controls=so.Policy(net))
    problem.q0 = np.array([np.pi - 0.3])
    found = so.lbfgs(problem, iterations=5)
    assert found.unknowns.shape == (4,)
    assert found.cost < found.history[0]
    problem.parametrisation.load(found.unknowns)
    np.testing.assert_array_equal(net[0].weight, frozen)
    np.testing.assert_array_equal(torch.cat([net[2].weight.flatten(), net[2].bias]).detach(), found.unknowns)


@pytest.mark.parametrize("method", ["ilqr", "lbfgs", "gradient"])
def test_constraints_are_met(method):
    """A mass must not come closer than 0.1: the least cost is that of a solver for such problems, SLSQP."""
    costs = [so.Posture([0.0], 5.0), so.Velocity(weight=0.3), so.Effort(0.02)]
    beyond = so.Constraint(lambda q, qd, u: 0.1 - q)
    problem = so.Problem(sliders(1), 12, costs, q0=[1.0], constraints=[beyond])
    free = so.solve(so.Problem(problem.simulator, 12, costs, q0=[1.0]), method)
    assert free.q.min() < 0.0
    found = so.solve(problem, method, feasible=1e-4, **({} if method == "ilqr" else {"iterations": 300}))
    assert found.converged, found
    assert found.violation < 1e-4
    assert found.q.min() > 0.1 - 1e-4

    def states(x):
        return problem.motion(torch.as_tensor(x[None])).q[:, 0, 0]

    def evaluate(x):
        each = problem.evaluate(x[None])
        return each.cost[0], each.gradient[0]

    inside = {"type": "ineq", "fun": lambda x: states(x).numpy() - 0.1,
              "jac": lambda x: torch.func.jacrev(states)(torch.as_tensor(x)).numpy()}  # fmt: skip
    best = minimize(evaluate, free.unknowns, jac=True, method="SLSQP", constraints=[inside], options={"ftol": 1e-12})
    assert found.cost == pytest.approx(best.fun, rel=2e-3 if method == "gradient" else 1e-4)
    assert found.cost > free.cost * 1.001


def test_joints_stay_in_their_ranges():
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("bob", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="bob", limits=sim.Limits(-2.0, 1.0))
    simulator = sim.Simulator(builder.finalize("float64"), 0.05, device="cpu", threads=1)
    costs = [so.Posture([1.2], 10.0), so.Effort(1e-3)]
    found = so.solve(so.Problem(simulator, 20, costs, constraints=[so.JointRange(margin=0.2)]), rounds=15)
    assert 0.79 < found.q.max() < 0.8 + 1e-3


def test_goes_on_where_it_was():
    """Bit for bit as if it had not been interrupted."""
    problem = swing(dtype="float32")
    guess = np.full((50, 1), 0.1)
    whole = so.gradient(problem, guess, iterations=8)
    kept: list[dict] = []
    so.gradient(problem, guess, iterations=3, save=kept.append)
    parts = so.gradient(problem, guess, iterations=8, resume=kept[-1])
    np.testing.assert_array_equal(parts.unknowns, whole.unknowns)
    assert parts.history == whole.history
    assert parts.rollouts == whole.rollouts


@pytest.mark.parametrize("method", ["gradient", "ilqr", "lbfgs", "cmaes"])
def test_interrupted_keeps_the_best(method, monkeypatch):
    problem = swing()
    count = []

    def interrupted(*arguments, **named):
        count.append(1)
        if len(count) == (200 if method == "ilqr" else 6):
            raise KeyboardInterrupt
        return run_steps(*arguments, **named)

    for module in ("sim.simulation.rollout", "sim.torch.recorded_rollout"):
        monkeypatch.setattr(f"{module}.run_steps", interrupted)
    found = so.solve(problem, method, np.full((50, 1), 0.1))
    assert found.message == "interrupted"
    assert not found.converged
    assert found.cost <= found.history[0]


def test_goals_end_the_search():
    problem = swing()
    guess = np.full((50, 1), 0.1)
    for method in ("gradient", "ilqr", "lbfgs", "cmaes"):
        start = problem.costs_of(guess.reshape(1, -1))[0]
        found = so.solve(problem, method, guess, goal=0.9 * start)
        assert found.message == "goal reached"
        assert found.cost < 0.9 * start
        assert "goal reached" in str(found)
    judged = so.gradient(problem, guess, goal=2.5, score=lambda motion: (motion.q[-1, :, 0] - np.pi).abs())
    assert abs(judged.q[-1, 0] - np.pi) < 2.5
    assert judged.history[-1] == pytest.approx(abs(judged.q[-1, 0] - np.pi), rel=1e-9)


def not_a_number(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    return (q[-1, :, 0] * 0.0 - 1.0).sqrt()


def without_history(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    return q[-1, :, 0].detach() ** 2


def not_due(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    return torch.zeros(q.shape[1], dtype=q.dtype)


def without_slope(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    return (controls[0, :, 0] * 0.0).sqrt()


@pytest.mark.parametrize("method", [so.gradient, so.lbfgs, so.ilqr, so.cmaes])
def test_costs_that_are_not_numbers_are_named(method):
    problem = so.Problem(sliders(), 3, [so.Effort(0.1), not_a_number])
    name = method.__name__
    with pytest.raises(sim.ModelError, match=f"{name}: cost 'not_a_number'"):
        method(problem, iterations=2)


@pytest.mark.parametrize("method", [so.gradient, so.lbfgs, so.ilqr, so.MPC])
def test_costs_that_lost_their_gradient_are_named_beside_others(method):
    """A cost of zero, as a penalty that isn't due, may have none."""
    problem = so.Problem(sliders(), 3, [so.Effort(0.1), without_history, not_due], q0=[0.5, 0.0])
    said = f"{method.__name__}: cost 'without_history'"
    with pytest.warns(UserWarning, match=said) as found:
        method(problem, iterations=2)
    assert len(found) == 1
    assert found[0].filename == __file__


@pytest.mark.parametrize("method", [so.gradient, so.lbfgs, so.ilqr])
def test_costs_without_gradient_are_named(method):
    problem = so.Problem(sliders(), 3, [without_history])
    with pytest.raises(sim.ModelError, match=f"{method.__name__}: cost 'without_history'"):
        method(problem, iterations=2)


@pytest.mark.parametrize("seed", range(3))
def test_cmaes_finds_its_way_from_a_guess_without_a_finite_cost(seed):
    """Told of infinite costs alone, or of one that ranks before finite ones, it wandered about."""

    def cost(q, qd, controls):
        return torch.where(controls.mean((0, 2)) < 0.3, torch.inf, 1e6 * (q[-1, :, 0] - 1.0) ** 2)

    problem = so.Problem(sliders(), 20, [cost], limits=(-5.0, 5.0), controls=so.Knots(4, "linear"))
    assert so.cmaes(problem, iterations=100, spread=0.3, seed=seed).cost < 1.0


def test_derivatives_that_are_not_numbers_are_no_divergence():
    problem = so.Problem(sliders(), 3, [so.Effort(0.1), without_slope])
    with raises_naming("without_slope", "derivative"):
        so.gradient(problem, iterations=2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, functools.partial(torch.device, "meta")])
@pytest.mark.parametrize("method", [so.gradient, so.lbfgs, so.ilqr])
def test_searches_take_their_derivatives_in_any_mode_of_pytorch(method, mode):
    expected = method(rails())
    with mode():
        problem = rails()
        found = method(problem)
    assert found.history == expected.history
    assert found.cost < 0.5 * found.history[0]
    np.testing.assert_array_equal(method(problem).unknowns, expected.unknowns)


def without_slope_at_rest(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    return qd.square().sum(2).sqrt().sum(0)


@pytest.mark.parametrize("method", [so.gradient, so.lbfgs, so.ilqr])
@pytest.mark.parametrize(
    "cost", [without_slope_at_rest, so.LeastSquares(lambda q, qd, u: qd.square().sum(2, keepdim=True).sqrt())]
)
def test_derivatives_of_the_motion_that_are_not_numbers_are_named(method, cost):
    """A root at rest: its slope became zero on the way through the simulator, and the first guess seemed the best."""
    there = so.Posture([0.5, 0.2], 50.0, at=-1)
    name = getattr(cost, "name", "without_slope_at_rest")
    with pytest.raises(sim.ModelError, match=f"{method.__name__}: cost '{name}' is finite for the first guess, but"):
        method(so.Problem(sliders(), 12, [there, cost, so.Effort(0.05)]))
    assert method(so.Problem(sliders(), 12, [there, cost, so.Effort(0.05)], qd0=[0.3, 0.2]), iterations=3).cost < 30.0


def test_lbfgs_says_why_it_ended():
    def uphill(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        miss = (q[-1, :, 0] - 1.0).square()
        return 2.0 * miss.detach() - miss

    found = so.lbfgs(so.Problem(sliders(), 12, [uphill]))
    assert (found.message, found.converged) == ("no step improves the cost", False)
    cut = so.lbfgs(rails(), iterations=1)
    assert (cut.message, cut.converged) == ("iterations used up", False)
    fixed = so.lbfgs(rails(limits=(0.5, 0.5)))
    assert (fixed.message, fixed.converged) == ("no further improvement", True)


def always(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    """A cost that no unknown changes, though it has a gradient."""
    return 3.0 + 0.0 * q[-1].sum(dim=-1)


@pytest.mark.parametrize("method", ["ilqr", "lbfgs", "gradient"])
def test_a_constant_cost_among_others(method):
    """The same minimum as without it, of a search that converged; also from there."""
    costs = [so.Posture([1.0], 5.0), so.Effort(0.02)]
    alone = so.solve(so.Problem(sliders(1), 6, costs), method)
    assert (alone.converged, alone.message) == (True, "no further improvement")
    problem = so.Problem(sliders(1), 6, [*costs, always])
    for guess in (None, alone.controls):
        with pytest.warns(UserWarning, match="'always'"):
            found = so.solve(problem, method, guess)
        assert found.converged
        assert found.message == "no further improvement; no gradient reaches cost 'always'"
        np.testing.assert_allclose(found.cost, alone.cost + 3.0, rtol=1e-6)


@pytest.mark.parametrize("method", ["ilqr", "lbfgs", "gradient"])
def test_nothing_moves_where_no_gradient_reaches_a_cost(method):
    """The effort is already least."""
    with pytest.warns(UserWarning, match="'always'"):
        found = so.solve(so.Problem(sliders(1), 6, [always, so.Effort(0.02)]), method)
    assert (found.converged, found.message) == (False, "no gradient reaches cost 'always'")


def test_figures_of_results():
    """Costs by iteration, a line for each control, a bar for each term; with constraints the terms are the costs'."""
    pytest.importorskip("matplotlib")
    costs = [so.Posture([1.0, 0.5], 10.0, at=-1), so.Effort(1e-3)]
    problem = so.Problem(sliders(), 8, costs, hold=2, constraints=[so.Constraint(lambda q, qd, u: q[1:] - 0.8)])
    found = so.solve(problem, "ilqr", iterations=5)
    assert [name for name, _ in found.terms] == ["Posture", "Effort"]
    assert sum(value for _, value in found.terms) == pytest.approx(found.cost)
    assert f"<td>Effort</td><td>{dict(found.terms)['Effort']:.4g}</td>" in found._repr_html_()
    history, controls, terms = found.plot().axes
    np.testing.assert_array_equal(history.lines[0].get_ydata(), found.history)
    assert [line.get_label() for line in controls.lines] == ["rail_0", "rail_1"]
    times, values = controls.lines[1].get_data()
    np.testing.assert_allclose(times, 0.2 * np.arange(9))
    np.testing.assert_array_equal(values[:-1], found.controls[:, 1])
    assert [bar.get_width() for bar in terms.patches] == [value for _, value in found.terms]
