"""Actuators in MuJoCo's schema, with affine force laws and muscles, on scalar joints, tendons and sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from pxr import Sdf, Usd

from sim.importers.force_laws import ForceLaw, NoForceLawError, affine_law
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.reader import Reader
from sim.importers.usd.schemas.mujoco_tendons import point_of
from sim.importers.usd.schemas.muscles import Muscles
from sim.importers.usd.stage import Scene
from sim.model.checks import free_name
from sim.model.specs import DYNAMICS_CODES
from sim.usd.annotations import kept_text
from sim.usd.physics.drives import Actuator
from sim.usd.physics.mujoco_tendons import affine_numbers, bounded
from warp_kernels import types as codes
from warp_kernels.actuators.activation import SHORTEST

# Attributes that have the schema's default when they are missing
DEFAULTS: dict[str, Any] = {
    "mjc:gainType": "fixed", "mjc:biasType": "none", "mjc:dynType": "none", "mjc:gainPrm": (1.0,), "mjc:biasPrm": (),
    "mjc:gear": (1.0,), "mjc:dynPrm": (1.0,),
}  # fmt: skip
WITH_STATE = "integrator", "filter", "filterexact", "muscle"
EVERYTHING = (-np.inf, np.inf)


def mujoco_actuators(
    reader: Reader, carriers: Mapping[Sdf.Path, tuple[Joint, str]], tendons: Mapping[Sdf.Path, str]
) -> list[tuple[Actuator, dict[str, Any], Sdf.Path]]:
    """Return the supported actuators of a file, each with its target and the path of its prim; note the others.

    Args:
        reader: the reader.
        carriers: parent joints of dynamic bodies with their names, by path.
        tendons: names of the tendons, by path.

    Returns:
        Actuators, their targets as arguments of the builder, and paths.
    """
    scene, found, muscles = reader.scene, [], Muscles(reader)
    prims = [prim for prim in scene.prims() if prim.GetTypeName() == "MjcActuator"]
    _bound_sums(reader, prims, tendons)
    for prim in prims:
        if kept_text(prim, "name") is not None and not tendons.keys() & set(scene.targets(prim, "mjc:target")):
            scene.pass_over(prim)  # written by Backswing, for a tendon that is gone
            continue
        try:
            joint, driven = _target(reader, prim, carriers, tendons)
            found.append((_actuator(reader, prim, joint, driven, muscles), driven, prim.GetPath()))
        except NoForceLawError as reason:
            scene.notes.append(f"ignored: actuator '{prim.GetPath()}', {reason}")
    return found


def agreed_actuators(
    reader: Reader, stated: Iterable[tuple[Actuator, dict[str, Any], Sdf.Path]],
    kept: Iterable[tuple[Actuator, dict[str, Any], Sdf.Path]],
) -> list[tuple[Actuator, dict[str, Any], Sdf.Path]]:  # fmt: skip
    """Return all actuators once: those that Backswing has stored, or as another program has edited them.

    Args:
        reader: the reader.
        stated: actuators in MuJoCo's schema, of which some state stored ones.
        kept: stored actuators that don't act on joints.
    """
    found, edits = list[tuple[Actuator, dict[str, Any], Sdf.Path]](), dict[str, tuple[Actuator, dict[str, Any]]]()
    for actuator, driven, path in stated:
        name = kept_text(reader.scene.prim(path), "name")
        if name is None:
            found.append((actuator, driven, path))
        else:
            edits[name] = actuator, driven
    for actuator, driven, path in kept:
        edited, target = edits.get(actuator.name, (actuator, driven))
        if target != driven or not np.allclose(_numbers(edited), _numbers(actuator), rtol=1e-9, atol=0.0):
            found.append((replace(edited, name=actuator.name, number=actuator.number), target, path))
        else:
            found.append((actuator, driven, path))
    return found


def _numbers(actuator: Actuator) -> np.ndarray:
    """Return what MuJoCo's schema has of an actuator of a tendon."""
    ranges = [*actuator.control_range, *actuator.force_range, *actuator.act_range]
    others = [actuator.gear, actuator.dynamics, actuator.time_constant, actuator.act_early]
    return np.concatenate([affine_numbers(actuator).ravel(), bounded(ranges), others])


