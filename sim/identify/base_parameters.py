"""Base parameters: the combinations that a motion's joint forces determine, by QR with column pivoting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import torch

from sim.errors import ModelError
from sim.identify.regressor import as_double, column_names, torque_regressor
from sim.model.checks import as_numbers, is_whole, names_in, number
from sim.model.model import Model
from sim.torch.robot.joint_ranges import range_to_try
from sim.torch.robot.robot import Robot
from warp_kernels import types as codes

# Zero tolerance, relative to the largest, with columns scaled to unit length; in double and in single precision.
TOLERANCE, SINGLE_TOLERANCE = 1e-8, 3e-4
SHOWN = 1e-6  # coefficients below it are omitted in words


@dataclass(frozen=True)
class BaseParameters:
    """The combinations of parameters that a regressor determines: a robot's base parameters.

    They are ``combinations @ parameters``, and the regressor is ``regressor[:, chosen] @ combinations`` (Gautier,
    *Numerical calculation of the base inertial parameters of robots*, 1991).

    Attributes:
        names: names of all parameters [n].
        chosen: the independent columns [rank].
        combinations: coefficients [rank, n]; 1 at the chosen parameter, the others those of the dependent ones.
        condition: condition number of the independent columns, scaled to unit length; the largest amplification of
            torque errors.
        alone: parameters that are determined individually.
        never: parameters without any effect.

    Example:
        >>> from sim.identify import base_parameters
        >>> found = base_parameters([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], ["a", "b"])
        >>> found.combinations.round(6).tolist()  # a + 2 b alone
        [[1.0, 2.0]]
    """

    names: tuple[str, ...]
    chosen: np.ndarray
    combinations: np.ndarray
    condition: float
    alone: tuple[str, ...]
    never: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Number of combinations."""
        return len(self.chosen)

    def words(self) -> list[str]:
        """Return one line for each combination, such as "Izz of forearm + 1 Iyy of upper arm"."""
        lines = []
        for column, row in zip(self.chosen, self.combinations, strict=True):
            others = [k for k in np.flatnonzero(np.abs(row) > SHOWN) if k != column]
            parts = [f"{'-' if row[k] < 0.0 else '+'} {abs(row[k]):.4g} {self.names[k]}" for k in others]
            lines.append(" ".join([self.names[column], *parts]))
        return lines

    def __str__(self) -> str:
        together = len(self.names) - len(self.alone) - len(self.never)
        head = (
            f"{self.rank} combinations of {len(self.names)} parameters are determined, condition number "
            f"{self.condition:.3g};\n{len(self.alone)} parameters alone, {together} only together with others, "
            f"{len(self.never)} not at all:"
        )
        return "\n".join([head, *(f"  {line}" for line in self.words())])


def base_parameters(regressor: Any, names: Sequence[str], tolerance: float | None = None) -> BaseParameters:
    """Compute the combinations that a regressor determines.

    Args:
        regressor: rows of all samples and joints [rows, n], best divided by the noise of each joint.
        names: names of its columns [n].
        tolerance: zero tolerance, relative to the largest. Default: 1e-8, and 3e-4 for float32, above its rounding
            errors.

    Raises:
        ModelError: for fewer rows than columns, a wrong number of names, non-numeric values, a tolerance that isn't
            between 0 and 1, and a regressor of zeros.

    Example:
        >>> import numpy as np
        >>> from sim.identify import base_parameters
        >>> a, b = np.random.default_rng(0).standard_normal((2, 20))
        >>> regressor = np.stack([a, b, a + 2.0 * b, 0.0 * a], axis=1)
        >>> found = base_parameters(regressor, ["m1", "m2", "m3", "m4"])
        >>> len(found.chosen), found.never
        (2, ('m4',))
    """
    if tolerance is None:
        single = str(getattr(regressor, "dtype", None)) in ("float32", "torch.float32")
        tolerance = SINGLE_TOLERANCE if single else TOLERANCE
    regressor = as_numbers("regressor", regressor)
    if not 0.0 < number("base_parameters", "tolerance", tolerance) < 1.0:
        raise ModelError(f"tolerance is {tolerance!r}; it must lie between 0 and 1")
    if regressor.ndim != 2 or not np.isfinite(regressor).all():
        raise ModelError(f"the regressor has shape {regressor.shape}; expected finite numbers [rows, n]")
    names = names_in("base_parameters: names", names)
    rows, columns = regressor.shape
    if columns != len(names):
        raise ModelError(f"the regressor has {columns} columns, but there are {len(names)} names")
    if rows < columns:
        raise ModelError(f"the regressor has {rows} rows, fewer than its {columns} columns; give more samples")
    norms = np.linalg.norm(regressor, axis=0)
    used = np.flatnonzero(norms > tolerance * norms.max(initial=0.0))
    if not len(used):
        raise ModelError("all columns of the regressor are zero: no parameter has an effect")
    # An orthogonal transformation of the rows first: the rest is then independent of the number of samples.
    triangle: np.ndarray = np.asarray(np.linalg.qr(regressor[:, used] / norms[used], mode="r"))
    factor, order = scipy.linalg.qr(triangle, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(factor))
    rank = int((diagonal > tolerance * diagonal[0]).sum())
    shares = scipy.linalg.solve_triangular(factor[:rank, :rank], factor[:rank, rank:])
    shares = np.where(np.abs(shares) > tolerance, shares, 0.0)
    combinations = np.zeros((rank, columns))
    combinations[np.arange(rank), used[order[:rank]]] = 1.0
    chosen, rest = used[order[:rank]], used[order[rank:]]
    combinations[:, rest] = shares / norms[chosen][:, None] * norms[rest]
    singular = np.linalg.svd(triangle[:, order[:rank]], compute_uv=False)
    determined = _alone(triangle, rank, tolerance)
    return BaseParameters(
        tuple(names), chosen, combinations, float(singular[0] / singular[-1]),
        tuple(names[int(column)] for column, alone in zip(used, determined, strict=True) if alone),
        tuple(names[column] for column in sorted(set(range(columns)) - set(used.tolist()))),
    )  # fmt: skip


