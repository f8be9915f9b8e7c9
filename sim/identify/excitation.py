"""Exciting motions: Fourier series within a robot's limits, optimised for the condition number of the regressor."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.optimize
import torch

from sim.errors import ModelError
from sim.identify.base_parameters import base_parameters, random_states
from sim.identify.logs.log import Log
from sim.identify.regressor import as_double, as_tensor, column_names, torque_regressor
from sim.model.checks import as_numbers, is_positive, is_whole, require_rows
from sim.model.model import Model
from sim.torch.modes import with_gradients
from sim.torch.robot.robot import Robot

GRID = 80  # points per period of the fastest harmonic at which limits are enforced
SAMPLES = 60  # points per period at which the regressor is evaluated during optimisation
MARGIN = 0.98  # fraction of a limit that is used, since limits are enforced only at points
HALF_TURN = np.pi  # range of joints without limits, to either side of the middle

MOST_HARMONICS = 1000
MOST_NUMBERS = 10_000_000  # of all starts
LONGEST_PERIOD = 1e6  # [s]
LARGEST_NOISE = 1e100  # [N m or N]; squares of larger ones overflow


@dataclass(frozen=True)
class Excitation:
    """A periodic motion q(t) = middle + sum of a_k sin(k w t) + b_k cos(k w t), at rest where t = 0.

    Attributes:
        model: the model.
        period: period of the motion [s].
        middle: middle of the motion [nv].
        sine, cosine: coefficients [harmonics, nv].
        condition: condition number of the base parameters' regressor on this motion, columns scaled to unit length.
        condition_before: the smallest condition number among the random initial motions.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import excite
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> motion = excite(model, period=5.0, acceleration=10.0, starts=5, iterations=5)
        >>> q, qd, qdd = motion(np.array([0.0, 5.0]))
        >>> bool(np.abs(qd).max() < 1e-9), bool(np.allclose(q[0], q[1]))
        (True, True)
    """

    model: Model
    period: float
    middle: np.ndarray
    sine: np.ndarray
    cosine: np.ndarray
    condition: float
    condition_before: float

    def __call__(self, time: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return q, qd and qdd [..., nv] at given times [...]."""
        w = 2.0 * np.pi / self.period * np.arange(1, len(self.sine) + 1)
        sine, cosine = (f(as_numbers("time", time)[..., None] * w) for f in (np.sin, np.cos))
        q = self.middle + sine @ self.sine + cosine @ self.cosine
        qd = (w * cosine) @ self.sine - (w * sine) @ self.cosine
        return q, qd, -(w**2 * sine) @ self.sine - (w**2 * cosine) @ self.cosine

    def log(self, rate: float, periods: float = 1.0) -> Log:
        """Return the motion as a log without joint forces, at a rate [Hz]."""
        for name, value in (("rate", rate), ("periods", periods)):
            if not is_positive(value):
                raise ModelError(f"{name} is {value!r}; it must be a positive number")
        rate, periods = float(rate), float(periods)
        require_rows("excitation", periods * self.period * rate)
        time = np.arange(round(periods * self.period * rate) + 1) / rate
        return Log(self.model, time, *self(time), source="excitation")