def _target(
    reader: Reader, prim: Usd.Prim, carriers: Mapping[Sdf.Path, tuple[Joint, str]], tendons: Mapping[Sdf.Path, str]
) -> tuple[Joint | None, dict[str, Any]]:
    """Return the joint of an actuator, or None, and its target as arguments of the builder."""
    scene, targets = reader.scene, reader.scene.targets(prim, "mjc:target")
    if len(targets) > 1:
        raise NoForceLawError(f"which acts on {len(targets)} prims; only one is supported")
    path = targets[0] if targets else Sdf.Path.emptyPath
    if path in tendons:
        return None, {"tendon": tendons[path]}
    if path in carriers and carriers[path][0].type in ("revolute", "prismatic"):
        return carriers[path][0], {"joint": carriers[path][1]}
    site = scene.prim(path) if not path.isEmpty else None
    if site and scene.has_schema(site, "MjcSiteAPI"):
        gear = scene.numbers(prim, "mjc:gear", (1.0, *(0.0,) * 5))
        driven: dict[str, Any] = {"frame": _frame(reader, site), "force_axis": gear[:3], "torque_axis": gear[3:]}
        beside = scene.targets(prim, "mjc:refSite")
        if beside and not scene.prim(beside[0]):
            raise NoForceLawError(f"whose reference '{beside[0]}' doesn't exist")
        return None, driven | ({"reference": _frame(reader, scene.prim(beside[0]))} if beside else {})
    where = "nothing" if path.isEmpty else f"'{path}'"
    raise NoForceLawError(
        f"which acts on {where}; only hinges and slides that carry a dynamic body, tendons and sites have actuators"
    )


def _frame(reader: Reader, site: Usd.Prim) -> str:
    """Return the name of a frame at a site, which is added at first."""
    link, pose = point_of(reader, site)
    name = reader.prefix + site.GetName()
    known = reader.builder.frames.get(name)
    if known is not None and known[0] == link and np.array_equal(known[1], pose):
        return name
    name = free_name(name, reader.builder.frames.keys() | reader.builder.links.keys())
    return str(reader.add(site.GetPath(), reader.builder.add_frame, name, link, pose[:3], pose[3:]))


def _actuator(
    reader: Reader, prim: Usd.Prim, joint: Joint | None, driven: Mapping[str, Any], muscles: Muscles
) -> Actuator:
    """Return force law, gear and limits in SI units and rad. Raise NoForceLawError for unsupported ones."""
    scene = reader.scene
    shared = "tendon" in driven and reader.builder.tendons[driven["tendon"]].force_range is not None
    stated = {name: scene.stated(prim, name) for name in DEFAULTS}
    for name, own in stated.items():
        if own is not None and not _fits(own, DEFAULTS[name]):
            raise scene.error(prim, f"{name} is {own!r}; it must be {_kind(DEFAULTS[name])}")
    value = {name: DEFAULTS[name] if own is None else own for name, own in stated.items()}
    if joint is None and (scene.length, scene.mass) != (1.0, 1.0):
        raise NoForceLawError("which acts on no joint, of a stage whose units aren't metres and kilograms")
    # Force in newton, positions in metres: MuJoCo's schema has rad for angles.
    slides = joint is not None and joint.type == "prismatic"
    lever = 1.0 if slides else scene.length
    force, unit = scene.mass * scene.length * lever, scene.length if slides else 1.0
    gear = 1.0 if "frame" in driven else float((*value["mjc:gear"], 0.0)[0])
    if gear == 0.0:
        raise NoForceLawError("whose gear is zero")
    if value["mjc:gainType"] == "muscle":
        law = muscles.law(prim, value, driven, gear)
    else:
        law = affine_law(_linear(value, "gain", "fixed"), _linear(value, "bias", "none"))
    if shared and law.factor != 1.0:  # the range of a sum counts forces without gears
        law = ForceLaw(codes.AFFINE, gain=law.factor)
    inputs = scene.mujoco_range(prim, "mjc:ctrlRange", "mjc:ctrlLimited") or EVERYTHING
    if law.kind in (codes.POSITION, codes.VELOCITY):
        inputs = unit * inputs[0], unit * inputs[1]
    gains: dict[str, Any] = {
        name: gain * force / (unit if name.startswith("k") else 1.0) for name, gain in law.gains.items()
    }
    factor = law.factor * force if law.kind == codes.TORQUE else 1.0
    forces = scene.mujoco_range(prim, "mjc:forceRange", "mjc:forceLimited") or EVERYTHING
    bounds = np.sort(np.array(forces) * force / factor)
    if joint is not None:
        bounds = np.clip(bounds, *np.sort(np.array(_sum_range(scene, joint)) * force / (gear * factor)))
    elif "tendon" in driven and not shared:  # MuJoCo clamps the force on a tendon first, without the gear
        bounds = np.clip(np.sort(np.array(_tendon_range(scene, prim)) * force / factor), *bounds)
    limited = np.isfinite(bounds)
    if limited.any() != limited.all():
        raise NoForceLawError("whose range of forces has only one bound")
    lower, upper = bounds.tolist()
    return Actuator(
        prim.GetName(), law.kind, gear * factor, control_range=inputs,
        force_centre=(lower + upper) / 2.0 if limited.all() else 0.0,
        force_limit=(upper - lower) / 2.0 if limited.all() else np.inf, **gains, **_dynamics(scene, prim, value),
        muscle=None if law.muscle is None else astuple(law.muscle),
    )  # fmt: skip


