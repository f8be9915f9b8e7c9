"""Problems: what the unknowns mean, gradients beside central differences, what is refused."""

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

import sim
import sim.optimise as so
from scenes import golf, quadruped
from sim.optimise.costs import stages_of
from sim.optimise.tangent import Tangent
from tests.errors import raises_naming, refuses
from tests.optimise.problems import sliders, swing
from tests.simulation.test_linearisation import tumbling_arm


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def policy() -> so.Policy:
    torch.manual_seed(0)
    return so.Policy(Net().double())


@pytest.mark.parametrize(
    "controls",
    [so.PerStage(), so.Knots(4, "hold"), so.Knots(4, "linear"), so.Knots(5), policy()],
    ids=["per stage", "held knots", "linear knots", "cubic knots", "policy"],
)
def test_gradient_is_that_of_differences(controls):
    """Of every ready-made cost at once, with a limit that holds some controls."""
    problem = swing(limit=1.0, controls=controls)
    problem = problem.with_costs(
        [*problem.costs, so.Smoothness(0.3), so.Position("link_0", (0.2, 0.0, 0.5), 2.0, at=[10, -1]),
         so.Orientation("link_0", (0.0, 0.6, 0.0, 0.8), at=3), so.Penalty(so.Constraint(lambda q, qd, u: q - 0.1), 5.0),
         so.Total(lambda q, qd, u: (q[..., 0].sin() * qd[..., 0]).sum(0))]
    )  # fmt: skip
    x = 0.6 * np.random.default_rng(0).standard_normal((2, problem.size))
    found = problem.evaluate(x)
    np.testing.assert_allclose(found.cost, problem.costs_of(x), rtol=1e-12)
    for direction in np.random.default_rng(1).standard_normal((3, problem.size)):
        step = 1e-6 * direction
        slope = (problem.costs_of(x + step) - problem.costs_of(x - step)) / 2e-6
        np.testing.assert_allclose(found.gradient @ direction, slope, rtol=1e-5, atol=1e-6)


