"""Features of a model that URDF lacks."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from sim.errors import ModelError
from sim.exporters.losses import Losses
from sim.exporters.urdf.elements import has_look
from sim.model.checks import some
from sim.model.looks.looks import DEFAULT_MATERIAL
from sim.model.model import Model
from sim.model.softness import DEFAULT_SOFTNESS
from sim.simulation.stepping.collision import may_touch
from warp_kernels import types as codes

EARTH = (0.0, 0.0, -9.81)
# Properties of a degree of freedom that the file can't store, and their neutral values
UNSUPPORTED = {
    "armature": ("armature", 0.0),
    "stiffness": ("springs", 0.0),
    "limit_margin": ("margins of limits", 0.0),
    "limit_stiffness": ("compliant limits", np.inf),
}
# Defaults of the importer for the shapes of a robot
SURFACE = {
    "friction": 1.0,
    "restitution": 0.0,
    "torsional_friction": 0.0,
    "rolling_friction": 0.0,
    "contact_stiffness": np.inf,
}


CONTACT = {
    "softness": DEFAULT_SOFTNESS,
    "friction_direction": None,
    "softness_mix": 1.0,
    "contact_margin": 0.0,
    "contact_gap": 0.0,
    "friction_rule": "product",
    "contact_priority": 0,
}


def check_expressible(model: Model, path: Path) -> None:
    """Raise ModelError for a model that can't be a URDF robot at all."""
    if not model.num_links:
        raise ModelError(f"{path}: a URDF file describes a robot, but this model has no links; add links")
    roots = model.tree_link_start[:-1]
    free = [model.link_names[root] for root in roots if model.joint_type[root] == codes.FREE]
    if free and len(roots) > 1:
        raise ModelError(
            f"{path}: a URDF file describes one robot, but this model also has free bodies: {some(free)}. Write each "
            "as a separate model, or write USD or MJCF"
        )
    for link in np.flatnonzero(model.joint_type == codes.SPHERICAL):
        raise ModelError(
            f"{path}: joint '{model.joint_names[link]}': URDF has no spherical joints; use three revolute ones, or "
            "write USD or MJCF"
        )


def lose_values(model: Model, losses: Losses, base: str) -> None:
    """Report what is not written. ``base`` is the name of the root link."""
    parameters = model.parameters
    joints = [model.joint_names[link] for link in model.dof_link]
    for key, (what, none) in UNSUPPORTED.items():
        losses.changes_motion(what, _distinct(joints, parameters[key] != none))
    if model.joint_type[0] == codes.FREE:
        passive = (parameters["damping"] != 0.0) | (parameters["friction_loss"] != 0.0)
        losses.changes_motion("damping of the free base", _distinct(joints, passive & (model.dof_link == 0)))
        losses.remarks(
            f"whether the base is free is chosen when the file is read: use floating_base=True (--floating-base), and "
            f"position= and orientation= for the initial pose of '{base}'"
        )
    if model.compensated:
        losses.changes_motion(
            "gravity compensation", _distinct(list(model.link_names), parameters["gravity_compensation"] != 0.0)
        )
    if "wind" in parameters:
        dragged = np.isin(np.arange(model.num_links), model.drag_boxes.link)
        losses.changes_motion("drag of a medium on links", _distinct(list(model.link_names), dragged))
    _lose_law(model, losses, joints)
    losses.changes_motion("closed loops", model.equalities.anchor_names)
    losses.changes_motion("tendons", model.tendons.names)
    if model.switches:
        losses.changes_motion(
            "couplings that are off",
            _distinct(list(model.equalities.coupling_names), parameters["coupling_active"] < 0.5),
        )
    couplings = model.equalities.coupling_names
    losses.changes_motion("couplings that break", [name for name in model.breaking_names if name in couplings])
    losses.leaves_out("actuators", model.actuator_names, "add them with add_actuator when the file is read")
    losses.leaves_out("sensors", [sensor.name for sensor in model.sensors])
    shown = [geometry for geometry in model.geometries if geometry.visible]
    bare = [g.name for g in shown if g.material.texture is not None and not has_look(g)]
    losses.leaves_out("textures other than of meshes with texture coordinates", bare)
    meshes = [g for g in shown if has_look(g)]
    losses.leaves_out("opacity of meshes with textures", [g.name for g in meshes if g.rgba[3] != 1.0])
    losses.leaves_out("metallic of meshes with textures", [g.name for g in meshes if g.material.metallic > 0.0])
    plain = [g for g in shown if not has_look(g)]
    reflecting = [g.name for g in plain if replace(g.material, texture=None, repeat=None) != DEFAULT_MATERIAL]
    losses.leaves_out("roughness and metallic of materials", reflecting)
    losses.leaves_out("cameras", [camera.name for camera in model.cameras])
    losses.leaves_out("lights", [light.name for light in model.lights])
    losses.leaves_out("kinematic links", model.kinematic_links, "their joints are fixed")
    if not np.array_equal(parameters["gravity"], EARTH):
        losses.remarks(f"not written: gravity {parameters['gravity'].tolist()}; set it when the file is read")
    losses.leaves_out("initial coordinates", _moved(model), "set q when the file is read")
    _lose_contacts(model, losses)
    losses.leaves_out("keyframes", [name for part in model.parts for name in part.keyframes])


def _lose_law(model: Model, losses: Losses, joints: list[str]) -> None:
    """Report MuJoCo's law if the model has it, and its solref and solimp."""
    if model.mujoco is None:
        return
    parameters = model.parameters
    limited = np.isfinite(parameters["lower_limit"]) | np.isfinite(parameters["upper_limit"])
    for what, softness, present in (
        ("solref and solimp of limits", model.limit_softness, limited),
        ("solref and solimp of dry friction", model.friction_softness, parameters["friction_loss"] > 0.0),
    ):
        stated = np.array([each != DEFAULT_SOFTNESS for each in softness], dtype=bool)
        losses.changes_motion(what, _distinct(joints, present & stated))
    losses.remarks(
        f"not written: MuJoCo's law and integrator '{model.mujoco.integrator}'; the file is read with the law 'hard' "
        "unless the simulator gets sim.mujoco_settings of this model"
    )


def _lose_contacts(model: Model, losses: Losses) -> None:
    robot = [k for k, geometry in enumerate(model.geometries) if geometry.collides and geometry.link >= 0]
    pairs = [(pair.a, pair.b) for pair in model.pair_frictions] + [(pair.a, pair.b) for pair in model.pair_softness]
    special = {k for pair in pairs for k in pair}
    special |= {k for k in robot if any(getattr(model.geometries[k], key) != value for key, value in CONTACT.items())}
    names = [
        model.geometries[k].name
        for k in robot
        if any(model.parameters[key][k] != value for key, value in SURFACE.items()) or k in special
    ]
    for key in ("surface_velocity", "surface_spin") if model.moving_surfaces else ():
        moving = [model.geometries[k].name for k in robot if model.parameters[key][k].any()]
        losses.changes_motion(f"the {key.replace('_', ' ')}", moving)
    losses.leaves_out("friction and other surface values", names, "set them when the file is read")
    touching = {
        " and ".join(sorted(model.link_names[model.geometries[k].link] for k in pair))
        for pair in combinations(robot, 2)
        if may_touch(model, *pair)
    }
    losses.leaves_out("collisions between links", sorted(touching), "self_collision=True enables all of them")


def _moved(model: Model) -> list[str]:
    """Return joints whose initial coordinate differs from that of a URDF: zero, clamped to the limits."""
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