@with_gradients()
def excite(
    model: Robot | Model,
    *,
    period: float = 10.0,
    harmonics: int = 5,
    joint_columns: Sequence[str] = (),
    acceleration: float | Sequence[float] | np.ndarray = np.inf,
    noise: float | Sequence[float] | np.ndarray = 1.0,
    lower: Sequence[float] | np.ndarray | None = None,
    upper: Sequence[float] | np.ndarray | None = None,
    starts: int = 20,
    iterations: int = 50,
    seed: int = 0,
) -> Excitation:
    """Search for a motion whose joint forces determine the base parameters well (Swevers et al. 1997; Gautier 1992).

    Each joint has a Fourier series, scaled so that it reaches one of its limits of position, velocity or acceleration
    and exceeds none. It is at rest, without acceleration, at the start of the period. Starting from the best of some
    random ones, L-BFGS reduces the logarithm of the condition number, with derivatives through the regressor.
    Collisions aren't checked: watch the motion before a robot makes it.

    Args:
        model: the robot, whose joints have one coordinate each.
        period: period of the motion [s].
        harmonics: number of multiples of the lowest frequency, at least 3.
        joint_columns: further parameters to be determined, as for :func:`torque_regressor`.
        acceleration: largest acceleration of each joint, or of all [rad/s^2 or m/s^2].
        noise: standard deviation of each joint's measured force, or of all; only ratios matter.
        lower, upper: limits of position that replace the model's [nv].
        starts: number of random motions.
        iterations: maximum number of iterations of L-BFGS; 0 for the best random motion.
        seed: seed of the random motions.

    Raises:
        ModelError: for joints with quaternions, too few harmonics, and ill-shaped or empty limits.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import excite
        >>> scene = sim.ModelBuilder()
        >>> for k in range(2):
        ...     _ = scene.add_link(f"link{k}", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        ...     parent = f"link{k - 1}" if k else "world"
        ...     _ = scene.add_joint(f"joint{k}", "revolute", child=f"link{k}", parent=parent, axis=(0, 1, 0))
        >>> motion = excite(scene.finalize("float64"), period=5.0, acceleration=10.0, starts=5, iterations=10)
        >>> motion.condition <= motion.condition_before
        True
        >>> q, qd, qdd = motion(np.linspace(0.0, 5.0, 501))
        >>> bool(np.abs(qdd).max() < 10.0)
        True
    """
    robot = as_double(model)
    if not robot.nv:
        raise ModelError("no joint of the robot moves, so there is no exciting motion")
    if robot.nq != robot.nv:
        raise ModelError("each joint needs one coordinate; quaternions have no Fourier series")
    for name, given, least in (
        ("harmonics", harmonics, 3), ("starts", starts, 1), ("iterations", iterations, 0), ("seed", seed, 0)
    ):  # fmt: skip
        if not is_whole(given, least):
            raise ModelError(f"excite: {name} is {given!r}; it must be a whole number of at least {least}")
    if harmonics > MOST_HARMONICS:
        raise ModelError(f"excite: harmonics is {harmonics!r}; at most {MOST_HARMONICS} are supported")
    if not is_positive(period):
        raise ModelError(f"excite: period is {period!r} s; it must be a positive number")
    if not (period := float(period)) <= LONGEST_PERIOD:
        raise ModelError(f"excite: period is {period!r} s; it must be at most {LONGEST_PERIOD:g} s")
    if starts * robot.nv * harmonics > MOST_NUMBERS:
        most = MOST_NUMBERS // (robot.nv * harmonics)
        raise ModelError(f"excite: starts is {starts!r}; at most {most} are supported")
    series = _Series(robot, period, harmonics, acceleration, lower, upper)
    deviations = _per_joint(robot, "noise", noise)
    if not (deviations < LARGEST_NOISE).all():
        raise ModelError(f"excite: noise is {noise!r}; it must be below {LARGEST_NOISE:g}")
    if np.isinf(deviations).any():
        raise ModelError(f"noise is {noise}; expected finite numbers; a joint without a sensor has no information")
    weight = 1.0 / deviations
    columns = _base_columns(robot, joint_columns, seed)
    time = np.arange(SAMPLES) * period / SAMPLES

    def log_condition(z: torch.Tensor) -> torch.Tensor:
        motion = (as_tensor(robot, part) for part in series.motion(z, time))
        matrix = torque_regressor(robot, *motion, joint_columns=joint_columns)[..., columns]
        rows = (matrix * as_tensor(robot, weight)[:, None]).flatten(0, 1).double()
        values = torch.linalg.svdvals(rows / rows.norm(dim=0))
        return (values[0] / values[-1]).log()

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.from_numpy(z.copy()).reshape(-1, robot.nv).requires_grad_()
        value = log_condition(point)
        (slope,) = torch.autograd.grad(value, point)
        return float(value.detach()), slope.numpy().ravel()

    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal(series.free * robot.nv) for _ in range(starts)]
    with torch.no_grad():
        values = [float(log_condition(torch.from_numpy(z.copy()).reshape(-1, robot.nv))) for z in drawn]
    best = drawn[int(np.argmin(values))]
    found = best
    if iterations:
        found = scipy.optimize.minimize(objective, best, jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x
    sine, cosine = series.coefficients(torch.from_numpy(found).reshape(-1, robot.nv))
    with torch.no_grad():
        last = float(log_condition(torch.from_numpy(found).reshape(-1, robot.nv)))
    return Excitation(
        robot.model, period, series.middle.numpy(), sine.numpy(), cosine.numpy(), float(np.exp(last)),
        float(np.exp(min(values))),
    )  # fmt: skip


class _Series:
    """Fourier series that are at rest at the start, as large as limits allow.

    Attributes:
        middle: middle of each joint's range [nv].
        free: number of free numbers of each joint.
    """

    def __init__(
        self,
        robot: Robot,
        period: float,
        harmonics: int,
        acceleration: float | Sequence[float] | np.ndarray,
        lower: Sequence[float] | np.ndarray | None,
        upper: Sequence[float] | np.ndarray | None,
    ):
        low, high = (_limits(robot, name, given) for name, given in (("lower_limit", lower), ("upper_limit", upper)))
        # A missing limit is placed a whole turn from the other limit, or half a turn from zero.
        low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0 * HALF_TURN, -HALF_TURN))
        high = np.where(np.isfinite(high), high, low + 2.0 * HALF_TURN)
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        fastest = robot.velocity_limit.detach().cpu().double().numpy()
        limits = [half, np.where(fastest > 0.0, fastest, np.inf), _per_joint(robot, "acceleration", acceleration)]
        if not (half > 0.0).all():
            joint = robot.joint_names[int(np.argmin(half))]
            raise ModelError(f"joint '{joint}' has an empty range between its limits")
        self.middle = torch.from_numpy(middle)
        self._limits = [torch.from_numpy(MARGIN * limit) for limit in limits]
        self._w = 2.0 * np.pi / period * np.arange(1, harmonics + 1)
        # Velocity and acceleration vanish at the start: w . a = 0 and w^2 . b = 0.
        rest = scipy.linalg.block_diag(self._w[None], self._w[None] ** 2)
        self._basis = torch.from_numpy(scipy.linalg.null_space(rest))
        self.free = self._basis.shape[1]
        self._grid = self._functions(np.linspace(0.0, period, GRID * harmonics))

    def coefficients(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return sine and cosine coefficients [harmonics, nv] for free numbers [free, nv]."""
        raw = self._basis @ z
        shares = [
            (functions @ raw).abs().amax(0) / limit for functions, limit in zip(self._grid, self._limits, strict=True)
        ]
        scaled = raw / torch.stack(shares).amax(0)
        return scaled[: len(self._w)], scaled[len(self._w) :]

    def motion(self, z: torch.Tensor, time: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q, qd and qdd [n, nv] for free numbers [free, nv]."""
        scaled = torch.cat(self.coefficients(z))
        q, qd, qdd = (functions @ scaled for functions in self._functions(time))
        return self.middle + q, qd, qdd

    def _functions(self, time: np.ndarray) -> list[torch.Tensor]:
        """Return position, velocity and acceleration for one unit of each coefficient [n, 2 * harmonics]."""
        w, sine, cosine = self._w, *(f(time[:, None] * self._w) for f in (np.sin, np.cos))
        parts = [(sine, cosine), (w * cosine, -w * sine), (-(w**2) * sine, -(w**2) * cosine)]
        return [torch.from_numpy(np.concatenate(each, axis=1)) for each in parts]


def _base_columns(robot: Robot, joint_columns: Sequence[str], seed: int) -> np.ndarray:
    """Return columns that are independent on random states: those of the base parameters."""
    names = column_names(robot, joint_columns)
    states = random_states(robot.model, max(200, len(names)), seed)
    with torch.no_grad():
        matrix = torque_regressor(robot, *states, joint_columns=joint_columns)
    return base_parameters(matrix.cpu().double().numpy().reshape(-1, len(names)), names).chosen


def _limits(robot: Robot, name: str, given: Sequence[float] | np.ndarray | None) -> np.ndarray:
    if given is None:
        return getattr(robot, name).detach().cpu().double().numpy()
    return _per_joint(robot, name, given, positive=False)


def _per_joint(
    robot: Robot, name: str, value: float | Sequence[float] | np.ndarray, positive: bool = True
) -> np.ndarray:
    array = as_numbers(name, value)
    if array.shape not in ((), (robot.nv,)) or np.isnan(array).any() or (positive and not (array > 0.0).all()):
        wanted = "positive numbers" if positive else "numbers"
        raise ModelError(f"{name} is {value}; expected {wanted}, one or {robot.nv}")
    return np.broadcast_to(array, (robot.nv,)).copy()