def test_gradient_through_contact_and_its_force():
    """A quadruped on its feet: forces of contact sensors in the cost."""
    scene = quadruped.build("float64", height=-0.0005)
    model = scene.model
    foot = next(g.name for g in model.geometries if g.collides and g.link >= 0)
    simulator = sim.Simulator(model, 0.01, device="cpu", threads=1, contact_sensors=[foot])
    costs = [so.ContactForce(0, 60.0, weight=1e-3), so.Posture(model.q0, at=-1)]
    problem = so.Problem(simulator, 4, costs, q0=scene.q0, joints=[f"{leg}_calf_joint" for leg in quadruped.LEGS])
    x = 3.0 * np.random.default_rng(0).standard_normal((1, problem.size))
    found = problem.evaluate(x)
    assert float(problem.costs[0].value(problem.motion(torch.as_tensor(x)))[0]) > 0.1
    direction = np.random.default_rng(1).standard_normal(problem.size)
    slope = (problem.costs_of(x + 1e-5 * direction) - problem.costs_of(x - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(found.gradient @ direction, slope, rtol=1e-5)


def test_knots_are_interpolated():
    """Beside SciPy's splines; the limits cut off what overshoots."""
    values = np.array([[0.0], [1.0], [-1.0], [0.5], [0.2]])
    x = torch.as_tensor(values.reshape(1, -1))
    space = swing(limit=10.0).space
    times = np.linspace(0.0, 4.0, 50)
    cubic = so.Knots(5).controls(space, x)[:, 0].numpy()
    np.testing.assert_allclose(cubic, CubicSpline(np.arange(5), values, bc_type="not-a-knot")(times), atol=1e-12)
    linear = so.Knots(5, "linear").controls(space, x)[:, 0, 0].numpy()
    np.testing.assert_allclose(linear, np.interp(times, np.arange(5), values[:, 0]), atol=1e-12)
    held = so.Knots(5, "hold").controls(space, x)[:, 0]
    np.testing.assert_array_equal(held, np.repeat(values, 10, axis=0))
    assert so.Knots(5).controls(swing(limit=0.9).space, x).abs().max() == 0.9 < np.abs(cubic).max()


def test_policy_acts_on_the_state():
    """The controls are those that the module returns for the states of the motion."""
    parametrisation = policy()
    problem = swing(controls=parametrisation)
    x = parametrisation.guess(problem.space, None)
    motion = problem.motion(torch.as_tensor(x))
    seen = torch.cat([motion.q, motion.qd], dim=-1)[:-1]
    torch.testing.assert_close(motion.controls, parametrisation.module(seen), atol=1e-14, rtol=0.0)
    assert motion.controls.abs().max() > 0.01
    other = parametrisation.load(np.zeros(problem.size))
    assert all((value == 0.0).all() for value in other.parameters())


def test_controls_are_those_of_the_model():
    """Motors and their strength by default, actuators where there are some, joints by name or by part."""
    scene = golf.build()
    problem = so.Problem(sim.Simulator(scene.model, 0.01, device="cpu"), 3, [so.Effort()], joints=scene.golfer)
    motors = scene.model.qd_slice(scene.golfer)
    np.testing.assert_array_equal(problem.space.dofs, np.arange(motors.start, motors.stop))
    np.testing.assert_array_equal(problem.space.high, scene.model.effort_limit[motors])
    one = so.Problem(
        sim.Simulator(scene.model, 0.01, device="cpu"), 3, [so.Effort()], joints=scene.model.joint_names[1]
    )
    assert one.space.names == (scene.model.joint_names[1],)
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="bob", limits=sim.Limits(-2.0, 1.0))
    builder.add_actuator("hinge", "position", gains=sim.Gains(kp=10.0), control_range=(-1.0, 0.5))
    servo = so.Problem(sim.Simulator(builder.finalize("float64"), 0.01, device="cpu"), 3, [so.Effort()])
    assert (servo.space.dofs, servo.space.low[0], servo.space.high[0]) == (None, -1.0, 0.5)
    assert (servo.motion(torch.full((1, 3), 0.4, dtype=torch.float64)).q[-1] > 0.0).all()


def test_tangents_are_those_of_the_library():
    """Beside integrate and difference, for a free, a spherical, a sliding and a turning joint."""
    model = tumbling_arm()
    tangent = Tangent(model)
    rng = np.random.default_rng(0)
    q = sim.integrate(model, np.tile(model.q0, (20, 1)), rng.standard_normal((20, model.nv))).numpy()
    v = rng.standard_normal((20, model.nv))
    other = sim.integrate(model, q, v).numpy()
    expected = sim.difference(model, q, other).numpy()
    np.testing.assert_allclose(tangent.difference(torch.as_tensor(q), torch.as_tensor(other)), expected, atol=1e-12)
    np.testing.assert_allclose(tangent.difference_of_arrays(q, -other * 2.0 + 3.0 * other), expected, atol=1e-12)
    assert np.abs(tangent.difference_of_arrays(q, q)).max() < 1e-15
    # Moves are those of integrate to second order: a tenth of the move leaves a thousandth of the error.
    errors = []
    for size in (1e-2, 1e-3):
        moved = tangent.moved(torch.as_tensor(q), torch.as_tensor(size * v)).numpy()
        errors.append(np.abs(moved - sim.integrate(model, q, size * v).numpy()).max())
    assert errors[0] < 1e-5
    assert errors[0] / errors[1] == pytest.approx(1000.0, rel=0.1)


def test_parameters_set_later_count():
    problem = swing()
    before = problem.costs_of(np.ones((1, 50)))
    problem.simulator.parameters["mass"] = 2.0 * problem.simulator.parameters["mass"]
    heavier = problem.costs_of(np.ones((1, 50)))
    problem.simulator.parameters["mass"] = 0.5 * problem.simulator.parameters["mass"]
    assert heavier != before
    np.testing.assert_array_equal(problem.costs_of(np.ones((1, 50))), before)


def test_parameters_that_stay_are_not_set_again(monkeypatch):
    problem = swing()
    problem.costs_of(np.ones((3, 50)))
    found, update = [], sim.SimulatorParameters.update
    monkeypatch.setattr(
        sim.SimulatorParameters, "update", lambda self, *given: (found.append(given), update(self, *given))
    )
    problem.costs_of(np.zeros((3, 50)))
    assert found == []
    problem.simulator.parameters["mass"] = 2.0 * problem.simulator.parameters["mass"]
    problem.costs_of(np.zeros((3, 50)))
    assert [list(given[0]) for given in found] == [["mass"], ["mass"]]


def test_costs_and_limits_see_the_parameters_of_the_simulator():
    """An arm that stands a metre higher, with other limits, before and after the problem was made."""
    model = sim.load("scenes/robots/manipulator.urdf", self_collision=False, dtype="float64")
    raised = model.parameters["joint_placement"].copy()
    raised[0, 2] += 1.0
    simulator = sim.Simulator(model, 1.0 / 240.0, device="cpu", parameters={"joint_placement": raised})
    limits = so.JointRange()
    problem = so.Problem(simulator, 2, [so.Position("link7", (0.0, 0.0, 0.0), at=-1)], constraints=[limits])
    motion = problem.motion(torch.zeros(1, problem.size, dtype=torch.float64))

    def height() -> float:
        motion = problem.motion(torch.zeros(1, problem.size, dtype=torch.float64))
        position, _ = motion.robot.forward_kinematics(motion.q, "link7")
        return float(position[0, 0, 2])

    expected, _ = sim.torch.Robot(model).forward_kinematics(motion.q, "link7")
    assert height() == pytest.approx(float(expected[0, 0, 2]) + 1.0, abs=1e-12)
    simulator.parameters["joint_placement"] = model.parameters["joint_placement"]
    assert height() == pytest.approx(float(expected[0, 0, 2]), abs=1e-12)
    simulator.parameters["upper_limit"] = np.full(model.nv, -0.25)
    motion = problem.motion(torch.zeros(1, problem.size, dtype=torch.float64))
    np.testing.assert_allclose(limits.value(motion)[..., model.nv :], motion.q + 0.25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(stages=0), "stages is 0; it must be a whole number"),
        (dict(hold=1.5), "hold is 1.5; it must be a whole number"),
        (dict(costs=[]), "costs is empty"),
        (dict(costs=[3.0]), "costs .*float"),
        (dict(costs=[so.Position("nose", (0, 0, 0))]), "nose"),
        (dict(costs=[so.Posture([0.0])]), r"cost 'Posture': target has shape \(1,\); expected 2 finite numbers"),
        (dict(costs=[so.Velocity(weight=[1.0, 2.0, 3.0])]), "3 weights; expected one, or one for each of 2"),
        (
            dict(costs=[so.Posture(np.zeros((4, 2)), at=-1)]),
            "cost 'Posture': target has 4 rows; expected one for each of the 1 states",
        ),
        (
            dict(costs=[so.Velocity(np.zeros((5, 2)))]),
            "cost 'Velocity': target has 5 rows; expected one for each of the 6 states",
        ),
        (
            dict(costs=[so.Velocity(at=[1, 2.5])]),
            "cost 'Velocity': at is \\[1, 2.5\\]",
        ),
        (dict(costs=[so.Velocity(at=9)]), "cost 'Velocity': at has 9; there are states 0 to 5"),
        (dict(costs=[so.ContactForce(0, 1.0)]), "the simulator has 0 contact sensors"),
        (dict(controls=3), "controls is a int"),
        (dict(controls=so.Knots(7)), "7 knots for 5 stages"),
        (dict(joints=["rail_7"]), "rail_7"),
        (dict(limits=(1.0, -1.0)), r"limits \(1.0, -1.0\)"),
        (dict(limits=(np.inf, np.inf)), r"limits \(inf, inf\)"),
        (dict(limits=3.0), "it must be a pair"),
        (dict(scale=-1.0), "scale is -1.0; it must be a positive number, or 2 of them"),
        (dict(scale=[1.0, 2.0, 3.0]), "scale is .* it must be a positive number, or 2 of them"),
        (dict(constraints=[so.JointRange()]), "no joint of the model has limits"),
        (dict(constraints=[abs]), "constraints .*builtin_function_or_method"),
        (dict(q0=[1.0]), "q has shape"),
    ],
)
def test_what_does_not_fit_is_named(given, message):
    with pytest.raises(sim.ModelError, match=message):
        so.Problem(sliders(), **{"stages": 5, "costs": [so.Effort()], **given})


