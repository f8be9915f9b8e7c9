"""Tendons stored in the file and their length couplings; those with missing joints or links are noted."""

from dataclasses import replace
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.importers.usd.reader import Reader
from sim.model.builder.properties import Limits, Spring
from sim.model.poses import IDENTITY
from sim.model.specs import WORLD, Vector
from sim.model.tendons.tendons import TendonSpec, TendonWrap
from sim.usd.physics.tendons import kept_tendons, kept_ties


def add_tendons(reader: Reader) -> None:
    """Add the tendons of a file written by Backswing, and the constraints between them."""
    prim = reader.scene.stage.GetDefaultPrim()
    if not prim:
        return
    try:
        for tendon in kept_tendons(prim):
            _add(reader, tendon)
        for tie in kept_ties(prim):
            tied = {reader.prefix + name for name in (tie.tendon, tie.other) if name is not None}
            if lost := tied - reader.builder.tendons.keys():
                reader.scene.notes.append(f"ignored: constraint '{tie.name}': tendon '{min(lost)}' doesn't exist")
                continue
            reader.builder.add_tendon_coupling(
                reader.prefix + tie.name, reader.prefix + tie.tendon,
                None if tie.other is None else reader.prefix + tie.other,
                polynomial=tie.polynomial, reference=tie.reference, softness=tie.softness, active=tie.active,
            )  # fmt: skip
    except ModelError as error:
        raise reader.scene.error(prim, str(error)) from None


def _add(reader: Reader, tendon: TendonSpec) -> None:
    builder, prefix = reader.builder, reader.prefix
    options: dict[str, Any] = {
        "spring": Spring(
            stiffness=(tendon.stiffness, *tendon.stiffness_polynomial),
            damping=(tendon.damping, *tendon.damping_polynomial), rest=tendon.rest,
        ),
        "limits": Limits(tendon.lower, tendon.upper, margin=tendon.limit_margin, softness=tendon.limit_softness),
        "armature": tendon.armature, "friction_loss": tendon.friction_loss,
        "friction_softness": tendon.friction_softness, "force_range": tendon.force_range,
    }  # fmt: skip
    lost = {prefix + joint for joint in tendon.coefficients} - builder.joints.keys()
    path: list[tuple[str, Vector] | TendonWrap | float] = []
    for divisor, steps in tendon.branches:
        path += [divisor, *(_placed(reader, step) for step in steps)]
    for step in path:
        named = [] if isinstance(step, float) else [step[0]] if isinstance(step, tuple) else [step.link]
        lost |= set(named) - builder.links.keys() - {WORLD}
    if lost:
        reader.scene.notes.append(f"ignored: tendon '{tendon.name}': '{min(lost)}' doesn't exist")
    elif tendon.coefficients:
        joints = {prefix + joint: value for joint, value in tendon.coefficients.items()}
        builder.add_fixed_tendon(prefix + tendon.name, joints, **options)
    else:
        builder.add_spatial_tendon(prefix + tendon.name, path, **options)


def _placed(reader: Reader, step: tuple[str, Vector] | TendonWrap) -> tuple[str, Vector] | TendonWrap:
    """Return a waypoint with the names of this world; points in the world move with the stage."""
    if not isinstance(step, TendonWrap):
        return _point(reader, *step)
    link, centre = _point(reader, step.link, step.position)
    axis = step.axis
    if axis is not None and step.link == WORLD:
        axis = _moved(reader, np.asarray(step.position) + axis) - np.asarray(centre)
    side = None if step.side is None else _point(reader, *step.side)
    return replace(step, link=link, position=centre, axis=axis, side=side)


def _point(reader: Reader, link: str, position: Vector) -> tuple[str, Vector]:
    return (WORLD, _moved(reader, position)) if link == WORLD else (reader.prefix + link, position)


def _moved(reader: Reader, position: Vector) -> np.ndarray:
    return reader.in_link(None, np.concatenate([position, IDENTITY[3:]]))[:3]
