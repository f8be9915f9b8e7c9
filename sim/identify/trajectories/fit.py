"""Identification by trajectories: least squares over simulated motions, in single or multiple shooting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

import numpy as np
import scipy.optimize
import torch

from sim.dynamics.differentiable_op import dynamics_parameters
from sim.errors import ModelError
from sim.identify.estimate import Estimate, describe, solve
from sim.identify.logs.log import Log, listed_logs
from sim.identify.posterior import sample
from sim.identify.trajectories.segments import Segments, cut
from sim.identify.trajectories.sensitivity import Motion, Simulators
from sim.identify.trajectories.shooting import FIRST_GAP, GAP, Shooting
from sim.identify.unknown.priors import Prior
from sim.identify.unknown.unknowns import TORQUE_OFFSET, Unknowns, UnknownSet
from sim.model.checks import as_numbers, is_whole, require_flags, require_type
from sim.model.model import Model
from sim.simulation.options import ContactMethod
from sim.torch.modes import with_gradients
from sim.torch.robot.robot import Robot

NOISY_ROUNDS = 3  # searches with noisy inputs, each with their effect near the result of the one before
MOST_SAMPLED = 20  # free numbers; importance sampling in more dimensions needs too many samples


@dataclass(frozen=True)
class TrajectoryFit:
    """Parameters identified from motions.

    Attributes:
        estimate: the values with their uncertainty.
        parameters: whole parameters by name [n, ...], for ``Simulator(..., parameters=...)``.
        segments: the segments of the logs that are simulated.
        motion: the best-fit motions, in the rows of the segments.
        residual: root mean square residual, in standard deviations, of each channel and degree of freedom [channels,
            nv]; one if model and noise are right, NaN if nothing was measured.
        residual_before: that of the first guess.
        excess: variance of the residuals over that of the noise, averaged over the times for which they stay alike; one
            if the noise explains them [channels, nv]. Deviations are wider by it.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_trajectories
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.3))
        >>> model = scene.finalize("float64")
        >>> simulator = sim.Simulator(model, dt=0.01, device="cpu")
        >>> q = simulator.rollout(simulator.state([1.0]), steps=100).q.numpy()[:, 0]
        >>> log = Log(model, 0.01 * np.arange(101), q)
        >>> fit = fit_trajectories(model, log, ["damping of hinge"], dt=0.01, noise={"q": 1e-3})
        >>> fit.parameters["damping"].round(3).tolist()
        [0.3]
    """

    estimate: Estimate
    parameters: dict[str, np.ndarray]
    segments: Segments
    motion: Motion
    residual: np.ndarray
    residual_before: np.ndarray
    excess: np.ndarray
    _problem: Shooting = field(repr=False)

    @property
    def model(self) -> Model:
        """The model, with its own parameters."""
        return self._problem.worlds.model

    def curves(self, dof: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return time [n], measured and fitted values [n] of a degree of freedom, one entry for each segment.

        For joints with quaternions they are changes since the segment's first row.
        """
        if not (is_whole(dof, 0) and dof < self.model.nv):
            raise ModelError(f"curves: dof is {dof!r}; it must be one of 0 to {self.model.nv - 1}")
        segments, robot = self.segments, self._problem.robot
        first = segments.q[:1]
        index = self.model.dof_q[dof]
        offset = segments.q[0, :, index] if index >= 0 else segments.q.new_zeros(segments.count)
        measured, fitted = (robot.difference(first, q)[..., dof] + offset for q in (segments.q, self.motion.q))
        shown = segments.weight[..., dof] > 0.0
        return [
            (start + segments.interval * np.flatnonzero(rows), a[rows].numpy(), b[rows].numpy())
            for start, rows, a, b in zip(segments.starts, shown.T, measured.T, fitted.T, strict=True)
        ]

    def apply(self, robot: Robot) -> Robot:
        """Set identified values of links and joints in a robot, which ``save_urdf`` then writes. Returns the robot."""
        require_type("robot", robot, Robot, "a sim.torch.Robot")
        own = dynamics_parameters(robot.model)
        robot.set_values({name: torch.from_numpy(value) for name, value in self.parameters.items() if name in own})
        return robot

    def sampled(self, samples: int = 512, rounds: int = 3, seed: int = 0, bar: bool = False) -> Estimate:
        """Sample the posterior by importance sampling around the fit, for motions that aren't linear near it.

        Motion through contact often isn't: an impact moves from one step to the next, and minima lie close together.

        Args:
            samples: number of samples of each round, each of which simulates all motions.
            rounds: number of rounds.
            seed: seed of the samples.
            bar: show a progress bar.

        Returns:
            the estimate, whose values are the posterior's means.

        Raises:
            ModelError: for unknown initial states, more than 20 free numbers, and undetermined ones.
        """
        problem, estimate = self._problem, self.estimate
        unknowns = problem.unknowns
        if problem.extra:
            raise ModelError("sampling needs known_start=True; initial states have too many numbers to sample")
        if problem.size > MOST_SAMPLED or estimate.undetermined:
            raise ModelError(
                f"{problem.size} free numbers, of which {len(estimate.undetermined)} combinations are undetermined, "
                f"can't be sampled; remove unknowns or give priors, so that at most {MOST_SAMPLED} remain"
            )

        def likelihood(x: np.ndarray) -> np.ndarray:
            inside = ((x[0] >= unknowns.lower) & (x[0] <= unknowns.upper)).all(axis=1)
            found = np.full(len(x[0]), -np.inf)
            found[inside] = -0.5 * problem.many(x[0][inside], self.excess) if inside.any() else found[inside]
            return np.where(np.isfinite(found), found, -np.inf)[None]

        peak, width = estimate.free[None, None], estimate.free_covariance[None, None]
        posterior = sample(likelihood, peak, width, samples, rounds, seed, bar)
        readings = unknowns.readings(torch.from_numpy(posterior.samples[0])).numpy()
        weights = posterior.weights[0]
        mean = weights @ readings
        apart = readings - mean
        spread = (weights[:, None] * apart).T @ apart
        deviations = np.sqrt(np.diag(spread))
        return replace(
            estimate, values=mean, deviations=deviations, correlation=spread / np.outer(deviations, deviations),
            free=posterior.mean[0], free_covariance=posterior.covariance[0],
            evaluations=estimate.evaluations + samples * rounds,
        )  # fmt: skip