def test_what_does_not_fit_is_named_later():
    simulator = sliders()
    for bad, message in (
        (lambda q, qd, u: q.sum(), r"returned \(\); expected one number for each world"),
        (so.LeastSquares(lambda q, qd, u: q[-1]), r"returned residuals of shape \(1, 2\)"),
        (so.LeastSquares(lambda q, qd, u: q, [1.0]), "has 1 weights for 2 residuals"),
        (so.Effort(target=np.zeros((3, 2))), r"target has shape \(3, 2\); expected 2 numbers, or \[5, 2\]"),
        (so.Effort(target=[1.0]), r"cost 'Effort': target has shape \(1,\); expected 2 numbers"),
    ):
        problem = so.Problem(simulator, 5, [bad])
        with pytest.raises(sim.ModelError, match=message):
            problem.costs_of(np.zeros((1, 10)))
    problem = so.Problem(simulator, 5, [so.Effort()])
    for method in (so.gradient, so.ilqr, so.lbfgs, so.cmaes):
        with raises_naming("guess", "shape", "(3, 2)"):
            method(problem, np.zeros((3, 2)))
        with raises_naming("iterations", -1):
            method(problem, iterations=-1)
        for wrong, message in (
            (dict(guess="rest"), "guess: 'rest' is not an array of numbers"),
            (dict(guess=torch.zeros(5, 2, requires_grad=True)), "guess is a PyTorch tensor that requires a gradient"),
            (dict(goal="low"), "search: goal is 'low'; it must be one number"),
            (dict(goal=np.nan), "search: goal is nan; it must be a number"),
            (dict(spread="wide"), "spread is 'wide'; it must be"),
        ):
            with pytest.raises(sim.ModelError, match=message):
                method(problem, **wrong)
    for method in (so.gradient, so.ilqr, so.lbfgs):
        with raises_naming("search", "tolerance", "'small'"):
            method(problem, tolerance="small")
    refuses(lambda: so.gradient(problem, patience=-1), "patience", -1, "whole")
    with raises_naming("score", "shape ()", "(10,)"):
        so.gradient(so.Problem(simulator, 5, [so.Effort()]), score=lambda motion: motion.q.sum())
    refuses(lambda: so.lbfgs(problem, starts=0), "starts", 0)
    refuses(lambda: so.gradient(problem, np.zeros((2, 5, 2)), starts=3), "guess", "2 starts", 3)
    refuses(lambda: so.cmaes(problem, seed=-1), "seed", -1, "whole", "negative")
    assert so.cmaes(problem, seed=2**40, iterations=1).rollouts > 1
    refuses(lambda: so.cmaes(problem, population=1), "population", 1, "whole", 2)
    constrained = so.Problem(simulator, 5, [so.Effort()], constraints=[so.Constraint(lambda q, qd, u: q)])
    refuses(lambda: so.solve(constrained, rounds=2.5), "rounds")
    refuses(lambda: so.solve(constrained, "gradient", resume={}), "solve", "'resume'", "constraints")
    for method in ("newton", ["ilqr"]):
        with raises_naming("method", "gradient, ilqr"):
            so.solve(problem, method)
    many = sim.Simulator(simulator.model, 0.1, 2, device="cpu", parameters={"damping": [[0.0, 0.1], [0.2, 0.3]]})
    refuses(lambda: so.Problem(many, 5, [so.Effort()]), "parameter 'damping'", "differs", "worlds")
    many.parameters["damping"] = np.zeros(2)
    problem = so.Problem(many, 5, [so.Effort()])
    problem.costs_of(np.zeros((2, 10)))
    many.parameters["damping"] = np.array([[0.0, 0.1], [0.2, 0.3]])
    refuses(lambda: problem.costs_of(np.zeros((2, 10))), "parameter 'damping'", "differs", "worlds")
    for make, message in (
        (lambda: so.Knots(3, "cubic"), "count is 3; for interpolation='cubic' it must be .* at least 4"),
        (lambda: so.Knots(3, "quintic"), "interpolation is 'quintic'"),
        (lambda: so.Policy(torch.nn.ReLU()), "the module has no parameters that require a gradient"),
        (lambda: so.Orientation("a", (1.0, 1.0, 0.0, 0.0)), r"Orientation.*target \[1. 1. 0. 0.\]"),
        (lambda: so.Effort(-1.0), "weight is -1.0"),
        (lambda: so.Effort(target="low"), "cost 'Effort': target: 'low' is not an array of numbers"),
        (
            lambda: so.Policy(torch.nn.Linear(2, 1)).load(np.zeros(4)),
            r"load: unknowns have shape \(4,\); expected \(3,\)",
        ),
        (lambda: so.Effort(target=[np.nan]), "target is .* it must be finite numbers"),
        (lambda: so.Position("a", (0, 0, 0), longest=0.0), "longest is 0.0"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: so.Problem(s, 5, so.Effort()), "Problem: costs is a Effort; it must be a list of costs"),
        (lambda s: so.Problem(s, 5, [so.Effort]), r"costs .*: Effort\(...\)"),
        (lambda s: so.Problem(s, 5, [so.Effort()], joints=[0]), r"joints is \[0\]; it must be a name, or a list"),
        (lambda s: so.Problem(s, 5, [so.Effort()], joints=["rail_0"] * 2), r"joints \['rail_0', 'rail_0'\]"),
        (lambda s: so.Problem(s, 5, [so.Velocity(at=[0, 1.5])]), r"at is \[0, 1.5\]"),
        (lambda s: so.Problem(s, 5, [so.Velocity(at="end")]), "cost 'Velocity': at is 'end'"),
        (lambda s: so.Position([0.0, 0.0, 1.0], "link_0"), "cost 'Position.*: target: 'link_0' is not an array of num"),
        (lambda s: so.Problem(s, 5, [so.Posture(np.zeros((3, 2)))]), "target has 3 rows; .* each of the 6 states that"),
        (lambda s: so.Problem(s, 5, [so.Position("link_0", np.zeros((3, 3)), at=[0, 1])]), "each of the 2 states that"),
        (
            lambda s: so.Problem(s, 5, [so.ContactForce("pad", 1.0)]),
            "no geometry .*'pad'",
        ),
        (lambda s: so.ContactForce(0, 1.0, direction=(0.0, 0.0, 2.0)), "direction is .* a vector of unit length"),
        (
            lambda s: so.Penalty(lambda q, qd, u: q, 1.0),
            "Penalty: constraint is a function; it must be a sim.optimise.C",
        ),
        (lambda s: so.Constraint(), "Constraint: function is None; it must be a function of q, qd and controls"),
        (lambda s: so.LeastSquares(3), "LeastSquares: function is 3; it must be a function"),
        (lambda s: so.Smoothness("much"), "cost 'Smoothness': weight: 'much' is not an array of numbers"),
        (lambda s: so.Policy(torch.nn.Linear), "Policy: module is a type; it must be a torch.nn.Module"),
        (lambda s: so.ilqr(s), "ilqr: problem is a Simulator; it must be a sim.optimise.Problem"),
        (lambda s: so.MPC(s), "MPC: problem is a Simulator; it must be a sim.optimise.Problem"),
        (lambda s: so.gradient(s), "problem is a Simulator; it must be a sim.optimise.Problem"),
        (lambda s: so.lbfgs(s), "problem is a Simulator; it must be a sim.optimise.Problem"),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    with pytest.raises(sim.ModelError, match=message):
        call(sliders())


def test_numbers_of_states_may_be_those_of_numpy():
    assert stages_of(np.int64(-1), 5, "x") == stages_of(np.array([-1]), 5, "x") == [5]
