"""Iterative LQR: Riccati's answer for linear systems, Kuhn and Tucker's conditions at limits, a swing."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import sim
import sim.optimise as so
from sim.optimise.methods.box_qp import solve_box_qp
from sim.optimise.methods.quadratic import Quadratics, hessian
from tests.errors import refuses
from tests.optimise.problems import riccati, sliders, swing
from tests.simulation.test_linearisation import tumbling_arm


def test_linear_system_takes_one_iteration():
    """The controls, the cost and the gains of the discrete Riccati equation."""
    stages, weight, effort = 20, np.array([3.0, 2.0]), 0.1
    simulator = sliders(damping=0.3)
    costs = [so.Posture([0.0, 0.0], weight), so.Velocity(weight=0.5), so.Effort(effort)]
    problem = so.Problem(simulator, stages, costs, q0=[1.0, -0.5], qd0=[0.2, 0.3])
    found = so.ilqr(problem, iterations=1)
    # The step is linear: its matrices are differences of any size.
    x = np.array([1.0, -0.5, 0.2, 0.3])
    many = sim.Simulator(simulator.model, simulator.dt, 6, device="cpu", threads=1)
    after = many.step(many.state(np.eye(6)[:, :2], np.eye(6)[:, 2:4]), np.eye(6)[:, 4:]).numpy()
    A, B = np.split(np.concatenate(after, axis=1).T, [4], axis=1)
    Q = np.diag([*weight, 0.5, 0.5])
    cost, controls, gains = riccati(A, B, Q, effort * np.eye(2), Q, x, stages)
    assert found.cost == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(found.controls, controls, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.gains[0], -gains, rtol=1e-9, atol=1e-12)
    assert found.history[0] > 2.0 * cost


def test_torchs_default_device_may_be_another():
    """As after ``torch.set_default_device("cuda")``, whose random numbers can't come from a generator on the CPU."""
    problem = swing()
    expected = so.ilqr(problem, iterations=2)
    with torch.device("meta"):
        found = so.ilqr(problem, iterations=2)
    np.testing.assert_array_equal(found.controls, expected.controls)


def test_stages_of_several_steps():
    """With hold the same problem has fewer unknowns; its least cost is that of BFGS on all of them."""
    costs = [so.Posture([0.0, 0.0], 3.0), so.Effort(0.1)]
    problem = so.Problem(sliders(dt=0.05), 6, costs, hold=3, q0=[1.0, -0.5])
    found = so.ilqr(problem, iterations=2)

    def evaluate(x):
        each = problem.evaluate(x[None])
        return each.cost[0], each.gradient[0]

    other = minimize(evaluate, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert found.cost == pytest.approx(other.fun, rel=1e-10)
    np.testing.assert_allclose(found.unknowns, other.x, atol=1e-7)


def test_limits_hold_and_are_optimal():
    """Kuhn and Tucker: no slope inside, and at a limit a slope that points out of it; SciPy agrees."""
    costs = [so.Posture([0.0, 0.0], 5.0), so.Velocity(weight=0.2), so.Effort(0.05)]
    problem = so.Problem(sliders(), 25, costs, q0=[1.0, -0.5], limits=(-0.8, [0.5, 0.9]))
    found = so.ilqr(problem)
    assert found.converged
    low, high = problem.parametrisation.bounds(problem.space)
    assert (found.unknowns >= low).all()
    assert (found.unknowns <= high).all()
    slope = problem.evaluate(found.unknowns[None]).gradient[0]
    at_low, at_high = found.unknowns == low, found.unknowns == high
    inside = ~at_low & ~at_high
    assert min(at_low.sum(), at_high.sum(), inside.sum()) > 3
    np.testing.assert_allclose(slope[inside], 0.0, atol=1e-5)
    assert (slope[at_low] > 0.0).all()
    assert (slope[at_high] < 0.0).all()
    other = so.lbfgs(problem, iterations=500, tolerance=1e-14)
    assert found.cost == pytest.approx(other.cost, rel=1e-8)


def test_quadratic_programs_in_a_box():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = rng.integers(1, 7)
        H = rng.standard_normal((n, n + 2))
        H, g = H @ H.T, 3.0 * rng.standard_normal(n)
        low, high = -rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)
        found = solve_box_qp(H, g, low, high)
        slope = H @ found.x + g
        assert (found.x >= low).all()
        assert (found.x <= high).all()
        np.testing.assert_allclose(slope[found.free], 0.0, atol=1e-8)
        held = ~found.free
        assert (np.where(found.x == low, slope, -slope)[held] >= 0.0).all()
        right = rng.standard_normal((n, 2))
        free = np.ix_(found.free, found.free)
        np.testing.assert_allclose(
            found.solve_free(right)[found.free], np.linalg.solve(H[free], right[found.free]), rtol=1e-6, atol=1e-9
        )
    with pytest.raises(np.linalg.LinAlgError):
        solve_box_qp(np.array([[-1.0]]), np.ones(1), -np.ones(1), np.ones(1))


def test_pendulum_swings_up():
    """The torque can't hold it sideways, which takes m g l / 2 = 2.45 N m: it must swing to and fro."""
    problem = swing(limit=1.5)
    found = so.ilqr(problem, guess=np.full((50, 1), 0.1), iterations=60)
    assert np.abs(found.controls).max() <= 1.5
    assert abs(found.q[-1, 0] - np.pi) < 0.01
    assert abs(found.qd[-1, 0]) < 0.05
    assert (np.diff(found.history) <= 0.0).all()
    # It has gone to both sides.
    assert found.q.min() < -0.3
    # What is returned is what the simulator does.
    simulator = sim.Simulator(problem.model, 0.02, device="cpu")
    tau = np.repeat(found.controls, 2, axis=0)
    again = simulator.rollout(simulator.state(problem.q0), tau)
    np.testing.assert_array_equal(again.q.numpy()[:, 0], found.q)


