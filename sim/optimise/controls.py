"""Control spaces: joint forces of some joints, or the inputs of all actuators, within box limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, names_in
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model, Part
from sim.simulation.simulator import Simulator

Joints = Part | str | Sequence[str] | None


@dataclass(frozen=True)
class ControlSpace:
    """Controls of a problem.

    Attributes:
        stages: number of intervals with constant controls.
        names: names of the joints' degrees of freedom or of the actuators [size].
        dofs: degrees of freedom of controlled joint forces [size]; None if controls are actuator inputs.
        nv: number of degrees of freedom.
        low, high: limits, infinite without a limit [size].
        scale: typical size of each control; the strength of its motor, if known [size].
    """

    stages: int
    names: tuple[str, ...]
    dofs: np.ndarray | None
    nv: int
    low: np.ndarray
    high: np.ndarray
    scale: np.ndarray

    @property
    def size(self) -> int:
        """Number of controls."""
        return len(self.names)

    @property
    def bounded(self) -> bool:
        """True if any control is limited."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def inputs(self, controls: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return controls [..., size] as joint forces [..., nv] and inputs of actuators [..., nu]; None if unused."""
        if self.dofs is None:
            return None, controls
        forces = controls.new_zeros(*controls.shape[:-1], self.nv)
        return forces.index_copy(-1, torch.as_tensor(self.dofs, device=controls.device), controls), None

    def inputs_of_arrays(self, controls: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the same as :meth:`inputs` for arrays."""
        if self.dofs is None:
            return None, controls
        forces = np.zeros((*controls.shape[:-1], self.nv))
        forces[..., self.dofs] = controls
        return forces, None

    def clamped(self, controls: torch.Tensor) -> torch.Tensor:
        """Clamp controls [..., size] to the limits."""
        if not self.bounded:
            return controls
        low, high = (torch.as_tensor(x, dtype=controls.dtype, device=controls.device) for x in (self.low, self.high))
        return controls.clamp(low, high)


def control_space(
    worlds: Simulator, stages: int, joints: Joints, limits: Any, scale: npt.ArrayLike | None
) -> ControlSpace:
    """Return the controls of a problem; see :class:`sim.optimise.Problem` for the arguments. Raises ModelError."""
    model = worlds.model
    if joints is None and model.nu:
        names, dofs = model.actuator_names, None
        low, high = (worlds.parameters[f"actuator_control_{side}"] for side in ("lower", "upper"))
        strength = np.full(model.nu, np.inf)
        if low.ndim != 1 or high.ndim != 1:
            raise ModelError("Problem: the actuators' limits differ between worlds; give limits that all worlds share")
    else:
        dofs = _controlled_dofs(model, joints)
        names = tuple(model.joint_names[model.dof_link[dof]] for dof in dofs)
        strength = np.where(model.effort_limit[dofs] > 0.0, model.effort_limit[dofs], np.inf)
        low, high = -strength, strength
    if limits is not None:
        low, high = _limits(limits, len(names))
    finite = np.maximum(np.abs(low), np.abs(high))
    typical = np.where(np.isfinite(strength), strength, np.where(np.isfinite(finite) & (finite > 0.0), finite, 1.0))
    if scale is not None:
        typical = as_numbers("Problem: scale", scale)
        if typical.shape not in ((), (1,), (len(names),)) or not (np.isfinite(typical) & (typical > 0.0)).all():
            raise ModelError(f"Problem: scale is {scale!r}; it must be a positive number, or {len(names)} of them")
        typical = np.broadcast_to(typical, len(names))
    return ControlSpace(stages, tuple(names), dofs, model.nv, low, high, typical)


def _controlled_dofs(model: Model, joints: Joints) -> np.ndarray:
    """Return degrees of freedom of the given joints. Default: those of all joints with one each."""
    if joints is None:
        dofs = [k for k in range(model.nv) if JOINT_TYPES[int(model.joint_type[model.dof_link[k]])].scalar]
        if not dofs:
            raise ModelError("Problem: the model has no joint to control; add joints or actuators")
        return np.array(dofs)
    given = joints.joints if isinstance(joints, Part) else names_in("Problem: joints", joints)
    if len(set(given)) < len(given):
        raise ModelError(f"Problem: joints {list(given)} contain a duplicate; name each joint once")
    known = set(model.joint_names) if isinstance(joints, Part) else set(given)  # a part may name collapsed joints
    slices = [model.qd_slice(name) for name in given if name in known]
    dofs = [dof for each in slices for dof in range(each.start, each.stop)]
    if not dofs:
        raise ModelError(f"Problem: joints {list(given)} can't move; name at least one revolute or prismatic joint")
    return np.array(dofs)


def _limits(limits: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), size).copy() for side in limits)
    except (TypeError, ValueError):
        raise ModelError(
            f"Problem: limits is {limits!r}; it must be a pair, lower and upper, of a number or of {size} each"
        ) from None
    if not ((low <= high) & (low < np.inf) & (high > -np.inf)).all():
        raise ModelError(f"Problem: limits {limits!r}: each lower limit must be below its upper limit")
    return low, high
