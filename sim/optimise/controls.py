"""Control spaces: forces of joints, velocities of kinematic ones, and inputs of actuators, within limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sim.errors import ModelError
from sim.model.checks import as_numbers, items_of, names_in
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model, Part
from sim.simulation.linearisation import Linearisation
from sim.simulation.simulator import Simulator

MOST_NAMED = 6  # in messages
Joints = Part | str | Sequence[str] | None


@dataclass(frozen=True)
class Inputs:
    """Controls that are columns of one input of a step.

    Attributes:
        name: the input: ``tau``, ``kinematic_qd`` or ``control``.
        chosen: indices of these controls.
        columns: the columns that they set, likewise.
        others: values of all columns, for those that no control sets.
        described: what they are, with their names, for messages.
        whole: True if these are all controls, and set all columns in their order.
    """

    name: str
    chosen: np.ndarray
    columns: np.ndarray
    others: np.ndarray
    described: str
    whole: bool


@dataclass(frozen=True)
class ControlSpace:
    """Controls of a problem.

    Attributes:
        stages: number of intervals with constant controls.
        names: names of the joints' degrees of freedom, then of the actuators [size].
        dofs: degrees of freedom of controlled joints; None if controls are actuator inputs alone.
        parts: inputs of a step that follow from the controls.
        low, high: limits, infinite without a limit [size].
        scale: typical size of each control; the strength of its motor, if known [size].
    """

    stages: int
    names: tuple[str, ...]
    dofs: np.ndarray | None
    parts: tuple[Inputs, ...]
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
    def described(self) -> str:
        """Kinds of the controls, with their names, for messages."""
        return ", and ".join(part.described for part in self.parts)

    def inputs(self, controls: torch.Tensor) -> dict[str, Any]:
        """Return controls [..., size] as inputs of a rollout, by name: ``tau``, ``control``, ``kinematic_qd``."""
        found = {}
        for part in self.parts:
            if part.whole:
                return {part.name: controls}
            at, which = (torch.as_tensor(x, device=controls.device) for x in (part.columns, part.chosen))
            whole = torch.as_tensor(part.others, dtype=controls.dtype, device=controls.device)
            whole = whole.expand(*controls.shape[:-1], len(part.others))
            found[part.name] = whole.index_copy(-1, at, controls.index_select(-1, which))
        return found

    def inputs_of_arrays(self, controls: np.ndarray) -> dict[str, Any]:
        """Return the same as :meth:`inputs` for arrays."""
        found = {}
        for part in self.parts:
            if part.whole:
                return {part.name: controls}
            found[part.name] = np.broadcast_to(part.others, (*controls.shape[:-1], len(part.others))).copy()
            found[part.name][..., part.columns] = controls[..., part.chosen]
        return found

    def matrix(self, linear: Linearisation) -> np.ndarray:
        """Return the derivative of a step in the controls [worlds, n, size]."""
        matrices = {"tau": linear.B_tau, "kinematic_qd": linear.B_kinematic, "control": linear.B_control}
        found = np.zeros((*linear.A.shape[:2], self.size), dtype=linear.A.dtype)
        for part in self.parts:
            matrix = matrices[part.name]
            assert matrix is not None, "velocities are given where they are controlled"
            found[:, :, part.chosen] = matrix[:, :, part.columns]
        return found

    def clamped(self, controls: torch.Tensor) -> torch.Tensor:
        """Clamp controls [..., size] to the limits."""
        if not self.bounded:
            return controls
        low, high = (torch.as_tensor(x, dtype=controls.dtype, device=controls.device) for x in (self.low, self.high))
        return controls.clamp(low, high)


def control_space(
    worlds: Simulator,
    stages: int,
    joints: Joints,
    actuators: str | Sequence[str] | None,
    limits: Any,
    scale: npt.ArrayLike | None,
    qd0: np.ndarray,
) -> ControlSpace:
    """Return the controls of a problem; see :class:`sim.optimise.Problem` for the arguments. Raises ModelError."""
    model = worlds.model
    if joints is None and actuators is None and model.nu:
        actuators = model.actuator_names
    driven = _actuators(model, actuators)
    dofs = _controlled_dofs(model, joints) if joints is not None or actuators is None else np.zeros(0, dtype=int)
    most = np.where(model.prescribed[dofs], model.velocity_limit[dofs], model.effort_limit[dofs])
    strength = np.concatenate([np.where(most > 0.0, most, np.inf), np.full(len(driven), np.inf)])
    low, high = -strength, strength.copy()
    if len(driven):
        for side, limit in (("lower", low), ("upper", high)):
            given = worlds.parameters[f"actuator_control_{side}"]
            if given.ndim != 1:
                raise ModelError(
                    "Problem: the actuators' limits differ between worlds; give limits that all worlds share"
                )
            limit[len(dofs) :] = given[driven]
    names = (
        *(model.joint_names[model.dof_link[dof]] for dof in dofs),
        *(model.actuator_names[each] for each in driven),
    )
    if not names:
        raise ModelError("Problem: joints and actuators are empty; name at least one to control")
    if limits is not None:
        low, high = _limits(limits, len(names))
    finite = np.maximum(np.abs(low), np.abs(high))
    typical = np.where(np.isfinite(strength), strength, np.where(np.isfinite(finite) & (finite > 0.0), finite, 1.0))
    if scale is not None:
        typical = as_numbers("Problem: scale", scale)
        if typical.shape not in ((), (1,), (len(names),)) or not (np.isfinite(typical) & (typical > 0.0)).all():
            raise ModelError(f"Problem: scale is {scale!r}; it must be a positive number, or {len(names)} of them")
        typical = np.broadcast_to(typical, len(names))
    led = model.prescribed[dofs]
    (forces,), (velocities,) = np.nonzero(~led), np.nonzero(led)
    parts = [
        ("tau", forces, dofs[forces], np.zeros(model.nv), "forces of joints"),
        ("kinematic_qd", velocities, np.searchsorted(model.kinematic_dofs, dofs[velocities]),
         qd0[model.kinematic_dofs], "velocities of kinematic joints"),
        ("control", len(dofs) + np.arange(len(driven)), driven, np.zeros(model.nu), "inputs of actuators"),
    ]  # fmt: skip
    inputs = []
    for name, chosen, columns, others, what in parts:
        if len(chosen):
            whole = len(chosen) == len(names) and np.array_equal(columns, np.arange(len(others)))
            described = f"{what} {_listed([names[k] for k in chosen])}"
            inputs.append(Inputs(name, chosen, columns, others, described, whole))
    return ControlSpace(stages, names, dofs if len(dofs) else None, tuple(inputs), low, high, typical)


def _listed(names: Sequence[str]) -> str:
    """Return some of the names, each once."""
    each = [f"'{name}'" for name in dict.fromkeys(names)]
    more = f" and {len(each) - MOST_NAMED} more" if len(each) > MOST_NAMED else ""
    return ", ".join(each[:MOST_NAMED]) + more


def _actuators(model: Model, given: str | Sequence[str] | None) -> np.ndarray:
    """Return the indices of actuators by their names."""
    names = () if given is None else names_in("Problem: actuators", given)
    if unknown := [name for name in names if name not in model.actuator_names]:
        raise ModelError(
            f"Problem: actuators: no actuator is called '{unknown[0]}'; there are {', '.join(model.actuator_names)}"
        )
    if len(set(names)) < len(names):
        raise ModelError(f"Problem: actuators {list(names)} contain a duplicate; name each once")
    return np.array([model.actuator_names.index(name) for name in names], dtype=int)


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
        sides = items_of("Problem: limits", limits, "a pair")
        low, high = (np.broadcast_to(as_numbers("Problem: limits", side), size).copy() for side in sides)
    except ValueError:
        raise ModelError(
            f"Problem: limits is {limits!r}; it must be a pair, lower and upper, of a number or of {size} each"
        ) from None
    if not ((low <= high) & (low < np.inf) & (high > -np.inf)).all():
        raise ModelError(f"Problem: limits {limits!r}: each lower limit must be below its upper limit")
    return low, high
