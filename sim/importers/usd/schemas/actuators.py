"""Actuators in MuJoCo's schema: motors, servos and velocity drives on joints with one coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pxr import Sdf, Usd

from sim.importers.usd.joints import Joint
from sim.importers.usd.stage import Scene
from sim.usd.drives import Actuator
from warp_kernels import types as codes

# Attributes that state the schema's default when they are left out.
DEFAULTS: dict[str, Any] = {
    "mjc:gainType": "fixed", "mjc:biasType": "none", "mjc:dynType": "none", "mjc:gainPrm": (1.0,), "mjc:biasPrm": (),
    "mjc:gear": (1.0,), "mjc:forceLimited": "auto", "mjc:forceRange:min": 0.0, "mjc:forceRange:max": 0.0,
    "mjc:ctrlLimited": "auto", "mjc:ctrlRange:min": 0.0, "mjc:ctrlRange:max": 0.0,
}  # fmt: skip
EVERYTHING = (-np.inf, np.inf)


def mujoco_actuators(scene: Scene, carriers: Mapping[Sdf.Path, Joint]) -> list[tuple[Actuator, Sdf.Path, Sdf.Path]]:
    """The actuators of a file that have a counterpart, each with the paths of its joint and prim; others are noted.

    Args:
        scene: the file.
        carriers: all joints that carry a body, by path.
    """
    found = []
    for prim in scene.prims():
        if prim.GetTypeName() == "MjcActuator":
            targets = scene.targets(prim, "mjc:target")
            joint = carriers.get(targets[0]) if targets else None
            if joint is None or joint.type not in ("revolute", "prismatic"):
                where = f"'{targets[0]}'" if targets else "nothing"
                reason = f"it acts on {where}; only revolute and prismatic joints that carry a body have actuators"
                scene.notes.append(f"left out: actuator '{prim.GetPath()}': {reason}")
                continue
            actuator = _actuator(scene, prim, joint)
            if actuator is None:
                scene.notes.append(
                    f"left out: actuator '{prim.GetPath()}', whose force law is not that of a motor, servo or velocity "
                    "drive"
                )
                continue
            found.append((actuator, joint.path, prim.GetPath()))
    return found


def _actuator(scene: Scene, prim: Usd.Prim, joint: Joint) -> Actuator | None:
    """Force law, gear and limit in SI units and rad; None for a law that has no counterpart."""
    stated = {name: scene.stated(prim, name) for name in DEFAULTS}
    for name, own in stated.items():
        if own is not None and not _fits(own, DEFAULTS[name]):
            raise scene.error(prim, f"{name} is {own!r}; it must be {_kind(DEFAULTS[name])}")
    value = {name: DEFAULTS[name] if own is None else own for name, own in stated.items()}
    gain, offset, stiffness, damping = (
        float(value[name][index]) if len(value[name]) > index else 0.0
        for name, index in (("mjc:gainPrm", 0), ("mjc:biasPrm", 0), ("mjc:biasPrm", 1), ("mjc:biasPrm", 2))
    )
    if value["mjc:biasType"] == "none":
        offset = stiffness = damping = 0.0
    plain = value["mjc:gainType"] == "fixed" and value["mjc:biasType"] in ("none", "affine")
    if not plain or value["mjc:dynType"] != "none" or offset != 0.0 or gain == 0.0:
        return None
    # Force in newton, positions in metres: MuJoCo's schema has rad for angles.
    lever = scene.length if joint.type == "revolute" else 1.0
    force, place = scene.mass * scene.length * lever, 1.0 if joint.type == "revolute" else scene.length
    gear, limit = float(value["mjc:gear"][0]), _force_limit(scene, prim, value) * force
    if gear == 0.0:
        return None
    name = prim.GetName()
    if stiffness == damping == 0.0:
        factor = gain * force
        inputs = _range(value, "ctrl")
        return Actuator(
            name, codes.TORQUE, gear * factor, 0.0, 0.0, limit / abs(factor), control_range=inputs or EVERYTHING
        )
    lower, upper = _range(value, "ctrl") or EVERYTHING
    targets = (place * lower, place * upper)
    kp, kd = gain * force / place, -damping * force / place
    if stiffness == -gain < 0.0 and damping <= 0.0:
        return Actuator(name, codes.POSITION, gear, kp, kd, limit, control_range=targets)
    if stiffness == 0.0 and damping == -gain < 0.0:
        return Actuator(name, codes.VELOCITY, gear, 0.0, kp, limit, control_range=targets)
    return None


def _fits(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of a default: a text, a number, or several numbers."""
    if isinstance(default, str):
        return isinstance(value, str)
    numbers = [value] if isinstance(default, float) else value
    return hasattr(numbers, "__len__") and all(isinstance(number, int | float) for number in numbers)


def _kind(default: Any) -> str:
    return "a text" if isinstance(default, str) else "a number" if isinstance(default, float) else "numbers"


def _range(value: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """A range of a force or an input; None without."""
    lower, upper = float(value[f"mjc:{name}Range:min"]), float(value[f"mjc:{name}Range:max"])
    limited = value[f"mjc:{name}Limited"]
    return (lower, upper) if limited == "true" or (limited == "auto" and lower < upper) else None


def _force_limit(scene: Scene, prim: Usd.Prim, value: Mapping[str, Any]) -> float:
    bounds = _range(value, "force")
    if bounds is None:
        return np.inf
    if bounds[0] != -bounds[1]:
        scene.notes.append(
            f"actuator '{prim.GetPath()}': forceRange {list(bounds)} is not symmetric; the larger bound is used twice"
        )
    return max(abs(bound) for bound in bounds)
