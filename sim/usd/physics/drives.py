"""The single drive that UsdPhysics has for a joint, for its spring, damper and actuators."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pxr import Usd

from sim.model.model import ACTUATOR_KIND_NAMES, Model
from sim.model.specs import DYNAMICS_CODES, OF_STATES
from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from sim.model.topology import NO_LINK
from sim.usd.annotations import UNLIMITED, keep, keep_text, keep_texts, kept, kept_text, kept_texts
from warp_kernels import types as codes

SIDES = ("lower", "upper")
AFFINE = ("gain", "offset", "kp_per_input", "kd_per_input")


@dataclass(frozen=True)
class Actuator:
    """An actuator of a joint. ``kind`` is a code of :mod:`warp_kernels.types`, ``muscle`` has the values of a
    :class:`sim.Muscle`, ``motor`` those of a :class:`sim.DCMotor`, other fields are as in the builder.

    ``number`` is its index in the control vector of the model; actuators made from drives come last.
    """

    name: str
    kind: int
    gear: float
    kp: float
    kd: float
    force_limit: float
    number: float = np.inf
    control_range: tuple[float, float] = (-np.inf, np.inf)
    force_centre: float = 0.0
    gain: float = 0.0
    offset: float = 0.0
    kp_per_input: float = 0.0
    kd_per_input: float = 0.0
    dynamics: int = codes.STATELESS
    time_constant: float = 0.0
    act_range: tuple[float, float] = (-np.inf, np.inf)
    act_early: bool = False
    fall_time: float = 0.0
    smoothing: float = 0.0
    muscle: tuple[float, ...] | None = None
    delay: float = 0.0
    delay_samples: int = 0
    ki: float = 0.0
    integral_limit: float = np.inf
    resistance: float = 0.0
    motor: tuple[float, float] | None = None

    @property
    def force_range(self) -> tuple[float, float]:
        """Return minimum and maximum force."""
        return self.force_centre - self.force_limit, self.force_centre + self.force_limit


@dataclass(frozen=True)
class Drive:
    """A drive with force stiffness (target - q) + damping (velocity - qd), at most max_force; in SI units and rad."""

    stiffness: float
    damping: float
    target: float
    max_force: float
    velocity: float = 0.0

    def agrees(self, other: "Drive") -> bool:
        """Return whether two drives are the same to single precision."""
        mine, theirs = (np.array([d.stiffness, d.damping, d.target, d.max_force, d.velocity]) for d in (self, other))
        finite = np.isfinite(mine)
        same = np.isclose(mine[finite], theirs[finite], rtol=1e-5, atol=1e-9).all()
        return bool((finite == np.isfinite(theirs)).all() and same)


def stated_drive(damping: float, stiffness: float, rest_position: float, actuators: list[Actuator]) -> Drive | None:
    """Return the drive equivalent to a spring, a damper and servos with zero inputs; None if there are none.

    Its force is limited only if it consists of a single servo. Motors and muscles aren't part of it: they only
    transmit a force.
    """
    servos = _servos(actuators)
    total_stiffness = stiffness + sum(servo.kp * servo.gear**2 for servo in servos)
    total_damping = damping + sum(servo.kd * servo.gear**2 for servo in servos)
    if not total_stiffness and not total_damping:
        return None
    push = stiffness * rest_position + sum(servo.offset * servo.gear for servo in servos)
    target = push / total_stiffness if total_stiffness else 0.0
    passive = damping or stiffness or len(servos) != 1
    max_force = np.inf if passive else max(np.abs(servos[0].force_range)) * abs(servos[0].gear)
    return Drive(total_stiffness, total_damping, target, float(max_force))


def is_damped_apart(stiffness: float, actuators: list[Actuator]) -> bool:
    """Return whether the damper of a joint isn't part of its drive, a single servo with a limited force."""
    servos = _servos(actuators)
    return not stiffness and len(servos) == 1 and bool(np.isfinite(servos[0].force_limit))


def _servos(actuators: list[Actuator]) -> list[Actuator]:
    return [actuator for actuator in actuators if actuator.kind not in (codes.TORQUE, codes.MUSCLE)]


@dataclass(frozen=True)
class Driven:
    """Target of an actuator that isn't a joint: ``kind`` "tendon", "frame" or "adhesion", and names."""

    kind: str
    target: str
    reference: str = ""
    force_axis: tuple[float, ...] = (0.0, 0.0, 0.0)
    torque_axis: tuple[float, ...] = (0.0, 0.0, 0.0)


