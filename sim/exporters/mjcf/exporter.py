"""MJCF export: a model as a MuJoCo file."""

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from sim.errors import MJCFWarning
from sim.exporters.files import MeshFiles, numbers
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.mjcf.contacts import add_contacts
from sim.exporters.mjcf.forces import add_actuators, add_equalities
from sim.exporters.mjcf.geoms import add_geoms
from sim.exporters.mjcf.lights import add_lights
from sim.exporters.mjcf.losses import lose_values
from sim.exporters.mjcf.medium import add_medium
from sim.exporters.mjcf.sensors import add_sensors
from sim.exporters.mjcf.tendons import add_tendons
from sim.model.checks import free_name, require_type
from sim.model.conventions import to_mujoco
from sim.model.model import MUJOCO_INTEGRATORS, Model
from sim.output import check_target
from sim.simulation.mujoco_settings import agreed_options
from warp_kernels import types as codes


def write_mjcf(path: str | os.PathLike[str], model: Model, *, lossy: bool = False) -> Path:
    """Write a model as an MJCF file, with its meshes as .obj files in a folder ``<name>_xml_meshes``.

    The file has the model's masses, joints, springs, limits, shapes, colliding pairs, friction of each pair, actuators,
    constraints and keyframes, and the model's initial coordinates. Reading it gives the same model, except for names
    that MJCF can't store. MuJoCo's order of coordinates is that of the model (:func:`sim.to_mujoco` converts
    quaternions).

    What the file can't represent (listed in docs/exporting.md) raises an error if it changes the motion, such as
    restitution and compliance, and a :class:`sim.MJCFWarning` otherwise. Equality constraints have MuJoCo's default
    solref and solimp.

    Args:
        path: the file, ending in .xml; an existing one is replaced.
        model: the model.
        lossy: only warn of what would change the motion, instead of raising an error.

    Returns:
        The path.

    Raises:
        ModelError: naming what MJCF can't represent; for another suffix or a missing folder.

    Example:
        >>> import tempfile
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ball = scene.add_sphere(radius=0.1, mass=0.5, name="ball")
        >>> path = tempfile.mkdtemp() + "/ball.xml"
        >>> _ = sim.exporters.write_mjcf(path, scene.finalize())
        >>> sim.load(path).nv
        6
    """
    check_target(path, (".xml",))
    require_type("model", model, Model, "a sim.Model")
    losses = Losses(path, "MJCF", MJCFWarning, lossy)
    meshes = MeshFiles(path)
    root = mjcf_tree(model, losses, meshes)
    losses.report()
    return meshes.write(root, path, ".xml")


def mjcf_tree(model: Model, losses: Losses, meshes: MeshFiles | None) -> ET.Element:
    """Return the root element.

    Args:
        model: the model.
        losses: collects what MJCF can't represent.
        meshes: collects the meshes; None to write colliding shapes only, all of them primitives.

    Raises:
        ModelError: naming a link or geometry that MuJoCo rejects.
    """
    title = model.parts[0].name if len(model.parts) == 1 else losses.path.stem
    root = ET.Element("mujoco", model=title)
    ET.SubElement(root, "compiler", angle="radian", autolimits="true", inertiafromgeom="false")
    option = ET.SubElement(root, "option", gravity=numbers(model.parameters["gravity"]), cone="elliptic")
    steps = {part.timestep for part in model.parts if part.timestep is not None}
    if len(steps) == 1:
        option.set("timestep", repr(steps.pop()))
    stated = agreed_options(model)
    if stated is not None:
        option.set("integrator", MUJOCO_INTEGRATORS[stated.integrator])
        if stated.integrator == "explicit":
            ET.SubElement(option, "flag", eulerdamp="disable")
        option.set("cone", stated.cone)
        option.set("impratio", repr(stated.impratio))
        option.set("noslip_iterations", str(stated.noslip_iterations))
        option.set("noslip_tolerance", repr(stated.noslip_tolerance))
    if model.prescribed.any():
        # MuJoCo scales the tolerance of its solver by the mean inertia, and would stop before the first step.
        option.set("tolerance", "0")
    add_medium(option, model, losses)
    asset = ET.SubElement(root, "asset")
    bodies = Bodies(ET.SubElement(root, "worldbody"), model, losses)
    add_geoms(asset, bodies, losses, meshes)
    bodies.add_frames()
    bodies.add_cameras()
    add_lights(root, bodies, losses, meshes)
    add_contacts(root, bodies)
    add_tendons(root, bodies, losses)
    add_equalities(root, bodies)
    add_actuators(root, bodies, losses)
    add_sensors(root, bodies, losses)
    _add_keyframes(root, model, bodies.start, losses)
    lose_values(model, losses)
    for element in list(root):
        if not len(element) and not element.attrib:
            root.remove(element)
    return root


def _add_keyframes(root: ET.Element, model: Model, start: np.ndarray, losses: Losses) -> None:
    """Add the keyframes of all parts, and one for initial coordinates that differ from those of the file [nq]."""
    keyframes = ET.SubElement(root, "keyframe")
    taken: set[str] = set()
    for part in model.parts:
        for name, state in part.keyframes.items():
            q, qd = model.q0.copy(), np.zeros(model.nv)
            q[model.q_slice(part)], qd[model.qd_slice(part)] = state.q, state.qd
            control = np.array([state.control.get(actuator, 0.0) for actuator in model.actuator_names])
            states = np.array([state.act.get(actuator, 0.0) for actuator in model.actuator_names])
            own = name if name not in taken else f"{part.name}/{name}"
            taken.add(own)
            _add_key(keyframes, model, own, q, qd, control, states[model.actuator_state >= 0])
    followers = [name for name in model.equalities.coupling_names if (start - model.q0)[model.q_slice(name)].any()]
    turned = [
        model.joint_names[link]
        for link in np.flatnonzero(model.joint_type == codes.SPHERICAL)
        if model.q0[model.joint_q_start[link] :][:3].any()
    ]
    if turned or followers:
        name, num_states = free_name("initial", taken), int((model.actuator_state >= 0).sum())
        _add_key(keyframes, model, name, model.q0, *(np.zeros(size) for size in (model.nv, model.nu, num_states)))
        losses.leaves_out("initial orientations of spherical joints", turned, f"keyframe '{name}' holds them")


def _add_key(
    keyframes: ET.Element,
    model: Model,
    name: str,
    q: np.ndarray,
    qd: np.ndarray,
    control: np.ndarray,
    act: np.ndarray,
) -> None:
    qpos, qvel = to_mujoco(model, q, qd)
    key = ET.SubElement(keyframes, "key", name=name, qpos=numbers(qpos), qvel=numbers(qvel))
    if model.nu:
        key.set("ctrl", numbers(control))
    if len(act):
        key.set("act", numbers(act))
