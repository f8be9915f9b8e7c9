"""Identification by inverse dynamics: weighted least squares on joint forces, restricted to physical bodies."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.base_parameters import BaseParameters, base_parameters
from sim.identify.estimate import Estimate, Residuals, describe, jacobian, prior_deviations, prior_slopes, solve
from sim.identify.first_guess import first_guess, linear_solution
from sim.identify.logs.log import Log, listed_logs
from sim.identify.regressor import (
    JOINT_COLUMNS,
    as_double,
    as_robot,
    as_tensor,
    column_names,
    dof_names,
    linear_parameters,
    to_linear,
    torque_regressor,
)
from sim.identify.unknown.priors import Prior
from sim.identify.unknown.unknowns import TORQUE_OFFSET, Unknowns
from sim.model.checks import as_numbers, is_whole
from sim.model.model import Model
from sim.torch.modes import with_gradients
from sim.torch.robot.arguments import check_shared
from sim.torch.robot.robot import Robot

INERTIAL = ("mass", "com", "inertia")
LINEAR = (*INERTIAL, *JOINT_COLUMNS, TORQUE_OFFSET)
TOGETHER = 4096  # samples per batch of the regressor


@dataclass(frozen=True)
class TorqueFit:
    """Parameters identified from joint forces.

    Attributes:
        robot: a copy of the robot with the identified values; ``robot.save_urdf(path)`` writes it.
        estimate: the values with their uncertainty.
        noise: standard deviation of each joint's force, which gives its weight [nv].
        correlation_samples: correlation length of the errors, in samples [nv]; the estimate's deviations account for
            it.
        residual: root mean square of each joint's residual [nv].
        residual_before: that of the given robot [nv].
        base: base parameters: the combinations of the unknown parameters that the motion determines.
        logs: the logs, without rows in which something wasn't measured.
        predicted: joint forces predicted by the identified values, for each log [n, nv].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(model, Log(model, time, q, qd, qdd, tau), ["mass of bob"])
        >>> bool(fit.residual[0] < 0.02), fit.robot.model.link_names
        (True, ('bob',))
    """

    robot: Robot
    estimate: Estimate
    noise: np.ndarray
    correlation_samples: np.ndarray
    residual: np.ndarray
    residual_before: np.ndarray
    base: BaseParameters
    logs: tuple[Log, ...]
    predicted: tuple[np.ndarray, ...]


@with_gradients()
def fit_torques(
    model: Robot | Model,
    logs: Log | Sequence[Log],
    unknowns: Mapping[str, Prior | None] | Sequence[str],
    *,
    noise: Sequence[float] | np.ndarray | None = None,
    max_evaluations: int = 200,
) -> TorqueFit:
    """Identify parameters from logs of joint forces, by least squares on inverse dynamics.

    Joint forces are linear in ten parameters of each link. Their regressor is reduced to a triangle first, so that the
    time of an iteration doesn't depend on the length of the log. Bodies stay physical (positive mass, moments that
    satisfy the triangle inequality), by the log-Cholesky form of the pseudo-inertia.

    Args:
        model: the robot; its present values are the first guess, and are kept for everything that isn't unknown.
        logs: logs with q, qd, qdd and tau, such as those that :meth:`Log.differentiated` returns. Rows with gaps are
            left out.
        unknowns: names with their priors, see :class:`sim.identify.Unknowns`. Quantities are "inertial", "mass",
            "com" of a link, and "damping", "friction_loss", "armature", "torque_offset" of a joint. The last is a
            constant that the sensor adds.
        noise: standard deviation of each joint's measured force [nv]. Default: the residual of an unconstrained fit.
        max_evaluations: maximum number of evaluations of the search.

    Raises:
        ModelError: for logs without a channel or of another model, unknowns in which joint forces aren't linear, and
            fewer samples than unknowns.

    Example:
        A pendulum with noise of 0.01 N m on its torque, and less damping than was thought.

        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.5))
        >>> robot = sim.torch.Robot(scene.finalize("float64"))
        >>> time = np.linspace(0.0, 5.0, 501)[:, None]
        >>> q, qd, qdd = np.sin(2.0 * time), 2.0 * np.cos(2.0 * time), -4.0 * np.sin(2.0 * time)
        >>> tau = sim.inverse_dynamics(robot.model, q, qd, qdd).numpy() - 0.2 * qd
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(robot, Log(robot.model, time[:, 0], q, qd, qdd, tau), ["damping of hinge", "mass of bob"])
        >>> round(fit.estimate["damping of hinge"], 2), round(fit.estimate["mass of bob"], 2)
        (0.3, 2.0)
        >>> fit.estimate.not_told
        ()
    """
    robot = as_double(model)
    given = _present_model(robot)
    wanted = Unknowns(given, unknowns)
    for name in wanted.touched:
        if name not in LINEAR:
            raise ModelError(
                f"joint forces don't determine {name} by inverse dynamics; choose from {', '.join(LINEAR)}"
            )
    logs = [log.without_gaps("q", "qd", "qdd", "tau") for log in listed_logs(logs)]
    if not is_whole(max_evaluations, 1):
        raise ModelError(f"max_evaluations is {max_evaluations!r}; it must be a whole number of at least 1")
    columns, rest = _regressors(robot, logs, wanted)
    matrix, wanted_tau = columns.matrix, rest
    free = _unconstrained(matrix, wanted_tau)
    deviations = np.sqrt((free**2).mean(axis=0)) if noise is None else as_numbers("noise", noise)
    if noise is None and not deviations.all():
        joint = dof_names(robot.model)[int(np.argmin(deviations))]
        raise ModelError(f"the fit leaves no residual in the force of {joint} to estimate its noise; give noise")
    if deviations.shape != (robot.nv,) or not (np.isfinite(deviations) & (deviations > 0.0)).all():
        expected = f"{robot.nv} positive numbers, one for each joint"
        raise ModelError(f"noise is {deviations.tolist()}; expected {expected}, all finite")
    together = np.concatenate([[_correlation(part) for part in _split(free, logs)]]).mean(axis=0)
    weights = deviations * np.sqrt(together)
    weighted = (matrix / weights[:, None]).reshape(-1, matrix.shape[-1])
    target = (wanted_tau / weights).ravel()
    residuals = _Reduced(wanted, columns.used, weighted, target)
    present = residuals.numbers(wanted.start).numpy()
    start = first_guess(wanted, columns.indices, linear_solution(residuals.factor, residuals.target, present))
    found = solve(wanted, start, residuals, max_evaluations)
    slope = residuals.jacobian(found.x)
    numbers, first = (residuals.numbers(torch.from_numpy(x)).numpy() for x in (found.x, wanted.start.numpy()))
    left, before = (np.sqrt(((matrix @ each - wanted_tau) ** 2).mean(axis=0)) for each in (numbers, first))
    chi_square = float((((matrix @ numbers - wanted_tau) / deviations) ** 2).sum())
    estimate = describe(wanted, found, slope, chi_square, wanted_tau.size)
    return TorqueFit(
        _with_values(as_robot(model), wanted, found.x), estimate, deviations, together, left, before,
        base_parameters(weighted, columns.names), tuple(logs),
        tuple(_split(matrix @ numbers + (_measured(logs) - wanted_tau), logs)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Columns:
    """Columns of the regressor on which unknowns have an effect.

    Attributes:
        matrix: columns [samples, nv, n].
        used: their indices among all columns, offsets last [n].
        names: their names [n].
        indices: for each parameter and entry its indices among these columns.
    """

    matrix: np.ndarray
    used: np.ndarray
    names: tuple[str, ...]
    indices: dict[tuple[str, int], np.ndarray]


class _Reduced(Residuals):
    """Residuals after an orthogonal transformation that leaves a triangle of as many rows as columns."""

    def __init__(self, unknowns: Unknowns, used: np.ndarray, weighted: np.ndarray, target: np.ndarray):
        self.unknowns = unknowns
        self.used = torch.from_numpy(used)
        triangle: np.ndarray = np.asarray(np.linalg.qr(np.column_stack([weighted, target]), mode="r"))
        self.factor, self.target = triangle[:-1, :-1], triangle[:-1, -1]

    def numbers(self, x: torch.Tensor) -> torch.Tensor:
        """Return the linear parameters on which the unknowns have an effect [n]."""
        model, values = self.unknowns.model, self.unknowns.parameters(x)
        whole = {name: torch.from_numpy(model.parameters[name]) for name in (*INERTIAL, *JOINT_COLUMNS)} | values
        offsets = values.get(TORQUE_OFFSET, torch.from_numpy(np.zeros(model.nv)))
        parts = [to_linear(*(whole[name] for name in INERTIAL)).flatten(), *(whole[name] for name in JOINT_COLUMNS)]
        return torch.cat([*parts, offsets])[self.used]

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return residuals, see :class:`Residuals`."""
        numbers = self.numbers(torch.from_numpy(x)).numpy()
        return np.append(self.factor @ numbers - self.target, prior_deviations(self.unknowns, x))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return derivatives, see :class:`Residuals`."""
        return np.vstack([self.factor @ jacobian(self.numbers, x), prior_slopes(self.unknowns, x)])


def _regressors(robot: Robot, logs: list[Log], unknowns: Unknowns) -> tuple[_Columns, np.ndarray]:
    """Return the regressor of all samples [samples, nv, n], and the measured joint forces that it must explain
    [samples, nv].
    """
    names = column_names(robot, JOINT_COLUMNS) + tuple(f"torque_offset of {name}" for name in dof_names(robot.model))
    touched = _touched(unknowns, len(robot.link_names), robot.nv)
    used = np.unique(np.concatenate(list(touched.values())))
    pi = torch.cat([linear_parameters(robot, JOINT_COLUMNS), robot.value("mass").new_zeros(robot.nv)]).detach()
    others = torch.ones_like(pi, dtype=torch.bool)
    others[torch.from_numpy(used)] = False
    parts, targets = [], []
    for log in logs:
        log.require("qd", "qdd", "tau")
        if (log.model.nq, log.model.nv) != (robot.model.nq, robot.nv):
            raise ModelError(
                f"{log.source}: its model has {log.model.nv} degrees of freedom, but the robot has {robot.nv}; "
                "read the log with robot.model"
            )
        for start in range(0, len(log), TOGETHER):
            rows = slice(start, start + TOGETHER)
            assert log.qd is not None
            assert log.qdd is not None
            assert log.tau is not None
            q, qd, qdd = (as_tensor(robot, value[rows]) for value in (log.q, log.qd, log.qdd))
            with torch.no_grad():
                matrix = torque_regressor(robot, q, qd, qdd, joint_columns=JOINT_COLUMNS)
                known = robot.inverse_dynamics(q, qd, qdd) - matrix @ pi[: matrix.shape[-1]]
                offsets = torch.diag_embed(torch.ones_like(qd))
                matrix = torch.cat([matrix, offsets], dim=-1)
                known = known + matrix[..., others] @ pi[others]
            parts.append(matrix[..., used].numpy())
            targets.append(log.tau[rows] - known.numpy())
    matrix_of_all = np.concatenate(parts)
    if matrix_of_all.shape[0] * robot.nv < len(used):
        raise ModelError(f"the logs have {matrix_of_all.shape[0]} samples for {len(used)} numbers; they are too short")
    indices = {key: np.searchsorted(used, all_of_it) for key, all_of_it in touched.items()}
    return _Columns(matrix_of_all, used, tuple(names[k] for k in used), indices), np.concatenate(targets)


def _touched(unknowns: Unknowns, links: int, nv: int) -> dict[tuple[str, int], np.ndarray]:
    """Return columns on which the unknowns have an effect, by parameter and entry; a link has ten."""
    starts = {name: 10 * links + k * nv for k, name in enumerate((*JOINT_COLUMNS, TORQUE_OFFSET))}
    found: dict[tuple[str, int], np.ndarray] = {}
    for block in unknowns.blocks:
        for target in block.targets:
            for entry in target.entries:
                inertial = target.parameter in INERTIAL
                columns = range(10 * entry, 10 * entry + 10) if inertial else [starts[target.parameter] + entry]
                found[target.parameter, entry] = np.array(columns)
    return found


def _unconstrained(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return residuals of linear least squares on the joint forces [samples, nv], all joints weighted by their size."""
    size = np.maximum(np.sqrt((target**2).mean(axis=0)), 1e-12)
    weighted = (matrix / size[:, None]).reshape(-1, matrix.shape[-1])
    numbers = linear_solution(weighted, (target / size).ravel(), np.zeros(weighted.shape[1]))
    return target - matrix @ numbers