def actuators_of(model: Model, dof: int) -> list[Actuator]:
    """Return the actuators of a degree of freedom."""
    return _actuators(model, np.flatnonzero(model.actuator_dof == dof))


def actuators_of_tendon(model: Model, tendon: int) -> list[Actuator]:
    """Return the actuators of a tendon."""
    return _actuators(model, np.flatnonzero(model.actuator_tendon == tendon))


def _actuators(model: Model, which: np.ndarray) -> list[Actuator]:
    found = []
    for k in which:
        lower, upper = (float(model.parameters[f"actuator_control_{side}"][k]) for side in SIDES)
        numbers = {
            name: float(model.parameters[f"actuator_{name}"][k])
            for name in ("gear", "kp", "kd", "force_limit", "force_centre", *AFFINE)
        }
        name, kind = model.actuator_names[k], int(model.actuator_kind[k])
        options: dict[str, Any] = {**numbers, **_state(model, int(k))}
        if model.delay_samples[k]:
            options["delay"] = float(model.parameters["actuator_delay"][k])
            options["delay_samples"] = int(model.delay_samples[k])
        if "actuator_stall_force" in model.parameters and model.parameters["actuator_stall_force"][k]:
            curve = (float(model.parameters[f"actuator_{each}"][k]) for each in ("stall_force", "no_load_speed"))
            options["motor"] = tuple(curve)
        if kind == codes.MUSCLE:
            options["muscle"] = tuple(float(model.parameters[each][k]) for each in MUSCLE_PARAMETERS.values())
        found.append(Actuator(name, kind, number=float(k), control_range=(lower, upper), **options))
    return found


def keep_further_actuators(prim: Usd.Prim, model: Model) -> None:
    """Annotate a prim with the actuators that don't act on joints."""
    which = np.flatnonzero(model.actuator_dof < 0)
    for number, (index, actuator) in enumerate(zip(which.tolist(), _actuators(model, which), strict=True)):
        keep_actuator(prim, number, actuator)
        driven = _driven(model, index)
        keep_texts(prim, f"actuator_{number}:driven", [driven.kind, driven.target, driven.reference])
        keep(prim, f"actuator_{number}:axes", [*driven.force_axis, *driven.torque_axis])


def kept_further_actuators(prim: Usd.Prim) -> list[tuple[Actuator, Driven]]:
    """Return the actuators stored by :func:`keep_further_actuators`."""
    found = []
    for number, actuator in enumerate(kept_actuators(prim)):
        texts, axes = kept_texts(prim, f"actuator_{number}:driven"), kept(prim, f"actuator_{number}:axes", 6)
        if len(texts) != 3 or axes is None:
            break  # not written by Backswing
        found.append((actuator, Driven(*texts, tuple(axes[:3].tolist()), tuple(axes[3:].tolist()))))
    return found


def _driven(model: Model, index: int) -> Driven:
    if model.actuator_tendon[index] >= 0:
        return Driven("tendon", model.tendons.names[model.actuator_tendon[index]])
    found = model.transmissions
    line = int(np.flatnonzero(found.actuator == index)[0])
    if found.link[line] == NO_LINK:
        return Driven("adhesion", found.target[line])
    axes = (tuple(model.parameters[f"actuator_{name}_axis"][index].tolist()) for name in ("force", "torque"))
    return Driven("frame", found.target[line], found.reference[line], *axes)


def _state(model: Model, k: int) -> dict[str, Any]:
    """Return the activation dynamics of an actuator, if it has a state."""
    if model.actuator_dynamics[k] == codes.STATELESS:
        return {}
    lower, upper, time = (
        float(model.parameters[f"actuator_{name}"][k]) for name in ("act_lower", "act_upper", "time_constant")
    )
    found = {
        "dynamics": int(model.actuator_dynamics[k]),
        "time_constant": time,
        "act_range": (lower, upper),
        "act_early": bool(model.actuator_early[k]),
    }
    names = OF_STATES.get(int(model.actuator_dynamics[k]), ())
    return found | {name: float(model.parameters[f"actuator_{name}"][k]) for name in names}


