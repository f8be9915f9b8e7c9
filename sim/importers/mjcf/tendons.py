"""Tendons of an MJCF file: fixed ones, and those that run straight through sites."""

from typing import Any

import numpy as np

from sim.importers.mjcf.reader import Reader, softness_of
from sim.model.conventions import MUJOCO_INFINITY


def add_tendons(reader: Reader) -> None:
    """Add the tendons that have a counterpart; the others go into the reader's notes.

    Raises:
        ImportFileError: naming the tendon.
    """
    for tendon in range(reader.file.model.ntendon):
        label = reader.file.label("tendon", tendon)
        kinds = _kinds(reader, tendon)
        around = sorted(kinds & {"sphere", "cylinder"})
        if around:
            reader.notes.append(
                f"left out: {label}, which wraps around a {around[0]}; let it run through sites of the bodies instead"
            )
            continue
        name = reader.name("tendon", tendon, f"tendon_{tendon}", reader.builder.tendons)
        with reader.file.located("tendon", tendon, f"tendon '{name}'"):
            if "joint" in kinds:
                reader.builder.add_fixed_tendon(name, _coefficients(reader, tendon), **_properties(reader, tendon))
            else:
                reader.builder.add_spatial_tendon(name, _path(reader, tendon), **_properties(reader, tendon))
        reader.tendons[tendon] = name


def _parts(reader: Reader, tendon: int) -> range:
    first = int(reader.file.model.tendon_adr[tendon])
    return range(first, first + int(reader.file.model.tendon_num[tendon]))


def _kind(reader: Reader, part: int) -> str:
    return reader.file.mujoco.mjtWrap(int(reader.file.model.wrap_type[part])).name.removeprefix("mjWRAP_").lower()


def _kinds(reader: Reader, tendon: int) -> set[str]:
    return {_kind(reader, part) for part in _parts(reader, tendon)}


def _coefficients(reader: Reader, tendon: int) -> dict[str, float]:
    """By joint; those of a joint that is named twice add up."""
    model = reader.file.model
    found: dict[str, float] = {}
    for part in _parts(reader, tendon):
        joint = reader.joints[int(model.wrap_objid[part])]
        found[joint] = found.get(joint, 0.0) + float(model.wrap_prm[part])
    return found


def _path(reader: Reader, tendon: int) -> list[Any]:
    """Links with points, and divisors of pulleys."""
    model = reader.file.model
    path: list[Any] = []
    for part in _parts(reader, tendon):
        if _kind(reader, part) == "pulley":
            path.append(float(model.wrap_prm[part]))
        else:
            site = int(model.wrap_objid[part])
            path.append(reader.point(int(model.site_bodyid[site]), model.site_pos[site]))
    return path


def _properties(reader: Reader, tendon: int) -> dict[str, Any]:
    model = reader.file.model
    lower, upper = model.tendon_range[tendon].tolist() if model.tendon_limited[tendon] else (-np.inf, np.inf)
    rest = model.tendon_lengthspring[tendon]
    return {
        "stiffness": float(model.tendon_stiffness[tendon]),
        "damping": float(model.tendon_damping[tendon]),
        "rest_length": (float(rest[0]), float(rest[1])),
        "friction_loss": float(model.tendon_frictionloss[tendon]),
        "limits": (lower if lower > -MUJOCO_INFINITY else -np.inf, upper if upper < MUJOCO_INFINITY else np.inf),
        "limit_margin": float(model.tendon_margin[tendon]),
        "limit_softness": softness_of(model.tendon_solref_lim[tendon], model.tendon_solimp_lim[tendon]),
        "friction_softness": softness_of(model.tendon_solref_fri[tendon], model.tendon_solimp_fri[tendon]),
    }
