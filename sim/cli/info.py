"""Print the contents of a file: links, joints, masses, geometry, actuators, constraints, keyframes, warnings."""

import argparse
import textwrap
from collections import Counter
from collections.abc import Sequence

import numpy as np

from sim.cli.files import add_file, is_urdf, read_builder, say
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


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    builder, notes = read_builder(given)
    model = builder.finalize("float64")
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
    parent = int(model.link_parent[link])
    kind, limits = int(model.joint_type[link]), ""
    if JOINT_TYPES[kind].scalar:
        dof = int(model.joint_qd_start[link])
        lower, upper = (float(model.parameters[f"{side}_limit"][dof]) for side in ("lower", "upper"))
        unit = "rad" if JOINT_TYPES[kind].angular else "m"
        limits = f"{lower:.4g} to {upper:.4g} {unit}" if np.isfinite([lower, upper]).any() else "none"
    return (
        model.link_names[link],
        model.joint_names[link],
        JOINT_TYPES[kind].name,
        model.link_names[parent] if parent >= 0 else "world",
        f"{model.parameters['mass'][link]:.6g}",
        limits,
    )


def _rest(model: Model) -> list[str]:
    shapes = Counter(GEOMETRY_TYPE_NAMES[geometry.type] for geometry in model.geometries if geometry.collides)
    drawn = sum(not geometry.collides for geometry in model.geometries)
    drives = [
        f"{name} ({ACTUATOR_KIND_NAMES[int(kind)]})"
        for name, kind in zip(model.actuator_names, model.actuator_kind, strict=True)
    ]
    keyframes = [name for part in model.parts for name in part.keyframes]
    frames = [frame.name for frame in model.frames if frame.name not in model.link_names]
    if len(frames) > MOST_FRAMES:
        frames[MOST_FRAMES:] = [f"{len(frames) - MOST_FRAMES} more"]
    steps = [f"{part.timestep:g} s" for part in model.parts if part.timestep is not None]
    equalities = model.equalities
    rest = (
        ("colliding", ", ".join(f"{count} {kind}" for kind, count in shapes.items())),
        ("drawn only", f"{counted(drawn, 'geometry')}" if drawn else ""),
        ("frames", ", ".join(frames)),
        ("actuators", ", ".join(drives)),
        ("tendons", ", ".join(model.tendons.names)),
        ("sensors", ", ".join(sensor.name for sensor in model.sensors)),
        ("constraints", ", ".join([*equalities.anchor_names, *equalities.coupling_names])),
        ("keyframes", ", ".join(keyframes)),
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
