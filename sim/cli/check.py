"""Check that a file can be read and simulated: exit status 1 if it can't, or with --strict for any warning.

Geometries that overlap at the start are warnings too; this check compiles simulation kernels.
"""

import argparse
import json

import numpy as np

from sim.cli.files import add_file, add_json, read_file, read_untrusted_file, say
from sim.cli.motion import DEFAULT_STEP, overlap_notes
from sim.model.model import Model
from sim.simulation.simulator import Simulator
from sim.simulation.stepping.collision import candidate_pairs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    parser.add_argument(
        "--untrusted",
        action="store_true",
        help="read the file in a separate process, so that a file that crashes, hangs or uses too much memory is "
        "only an error",
    )
    parser.add_argument("--strict", action="store_true", help="also exit with status 1 for warnings")
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    read = read_untrusted_file if given.untrusted else read_file
    model, notes = read(given, "float32")
    candidate_pairs(model)  # raises for pairs of shapes without contact generation
    notes += remarks(model)
    if model.nv and not model.massless_links:
        notes += overlaps(model)
    problem = bool(model.massless_links) or (given.strict and bool(notes))
    if given.json:
        print(json.dumps({"file": str(given.file), "good": not problem, "warnings": notes}, indent=2))
        return int(problem)
    say(notes)
    found = f"{len(notes)} warning{'' if len(notes) == 1 else 's'}"
    print(f"{given.file}: {'not good' if problem else 'good'}, {found}")
    return int(problem)


def overlaps(model: Model) -> list[str]:
    """Return descriptions of colliding geometries that overlap at the start, in a model that can be simulated."""
    simulator = Simulator(model, DEFAULT_STEP, device="cpu")
    return overlap_notes(simulator, simulator.state(model.q0))


def remarks(model: Model) -> list[str]:
    """Return properties of a valid model that are probably mistakes."""
    notes = []
    if model.massless_links:
        names = ", ".join(f"'{name}'" for name in model.massless_links)
        notes.append(f"links {names} move but have no mass, so they can't be simulated; give them a mass")
    position = np.append(model.q0, 0.0)[model.dof_q]
    slack = 1e-6 * (1.0 + np.abs(position))  # USD files store coordinates and limits in single precision.
    outside = (model.dof_q >= 0) & (
        (position < model.parameters["lower_limit"] - slack) | (position > model.parameters["upper_limit"] + slack)
    )
    for dof in np.flatnonzero(outside):
        name = model.joint_names[model.dof_link[dof]]
        limits = [float(model.parameters[f"{side}_limit"][dof]) for side in ("lower", "upper")]
        notes.append(
            f"joint '{name}' starts at {position[dof]:.4g}, outside its limits {limits[0]:.4g} to {limits[1]:.4g}"
        )
    return notes