def robot_base_parameters(
    model: Robot | Model, *, joint_columns: Sequence[str] = (), samples: int = 200, seed: int = 0
) -> BaseParameters:
    """Compute the base parameters that motions of a robot can determine, from random states. See
    :func:`base_parameters`.

    Args:
        model: the robot; its values are converted to float64.
        joint_columns: as for :func:`torque_regressor`.
        samples: number of random states.
        seed: seed of the states.

    Raises:
        ModelError: for a robot without a moving joint, a wrong name, number of samples or seed, and for too few
            samples.

    Example:
        A pendulum's torques tell its moment of inertia about the joint, whatever it is made of.

        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import robot_base_parameters
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> found = robot_base_parameters(scene.finalize("float64"))
        >>> sorted(found.words())
        ['Iyy of bob', 'mass*com_x of bob', 'mass*com_z of bob']
        >>> found.never[:2]
        ('mass of bob', 'mass*com_y of bob')
    """
    robot = as_double(model)
    if not robot.nv:
        raise ModelError("no joint of the robot moves, so no joint forces determine parameters")
    if not (is_whole(samples, 1) and is_whole(seed, 0)):
        raise ModelError(f"samples {samples!r}, seed {seed!r}: expected whole numbers, at least 1 and at least 0")
    q, qd, qdd = random_states(robot.model, samples, seed)
    matrix = torque_regressor(robot, q, qd, qdd, joint_columns=joint_columns)
    rows = matrix.detach().numpy().reshape(-1, matrix.shape[-1])
    return base_parameters(rows, column_names(robot, joint_columns))


def random_states(model: Model, samples: int, seed: int) -> tuple[Any, Any, Any]:
    """Return random q [samples, nq], qd and qdd [samples, nv], within limits where they exist."""
    rng = np.random.default_rng(seed)
    limits = (torch.from_numpy(model.parameters[name]) for name in ("lower_limit", "upper_limit"))
    lower, upper = (bound.numpy() for bound in range_to_try(*limits))
    q = np.tile(model.q0, (samples, 1))
    scalar = model.dof_q >= 0
    q[:, model.dof_q[scalar]] = rng.uniform(lower[scalar], upper[scalar], (samples, int(scalar.sum())))
    for name, kind in zip(model.joint_names, model.joint_type, strict=True):
        if kind in (codes.FREE, codes.SPHERICAL):
            quaternion = rng.standard_normal((samples, 4))
            q[:, model.q_slice(name)][:, -4:] = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    return q, *rng.standard_normal((2, samples, model.nv))


def _alone(triangle: np.ndarray, rank: int, tolerance: float) -> np.ndarray:
    """Return a mask of the columns that are independent of all others: zero in every null-space direction."""
    _, _, v = np.linalg.svd(triangle)
    return np.linalg.norm(v[rank:], axis=0) < np.sqrt(tolerance)