def _split(values: np.ndarray, logs: list[Log]) -> list[np.ndarray]:
    return np.split(values, np.cumsum([len(log) for log in logs])[:-1])


def _measured(logs: list[Log]) -> np.ndarray:
    return np.concatenate([log.tau for log in logs if log.tau is not None])


def _correlation(errors: np.ndarray) -> np.ndarray:
    """Return the correlation length of the errors in samples [nv]: 1 + 2 (sum of correlations up to the first zero).

    Filters correlate neighbouring errors: n samples then have the information of n over this length independent ones.
    """
    n = len(errors)
    spectrum = np.abs(np.fft.rfft(errors, 2 * n, axis=0)) ** 2
    lags = np.fft.irfft(spectrum, axis=0)[:n]
    lags = lags / np.maximum(lags[0], 1e-300)
    positive = np.cumprod(lags > 0.0, axis=0) * lags
    # Correlations of white noise scatter by 1 / sqrt(n); smaller ones count as zero.
    positive[np.cumsum(positive < 2.0 / np.sqrt(n), axis=0) > 0] = 0.0
    return np.maximum(2.0 * positive.sum(axis=0) - 1.0, 1.0)


def _present_model(robot: Robot) -> Model:
    """Return the robot's model with its present values."""
    model = copy.copy(robot.model)
    present = {name: robot.value(name) for name in (*INERTIAL, *JOINT_COLUMNS)}
    check_shared(model, present, "identification")
    values = {name: value.numpy(force=True) for name, value in present.items()}
    object.__setattr__(model, "parameters", {**model.parameters, **values})
    return model


def _with_values(robot: Robot, unknowns: Unknowns, x: np.ndarray) -> Robot:
    found, values = copy.deepcopy(robot), unknowns.parameters(torch.from_numpy(x))
    found.set_values({name: value for name, value in values.items() if name != TORQUE_OFFSET})
    return found
