"""Tendons in MuJoCo's schema: of joints, or through sites and around spheres and cylinders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pxr import Sdf, Usd
from scipy.spatial.transform import Rotation

from sim.importers.usd.prims import primitive, seen_from
from sim.importers.usd.reader import Reader
from sim.importers.usd.schemas.mujoco_contacts import softness_of
from sim.model.builder.properties import Limits, Spring
from sim.model.checks import free_name
from sim.model.softness import Softness
from sim.model.tendons.tendons import TendonWrap
from sim.usd.annotations import kept_text
from sim.usd.physics.mujoco_tendons import bounded
from warp_kernels import types as codes

# Properties of a tendon that the schema has
EDITABLE = (
    "coefficients", "stiffness", "damping", "armature", "rest", "friction_loss", "lower", "upper", "limit_margin",
    "limit_softness", "friction_softness",
)  # fmt: skip


class NoTendonError(Exception):
    """Error for a tendon that Backswing can't represent."""


def add_mujoco_tendons(reader: Reader, joints: Mapping[Sdf.Path, str]) -> dict[Sdf.Path, str]:
    """Add the tendons of a file in MuJoCo's schema; note the others. Return their names, by path.

    Args:
        reader: the reader.
        joints: names of the joints with one coordinate, by path.
    """
    scene, found = reader.scene, dict[Sdf.Path, str]()
    for prim in scene.prims():
        if prim.GetTypeName() != "MjcTendon":
            continue
        path, own = prim.GetPath(), kept_text(prim, "name")
        fixed = scene.choice(prim, "mjc:type", ("spatial", "fixed")) == "fixed"
        if own is not None:  # written by Backswing, which has the tendon's annotation
            if reader.prefix + own in reader.builder.tendons:
                found[path] = reader.prefix + own
                _restate(reader, prim, found[path], joints)
            else:
                scene.pass_over(prim)
            continue
        name = reader.unique(prim.GetName(), path, reader.builder.tendons)
        try:
            if (scene.length, scene.mass) != (1.0, 1.0):
                raise NoTendonError("the units of its stage aren't metres and kilograms")
            if fixed:
                _add_fixed(reader, prim, name, joints)
            else:
                reader.add(
                    path, reader.builder.add_spatial_tendon, name, _path(reader, prim, _steps(reader, prim)),
                    **_properties(reader, prim, None),
                )  # fmt: skip
            found[path] = name
        except NoTendonError as reason:
            scene.notes.append(f"ignored: tendon '{path}': {reason}")
    return found


def _add_fixed(reader: Reader, prim: Usd.Prim, name: str, joints: Mapping[Sdf.Path, str]) -> None:
    steps = _steps(reader, prim)
    coefficients = _coefficients(reader, prim, steps, joints)
    rest = sum(value * _spring_position(reader, step) for step, value in zip(steps, coefficients, strict=True))
    together: dict[str, float] = {}
    for step, value in zip(steps, coefficients, strict=True):
        together[joints[step]] = together.get(joints[step], 0.0) + value
    reader.add(prim.GetPath(), reader.builder.add_fixed_tendon, name, together, **_properties(reader, prim, rest))


def _restate(reader: Reader, prim: Usd.Prim, name: str, joints: Mapping[Sdf.Path, str]) -> None:
    """Give a tendon that Backswing has written the properties that another program has edited; note others."""
    tendons, label = reader.builder.tendons, free_name(name, reader.builder.tendons)
    try:
        _add_fixed(reader, prim, label, joints)
    except NoTendonError as reason:
        reader.scene.notes.append(f"what '{prim.GetPath()}' states isn't read: {reason}")
        return
    own, stated = tendons[name], tendons.pop(label)
    edited = {each: getattr(stated, each) for each in EDITABLE if not _agree(getattr(own, each), getattr(stated, each))}
    if not own.stiffness and not stated.stiffness:
        edited.pop("rest", None)  # a tendon without a spring states none
    tendons[name] = replace(own, **edited)


def _agree(own: Any, stated: Any) -> bool:
    """Return whether properties are equal but for rounding and the largest numbers that MuJoCo's schema has."""
    if isinstance(own, dict):
        return own.keys() == stated.keys() and _agree([*own.values()], [stated[each] for each in own])
    if isinstance(own, Softness):
        return _agree([*own.solref, *own.solimp], [*stated.solref, *stated.solimp])
    return bool(np.allclose(bounded(own), bounded(stated), rtol=1e-9, atol=1e-6 if isinstance(own, tuple) else 0.0))


def _steps(reader: Reader, prim: Usd.Prim) -> list[Sdf.Path]:
    """Return the joints, sites and geoms of a tendon in the order of its path, which may repeat some."""
    targets, indices = reader.scene.targets(prim, "mjc:path"), _integers(reader, prim, "mjc:path:indices")
    if not len(indices):
        indices = list(range(len(targets)))
    return _picked(targets, indices)


def _picked(targets: Sequence[Sdf.Path], indices: Sequence[int]) -> list[Sdf.Path]:
    if not indices or min(indices) < 0 or max(indices) >= len(targets):
        raise NoTendonError("its path has no targets, or names some that it doesn't have")
    return [targets[index] for index in indices]


