"""Control spaces: forces of some joints and velocities of kinematic ones, or inputs of all actuators, within limits."""

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
from sim.simulation.linearisation import Linearisation
from sim.simulation.simulator import Simulator

Joints = Part | str | Sequence[str] | None


@dataclass(frozen=True)
class ControlSpace:
    """Controls of a problem.

    Attributes:
        stages: number of intervals with constant controls.
        names: names of the joints' degrees of freedom or of the actuators [size].
        dofs: degrees of freedom of controlled joints [size]; None if controls are actuator inputs.
        model: the model. Controls of its kinematic joints are velocities, those of the others forces.
        kept: velocities of kinematic joints that aren't controlled, in place [nk].
        low, high: limits, infinite without a limit [size].
        scale: typical size of each control; the strength of its motor, if known [size].
    """

    stages: int
    names: tuple[str, ...]
    dofs: np.ndarray | None
    model: Model
    kept: np.ndarray
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

    @property
    def led(self) -> np.ndarray:
        """Mask of the controls that are velocities of kinematic joints [size]."""
        return np.zeros(self.size, dtype=bool) if self.dofs is None else self.model.prescribed[self.dofs]

    def inputs(self, controls: torch.Tensor) -> dict[str, Any]:
        """Return controls [..., size] as inputs of a rollout, by name: ``tau``, ``control``, ``kinematic_qd``."""
        if self.dofs is None:
            return {"control": controls}
        found = {}
        for name, chosen, columns, rest in self._parts():
            at, which = (torch.as_tensor(x, device=controls.device) for x in (columns, chosen))
            whole = torch.as_tensor(rest, dtype=controls.dtype, device=controls.device)
            whole = whole.expand(*controls.shape[:-1], len(rest))
            found[name] = whole.index_copy(-1, at, controls.index_select(-1, which))
        return found

    def inputs_of_arrays(self, controls: np.ndarray) -> dict[str, Any]:
        """Return the same as :meth:`inputs` for arrays."""
        if self.dofs is None:
            return {"control": controls}
        found = {}
        for name, chosen, columns, rest in self._parts():
            found[name] = np.broadcast_to(rest, (*controls.shape[:-1], len(rest))).copy()
            found[name][..., columns] = controls[..., chosen]
        return found

    def matrix(self, linear: Linearisation) -> np.ndarray:
        """Return the derivative of a step in the controls [worlds, n, size]."""
        if self.dofs is None:
            return linear.B_control
        matrices = {"tau": linear.B_tau, "kinematic_qd": linear.B_kinematic}
        found = np.zeros((*linear.A.shape[:2], self.size), dtype=linear.A.dtype)
        for name, chosen, columns, _ in self._parts():
            matrix = matrices[name]
            assert matrix is not None, "velocities are given where they are controlled"
            found[:, :, chosen] = matrix[:, :, columns]
        return found

    def _parts(self) -> list[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the inputs that controls of joints become: name, controls, columns, and values of other columns."""
        assert self.dofs is not None, "controls are of joints"
        forces, led = np.flatnonzero(~self.led), np.flatnonzero(self.led)
        columns = np.searchsorted(self.model.kinematic_dofs, self.dofs[led])
        parts = [
            ("tau", forces, self.dofs[forces], np.zeros(self.model.nv)),
            ("kinematic_qd", led, columns, self.kept),
        ]
        return [part for part in parts if len(part[1])]

    def clamped(self, controls: torch.Tensor) -> torch.Tensor:
        """Clamp controls [..., size] to the limits."""
        if not self.bounded:
            return controls
        low, high = (torch.as_tensor(x, dtype=controls.dtype, device=controls.device) for x in (self.low, self.high))
        return controls.clamp(low, high)


def control_space(
    worlds: Simulator, stages: int, joints: Joints, limits: Any, scale: npt.ArrayLike | None, qd0: np.ndarray
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
        most = np.where(model.prescribed[dofs], model.velocity_limit[dofs], model.effort_limit[dofs])
        strength = np.where(most > 0.0, most, np.inf)
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
    return ControlSpace(stages, tuple(names), dofs, model, qd0[model.kinematic_dofs], low, high, typical)


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