@with_gradients()
def fit_trajectories(
    model: Model,
    logs: Log | Sequence[Log],
    unknowns: UnknownSet | Mapping[str, Prior | None] | Sequence[str],
    *,
    dt: float,
    noise: Mapping[str, Any],
    segment: float | None = None,
    start: Mapping[str, Any] | None = None,
    known_start: bool = False,
    guesses: np.ndarray | None = None,
    contact: ContactMethod | None = None,
    integrator: str | None = None,
    device: str | None = None,
    max_evaluations: int = 100,
) -> TrajectoryFit:
    """Identify the parameters whose simulated motion is nearest to the measured one.

    All logs, or segments of them, are worlds of one simulation. Gauss-Newton steps within a trust region follow from
    the exact derivatives of all measurements (:mod:`sim.identify.trajectories.sensitivity`).

    In chaotic motion or a long log, errors of parameters and of the start grow until the sum of squares has many
    minima. Multiple shooting (``segment``) cuts it into segments whose initial states are unknowns too, and requires
    each to end where the next one starts (Bock 1983), loosely at first and strictly in the end.

    Args:
        model: the model, whose present parameters are the first guess. It is simulated in float64.
        logs: logs at even intervals that are multiples of ``dt``, with ``tau`` or ``control`` if they drive the motion:
            the values of a row act until the next.
        unknowns: names with their priors, see :class:`sim.identify.Unknowns`, or a
            :class:`sim.identify.FunctionUnknowns`.
        dt: time step of the simulation [s].
        noise: standard deviation of the measurements, for "q", "qd" or both: a number, or one for each degree of
            freedom [nv]; for a quaternion that of the rotation about each axis [rad]. What is NaN in the log isn't
            measured, nor is a degree of freedom with a noise of ``np.inf``. For "tau" and "control" that of the inputs,
            whose errors are independent from row to row: a number, or one for each [nv] or [nu]. Default: exact inputs.
        segment: duration of a segment [s], for logs in which every degree of freedom was measured. Default: one segment
            for each log.
        start: standard deviation of each log's initial state before any measurement, for "q", "qd" or both: a number,
            or one for each degree of freedom [nv]. 0: exact. ``np.inf``: unknown, as by default where the degree of
            freedom is measured. The mean is the log's first row, which isn't a measurement then; where that is NaN or
            absent, it is the coordinate of ``model.q0``, or a velocity of zero.
        known_start: True if the first row of each log, q and qd, is the exact initial state, as with ``start={"q": 0,
            "qd": 0}``.
        guesses: free numbers to start from [n, p]; the best row is used. Default: the model's values.
        contact: contact method, without a warm start.
        integrator: integrator of the simulation, see :class:`sim.Simulator`.
        device: Warp device.
        max_evaluations: maximum number of evaluations of the search.

    Raises:
        ModelError: for logs inconsistent with the model or ``dt``, a wrong noise, and unknowns that a simulation
            doesn't have.

    Example:
        A pendulum that swings by itself, seen to 1 mrad a hundred times a second.

        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_trajectories
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.5))
        >>> model = scene.finalize("float64")
        >>> simulator = sim.Simulator(model, dt=0.01, num_worlds=1, parameters={"damping": [0.3]})
        >>> q = simulator.rollout(simulator.state([1.0]), steps=200).q.numpy()[:, 0]
        >>> q += 1e-3 * np.random.default_rng(0).standard_normal(q.shape)
        >>> log = Log(model, 0.01 * np.arange(201), q)
        >>> fit = fit_trajectories(model, log, ["damping of hinge"], dt=0.01, noise={"q": 1e-3})
        >>> round(fit.estimate["damping of hinge"], 2)
        0.3
    """
    require_type("model", model, Model, "a sim.Model; for a robot give robot.model")
    require_type("contact", contact, (ContactMethod, NoneType), "a sim.ContactMethod, such as sim.HardContact()")
    if not isinstance(unknowns, Mapping | Sequence) and not hasattr(unknowns, "touched"):
        raise ModelError(f"unknowns is {unknowns!r}; it must be a list or a dictionary of names, or FunctionUnknowns")
    model = replace(model, dtype="float64")
    wanted: UnknownSet = Unknowns(model, unknowns) if isinstance(unknowns, Mapping | Sequence) else unknowns
    if TORQUE_OFFSET in wanted.touched:
        raise ModelError("only fit_torques finds torque_offset; subtract it from tau with Log.with_offset")
    if contact is not None and contact.warm_start:
        raise ModelError("contact: intervals are simulated separately; set warm_start=False")
    if model.breaks:
        raise ModelError(
            f"fit_trajectories: constraints break ({', '.join(model.breaking_names)}), but segments begin with none "
            "broken; remove their break_force, and the time after a break from the logs"
        )
    if not is_whole(max_evaluations, 1):
        raise ModelError(f"max_evaluations is {max_evaluations!r}; it must be a whole number of at least 1")
    require_flags("fit_trajectories", known_start=known_start)
    if known_start and (segment is not None or start is not None):
        raise ModelError("known_start applies to whole logs with exact starts; remove it, or segment and start")
    logs = listed_logs(logs)
    for log in logs:
        if known_start and log.qd is None:
            raise ModelError(f"{log.source}: known_start=True needs qd, whose first row is the velocity at the start")
    segments = cut(model, logs, dt, noise, segment, {"q": 0.0, "qd": 0.0} if known_start else start or {})
    worlds = Simulators(model, dt, segments.hold, wanted.parameters, contact, device, integrator=integrator)
    problem = Shooting(wanted, worlds, segments)
    first = wanted.start.numpy() if guesses is None else problem.best_of(as_numbers("guesses", guesses))
    states = np.zeros(problem.extra)
    found = _search(problem, np.append(first, states), max_evaluations)
    slope, size, excess = problem.marginal(problem.jacobian(found.x)), problem.size, problem.excess(found.x)
    of_rows = np.ones(len(slope))
    of_rows[: problem.weight.numel()] = np.resize(excess, problem.weight.numel())
    estimate = describe(
        wanted, found, slope, problem.misfit(found.x), int(problem.weight.count_nonzero()),
        of_rows if (excess > 1.0).any() else None,
    )  # fmt: skip
    values = wanted.parameters(torch.from_numpy(found.x[:size]))
    return TrajectoryFit(
        estimate, {name: value.numpy() for name, value in values.items()}, segments, problem.motion(found.x),
        problem.sizes(found.x), problem.sizes(np.append(wanted.start.numpy(), states)), excess, problem,
    )  # fmt: skip


def _search(problem: Shooting, x0: np.ndarray, max_evaluations: int) -> scipy.optimize.OptimizeResult:
    """Minimise from free numbers [size + extra], in several searches with gaps or noisy inputs.

    With segments, gaps may stay slightly open at first: otherwise half of the searches ended elsewhere, or didn't end.
    """
    stages = [FIRST_GAP] * bool(problem.segments.following) + [GAP] * (NOISY_ROUNDS if problem.noisy else 1)
    evaluations = 0
    for k, problem.gap in enumerate(stages):
        if problem.noisy:
            problem.whiten(x0)
        left, last = max_evaluations - evaluations, k + 1 == len(stages)
        if last or left > 1:
            found = solve(problem.unknowns, x0, problem, left if last else left // 2)
            x0, evaluations = found.x, evaluations + int(found.nfev)
    found.nfev = evaluations
    return found