def _dynamics(scene: Scene, prim: Usd.Prim, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the activation dynamics of an actuator with an internal state. Raise NoForceLawError for others."""
    kind = value["mjc:dynType"]
    if kind == "none":
        return {}
    if (
        kind not in ("integrator", "filter", "filterexact", "muscle")
        or (scene.number(prim, "mjc:actDim") or -1.0) > 1.0
    ):
        raise NoForceLawError(f"which has an internal state (dynType {kind}); filter its input instead")
    found: dict[str, Any] = {"dynamics": DYNAMICS_CODES[kind], "act_early": bool(scene.stated(prim, "mjc:actEarly"))}
    times = [float(number) for number in (*value["mjc:dynPrm"], 0.0, 0.0, 0.0)[:3]]
    if kind != "integrator":
        found["time_constant"] = max(times[0], SHORTEST)
    if kind == "muscle":
        found |= {"fall_time": max(times[1], SHORTEST), "smoothing": max(times[2], 0.0)}
    limits = scene.mujoco_range(prim, "mjc:actRange", "mjc:actLimited")
    return found | ({"act_range": limits} if limits else {})


def _sum_range(scene: Scene, joint: Joint) -> tuple[float, float]:
    """Return the range of the force of actuators on a joint."""
    prim = scene.prim(joint.path)
    if not scene.has_schema(prim, "MjcJointAPI"):
        return EVERYTHING
    return scene.mujoco_range(prim, "mjc:actuatorfrcrange", "mjc:actuatorfrclimited") or EVERYTHING


def _tendon_range(scene: Scene, actuator: Usd.Prim) -> tuple[float, float]:
    """Return the range of the sum of all forces of actuators on the tendon of an actuator."""
    tendon = scene.prim(scene.targets(actuator, "mjc:target")[0])
    return scene.mujoco_range(tendon, "mjc:actuatorfrcrange", "mjc:actuatorfrclimited") or EVERYTHING


def _bound_sums(reader: Reader, actuators: Iterable[Usd.Prim], tendons: Mapping[Sdf.Path, str]) -> None:
    """Bound the sum of forces of the tendons with a range and several actuators."""
    scene, specs = reader.scene, reader.builder.tendons
    targets = Counter(path for prim in actuators for path in scene.targets(prim, "mjc:target")[:1] if path in tendons)
    for path, count in targets.items():
        found = scene.mujoco_range(scene.prim(path), "mjc:actuatorfrcrange", "mjc:actuatorfrclimited")
        if found and count > 1:
            specs[tendons[path]] = replace(specs[tendons[path]], force_range=found)


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
