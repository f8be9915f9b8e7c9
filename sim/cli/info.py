"""Print the contents of a file: links, joints, masses, geometry, actuators, constraints, keyframes, warnings."""

import argparse
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.cli.files import add_file, add_json, is_urdf, read_builder, refuse_unused, say
from sim.model.builder import WorldBuilder
from sim.model.checks import counted
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import ACTUATOR_KIND_NAMES, GEOMETRY_TYPE_NAMES, Model
from sim.model.specs import WORLD
from warp_kernels import types as codes

WIDTH = 110
MOST_FRAMES = 40  # whose names are printed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    refuse_unused(given, ["base_height"], "poses aren't printed; remove it")
    builder, notes = read_builder(given)
    model = builder.finalize("float64")
    if given.json:
        print(json.dumps({"file": str(given.file), **contents(model), "warnings": notes}, indent=2))
        return 0
    print(report(model, str(given.file), base_of(builder, model) if is_urdf(given.file) else ""))
    say(notes)
    return 0


def base_of(builder: WorldBuilder, model: Model) -> str:
    """Return how the base of a robot is joined to the world, with a hint if a fixed one should probably be free."""
    base = next(joint for joint in builder.joints.values() if joint.parent == WORLD)
    if base.type == codes.FREE:
        return f"base '{base.child}' moves freely"
    fixed, free = f"base '{base.child}' is fixed to the world", "give --floating-base (in Python floating_base=True)"
    if model.num_trees == 1:
        return f"{fixed}; for a floating base, {free}"
    result = f"which splits it into {model.num_trees} separate trees" if model.num_trees else "so nothing moves"
    return f"{fixed}, {result}; for a robot that walks, drives or flies, {free}"


def contents(model: Model) -> dict[str, Any]:
    """Return what the report says, by name, of types that JSON has."""
    found: dict[str, Any] = {
        "nq": model.nq, "nv": model.nv, "nu": model.nu, "trees": model.num_trees,
        "mass": float(model.parameters["mass"].sum()), "gravity": model.parameters["gravity"].tolist(),
        "links": [_link(model, link) for link in range(model.num_links)],
    }  # fmt: skip
    return found | {
        "colliding": dict(_shapes(model)),
        "frames": _frames(model),
        "cameras": [camera.name for camera in model.cameras],
        "lights": [light.name for light in model.lights],
        "actuators": dict(_actuators(model)),
        "tendons": list(model.tendons.names),
        "sensors": [sensor.name for sensor in model.sensors],
        "constraints": [*model.equalities.anchor_names, *model.equalities.coupling_names],
        "keyframes": _keyframes(model),
        "timesteps": [part.timestep for part in model.parts if part.timestep is not None],
    }


def _link(model: Model, link: int) -> dict[str, Any]:
    parent, kind, limits = int(model.link_parent[link]), JOINT_TYPES[int(model.joint_type[link])], None
    if kind.scalar:
        dof = int(model.joint_qd_start[link])
        bounds = [float(model.parameters[f"{side}_limit"][dof]) for side in ("lower", "upper")]
        limits = [bound if np.isfinite(bound) else None for bound in bounds]
    return {
        "name": model.link_names[link],
        "joint": model.joint_names[link],
        "type": kind.name,
        "parent": model.link_names[parent] if parent >= 0 else WORLD,
        "mass": float(model.parameters["mass"][link]),
        "limits": limits,
    }


def _shapes(model: Model) -> Counter[str]:
    return Counter(GEOMETRY_TYPE_NAMES[geometry.type] for geometry in model.geometries if geometry.collides)


def _frames(model: Model) -> list[str]:
    return [frame.name for frame in model.frames if frame.name not in model.link_names]


def _actuators(model: Model) -> list[tuple[str, str]]:
    kinds = [ACTUATOR_KIND_NAMES[int(kind)] for kind in model.actuator_kind]
    return list(zip(model.actuator_names, kinds, strict=True))


def _keyframes(model: Model) -> list[str]:
    return [name for part in model.parts for name in part.keyframes]


def report(model: Model, title: str, base: str = "") -> str:
    """Return the complete report; ``base`` is a line on the robot's base."""
    mass = model.parameters["mass"]
    lines = [
        f"{title}: {counted(model.num_links, 'link')} in {counted(model.num_trees, 'tree')}, nq {model.nq}, "
        f"nv {model.nv}, {mass.sum():.6g} kg",
        *textwrap.wrap(base, WIDTH, break_on_hyphens=False),
        "",
        *_table(
            ("link", "joint", "type", "parent", "mass [kg]", "limits"),
            [_row(model, link) for link in range(model.num_links)],
        ),
        "",
        *_rest(model),
    ]
    return "\n".join(lines)


def _row(model: Model, link: int) -> tuple[str, ...]:
    found, limits = _link(model, link), ""
    if found["limits"] is not None:
        lower, upper = (
            infinite if bound is None else bound
            for bound, infinite in zip(found["limits"], (-np.inf, np.inf), strict=True)
        )
        unit = "rad" if JOINT_TYPES[int(model.joint_type[link])].angular else "m"
        limits = f"{lower:.4g} to {upper:.4g} {unit}" if np.isfinite([lower, upper]).any() else "none"
    return (found["name"], found["joint"], found["type"], found["parent"], f"{found['mass']:.6g}", limits)


def _rest(model: Model) -> list[str]:
    drawn = sum(not geometry.collides for geometry in model.geometries)
    frames = _frames(model)
    if len(frames) > MOST_FRAMES:
        frames[MOST_FRAMES:] = [f"{len(frames) - MOST_FRAMES} more"]
    steps = [f"{part.timestep:g} s" for part in model.parts if part.timestep is not None]
    equalities = model.equalities
    rest = (
        ("colliding", ", ".join(f"{count} {kind}" for kind, count in _shapes(model).items())),
        ("drawn only", f"{counted(drawn, 'geometry')}" if drawn else ""),
        ("frames", ", ".join(frames)),
        ("cameras", ", ".join(camera.name for camera in model.cameras)),
        ("lights", ", ".join(light.name for light in model.lights)),
        ("actuators", ", ".join(f"{name} ({kind})" for name, kind in _actuators(model))),
        ("tendons", ", ".join(model.tendons.names)),
        ("sensors", ", ".join(sensor.name for sensor in model.sensors)),
        ("constraints", ", ".join([*equalities.anchor_names, *equalities.coupling_names])),
        ("keyframes", ", ".join(_keyframes(model))),
        ("time step", ", ".join(steps)),
        ("gravity", " ".join(f"{value:g}" for value in model.parameters["gravity"]) + " m/s^2"),
    )
    return [
        textwrap.fill(text, WIDTH, initial_indent=f"{label:13}", subsequent_indent=" " * 13)
        for label, text in rest
        if text
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
