"""Features of a model that URDF lacks."""

from itertools import combinations
from pathlib import Path

import numpy as np

from sim.errors import ModelError
from sim.exporters.losses import Losses
from sim.model.model import Model
from sim.model.names import some
from sim.simulation.stepping.collision import may_touch
from warp_kernels import types as codes

EARTH = (0.0, 0.0, -9.81)
# Parameters of a degree of freedom that URDF lacks: name in messages, and the value that needs no entry.
NOT_IN_URDF = {
    "armature": ("armature", 0.0),
    "stiffness": ("springs", 0.0),
    "limit_margin": ("margins of limits", 0.0),
    "limit_stiffness": ("compliant limits", np.inf),
}
# Default values that the importer gives to a robot's shapes.
SURFACE = {
    "friction": 1.0,
    "restitution": 0.0,
    "torsional_friction": 0.0,
    "rolling_friction": 0.0,
    "contact_stiffness": np.inf,
}


def check_expressible(model: Model, path: Path) -> None:
    """Raise ModelError for a model that URDF cannot represent at all."""
    if not model.num_links:
        raise ModelError(f"{path}: a URDF file describes a robot, and this model has no links")
    roots = model.tree_link_start[:-1]
    free = [model.link_names[root] for root in roots if model.joint_type[root] == codes.FREE]
    if free and len(roots) > 1:
        raise ModelError(
            f"{path}: a URDF file describes one robot, and this model has {some(free)} loose next to others; write "
            "each one as a separate model, or write USD or MJCF"
        )
    for link in np.flatnonzero(model.joint_type == codes.SPHERICAL):
        raise ModelError(
            f"{path}: joint '{model.joint_names[link]}': URDF has no spherical joints; use three revolute ones, or "
            "write USD or MJCF"
        )


def note_losses(model: Model, losses: Losses, base: str) -> None:
    """Note what is not written. ``base`` is the name of the root link."""
    parameters = model.parameters
    joints = [model.joint_names[link] for link in model.dof_link]
    for key, (what, none) in NOT_IN_URDF.items():
        losses.changes_motion(what, _distinct(joints, parameters[key] != none))
    if model.joint_type[0] == codes.FREE:
        passive = (parameters["damping"] != 0.0) | (parameters["friction_loss"] != 0.0)
        losses.changes_motion("damping of the free base", _distinct(joints, passive & (model.dof_link == 0)))
        losses.remarks(
            f"the base is free: when reading the file pass floating_base=True (--floating-base), and position= and "
            f"orientation= for the initial pose of '{base}'"
        )
    losses.changes_motion("closed loops", model.equalities.anchor_names)
    losses.omits("actuators", model.actuator_names, "add them with add_actuator after reading the file")
    if not np.array_equal(parameters["gravity"], EARTH):
        losses.remarks(f"not written: gravity {parameters['gravity'].tolist()}; pass it when reading the file")
    losses.omits("initial coordinates", _moved(model), "set q after reading the file")
    _lose_contacts(model, losses)
    losses.omits("keyframes", [name for part in model.parts for name in part.keyframes])


def _lose_contacts(model: Model, losses: Losses) -> None:
    robot = [k for k, geometry in enumerate(model.geometries) if geometry.collides and geometry.link >= 0]
    names = [
        model.geometries[k].name
        for k in robot
        if any(model.parameters[key][k] != value for key, value in SURFACE.items())
    ]
    losses.omits("friction and other surface values", names, "pass them when reading the file")
    touching = {
        " and ".join(sorted(model.link_names[model.geometries[k].link] for k in pair))
        for pair in combinations(robot, 2)
        if may_touch(model, *pair)
    }
    losses.omits("which links touch each other", sorted(touching), "self_collision=True lets all of them")


def _moved(model: Model) -> list[str]:
    """Joints whose initial coordinate is not the default of a file: zero, clipped to the limits."""
    followers = set(model.equalities.coupling_names)
    moved = []
    for dof, at in enumerate(model.dof_q):
        name = model.joint_names[model.dof_link[dof]]
        start = np.clip(0.0, model.parameters["lower_limit"][dof], model.parameters["upper_limit"][dof])
        if at >= 0 and name not in followers and model.q0[at] != start:
            moved.append(name)
    return moved


def _distinct(names: list[str], which: np.ndarray) -> list[str]:
    return list(dict.fromkeys(names[k] for k in np.flatnonzero(which)))
