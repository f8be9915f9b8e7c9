"""Identification by motions: derivatives, single and multiple shooting, contact, what can't be told."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
from scenes import box, racecar
from sim.identify import FunctionUnknowns, InertialPrior, Log, LogNormal, Normal, fit_trajectories, report
from sim.identify.trajectories.segments import cut
from sim.identify.trajectories.sensitivity import Simulators
from sim.identify.trajectories.shooting import Shooting, excess_variance
from sim.identify.unknown.unknowns import Unknowns
from sim.model.builder.properties import JOINT_FIELDS, in_groups
from tests.errors import raises_naming

DT = 0.002


@pytest.fixture(scope="module")
def pendulum():
    """Two links in a row, which swing chaotically from high up."""
    builder = sim.ModelBuilder()
    for k in range(2):
        builder.add_link(f"link{k}", mass=1.0, com=(0, 0, -0.25), inertia=np.diag([0.02, 0.02, 0.001]))
        parent = f"link{k - 1}" if k else "world"
        builder.add_joint(
            f"joint{k}", "revolute", child=f"link{k}", parent=parent, axis=(0, 1, 0), position=(0, 0, -0.5 * k),
            spring=sim.Spring(damping=0.05),
        )  # fmt: skip
    return builder.finalize("float64")


def swing(model, seconds, seed=0, noise=0.01, start=(2.0, 1.0), every=5, **parameters):
    """A log of coordinates with noise, 100 times a second."""
    simulator = sim.Simulator(model, DT, 1, "cpu", parameters=parameters)
    states = simulator.rollout(simulator.state(start), steps=round(seconds / DT))
    q = states.q.numpy()[::every, 0]
    q = q + noise * np.random.default_rng(seed).standard_normal(q.shape)
    return Log(model, DT * every * np.arange(len(q)), q, source=f"seed {seed}")


def with_gaps(log, rows):
    """The log without coordinates of its first joint in some rows."""
    q = log.q.copy()
    q[rows, 0] = np.nan
    return replace(log, q=q)


def slide(scene_friction, seconds=0.6, seed=0, noise=1e-4, speed=2.0, push=None):
    """A box on the ground, seen while it slides; its mass matters where it is pushed."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.9))
    builder.add_box(
        half_extents=(0.1, 0.1, 0.05), mass=1.0, position=(0, 0, 0.05), surface=sim.Surface(friction=0.5), name="box"
    )
    model = builder.finalize("float64")
    friction = model.parameters["friction"].copy()
    friction[-1] = scene_friction / 0.9
    simulator = sim.Simulator(model, DT, 1, "cpu", parameters={"friction": friction})
    steps = round(seconds / DT)
    tau = None if push is None else np.tile([push, 0, 0, 0, 0, 0], (steps, 1, 1))
    states = simulator.rollout(simulator.state(model.q0, [speed, 0, 0, 0, 0, 0]), tau, steps=steps)
    q, qd = (x.numpy()[::10, 0] for x in (states.q, states.qd))
    rng = np.random.default_rng(seed)
    seen = q.copy()
    seen[:, :3] += noise * rng.standard_normal((len(q), 3))
    seen[0] = q[0]
    inputs = None if tau is None else np.tile(tau[0, 0], (len(q), 1))
    return model, Log(model, 10 * DT * np.arange(len(q)), seen, qd=qd, tau=inputs)


@pytest.mark.parametrize(
    ("segment", "start", "extra"),
    [(0.08, {}, 4 * 11), (None, {"q": 0.0, "qd": 0.0}, 0), (None, {"q": [np.inf, 0.1], "qd": [0.0, 2.0]}, 3 * 3)],
)
def test_derivatives(pendulum, segment, start, extra):
    """Of all residuals in all free numbers, gaps and priors included, against central differences."""
    logs = [swing(pendulum, 0.3, seed) for seed in range(2)] + [swing(pendulum, 0.2, 2)]
    logs[0] = with_gaps(logs[0], rows=[0, 5, 6])
    priors = {"inertial of link1": InertialPrior(), "mass of link0": LogNormal(1.0, 0.2), "damping of joint1": None}
    unknowns = Unknowns(pendulum, priors)
    segments = cut(pendulum, logs, DT, {"q": [0.01, 0.02]}, segment, start)
    problem = Shooting(unknowns, Simulators(pendulum, DT, segments.hold, unknowns.parameters), segments)
    rng = np.random.default_rng(0)
    x = np.append(unknowns.start.numpy() + 0.05 * rng.standard_normal(12), 0.3 * rng.standard_normal(problem.extra))
    assert problem.extra == extra
    direction = rng.standard_normal(len(x))
    difference = (problem.values(x + 1e-6 * direction) - problem.values(x - 1e-6 * direction)) / 2e-6
    found = problem.jacobian(x) @ direction
    np.testing.assert_allclose(found, difference, atol=1e-7 * np.abs(difference).max())


