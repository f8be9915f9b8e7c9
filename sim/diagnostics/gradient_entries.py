"""Entries of a rollout's arguments, each with a name and a direction in which to perturb it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.arrays.device_values import unused_entries
from sim.diagnostics.finite_differences import STEP_INPUTS, Direction
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.model.parameters import ACROSS_PAIRS, NOT_NEGATIVE, PARAMETERS
from sim.model.tendons.tendons import owners_of

AXES = ("x", "y", "z")
# At zero these have no two-sided derivative: the shape does not use the size, the joint has no dry friction constraint,
# the actuator's force is no longer that of the end of the step.
ONLY_POSITIVE = (
    "geometry_size", "friction_loss", "contact_damping", "torsional_friction", "rolling_friction", "actuator_kp",
    "actuator_kd", "tendon_friction_loss", "tendon_armature", "pair_torsional_friction", "pair_rolling_friction",
)  # fmt: skip
# Meaning of the numbers of solref and solimp, by their count.
SOFTNESS = {
    (2,): ("time constant or stiffness", "damping ratio or damping"),
    (5,): ("impedance at the surface", "impedance past the width", "width", "midpoint", "power"),
}
# Parameters of revolute and prismatic joints only, and those of springs
SCALAR_JOINTS, OF_SPRINGS = ("lower_limit", "upper_limit"), ("stiffness", "rest_position")


@dataclass(frozen=True)
class Entry:
    """One scalar that a rollout depends on.

    Attributes:
        argument: "q", "qd", "act", "tau", "control", "kinematic_qd", or the name of a parameter.
        index: index in the argument of one world: (dof,) for q and qd, (state,) for act, (step, dof) for tau, (step,
            actuator) for control, (step, kinematic dof) for kinematic_qd. A pose has its rotation at index 3 and above.
        owner: the joint, link, geometry or actuator, such as "joint 'hip'".
        component: component of the value, such as "rotation about x"; empty for a scalar.
        direction: direction in which to change it.
    """

    argument: str
    index: tuple[int, ...]
    owner: str
    component: str
    direction: Direction

    def __str__(self) -> str:
        at = f" at step {self.index[0]}" if self.argument in STEP_INPUTS else ""
        component = f", {self.component}" if self.component else ""
        return f"{self.argument} of {self.owner}{component}{at}" if self.owner else f"{self.argument}{component}"


def entries(model: Model, value: np.ndarray, argument: str) -> list[Entry]:
    """Return all entries of an argument that have a two-sided derivative, for its ``value`` in one world."""
    if argument == "q":
        return list(_coordinates(model, value))
    if argument in ("qd", "tau"):
        return list(_by_owner(value, argument, [_joint(model, dof) for dof in range(model.nv)]))
    if argument == "kinematic_qd":
        return list(_by_owner(value, argument, [_joint(model, int(dof)) for dof in model.kinematic_dofs]))
    if argument == "act":
        return list(_by_owner(value, argument, [(f"actuator '{name}'", "") for name in model.act_names]))
    if argument == "control":
        return list(_by_owner(value, argument, [_owner(model, "actuator", i) for i in range(model.nu)]))
    return list(_parameter(model, value, argument))


def rotation(quaternion: np.ndarray, axis: int, local: bool) -> np.ndarray:
    """Return the derivative [4] of a quaternion xyzw for a rotation about a world axis, or a body axis if local."""
    e = np.eye(3)[axis]
    v, w = quaternion[:3], quaternion[3]
    turned = w * e + (np.cross(v, e) if local else np.cross(e, v))
    return 0.5 * np.append(turned, -v @ e)


def _joint(model: Model, dof: int) -> tuple[str, str]:
    """Return owner and component of a degree of freedom."""
    link = int(model.dof_link[dof])
    number = dof - int(model.joint_qd_start[link])
    component = ""
    entry = JOINT_TYPES[int(model.joint_type[link])].quaternion
    if entry is not None:
        component = AXES[number] if number < entry else f"rotation about {AXES[number - entry]}"
    return f"joint '{model.joint_names[link]}'", component


def _coordinates(model: Model, q: np.ndarray) -> Iterator[Entry]:
    for dof in range(model.nv):
        link = int(model.dof_link[dof])
        kind, start = JOINT_TYPES[int(model.joint_type[link])], int(model.joint_q_start[link])
        number = dof - int(model.joint_qd_start[link])
        entries: tuple[int, ...] = (start + number,)
        coefficients: tuple[float, ...] = (1.0,)
        if kind.quaternion is not None and number >= kind.quaternion:
            entries = tuple(range(start + kind.quaternion, start + kind.quaternion + 4))
            turn = rotation(q[list(entries)], number - kind.quaternion, local=kind.local_rate)
            coefficients = tuple(turn.tolist())
        yield Entry("q", (dof,), *_joint(model, dof), Direction(entries, coefficients, 1.0))


def _by_owner(value: np.ndarray, argument: str, owners: list[tuple[str, str]]) -> Iterator[Entry]:
    scale = float(np.abs(value).max(initial=1.0))
    for entry, index in enumerate(np.ndindex(value.shape)):
        yield Entry(argument, index, *owners[index[-1]], Direction((entry,), (1.0,), scale))


def _parameter(model: Model, value: np.ndarray, name: str) -> Iterator[Entry]:
    spec = PARAMETERS[name]
    items = value.reshape(-1, *spec.shape)
    size = int(np.prod(spec.shape, dtype=int))
    largest = float(np.abs(value[np.isfinite(value)]).max(initial=0.0)) or 1.0
    if name in NOT_NEGATIVE:
        largest = min(largest, 1.0)  # scale for zeros, whose perturbations below zero must be small
    for item, numbers in enumerate(items):
        owner, own = _owner(model, spec.per, item)
        if name in SCALAR_JOINTS and model.dof_q[item] < 0:
            continue
        if name in OF_SPRINGS and unused_entries("stiffness", model)[item]:
            continue
        if spec.per == "actuator" and not _has_gain(model, name, item):
            continue
        if name in ("friction_across", *ACROSS_PAIRS) and unused_entries(name, model)[item]:
            continue
        finite = np.abs(numbers[np.isfinite(numbers)]) if spec.shape != (7,) else np.ones(1)
        scale = float(finite.max(initial=0.0)) or largest
        for index, component, entries, coefficients in _components(numbers, spec.shape):
            at = numbers[index] if spec.shape != (7,) else 1.0
            if not np.isfinite(at) or (name in ONLY_POSITIVE and at <= 0.0):
                continue
            own_scale = abs(float(at)) if spec.shape in SOFTNESS else scale  # each has a different unit
            direction = Direction(tuple(item * size + entry for entry in entries), coefficients, own_scale)
            index_of_item = () if spec.per == "world" else (item,)
            yield Entry(name, (*index_of_item, *index), owner, component or own, direction)


def _has_gain(model: Model, name: str, actuator: int) -> bool:
    """Return whether this actuator has a parameter of actuators."""
    return not unused_entries(name, model)[actuator]


def _components(
    numbers: np.ndarray, shape: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], str, tuple[int, ...], tuple[float, ...]]]:
    """Return name, flat indices and coefficients of each component of a parameter's value, with its index."""
    if shape == ():
        yield (), "", (0,), (1.0,)
    elif shape == (3,):
        for axis in range(3):
            yield (axis,), AXES[axis], (axis,), (1.0,)
    elif shape in SOFTNESS:
        for number, meaning in enumerate(SOFTNESS[shape]):
            yield (number,), meaning, (number,), (1.0,)
    elif shape == (3, 3):
        for i in range(3):
            for j in range(i, 3):
                entries = (3 * i + j,) if i == j else (3 * i + j, 3 * j + i)
                yield (i, j), AXES[i] + AXES[j], entries, (1.0,) * len(entries)
    else:
        for axis in range(3):
            yield (axis,), AXES[axis], (axis,), (1.0,)
        for axis in range(3):
            coefficients = tuple(rotation(numbers[3:], axis, local=False).tolist())
            yield (3 + axis,), f"rotation about {AXES[axis]}", (3, 4, 5, 6), coefficients


