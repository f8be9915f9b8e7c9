"""Contact forces in costs: values beside closed forms, gradients beside central differences, in every method."""

import numpy as np
import pytest
import torch

import sim
import sim.optimise as so
from tests.errors import naming, refuses
from tests.optimise.problems import slopes_of_stages

FRICTION, G = 0.5, 9.81


def finger(contact=None, wall: bool = False, height: float = 0.1, friction: float = FRICTION) -> sim.Simulator:
    """A ball on two slides above the ground, and with a second ball far from everything."""
    scene = sim.ModelBuilder()
    surface = sim.Surface(friction=friction)
    scene.add_ground(surface=surface)
    if wall:  # whose face is at x = -0.1
        turned = (0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5))
        scene.add_geometry("world", "plane", name="wall", position=(-0.1, 0, 0), orientation=turned, surface=surface)
    scene.add_link("carriage", mass=0.5, inertia=(0.1, 0.1, 0.1))
    scene.add_joint("across", "prismatic", child="carriage", axis=(1, 0, 0), position=(0, 0, height))
    scene.add_link("tip", mass=0.5, inertia=(0.1, 0.1, 0.1))
    scene.add_joint("down", "prismatic", parent="carriage", child="tip", axis=(0, 0, 1))
    scene.add_geometry("tip", "sphere", size=0.1, name="ball", surface=surface)
    scene.add_geometry("tip", "sphere", size=0.1, position=(0.3, 0, 0.7), name="spare", surface=surface)
    return sim.Simulator(scene.finalize("float64"), 0.01, device="cpu", contact=contact, threads=1)


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.MujocoContact()])
@pytest.mark.parametrize(("mode", "push"), [("stick", (1.0, -8.0)), ("slide", (9.0, -3.0)), ("open", (1.0, 13.0))])
def test_gradients_are_those_of_differences(contact, mode, push):
    """Of each kind of term, by backward passes and by the expansions of iLQR, through two steps of each stage."""
    terms = [
        so.ContactForce("ball", target=[20.0, 25.0, 18.0]),
        so.ContactForce("tip", target=(1.0, 2.0, 30.0), direction=None, weight=[1.0, 2.0, 3.0]),
        so.ContactForce("tip", 30.0, against="ground", direction="normal", at=[0, -1]),
        so.ContactForce(["spare", "ball"], target=3.0, against="ground", direction=(0.6, 0.0, 0.8)),
    ]
    problem = so.Problem(finger(contact), 3, terms, hold=2, q0=[0.0, -1e-4])
    x = np.tile(push, 3) + 0.1 * np.random.default_rng(0).standard_normal(6)
    force = problem.motion(torch.as_tensor(x[None])).contact_force[:, 0, 0]
    assert bool((force[:, 2] > 0.0).all() if mode != "open" else (force == 0.0).all())
    share = force[:, 0].abs() / force[:, 2]
    assert mode == "open" or bool((share > 0.999 * FRICTION**2).all() == (mode == "slide"))
    width = 1e-6 * np.eye(6)
    for term in terms:
        alone = problem.with_costs([term])
        found = alone.evaluate(x[None]).gradient[0]
        around = alone.costs_of(np.concatenate([x + width, x - width])).reshape(2, 6)
        # The differences of costs of thousands keep ten digits.
        np.testing.assert_allclose(found, (around[0] - around[1]) / 2e-6, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(slopes_of_stages(alone, x), found, rtol=1e-10, atol=1e-12)
        assert (np.abs(found).max() == 0.0) == (mode == "open")


def test_forces_are_those_that_hold_the_body():
    """A ball in a corner, at rest: what presses it on is what the ground and the wall hold against."""
    simulator = finger(wall=True, friction=0.0)
    asked = [
        so.ContactForce("ball", target=(0.0, 0.0, 0.0), direction=None),
        so.ContactForce("tip", target=0.0, direction="normal"),
        so.ContactForce("ball", target=0.0, against="wall", direction=(1.0, 0.0, 0.0)),
        so.ContactForce("ground", target=0.0, against="tip"),
        so.ContactForce("spare", target=0.0, direction="normal"),
    ]
    problem = so.Problem(simulator, 60, asked, hold=2)
    motion = problem.motion(torch.tensor([[-3.0, -5.0] * 60], dtype=torch.float64))
    residuals = [cost.difference(motion)[-1, 0] for cost in asked]
    weight = 1.0 * G / 2 + 5.0  # the carriage hangs on its slide
    expected = [[3.0, 0.0, weight], [3.0 + weight], [3.0], [-weight], [0.0]]
    for found, wanted in zip(residuals, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


WANTED = np.array([10.0, 20.0, 30.0, 20.0, 10.0])


def pad(height: float = 0.1) -> sim.Simulator:
    scene = sim.ModelBuilder(gravity=(0, 0, 0))
    scene.add_ground()
    scene.add_link("pad", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("lift", "prismatic", child="pad", position=(0, 0, height))
    scene.add_geometry("pad", "sphere", size=0.1)
    return sim.Simulator(scene.finalize("float64"), 0.01, device="cpu", threads=1)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (so.ilqr, {}),
        (so.gradient, {}),
        (so.lbfgs, {}),
        (so.cmaes, {"spread": 5.0, "iterations": 40}),
    ],
)
def test_every_method_presses_as_wanted(method, options):
    """At rest the force is that of the control. The least force isn't exceeded, because that takes effort."""
    for force in (dict(target=WANTED), dict(least=WANTED))[: 1 if method is so.cmaes else 2]:
        costs = [so.ContactForce("pad", **force), so.Effort(1e-4)]
        found = method(so.Problem(pad(), 5, costs, hold=2), guess=np.full((5, 1), -15.0), **options)
        np.testing.assert_allclose(found.controls[:, 0], -WANTED, rtol=0.1 if method is so.cmaes else 1e-3)


def test_a_policy_presses_as_wanted():
    """Its gradient is that of differences, through the states that it sees and the forces of stages of two steps."""
    torch.manual_seed(0)
    policy = so.Policy(torch.nn.Linear(2, 1).double())
    problem = so.Problem(pad(), 5, [so.ContactForce("pad", target=WANTED)], hold=2, controls=policy, q0=[-1e-4])
    x = np.array([[0.3, -0.2, -5.0]])
    found = problem.evaluate(x).gradient[0]
    width = 1e-6 * np.eye(3)
    around = problem.costs_of(np.concatenate([x + width, x - width])).reshape(2, 3)
    np.testing.assert_allclose(found, (around[0] - around[1]) / 2e-6, rtol=1e-6, atol=1e-5)
    open_loop = so.Problem(pad(), 5, problem.costs, hold=2, q0=[-1e-4])
    controls = problem.motion(torch.as_tensor(x)).controls.flatten()[None].numpy()
    np.testing.assert_allclose(open_loop.costs_of(controls), problem.costs_of(x), rtol=1e-12)


def test_a_horizon_presses_as_wanted():
    """The target is changed from call to call, and the plant is heavier than the model."""
    term = so.ContactForce("pad", target=np.full(6, 10.0))
    control = so.MPC(so.Problem(pad(), 6, [term, so.Velocity(weight=1e-3)], hold=2), np.full((6, 1), -5.0))
    plant = pad().replace(1, contact_sensors=[1], parameters={"mass": [2.0]})
    state, errors = plant.initial_state(), []
    for moment in range(12):
        term.target[:] = 10.0 + 3.0 * (moment + np.arange(6))
        q, qd = state.numpy()
        motion = plant.rollout(state, np.repeat(control(q[0], qd[0])[None], 2, axis=0))
        state = motion.final_state
        errors.append(motion.contact_force.numpy()[-1, 0, 0, 2] - term.target[0])
    np.testing.assert_allclose(errors, 0.0, atol=0.05)


@pytest.mark.parametrize("method", ["gradient", "ilqr", "lbfgs", "MPC"])
def test_a_gradient_that_is_zero_is_named(method):
    """Once for each search, with the cost and the unknowns; other costs may still be reduced."""
    costs = [so.ContactForce("pad", target=20.0), so.Effort(1e-3)]
    problem = so.Problem(pad(height=0.5), 5, costs)
    guess, named = np.full((5, 1), -0.1), naming(method, "ContactForce('pad')", "lift", "gradient_smoothing")
    if method == "MPC":
        control = so.MPC(problem, guess)
        with pytest.warns(UserWarning, match=named) as told:
            control([0.0], [0.0])
        control([0.0], [0.0])
    else:
        with pytest.warns(UserWarning, match=named) as told:
            found = so.solve(problem, method, guess)
        assert "ContactForce('pad')" in found.message
        assert np.abs(found.controls).max() < 0.01
    assert len(told) == 1
    # What touches is found, and what has no cost isn't named.
    touching = so.Problem(pad(), 5, costs)
    assert "gradient" not in so.ilqr(touching, np.full((5, 1), -0.1)).message
    so.ilqr(so.Problem(pad(height=0.5), 5, [so.ContactForce("pad", 0.0), so.Effort(1e-3)]), np.full((5, 1), -0.1))


def test_what_is_refused():
    simulator = finger()
    for cost, named in (
        (lambda: so.ContactForce("ball"), ("least", "target")),
        (lambda: so.ContactForce("ball", 1.0, target=1.0), ("least", "target")),
        (lambda: so.ContactForce("ball", 1.0, direction=None), ("least", "direction")),
        (lambda: so.ContactForce("ball", 1.0, direction="up"), ("direction", "'up'")),
        (lambda: so.ContactForce(3.5, 1.0), ("on", 3.5)),
        (lambda: so.ContactForce("ball", target=[1.0, 2.0]), ("target", "(2,)", 3)),
        (lambda: so.ContactForce("ball", target=1.0, direction=None), ("target", "vector")),
        (lambda: so.ContactForce("ball", np.nan), ("least", "finite")),
        (lambda: so.ContactForce("thumb", 1.0), ("'thumb'", "ball", "ground")),
        (lambda: so.ContactForce("carriage", 1.0), ("'carriage'", "ball")),
        (lambda: so.ContactForce([], 1.0), ("geometry",)),
        (lambda: so.ContactForce("ball", 1.0, against=["tip", "ground"]), ("'ball'", "both")),
        (lambda: so.ContactForce("ball", 1.0, at=3), ("at", 3)),
    ):
        refuses(lambda cost=cost: so.Problem(simulator, 3, [cost()]), *named)


def test_costs_of_one_s_own_read_the_simulator_s_sensors():
    """In every method, before the forces that terms ask for; without second derivatives a sum of squares is needed."""

    class Pressed(so.Cost):
        name = "Pressed"

        def value(self, motion):
            return 0.5 * ((motion.contact_force[:, :, 0, 2] - 20.0) ** 2).sum(0)

    simulator = pad().replace(1, contact_sensors=[1])
    problem = so.Problem(simulator, 3, [Pressed(), so.ContactForce("pad", target=20.0, against="ground")])
    found = so.lbfgs(problem, guess=np.full((3, 1), -5.0))
    np.testing.assert_allclose(found.controls, -20.0, rtol=1e-3)
    refuses(lambda: so.ilqr(problem, guess=np.full((3, 1), -5.0)), "'Pressed'", "LeastSquares")
    assert so.Problem(simulator, 3, [so.ContactForce(0, 1.0)]).forces.measures[1].on == 0