def keep_actuator(joint: Usd.Prim, number: int, actuator: Actuator) -> None:
    """Annotate a joint with one of its actuators."""
    limit = actuator.force_limit if np.isfinite(actuator.force_limit) else UNLIMITED
    keep_text(joint, f"actuator_{number}:name", actuator.name)
    keep(joint, f"actuator_{number}", [
        actuator.kind, actuator.gear, actuator.kp, actuator.kd, limit, actuator.number,
    ])  # fmt: skip
    if actuator.force_centre:
        keep(joint, f"actuator_{number}:force_centre", [actuator.force_centre])
    if actuator.kind == codes.AFFINE:
        keep(joint, f"actuator_{number}:affine", [getattr(actuator, name) for name in AFFINE])
    for name, limits in (("control", actuator.control_range), ("act", actuator.act_range)):
        for side, bound in zip(SIDES, limits, strict=True):
            if np.isfinite(bound):
                keep(joint, f"actuator_{number}:{name}_{side}", [bound])
    if actuator.dynamics != codes.STATELESS:
        keep(joint, f"actuator_{number}:dynamics", [actuator.dynamics, actuator.time_constant, actuator.act_early])
        for name in OF_STATES.get(actuator.dynamics, ()):
            value = getattr(actuator, name)
            keep(joint, f"actuator_{number}:{name}", [value if np.isfinite(value) else UNLIMITED])
    if actuator.motor is not None:
        keep(joint, f"actuator_{number}:motor", actuator.motor)
    if actuator.delay_samples:
        keep(joint, f"actuator_{number}:delay", [actuator.delay, actuator.delay_samples])
    if actuator.muscle is not None:
        keep(joint, f"actuator_{number}:muscle", actuator.muscle)


def kept_actuators(joint: Usd.Prim) -> list[Actuator]:
    """Return the actuators that a joint is annotated with."""
    found: list[Actuator] = []
    while (values := kept(joint, f"actuator_{len(found)}", 6)) is not None:
        kind, gear, kp, kd, limit, number = values.tolist()
        affine = kept(joint, f"actuator_{len(found)}:affine", len(AFFINE))
        muscle = kept(joint, f"actuator_{len(found)}:muscle", len(MUSCLE_PARAMETERS))
        missing = (kind == codes.AFFINE and affine is None) or (kind == codes.MUSCLE and muscle is None)
        if kind not in ACTUATOR_KIND_NAMES or missing:
            break  # not written by Backswing
        name = kept_text(joint, f"actuator_{len(found)}:name") or f"{joint.GetName()}_{len(found)}"
        limit = limit if limit >= 0.0 else np.inf
        centre = kept(joint, f"actuator_{len(found)}:force_centre", 1)
        gains = {} if affine is None else dict(zip(AFFINE, affine.tolist(), strict=True))
        found.append(Actuator(
            name, int(kind), gear, kp, kd, limit, number, _bounds(joint, f"actuator_{len(found)}:control"),
            0.0 if centre is None else float(centre[0]), **gains, **_kept_state(joint, f"actuator_{len(found)}"),
            muscle=None if muscle is None else tuple(muscle.tolist()),
            motor=_kept_motor(joint, f"actuator_{len(found)}:motor"),
            **_kept_delay(joint, f"actuator_{len(found)}:delay"),
        ))  # fmt: skip
    return found


def _kept_delay(joint: Usd.Prim, name: str) -> dict[str, Any]:
    """Return the annotated delay of an actuator; empty without one."""
    values = kept(joint, name, 2)
    return {} if values is None else {"delay": float(values[0]), "delay_samples": int(values[1])}


def _kept_motor(joint: Usd.Prim, name: str) -> tuple[float, float] | None:
    """Return the annotated numbers of a motor; None without one."""
    values = kept(joint, name, 2)
    return None if values is None else (float(values[0]), float(values[1]))


def _bounds(joint: Usd.Prim, name: str) -> tuple[float, float]:
    """Return a range; infinite bounds aren't stored."""
    lower, upper = (kept(joint, f"{name}_{side}", 1) for side in SIDES)
    return (-np.inf if lower is None else float(lower[0])), (np.inf if upper is None else float(upper[0]))


def _kept_state(joint: Usd.Prim, name: str) -> dict[str, Any]:
    """Return the annotated activation dynamics of an actuator; empty without a state."""
    values = kept(joint, f"{name}:dynamics", 3)
    if values is None or values[0] not in DYNAMICS_CODES.values():
        return {}
    dynamics, time, early = values.tolist()
    others = {each: kept(joint, f"{name}:{each}", 1) for each in OF_STATES.get(int(dynamics), ())}
    return {
        **{each: float(value[0]) if value[0] >= 0.0 else np.inf for each, value in others.items() if value is not None},
        "dynamics": int(dynamics),
        "time_constant": time,
        "act_range": _bounds(joint, f"{name}:act"),
        "act_early": bool(early),
    }