def _height(model: Model, item: int) -> tuple[str, str]:
    """Return the heightfield of a height, and its row and column in it."""
    for geometry in model.geometries:
        if geometry.heights is not None:
            if item < geometry.heights.size:
                row, column = divmod(item, geometry.heights.shape[1])
                return f"geometry '{geometry.name}'", f"row {row}, column {column}"
            item -= geometry.heights.size
    raise IndexError(item)


def _owner(model: Model, per: str, item: int) -> tuple[str, str]:
    """Return the owner of a parameter's value, and the component if it has several."""
    if per == "height":
        return _height(model, item)
    if per == "dof":
        return _joint(model, item)
    if per == "world":
        return "", ""
    what, names = {
        "link": ("link", model.link_names),
        "geometry": ("geometry", [geometry.name for geometry in model.geometries]),
        "pair": ("pair", model.pair_names),
        "anchor": ("constraint", model.equalities.anchor_names),
        "coupling": ("joint", model.equalities.coupling_names),
        "actuator": ("actuator", model.actuator_names),
        "tendon": ("tendon", model.tendons.names),
        "tendon_coupling": ("constraint", model.tendons.coupling_names),
        **{f"tendon_{part}": ("tendon", owners_of(model.tendons, part)) for part in ("term", "point", "wrap")},
    }[per]
    return f"{what} '{names[item]}'", ""