@pytest.mark.parametrize("noisy", [False, True])
def test_derivatives_of_a_free_body_in_contact(noisy):
    """Quaternions, measured velocities, a push that may be noisy, several intervals."""
    model, log = slide(0.3, 0.1, push=3.0)
    turned = log.q.copy()
    turned[:, 3:] += 1e-3 * np.random.default_rng(1).standard_normal((len(turned), 4))
    log = Log(model, log.time, turned, log.qd + 0.01, tau=log.tau)
    unknowns = Unknowns(model, ["mass of box", "friction of box"])
    noise = {"q": 0.01, "qd": 0.1, "tau": 50.0 if noisy else 0.0}
    segments = cut(model, [log], DT, noise, 0.04, {})
    problem = Shooting(unknowns, Simulators(model, DT, segments.hold, unknowns.parameters), segments)
    rng = np.random.default_rng(0)
    x = np.append(unknowns.start.numpy(), 0.01 * rng.standard_normal(problem.extra))
    # The box stays on all its corners: a tilt would lift some of them.
    free = np.ones(problem.extra).reshape(-1, 12)
    free[:, [2, 3, 4, 8, 9, 10]] = 0.0
    x[2:] *= free.ravel()
    if noisy:
        before = problem.values(x)
        problem.whiten(x)
        assert np.abs(problem.values(x) - before).max() > 1.0
    direction = np.append(rng.standard_normal(2), free.ravel() * rng.standard_normal(problem.extra))
    difference = (problem.values(x + 1e-6 * direction) - problem.values(x - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(problem.jacobian(x) @ direction, difference, atol=1e-6 * np.abs(difference).max())


def test_multiple_shooting_where_single_shooting_fails(pendulum):
    """Four seconds of chaos: the sum of squares over a whole motion has many minima."""
    truth = {"damping of joint0": 0.02, "damping of joint1": 0.01, "mass of link1": 1.4}
    log = swing(pendulum, 4.0, damping=np.array([0.02, 0.01]), mass=np.array([1.0, 1.4]))
    single = fit_trajectories(pendulum, log, list(truth), dt=DT, noise={"q": 0.01}, max_evaluations=15)
    multiple = fit_trajectories(pendulum, log, list(truth), dt=DT, noise={"q": 0.01}, segment=0.5)
    assert single.estimate.probability < 1e-10
    assert str(single.estimate).endswith("had not converged after 15 evaluations; raise max_evaluations.")
    assert multiple.estimate.probability > 0.01
    for name, value in truth.items():
        assert abs(multiple.estimate[name] - value) < 3.5 * multiple.estimate.deviation(name)
        assert multiple.estimate.deviation(name) < 0.05 * value
    assert 0.9 < multiple.residual.min() <= multiple.residual.max() < 1.1
    assert multiple.residual_before.min() > 10.0
    np.testing.assert_allclose(multiple.parameters["mass"], [1.0, multiple.estimate["mass of link1"]])


@pytest.mark.parametrize("seed", [3, 4, 13])
def test_segments_of_motions_with_dry_friction(seed):
    """From these logs a search whose gaps are closed from the start ends up to 60 deviations from the truth."""
    builder = sim.ModelBuilder()
    builder.add_link("upper", mass=1.0, com=(0, 0, -0.3), inertia=0.05 * np.eye(3))
    builder.add_joint("shoulder", "revolute", child="upper", axis=(0, 1, 0), spring=sim.Spring(damping=0.3))
    builder.add_link("lower", mass=0.5, com=(0, 0, -0.2), inertia=0.02 * np.eye(3))
    position = {"parent": "upper", "child": "lower", "position": (0, 0, -0.5), "axis": (0, 1, 0)}
    builder.add_joint("elbow", "revolute", **position, spring=sim.Spring(damping=0.1), friction_loss=0.05)
    model = builder.finalize("float64")
    true = {"damping": [0.25, 0.12], "mass": [1.0, 0.6], "friction_loss": [0.0, 0.08]}
    simulator = sim.Simulator(model, 0.0025, device="cpu", parameters=true)
    rng, logs = np.random.default_rng(seed), []
    for rows in (151, 81):
        start, time = (rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2)), 0.01 * np.arange(rows)
        tau = np.stack([k * np.sin(w * time + rng.uniform(0, 6)) for k, w in ((2.0, 2.0), (0.8, 3.0))], axis=1)
        motion = simulator.rollout(simulator.state(*start), np.repeat(tau[:-1], 4, axis=0)[:, None])
        q = motion.q.numpy()[::4, 0]
        logs.append(Log(model, time, q + 0.005 * rng.standard_normal(q.shape), tau=tau))
    names = ["damping of shoulder", "mass of lower", "friction_loss of elbow", "damping of elbow"]
    fit = fit_trajectories(model, logs, names, dt=0.0025, noise={"q": 0.005}, segment=0.4)
    assert fit.estimate.converged
    assert fit.estimate.probability > 0.01
    off = (fit.estimate.values - [0.25, 0.6, 0.08, 0.12]) / fit.estimate.deviations
    assert np.abs(off).max() < 3.0


def test_intervals_hold_the_truth(pendulum):
    """Of 10 short motions with unknown initial states, measured with other noise each."""
    truth = np.array([0.03, 1.2])
    errors = []
    for seed in range(10):
        log = swing(pendulum, 0.8, seed, damping=np.array([0.03, 0.05]), mass=np.array([1.0, 1.2]))
        fit = fit_trajectories(
            pendulum, log, ["damping of joint0", "mass of link1"], dt=DT, noise={"q": 0.01}, segment=0.2
        )
        assert fit.estimate.converged
        errors.append((fit.estimate.values - truth) / fit.estimate.deviations)
    # Of 20 errors the mean square scatters by 0.32.
    assert 0.3 < np.mean(np.square(errors)) < 2.0


def test_friction_of_a_sliding_box():
    """It stops within the log. Both frictions alone can't be told: only their product has an effect."""
    model, log = slide(0.45)
    ground = model.geometries[0].name
    fit = fit_trajectories(model, log, ["friction of box"], dt=DT, noise={"q": 1e-4}, known_start=True)
    assert fit.estimate["friction of box"] == pytest.approx(0.5, abs=4.0 * fit.estimate.deviation("friction of box"))
    assert fit.estimate.deviation("friction of box") < 1e-3
    both = fit_trajectories(
        model, log, ["friction of box", f"friction of {ground}"], dt=DT, noise={"q": 1e-4}, known_start=True
    )
    assert both.estimate.not_told == ("friction of box", f"friction of {ground}")
    (words,) = both.estimate.undetermined
    assert words.startswith(("friction of box with -", f"friction of {ground} with -"))
    product = both.estimate["friction of box"] * both.estimate[f"friction of {ground}"]
    assert product == pytest.approx(0.45, abs=1e-3)
    with raises_naming("1 combinations", "undetermined"):
        both.sampled()
    prior = fit_trajectories(
        model, log, {"friction of box": None, f"friction of {ground}": Normal(0.9, 0.09)}, dt=DT, noise={"q": 1e-4},
        known_start=True,
    )  # fmt: skip
    assert prior.estimate.undetermined == ()
    assert prior.estimate.deviation("friction of box") == pytest.approx(0.05, rel=0.02)


def test_what_is_not_measured_has_no_effect(pendulum):
    """Of one joint nothing was seen: whatever stands in the log, and the fit is that of the other joint alone."""
    log = swing(pendulum, 0.6, damping=np.array([0.03, 0.05]))
    log = Log(pendulum, log.time, np.vstack([[2.0, 1.0], log.q[1:]]), np.zeros_like(log.q))
    other = Log(pendulum, log.time, log.q + np.where(log.time > 0.0, 1.0, 0.0)[:, None] * [0.0, 0.3], log.qd)
    first, second = (
        fit_trajectories(
            pendulum, each, ["damping of joint0"], dt=DT, noise={"q": [0.01, np.inf]}, known_start=True
        )
        for each in (log, other)
    )  # fmt: skip
    assert first.estimate["damping of joint0"] == second.estimate["damping of joint0"]
    error = first.estimate["damping of joint0"] - 0.03
    assert abs(error) < 3.5 * first.estimate.deviation("damping of joint0") < 0.02
    assert first.residual[0, 0] == pytest.approx(1.0, abs=0.3)
    assert np.isnan(first.residual[0, 1])
    assert "q of joint0: " in report(first)
    assert "q of joint1: " not in report(first)


@pytest.mark.parametrize("segment", [None, 0.2])
def test_gaps_are_no_measurements(pendulum, segment):
    """A coordinate that is absent in three of four rows is found all the same, with its wider deviation."""
    log = swing(pendulum, 0.8, damping=np.array([0.03, 0.05]))
    gaps = np.flatnonzero(np.arange(len(log)) % 4)
    given = dict(dt=DT, noise={"q": 0.01}, segment=segment)
    whole, sparse = (
        fit_trajectories(pendulum, each, ["damping of *"], **given).estimate for each in (log, with_gaps(log, gaps))
    )
    assert sparse.measured == whole.measured - len(gaps)
    assert sparse.converged
    assert (np.abs(sparse.values - [0.03, 0.05]) < 3.5 * sparse.deviations).all()
    assert (sparse.deviations > whole.deviations).all()


RAIL_NOISE, RAIL_DT = 0.003, 0.002


def on_a_rail(seed=0, force=2.0, rows=26, speed=0.4, position=0.05):
    """A mass of 1.6 kg that a constant force moves along a rail; its model has 2 kg."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("cart", mass=2.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, RAIL_DT, 1, "cpu", parameters={"mass": [1.6]})
    tau = np.full((10 * (rows - 1), 1, 1), force)
    q = simulator.rollout(simulator.state([position], [speed]), tau).q.numpy()[::10, 0]
    q = q + RAIL_NOISE * np.random.default_rng(seed).standard_normal(q.shape)
    return model, Log(model, 10 * RAIL_DT * np.arange(rows), q, tau=np.full((rows, 1), force))


@pytest.mark.parametrize(
    ("start", "first"), [({}, None), ({"q": 0.02, "qd": 0.3}, 0.1), ({"q": np.inf, "qd": 0.0}, None)]
)
def test_priors_of_the_start(start, first):
    """Against linear least squares with the same priors: position and acceleration of a pushed cart are linear."""
    model, log = on_a_rail(speed=0.0 if start.get("qd") == 0.0 else 0.4)
    q = log.q.copy()
    if first is not None:
        q[0] = first
    fit = fit_trajectories(model, replace(log, q=q), ["mass of cart"], dt=RAIL_DT, noise={"q": RAIL_NOISE}, start=start)
    t = log.time
    rows = np.stack([np.ones_like(t), t, 0.5 * t * (t + RAIL_DT)], axis=1) / RAIL_NOISE
    target = q[:, 0] / RAIL_NOISE
    if first is not None:  # the first row is the mean of the prior, and so is zero velocity
        rows[0], target[0] = [1.0 / 0.02, 0.0, 0.0], first / 0.02
        rows, target = np.vstack([rows, [0.0, 1.0 / 0.3, 0.0]]), np.append(target, 0.0)
    if start.get("qd") == 0.0:
        rows = rows[:, [0, 2]]
    information = rows.T @ rows
    acceleration = np.linalg.solve(information, rows.T @ target)[-1]
    deviation = np.sqrt(np.linalg.inv(information)[-1, -1])
    assert fit.estimate["mass of cart"] == pytest.approx(2.0 / acceleration, rel=1e-5)
    # Through mass = force / acceleration.
    assert fit.estimate.deviation("mass of cart") == pytest.approx(2.0 / acceleration**2 * deviation, rel=1e-4)
    assert fit.estimate.measured == 26 - (first is not None)


def pushed(seed, tau_noise, q_noise=1e-4, rows=41, mass=1.6, start=(0.05, 0.4)):
    """A cart of 1.6 kg whose log has noisy forces, and its model, of 2 kg."""
    model, _ = on_a_rail()
    rng, tau = np.random.default_rng(seed), 3.0 * np.sin(0.3 * np.arange(rows))[:, None]
    simulator = sim.Simulator(model, RAIL_DT, 1, "cpu", parameters={"mass": [mass]})
    driven = np.repeat(tau[:-1], 5, axis=0)[:, None]
    q = simulator.rollout(simulator.state(*([x] for x in start)), driven).q.numpy()[::5, 0]
    q, tau = q + q_noise * rng.standard_normal(q.shape), tau + tau_noise * rng.standard_normal(tau.shape)
    return model, Log(model, 5 * RAIL_DT * np.arange(rows), q, tau=tau)


@pytest.mark.parametrize("segment", [None, 0.1])
def test_noise_of_inputs(segment):
    """Against generalised least squares with the covariance of all rows: in one over the mass the motion is linear."""
    tau_noise, q_noise = 0.5, 1e-4
    model, log = pushed(0, tau_noise, q_noise)
    fit = fit_trajectories(
        model, log, ["mass of cart"], dt=RAIL_DT, noise={"q": q_noise, "tau": tau_noise}, segment=segment
    )
    rows, interval = len(log), 5 * RAIL_DT
    after = np.arange(rows)[:, None] - np.arange(rows - 1) - 1  # whole intervals after the one of an input
    response = np.where(after >= 0, 15 * RAIL_DT**2 + np.maximum(after, 0) * interval**2, 0.0)  # to a force, for 1 kg
    inverse = 1.0 / fit.estimate["mass of cart"]
    spread = (inverse * tau_noise) ** 2 * response @ response.T + q_noise**2 * np.eye(rows)
    columns = np.column_stack([np.ones(rows), log.time, response @ log.tau[:-1, 0]])
    information = columns.T @ np.linalg.solve(spread, columns)
    found = np.linalg.solve(information, columns.T @ np.linalg.solve(spread, log.q[:, 0]))
    left = log.q[:, 0] - columns @ found
    assert fit.estimate["mass of cart"] == pytest.approx(1.0 / found[-1], rel=1e-5)
    deviation = np.sqrt(np.linalg.inv(information)[-1, -1]) / inverse**2
    assert fit.estimate.deviation("mass of cart") == pytest.approx(deviation, rel=1e-4)
    if segment is None:
        assert fit.estimate.chi_square == pytest.approx(left @ np.linalg.solve(spread, left), rel=1e-5)
    assert fit.excess.tolist() == [[1.0]]


def test_intervals_hold_the_truth_with_noisy_inputs():
    """Of 10 logs; without the noise of the inputs, residuals widen the deviations."""
    noise, errors = {"q": 2e-6, "tau": 0.1}, []
    for seed in range(10):
        model, log = pushed(seed, noise["tau"], noise["q"])
        fit = fit_trajectories(model, log, ["mass of cart"], dt=RAIL_DT, noise=noise)
        errors.append((fit.estimate["mass of cart"] - 1.6) / fit.estimate.deviation("mass of cart"))
        assert fit.estimate.widening == 1.0
    # Of 10 errors the mean square scatters by 0.45.
    assert 0.2 < np.mean(np.square(errors)) < 2.5
    exact = fit_trajectories(model, log, ["mass of cart"], dt=RAIL_DT, noise={"q": noise["q"]})
    assert exact.estimate.widening > 20.0
    assert abs(exact.estimate["mass of cart"] - 1.6) < 4.0 * exact.estimate.deviation("mass of cart")


def test_deviations_widen_where_the_model_is_wrong():
    """Noise that is three times as large as stated, and dry friction that the model takes for damping."""
    truth = hinge(2.0, 0.5, damping=0.3)
    log = swing(truth, 2.0, noise=3e-3, start=[1.0])
    right, stated = (
        fit_trajectories(truth, log, ["damping of hinge"], dt=DT, noise={"q": noise}) for noise in (3e-3, 1e-3)
    )
    assert right.estimate.widening == 1.0
    assert right.excess.tolist() == [[1.0]]
    assert stated.estimate.deviations / right.estimate.deviations == pytest.approx(1.0, abs=0.25)
    assert stated.estimate.widening == pytest.approx(np.sqrt(stated.excess[0, 0]))
    assert f"{stated.estimate.widening:.3g} times" in str(stated.estimate).splitlines()[-1]
    dry = hinge(2.0, 0.5, damping=0.3, friction_loss=0.2)
    log = swing(dry, 2.0, noise=1e-3, start=[1.0])
    wrong = fit_trajectories(truth, log, ["damping of hinge", "mass of bob"], dt=DT, noise={"q": 1e-3})
    assert wrong.estimate.widening > 4.0 * wrong.residual[0, 0], "they are alike for longer than a row"
    assert (np.abs(wrong.estimate.values - [0.3, 2.0]) < 6.0 * wrong.estimate.deviations).all()


def test_soft_friction_fitted_by_the_hard_law():
    """A box that creeps before it slides, and then slides, by MuJoCo's law: the hard one is wrong by 0.15 %."""
    model, dt = puck(), 1 / 600
    push = 0.5 * 0.3 * 9.81 * 1.6 * np.sin(2.0 * np.pi * np.arange(0.0, 1.0, 1 / 30))
    tau = np.zeros((600, 1, 6))
    tau[:, 0, 0] = np.repeat(push, 20)
    noise, errors, fits = 1e-5, [], []
    for law in (sim.MujocoContact(), sim.HardContact()):
        simulator = sim.Simulator(model, dt, 1, "cpu", law)
        q = simulator.rollout(simulator.state(model.q0), tau).q.numpy()[::20, 0].copy()
        q[:, :2] += noise * np.random.default_rng(0).standard_normal((len(q), 2))
        q[:, 2:] = np.nan
        log = Log(model, 20 * dt * np.arange(len(q)), q, tau=np.vstack([tau[::20, 0], tau[-1:, 0]]))
        flat = [np.inf, np.inf, 0.0, 0.0, 0.0, 0.0]
        given = dict(dt=dt, noise={"q": noise}, start={"q": flat, "qd": 0.0})
        fits.append(fit_trajectories(model, log, {"friction of puck": Normal(0.4, 1.0)}, **given).estimate)
        errors.append(abs(fits[-1]["friction of puck"] - 0.5) / fits[-1].deviation("friction of puck"))
    assert errors[1] < 3.5
    assert fits[1].widening == 1.0
    assert fits[0].widening > 10.0
    assert errors[0] < 8.0
    assert errors[0] * fits[0].widening > 50.0, "without it they would be far off"


def test_excess_variance():
    """One for independent residuals, else that of their average: alike over few rows, or larger than the noise."""
    rng, everything = np.random.default_rng(0), np.ones((400, 1), dtype=bool)
    white = rng.standard_normal((200, 400, 1))
    assert sum(excess_variance(each, everything) > 1.0 for each in white) <= 5
    # An average over four neighbours, scaled to unit variance, has four times the variance at length.
    alike = np.stack([white[:, k : 397 + k] for k in range(4)]).sum(axis=0) / 2.0
    found = [excess_variance(each, everything[:397]) for each in alike]
    assert np.median(found) == pytest.approx(4.0, rel=0.5)
    assert np.mean([excess_variance(3.0 * each, everything) for each in white]) == pytest.approx(9.0, rel=0.15)
    measured = everything.copy()
    measured[100:300] = False
    assert excess_variance(np.where(measured, 3.0 * white[0], 0.0), measured) == pytest.approx(9.0, rel=0.4)


def test_a_mass_that_runs_to_zero_is_at_its_bound():
    """Its log is that of a pendulum without the mass, with noise on the side of a negative one."""

    def model(mass):
        builder = sim.ModelBuilder()
        builder.add_link("arm", mass=1.0, com=(0, 0, -0.25), inertia=np.diag([0.02, 0.02, 0.001]))
        builder.add_joint("shoulder", "revolute", child="arm", axis=(0, 1, 0), spring=sim.Spring(damping=0.05))
        builder.add_link("load", mass=mass, inertia=1e-3 * np.eye(3))
        joint = dict(parent="arm", position=(0, 0, -0.5), axis=(0, 1, 0), spring=sim.Spring(damping=0.05))
        builder.add_joint("wrist", "revolute", child="load", **joint)
        return builder.finalize("float64")

    log = swing(model(1e-9), 1.0, seed=2, noise=1e-3, start=[1.0, 0.0])
    fit = fit_trajectories(model(0.3), log, ["mass of load"], dt=DT, noise={"q": 1e-3})
    assert fit.estimate.at_bound == ("mass of load",)
    assert 0.0 < fit.estimate["mass of load"] < 1e-6
    assert "mass of load is at its bound" in report(fit)


def test_the_stiffness_of_a_ball_joint_is_found():
    def ball(stiffness: float) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_link("bob", mass=1.0, com=(0, 0, -0.3), inertia=0.1 * np.eye(3))
        builder.add_joint("ball", "spherical", child="bob", spring=sim.Spring(stiffness=stiffness))
        return builder.finalize("float64")

    true = ball(5.0)
    simulator = sim.Simulator(true, DT, device="cpu")
    states = simulator.rollout(simulator.state(true.q0, [1.0, 2.0, -1.0]), steps=60)
    log = Log(true, DT * np.arange(61), *(each.numpy()[:, 0] for each in (states.q, states.qd)))
    fit = fit_trajectories(ball(3.0), log, ["stiffness of ball"], dt=DT, noise={"q": 1e-3}, known_start=True)
    assert fit.estimate["stiffness of ball"] == pytest.approx(5.0, rel=1e-6)


def test_friction_along_two_directions():
    """A ski that slides askew, and a box without a direction, which has one friction only."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    surface = sim.Surface(friction=0.1, friction_across=0.5, friction_direction=(1, 0, 0))
    builder.add_box(half_extents=(0.2, 0.1, 0.05), mass=1.0, position=(0, 0, 0.05), surface=surface, name="ski")
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 5, 0.1), name="box")
    model = builder.finalize("float64")
    unknowns = Unknowns(model, {"friction_across of *": Normal(0.5, 0.2), "friction of ski": Normal(0.1, 0.1)})
    assert unknowns.names == ("friction_across of ski/geometry", "friction of ski")
    with raises_naming("friction_across of box", "ski"):
        Unknowns(model, ["friction_across of box"])
    friction, across = (model.parameters[name].copy() for name in ("friction", "friction_across"))
    ski = next(k for k, geometry in enumerate(model.geometries) if geometry.name == "ski/geometry")
    friction[ski], across[ski] = 0.15, 0.4
    simulator = sim.Simulator(model, DT, 1, "cpu", parameters={"friction": friction, "friction_across": across})
    qd0 = np.zeros(model.nv)
    qd0[:2] = 1.0, 1.5
    q = simulator.rollout(simulator.state(model.q0, qd0), steps=200).q.numpy()[::20, 0]
    log = Log(model, 20 * DT * np.arange(len(q)), q, qd=np.tile(qd0, (len(q), 1)))
    fit = fit_trajectories(model, log, unknowns, dt=DT, noise={"q": 1e-3}, known_start=True)
    np.testing.assert_allclose(fit.estimate.values, [0.4, 0.15], atol=1e-4)


def puck():
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=1.0))
    builder.add_box(
        half_extents=(0.05, 0.05, 0.02), mass=0.3, position=(0, 0, 0.02), surface=sim.Surface(friction=0.5), name="puck"
    )
    return builder.finalize("float64")


def friction_of_a_puck(model, seed, dt=1 / 300, mu=0.31, noise=0.002):
    """Error of its friction, in standard deviations, from x and y in 30 pictures while it slides to rest."""
    t, v = np.arange(30) / 30, np.array([1.5, 0.4])
    speed = np.linalg.norm(v)
    end = np.minimum(t, speed / (9.81 * mu))
    q = np.full((len(t), 7), np.nan)
    q[:, :2] = np.outer(speed * end - 0.5 * 9.81 * mu * end**2, v / speed)
    q[:, :2] += noise * np.random.default_rng(seed).standard_normal((len(t), 2))
    flat = [np.inf, np.inf, 0.0, 0.0, 0.0, 0.0]  # it lies on the ground and doesn't turn
    fit = fit_trajectories(
        model, Log(model, t, q), ["friction of puck"], dt=dt, noise={"q": noise}, start={"q": flat, "qd": flat}
    )
    assert fit.estimate.converged
    assert fit.estimate.deviation("friction of puck") < 0.004
    return (fit.estimate["friction of puck"] - mu) / fit.estimate.deviation("friction of puck")


def test_friction_of_a_puck_from_a_film():
    assert abs(friction_of_a_puck(puck(), 0)) < 3.5


@pytest.mark.slow
def test_friction_of_many_pucks():
    """Of 20 intervals of 95 %, fewer than 16 hold the truth once in 400 times."""
    model = puck()
    errors = np.array([friction_of_a_puck(model, seed) for seed in range(1, 21)])
    assert (np.abs(errors) < 1.96).sum() >= 16


def test_friction_of_a_racecar():
    """It brakes with locked wheels and stops; only where its chassis is was seen, at 50 times the noise of the box."""
    scene = racecar.build("float64", friction=0.2)
    friction = np.where(np.arange(scene.model.num_geometries) == scene.ground, 0.06, 1.0)
    simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu", parameters={"friction": friction})
    q = simulator.rollout(simulator.state(scene.q0, scene.qd0), steps=scene.steps).q.numpy()[::12, 0]
    seen = q.copy()
    seen[1:, :3] += 5e-3 * np.random.default_rng(0).standard_normal((len(q) - 1, 3))
    log = Log(scene.model, 12 * scene.dt * np.arange(len(q)), seen, qd=np.tile(scene.qd0, (len(q), 1)))
    noise = np.where(np.arange(scene.model.nv) < 3, 5e-3, np.inf)
    fit = fit_trajectories(scene.model, log, ["friction of ground"], dt=scene.dt, noise={"q": noise}, known_start=True)
    deviation = fit.estimate.deviation("friction of ground")
    assert fit.estimate["friction of ground"] == pytest.approx(0.06, abs=3.5 * deviation)
    assert deviation < 3e-4
    np.testing.assert_allclose(fit.residual[0, :3], 1.0, atol=0.3)


def test_sampling_agrees_with_laplace_where_the_motion_is_nearly_linear(pendulum):
    simulator = sim.Simulator(pendulum, DT, 1, "cpu", parameters={"damping": np.array([0.03, 0.05])})
    q = simulator.rollout(simulator.state([0.5, 0.2]), steps=400).q.numpy()[::20, 0]
    seen = q + 1e-3 * np.random.default_rng(0).standard_normal(q.shape)
    seen[0] = q[0]
    log = Log(pendulum, 20 * DT * np.arange(len(q)), seen, qd=np.gradient(q, 20 * DT, axis=0) * 0.0)
    fit = fit_trajectories(pendulum, log, ["damping of *"], dt=DT, noise={"q": 1e-3}, known_start=True)
    sampled = fit.sampled(samples=256, rounds=2)
    np.testing.assert_allclose(sampled.deviations, fit.estimate.deviations, rtol=0.2)
    assert (np.abs(sampled.values - fit.estimate.values) < 0.3 * fit.estimate.deviations).all()
    assert sampled.evaluations == fit.estimate.evaluations + 512


def test_unknowns_of_a_function_and_guesses():
    """The box of two halves, from the best of some guesses: its observed motion, without noise, gives it back."""
    scene = box.build()
    truth = np.log(np.array(box.TYPICAL))
    unknowns = FunctionUnknowns(
        box.UNKNOWNS, box.UNITS, torch.tensor(truth + 0.3), np.log(box.LEAST), np.log(box.MOST),
        lambda x: box.parameters(scene, x.exp().reshape(-1, 4)) if x.dim() > 1 else one(scene, x),
    )  # fmt: skip
    simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu")
    states = simulator.rollout(simulator.state(scene.q0, scene.qd0), np.tile(scene.push, (150, 1, 1)))
    q, qd = (x.numpy()[::10, 0] for x in (states.q, states.qd))
    log = Log(scene.model, 10 * scene.dt * np.arange(16), q, qd, tau=np.tile(scene.push, (16, 1)))
    rng = np.random.default_rng(0)
    guesses = np.vstack([truth + 0.5 * rng.standard_normal((20, 4)), truth + 0.01])
    fit = fit_trajectories(
        scene.model, log, unknowns, dt=scene.dt, noise={"q": 1e-3}, known_start=True, guesses=guesses
    )
    np.testing.assert_allclose(fit.estimate.values, truth, atol=1e-6)
    with raises_naming("guesses", "(1, 3)", "(n, 4)"):
        fit_trajectories(
            scene.model, log, unknowns, dt=scene.dt, noise={"q": 1e-3}, known_start=True, guesses=guesses[:1, :3]
        )
    summed = replace(unknowns, function=lambda x: {"mass": x.exp().sum()})
    with raises_naming("parameter 'mass'", 1, "shape", "(1, 1)"):
        fit_trajectories(scene.model, log, summed, dt=scene.dt, noise={"q": 1e-3}, known_start=True)


def test_a_model_in_float32_is_fitted_in_float64(pendulum):
    log = swing(pendulum, 0.5, noise=1e-3)
    single = Log(replace(pendulum, dtype="float32"), log.time, log.q)
    for given in (dict(), dict(segment=0.25)):
        fits = [
            fit_trajectories(each.model, each, ["damping of joint0"], dt=DT, noise={"q": 1e-3}, **given)
            for each in (log, single)
        ]
        np.testing.assert_array_equal(fits[1].estimate.values, fits[0].estimate.values)
        assert fits[1].model.dtype == "float64"


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, functools.partial(torch.device, "meta")])
def test_fits_in_any_mode_of_pytorch(pendulum, mode):
    logs = swing(pendulum, 0.4)
    expected = fit_trajectories(pendulum, logs, ["damping of joint0"], dt=DT, noise={"q": 0.01})
    with mode():
        found = fit_trajectories(pendulum, logs, ["damping of joint0"], dt=DT, noise={"q": 0.01})
    np.testing.assert_array_equal(found.estimate.values, expected.estimate.values)


def hinge(mass, length, **quantities):
    builder = sim.ModelBuilder()
    inertia = 0.1 * mass * length**2 * np.eye(3)
    builder.add_link("bob", mass=mass, com=(0, 0, -length), inertia=inertia)
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), **in_groups(JOINT_FIELDS, quantities))
    return builder.finalize("float64")


@pytest.mark.parametrize(
    ("mass", "length", "truth"),
    [(2.0, 0.5, {"damping": 0.3}), (200.0, 2.0, {"damping": 300.0, "stiffness": 3000.0}),
     (2e-3, 0.05, {"damping": 2e-6, "armature": 3e-7})],
)  # fmt: skip
def test_numbers_that_start_at_their_bound(mass, length, truth):
    """Of a model without damping it is found none the less, and a small number isn't taken for one at its bound."""
    log = swing(hinge(mass, length, **truth), 2.0, noise=1e-3, start=[1.0])
    model = hinge(mass, length)
    fit = fit_trajectories(model, log, [f"{name} of hinge" for name in truth], dt=DT, noise={"q": 1e-3})
    assert fit.estimate.converged
    assert fit.estimate.at_bound == ()
    assert 0.8 < fit.residual[0, 0] < 1.2
    for name, value in truth.items():
        assert abs(fit.estimate[f"{name} of hinge"] - value) < 3.5 * fit.estimate.deviation(f"{name} of hinge")


def test_a_number_without_effect_stays_at_its_bound():
    """The restitution of what touches nothing."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(restitution=0.5))
    builder.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 9), name="ball", surface=sim.Surface(restitution=0.0))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    states = simulator.rollout(simulator.initial_state(), steps=50)
    q, qd = (each.numpy()[::5, 0] for each in (states.q, states.qd))
    log = Log(model, 5 * DT * np.arange(11), q, qd)
    wanted = {"restitution of ball": None, "mass of ball": Normal(1.0, 0.1)}
    fit = fit_trajectories(model, log, wanted, dt=DT, noise={"q": 1e-3}, known_start=True)
    assert fit.estimate["restitution of ball"] == 0.0
    assert np.isinf(fit.estimate.deviation("restitution of ball"))


def test_a_number_at_its_bound_stays_there():
    log = swing(hinge(2.0, 0.5), 2.0, noise=1e-3, start=[1.0])
    fit = fit_trajectories(
        hinge(2.0, 0.5, spring=sim.Spring(damping=0.1)), log, "damping of hinge", dt=DT, noise={"q": 1e-3}
    )
    assert abs(fit.estimate["damping of hinge"]) < 3.5 * fit.estimate.deviation("damping of hinge")


def test_the_integrator_that_is_given(pendulum):
    """A log that Runge and Kutta's method made is met by it alone."""
    law = sim.MujocoContact()
    dt = 0.02
    simulator = sim.Simulator(pendulum, dt, 1, "cpu", law, integrator="rk4")
    q = simulator.rollout(simulator.state([2.0, 1.0]), steps=20).q.numpy()[:, 0]
    log = Log(pendulum, dt * np.arange(21), q, qd=np.zeros_like(q))
    given = dict(dt=dt, noise={"q": 1e-4}, known_start=True, contact=law)
    right, wrong = (
        fit_trajectories(pendulum, log, ["damping of joint0"], integrator=each, **given) for each in ("rk4", None)
    )
    assert right.estimate["damping of joint0"] == pytest.approx(0.05, abs=1e-9)
    assert abs(wrong.estimate["damping of joint0"] - 0.05) > 1e-3


def one(scene, x):
    return {name: value[0] for name, value in box.parameters(scene, x.exp()[None]).items()}


def of(function):
    """A number that parameters follow from."""
    return FunctionUnknowns(("wear",), ("",), [0.1], [0.0], [1.0], function)


def test_constraints_that_break_are_refused(pendulum):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=0.5, position=(0, 0, 1), name="load")
    builder.add_weld_constraint("hook", "world", "load", break_force=5.0)
    builder.add_point_constraint("chain", "world", "load")
    model = builder.finalize("float64")
    log = Log(model, DT * np.arange(4), np.tile(model.q0, (4, 1)))
    with pytest.raises(sim.ModelError, match=r"break \(hook\).*remove their break_force"):
        fit_trajectories(model, log, ["mass of load"], dt=DT, noise={"q": 0.01})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(noise={}), "noise: give the standard deviation of 'q'"),
        (dict(noise=0.01), r"noise is 0.01; give a standard deviation by channel, such as \{'q': 0.01\}"),
        (dict(noise={"q": -1.0}), "noise of q is -1.0; expected a positive number, or 2 of them"),
        (dict(noise={"q": np.inf}), "noise of q is inf; expected a positive number"),
        (dict(noise={"q": [0.1, 0.1, 0.1]}), r"noise of q has shape \(3,\); expected one number, or 2"),
        (dict(noise={"q": [0.1, np.inf]}), "seed 0: joint1 wasn't measured; .*start=.*known_start=True"),
        (dict(noise={"q": [0.1, np.inf]}, start={"q": 0.0}, segment=0.1), "seed 0: joint1 wasn't measured; segments"),
        (dict(noise={"q": 0.1, "tau": 1.0}), "seed 0: tau is missing"),
        (dict(noise={"q": 0.1, "tau": [1.0] * 3}), r"noise of tau has shape \(3,\); expected one number, or 2"),
        (dict(noise={"tau": 1.0}), "noise: give the standard deviation of 'q'"),
        (dict(noise={"q": 0.1, "tau": -1.0}), "noise of tau is -1.0; expected zero or positive"),
        (dict(noise={"qdd": 1.0}), "noise: unknown channel 'qdd'"),
        (dict(start=0.1), "start is 0.1; give standard deviations by name"),
        (dict(start={"tau": 0.1}), "start: unknown channel 'tau'; there are q, qd"),
        (dict(start={"q": -0.1}), "start of q is -0.1; expected positive numbers"),
        (dict(start={"qd": [0.1] * 3}), r"start of qd has shape \(3,\)"),
        (dict(start={"q": 0.1}, known_start=True), "known_start .*start"),
        (dict(noise={"q": 0.1, "qd": 1.0}), "qd"),
        (dict(dt=0.003), r"row 1 comes 3.333 steps of 0.003 s after the one before; rows must be 3 steps apart"),
        (dict(integrator="heun"), "integrator is 'heun'; it must be"),
        (dict(segment=0.001), "segment is 0.001 s"),
        (dict(segment=np.nan), "segment is nan s; it must be a positive number"),
        (dict(segment=0.1, known_start=True), "known_start .*segment"),
        (dict(known_start=True), "seed 0: known_start=True needs qd"),
        (dict(contact=sim.PgsContact(warm_start=True)), "set warm_start=False"),
        (dict(unknowns=["torque_offset of joint0"]), "fit_torques .*torque_offset"),
        (dict(noise={"q": "small"}), "noise of q: 'small' is not an array of numbers"),
        (dict(guesses="any"), "guesses: 'any' is not an array of numbers"),
        (dict(unknowns=of(lambda x: [x])), "parameters of the unknowns is a list; it must be a dictionary"),
        (
            dict(unknowns=of(lambda x: {"damping": x.numpy()})),
            "parameter 'damping' is a ndarray; it must be a torch.Ten",
        ),
        (dict(unknowns=of(lambda x: {"damping": x.detach().expand(*x.shape[:-1], 2)})), "don't depend on the unknowns"),
    ],
)
def test_errors(pendulum, changes, message):
    given = dict(unknowns=["damping of *"], dt=DT, noise={"q": 0.01}) | changes
    with pytest.raises(sim.ModelError, match=message):
        fit_trajectories(pendulum, swing(pendulum, 0.2), given.pop("unknowns"), **given)


def test_a_log_that_tells_nothing_of_an_unknown(pendulum):
    """Two rows have as many numbers as the unknown start: nothing is left for the damping, and nobody warns."""
    log = swing(pendulum, 2 * DT, every=1)
    short = Log(pendulum, log.time[:2], log.q[:2])
    fit = fit_trajectories(pendulum, short, ["damping of joint0"], dt=DT, noise={"q": 0.01})
    assert fit.estimate.deviation("damping of joint0") > 1.0
    with raises_naming("curves", "dof", 2, 0, 1):
        fit.curves(2)