def test_many_starts_are_those_of_each():
    problem = swing()
    guess = 0.3 * np.random.default_rng(1).standard_normal((3, 50, 1))
    together = so.ilqr(problem, guess, starts=3, iterations=8)
    alone = [so.ilqr(problem, each, iterations=8).cost for each in guess]
    np.testing.assert_allclose(together.starts, alone, rtol=1e-9)
    assert together.cost == pytest.approx(min(alone), rel=1e-9)
    first, second = (so.ilqr(problem, starts=3, spread=0.3, seed=5, iterations=3) for _ in range(2))
    np.testing.assert_array_equal(first.unknowns, second.unknowns)


def test_derivatives_of_costs_in_tangent_coordinates():
    """Of costs of turning joints beside differences: slopes of all, and the Hessian of one that isn't of squares."""
    model = tumbling_arm()
    simulator = sim.Simulator(model, 0.01, device="cpu", threads=1)

    def swirl(q, qd, controls):
        bent = torch.cosh(q[..., 3:11].sum(-1)) * q[..., 5] + (qd**4).sum(-1)
        return bent.sum(0) + (controls.exp() * q[:-1, :, :2]).sum((0, 2))

    costs = [swirl, so.Posture(model.q0, 2.0), so.Orientation("upper", (0.0, 0.6, 0.0, 0.8), at=1),
             so.Position("lower", (1.0, 0.0, 0.0), [1.0, 2.0, 3.0]), so.Velocity(weight=0.5),
             so.Effort(0.3)]  # fmt: skip
    problem = so.Problem(simulator, 2, costs, joints=["to_middle", "to_lower"])
    torch.manual_seed(0)
    still = problem.motion(torch.zeros(1, 4, dtype=torch.float64)).detached()
    n = 2 * model.nv
    motion = still.moved(0.3 * torch.randn(3, 1, n, dtype=torch.float64), 0.3 * torch.randn(2, 1, 2).double())
    for cost in problem.costs:
        found = Quadratics([cost])(motion)

        def value(z, cost=cost):
            return cost.value(motion.moved(z[..., :n], z[:-1, :, n:]))

        z = torch.zeros(3, 1, n + 2, dtype=torch.float64, requires_grad=True)
        blocks = hessian(cost, value(z), z)[1] if isinstance(cost, so.Total) else None
        for stage in range(3):
            for k in range(n + 2 if stage < 2 else n):
                step = torch.zeros(3, 1, n + 2, dtype=torch.float64)
                step[stage, 0, k] = 1e-5
                assert found.slope[stage, 0, k] == pytest.approx(float(value(step) - value(-step)) / 2e-5, abs=1e-6)
                if blocks is not None:
                    ahead, behind = (
                        torch.autograd.grad(value(z + sign * step).sum(), z)[0][stage, 0] for sign in (1.0, -1.0)
                    )
                    torch.testing.assert_close(blocks[stage, 0, k], (ahead - behind) / 2e-5, atol=2e-6, rtol=1e-5)


def test_curvature_of_squares_is_that_of_their_derivatives():
    """Gauss-Newton's matrix of each ready-made cost, beside differences of its residuals."""
    model = tumbling_arm()
    simulator = sim.Simulator(model, 0.01, device="cpu", threads=1)
    costs = [so.Posture(model.q0, np.arange(1.0, model.nv + 1)), so.Orientation("upper", (0.0, 0.6, 0.0, 0.8), at=1),
             so.Position("lower", (1.0, 0.0, 0.0), [1.0, 2.0, 3.0]), so.Velocity(weight=0.5, at=[0, 2]),
             so.Effort([0.3, 0.4])]  # fmt: skip
    problem = so.Problem(simulator, 2, costs, joints=["to_middle", "to_lower"])
    torch.manual_seed(0)
    still, n = problem.motion(torch.zeros(1, 4, dtype=torch.float64)).detached(), 2 * model.nv
    motion = still.moved(0.3 * torch.randn(3, 1, n, dtype=torch.float64), 0.3 * torch.randn(2, 1, 2).double())
    for cost in problem.costs:
        curvature = np.zeros((3, n + 2, n + 2))
        for stage in range(3):
            columns = []
            for k in range(n + 2):
                step = torch.zeros(3, 1, n + 2, dtype=torch.float64)
                step[stage, 0, k] = 1e-6
                ahead, behind = (cost.residuals(motion.moved(s[..., :n], s[:-1, :, n:])) for s in (step, -step))
                columns.append(((ahead - behind) / 2e-6).flatten())
            J = torch.stack(columns, dim=1).numpy()
            curvature[stage] = J.T @ J
        np.testing.assert_allclose(Quadratics([cost])(motion).curvature[:, 0], curvature, atol=1e-6, rtol=1e-6)


def test_what_is_refused():
    problem = swing()
    refuses(lambda: so.ilqr(problem.with_costs([so.Smoothness()])), "cost 'Smoothness'", "stages")

    def coupled(q, qd, controls):
        return (q[1:] * q[:-1]).sum((0, 2))

    refuses(lambda: so.ilqr(problem.with_costs([so.Total(coupled)])), "cost 'coupled'", "stages")
    robot = problem.robot

    def far(q, qd, controls):
        return robot.forward_kinematics(q[-1], "link_0")[1][:, 1].exp()

    refuses(lambda: so.ilqr(problem.with_costs([so.Total(far)])), "cost 'far'", "derivative", "LeastSquares")
    refuses(lambda: so.ilqr(swing(controls=so.Knots(5))), "ilqr", "Knots", "PerStage")