def _coefficients(
    reader: Reader, prim: Usd.Prim, steps: Sequence[Sdf.Path], joints: Mapping[Sdf.Path, str]
) -> list[float]:
    values = _numbers(reader, prim, "mjc:path:coef")
    if len(values) != len(steps):
        raise NoTendonError(f"it has {len(steps)} joints, but {len(values)} coefficients")
    if lost := [step for step in steps if step not in joints]:
        raise NoTendonError(f"it acts on '{lost[0]}', which isn't a hinge or slide that carries a body")
    return values


def _spring_position(reader: Reader, joint: Sdf.Path) -> float:
    prim = reader.scene.prim(joint)
    angular = prim.GetTypeName() == "PhysicsRevoluteJoint"
    return reader.scene.mujoco_position(prim, "mjc:springref", angular) or 0.0


def _path(reader: Reader, prim: Usd.Prim, steps: Sequence[Sdf.Path]) -> list[Any]:
    """Return a path: points on links, wraps, and the divisors of pulleys."""
    segments = _integers(reader, prim, "mjc:path:segments") or [0] * len(steps)
    divisors = _numbers(reader, prim, "mjc:path:divisors") or [1.0]
    sides = _integers(reader, prim, "mjc:sideSites:indices") or [-1] * len(steps)
    beside = reader.scene.targets(prim, "mjc:sideSites")
    if not len(segments) == len(sides) == len(steps):
        raise NoTendonError("the lengths of its path, segments and side sites differ")
    if min(segments) < 0 or max(segments) >= len(divisors) or max(sides) >= len(beside):
        raise NoTendonError("its path names segments or side sites that it doesn't have")
    found: list[Any] = []
    for number, (step, segment, side) in enumerate(zip(steps, segments, sides, strict=True)):
        if number == 0 or segment != segments[number - 1]:
            found.append(divisors[segment])
        found.append(_step(reader, step, None if side < 0 else beside[side]))
    return found


def _step(reader: Reader, path: Sdf.Path, side: Sdf.Path | None) -> tuple[str, np.ndarray] | TendonWrap:
    prim = reader.scene.prim(path)
    if not prim:
        raise NoTendonError(f"'{path}' doesn't exist")
    if reader.scene.has_schema(prim, "MjcSiteAPI"):
        return point_of(reader, prim)[0], point_of(reader, prim)[1][:3]
    shape = primitive(reader.scene, prim)
    if shape is None or shape.type not in (codes.SPHERE, codes.CYLINDER):
        raise NoTendonError(f"it wraps around '{path}', which is neither a sphere nor a cylinder")
    body = reader.scene.body_of(path)
    placed = reader.in_link(body, seen_from(reader.scene, body, shape).pose)
    axis = Rotation.from_quat(placed[3:]).as_matrix()[:, 2] if shape.type == codes.CYLINDER else None
    beside = None if side is None else reader.scene.prim(side)
    if side is not None and not beside:
        raise NoTendonError(f"its side site '{side}' doesn't exist")
    link, pose = point_of(reader, beside) if beside else ("", placed)
    return TendonWrap(
        link=reader.link_name(body), radius=float(shape.size[0]), position=placed[:3], axis=axis,
        side=(link, pose[:3]) if beside else None,
    )  # fmt: skip


def point_of(reader: Reader, prim: Usd.Prim) -> tuple[str, np.ndarray]:
    """Return the link of a site and its pose in it [7]."""
    scene, body = reader.scene, reader.scene.body_of(prim.GetPath())
    pose = scene.placed(prim)[0]
    return reader.link_name(body), reader.in_link(body, pose if body is None else scene.relative(body, pose))


def _properties(reader: Reader, prim: Usd.Prim, rest: float | None) -> dict[str, Any]:
    scene = reader.scene

    def number(name: str) -> float:
        return scene.number(prim, f"mjc:{name}") or 0.0

    lengths = scene.numbers(prim, "mjc:springlength", (-1.0, -1.0))
    ends = rest if lengths[0] == -1.0 else (float(lengths[0]), float(lengths[1]))
    lower, upper = scene.mujoco_range(prim, "mjc:range", "mjc:limited") or (-np.inf, np.inf)
    return {
        "spring": reader.add(
            prim.GetPath(), Spring, stiffness=number("stiffness"), damping=number("damping"), rest=ends
        ),
        "limits": reader.add(
            prim.GetPath(), Limits, lower, upper, margin=number("margin"),
            softness=softness_of(scene, prim, "mjc:solreflimit", "mjc:solimplimit"),
        ),
        "armature": number("armature"), "friction_loss": number("frictionloss"),
        "friction_softness": softness_of(scene, prim, "mjc:solreffriction", "mjc:solimpfriction"),
    }  # fmt: skip


def _numbers(reader: Reader, prim: Usd.Prim, name: str) -> list[float]:
    value = reader.scene.stated(prim, name)
    if value is not None and (isinstance(value, str) or not hasattr(value, "__len__")):
        raise reader.scene.error(prim, f"{name} is {value!r}; it must be several numbers")
    try:
        found = [float(each) for each in (value if value is not None else ())]
    except (TypeError, ValueError):
        raise reader.scene.error(prim, f"{name} is {value!r}; it must be several numbers") from None
    if not np.isfinite(found).all():
        raise reader.scene.error(prim, f"{name} is {value!r}; its numbers must be finite")
    return found


def _integers(reader: Reader, prim: Usd.Prim, name: str) -> list[int]:
    values = _numbers(reader, prim, name)
    if any(value != round(value) for value in values):
        raise reader.scene.error(prim, f"{name} is {values}; it must be whole numbers")
    return [int(value) for value in values]
