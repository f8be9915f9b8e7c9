"""Actuators in MuJoCo's schema with affine force laws on joints with one coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pxr import Sdf, Usd

from sim.importers.force_laws import NoForceLawError, affine_law
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.stage import Scene
from sim.usd.drives import Actuator
from warp_kernels import types as codes

# Attributes that have the schema's default when they are missing
DEFAULTS: dict[str, Any] = {
    "mjc:gainType": "fixed", "mjc:biasType": "none", "mjc:dynType": "none", "mjc:gainPrm": (1.0,), "mjc:biasPrm": (),
    "mjc:gear": (1.0,), "mjc:forceLimited": "auto", "mjc:forceRange:min": 0.0, "mjc:forceRange:max": 0.0,
    "mjc:ctrlLimited": "auto", "mjc:ctrlRange:min": 0.0, "mjc:ctrlRange:max": 0.0,
}  # fmt: skip
EVERYTHING = (-np.inf, np.inf)


def mujoco_actuators(scene: Scene, carriers: Mapping[Sdf.Path, Joint]) -> list[tuple[Actuator, Sdf.Path, Sdf.Path]]:
    """Return the supported actuators of a file, each with the paths of its joint and prim; note the others.

    Args:
        scene: the file.
        carriers: parent joints of dynamic bodies, by path.
    """
    found = []
    for prim in scene.prims():
        if prim.GetTypeName() == "MjcActuator":
            targets = scene.targets(prim, "mjc:target")
            joint = carriers.get(targets[0]) if targets else None
            if joint is None or joint.type not in ("revolute", "prismatic"):
                where = f"'{targets[0]}'" if targets else "nothing"
                reason = f"it acts on {where}; only hinges and slides that carry a dynamic body have actuators"
                scene.notes.append(f"ignored: actuator '{prim.GetPath()}': {reason}")
                continue
            try:
                found.append((_actuator(scene, prim, joint), joint.path, prim.GetPath()))
            except NoForceLawError as reason:
                scene.notes.append(f"ignored: actuator '{prim.GetPath()}', {reason}")
    return found


def _actuator(scene: Scene, prim: Usd.Prim, joint: Joint) -> Actuator:
    """Return force law, gear and limits in SI units and rad. Raise NoForceLawError for unsupported ones."""
    stated = {name: scene.stated(prim, name) for name in DEFAULTS}
    for name, own in stated.items():
        if own is not None and not _fits(own, DEFAULTS[name]):
            raise scene.error(prim, f"{name} is {own!r}; it must be {_kind(DEFAULTS[name])}")
    value = {name: DEFAULTS[name] if own is None else own for name, own in stated.items()}
    if value["mjc:dynType"] != "none":
        raise NoForceLawError("which has an internal state (dynType); filter its input instead")
    # Force in newton, positions in metres: MuJoCo's schema has rad for angles.
    lever = scene.length if joint.type == "revolute" else 1.0
    force, unit = scene.mass * scene.length * lever, 1.0 if joint.type == "revolute" else scene.length
    law = affine_law(_linear(value, "gain", "fixed"), _linear(value, "bias", "none"))
    gear = float(value["mjc:gear"][0])
    if gear == 0.0:
        raise NoForceLawError("whose gear is zero")
    inputs = _range(value, "ctrl") or EVERYTHING
    if law.kind in (codes.POSITION, codes.VELOCITY):
        inputs = unit * inputs[0], unit * inputs[1]
    gains: dict[str, Any] = {
        name: gain * force / (unit if name.startswith("k") else 1.0) for name, gain in law.gains.items()
    }
    factor = law.factor * force if law.kind == codes.TORQUE else 1.0
    lower, upper = sorted(bound * force / factor for bound in _range(value, "force") or EVERYTHING)
    limited = np.isfinite([lower, upper])
    if limited.any() != limited.all():
        raise NoForceLawError("whose range of forces has only one bound")
    return Actuator(
        prim.GetName(), law.kind, gear * factor, control_range=inputs,
        force_centre=(lower + upper) / 2.0 if limited.all() else 0.0, force_limit=(upper - lower) / 2.0, **gains,
    )  # fmt: skip


def _linear(value: Mapping[str, Any], name: str, constant: str) -> tuple[float, float, float]:
    """Return gain or bias: a constant and factors of length and velocity. Raise NoForceLawError for other types."""
    type = value[f"mjc:{name}Type"]
    if type not in (constant, "affine"):
        raise NoForceLawError(f"whose force law ({name}Type {type}) is not supported")
    numbers = [*(float(number) for number in value[f"mjc:{name}Prm"]), 0.0, 0.0, 0.0][:3]
    first, second, third = numbers if type == "affine" else (numbers[0] if constant == "fixed" else 0.0, 0.0, 0.0)
    return first, second, third


def _fits(value: Any, default: Any) -> bool:
    """Return whether a value has the kind of a default: a text, a number, or several numbers."""
    if isinstance(default, str):
        return isinstance(value, str)
    numbers = [value] if isinstance(default, float) else value
    return hasattr(numbers, "__len__") and all(isinstance(number, int | float) for number in numbers)


def _kind(default: Any) -> str:
    return "a text" if isinstance(default, str) else "a number" if isinstance(default, float) else "numbers"


def _range(value: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """Return the range of a force or an input; None without."""
    lower, upper = float(value[f"mjc:{name}Range:min"]), float(value[f"mjc:{name}Range:max"])
    limited = value[f"mjc:{name}Limited"]
    return (lower, upper) if limited == "true" or (limited == "auto" and lower < upper) else None
