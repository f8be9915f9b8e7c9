"""MJCF: read a file of MuJoCo's into a :class:`sim.ModelBuilder`."""

import os
import warnings
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import MJCFWarning, ModelError
from sim.importers.mjcf.actuators import add_actuators
from sim.importers.mjcf.contacts import exclude, read_surfaces
from sim.importers.mjcf.equalities import add_equalities
from sim.importers.mjcf.file import read_mjcf
from sim.importers.mjcf.notes import apply_flags, gravity, notes_on, refuse_bodies, refuse_numbers
from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.shapes import add_geometries
from sim.importers.mjcf.tree import add_tree, joint_type
from sim.importers.transaction import all_or_nothing
from sim.model.builder import ModelBuilder
from sim.model.model import Keyframe, Part
from sim.model.poses import compose
from sim.model.spec_checks import pose as check_pose
from sim.model.specs import IDENTITY_QUATERNION, Vector

NO_TITLE = "MuJoCo Model"
DEFAULT_GRAVITY = (0.0, 0.0, -9.81)


def add_mjcf(
    builder: ModelBuilder,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    position: Vector = (0.0, 0.0, 0.0),
    orientation: Vector = IDENTITY_QUATERNION,
    visual: bool = True,
    collision: bool = True,
    self_collision: bool = True,
    world_geometry: bool = True,
    friction: float | None = None,
    restitution: float = 0.0,
) -> Part:
    """Add what an MJCF file holds, as MuJoCo's parser and compiler read it. Either all of it is added, or nothing.

    Defaults, includes, angle units, frames, and inertia from geoms are MuJoCo's own reading. Links have the names of
    the bodies, joints, geoms and actuators theirs; coordinates and velocities are in the order of the file and those of
    joints equal to MuJoCo's (:func:`sim.to_mujoco` converts quaternions). The model starts in MuJoCo's ``qpos0``.

    - A body with several joints becomes a chain of links without mass, ``<body>/<joint>``, and the link ``<body>``.
    - A link's frame is at its joint. Where that isn't the origin of the body, a frame ``<body>/origin`` is. Named sites
      become frames.
    - Geometry of bodies that don't move belongs to the world, and touches what is hinged to them, as in MuJoCo. Which
      geometries touch is taken from contype, conaffinity, ``<exclude>`` and ``<pair>``; with what is added to the scene
      otherwise all touch that may touch anything.
    - A mesh collides as its convex hull. Geoms of groups 3 and above are drawn only where a body has no others.
    - Friction: a pair's is the product of the two here, the larger one in MuJoCo. Each geometry gets the value for
      which the pairs of the file have what they have in MuJoCo; a warning says where there is none. Contacts, limits
      and constraints are hard: ``solref`` and ``solimp`` are not read.
    - A motor's symmetric ``ctrlrange`` becomes its force limit. Inputs are not clipped otherwise.
    - Gravity of the file, where it isn't the default, becomes that of the world. The time step is in the part.

    Tendons, fluid forces, actuators with a state and other things that a model here doesn't have are left out with a
    :class:`sim.MJCFWarning` that names them; mocap and deformable bodies are an error.

    Args:
        builder: what to add to.
        path: the file.
        name: prefix of all names, as "name/"; lets several copies stand in one world.
        position: of the file's world frame in the world [m].
        orientation: of that frame, quaternion xyzw. Gravity is not turned.
        visual: read geometry that doesn't collide.
        collision: let geometry collide.
        self_collision: let what moves touch each other where the file does.
        world_geometry: read the geometry of the file's world and of bodies that don't move, such as its floor.
        friction: Coulomb friction of all geometry, instead of the file's.
        restitution: of what moves.

    Returns:
        one part with all bodies of the file, named ``name`` or as the model in the file, with its keyframes and time
        step.

    Raises:
        ImportFileError: naming the file and the element, or with MuJoCo's message.
        ModelError: for a wrong argument, or without MuJoCo (the extra ``mjcf``).
    """
    if name is not None and not name:
        raise ModelError("add_mjcf: name is empty; leave it out to use the names of the file")
    base = check_pose("add_mjcf", position, orientation)
    file = read_mjcf(Path(path))
    refuse_bodies(file)
    refuse_numbers(file)
    title = str(file.spec.modelname)
    label = name or (file.path.stem if title == NO_TITLE else title)
    with all_or_nothing(builder):
        reader = Reader(file, builder, "" if name is None else f"{name}/", base)
        reader.notes += apply_flags(file)
        _set_gravity(reader)
        links, joints = add_tree(reader)
        surfaces = read_surfaces(reader, friction, restitution, self_collision)
        shapes = add_geometries(reader, surfaces, visual=visual, collision=collision, world=world_geometry)
        exclude(reader, surfaces, shapes)
        add_equalities(reader)
        inputs = add_actuators(reader)
        part = builder.add_part(
            label, links, joints, keyframes=_keyframes(reader, inputs), timestep=float(file.model.opt.timestep)
        )
        for note in [*notes_on(file), *reader.notes]:
            warnings.warn(f"{file.path}: {note}", MJCFWarning, stacklevel=3)
    return part


def _set_gravity(reader: Reader) -> None:
    """Give the world the file's gravity, unless that is the default; noted where something else had another."""
    wanted, builder = gravity(reader.file), reader.builder
    if np.array_equal(wanted, DEFAULT_GRAVITY) or np.array_equal(wanted, builder.gravity):
        return
    if builder.links or not np.array_equal(builder.gravity, DEFAULT_GRAVITY):
        reader.notes.append(
            f"gravity of the world becomes {wanted.tolist()}, was {builder.gravity.tolist()}; set builder.gravity "
            "afterwards for another one"
        )
    builder.gravity = wanted


def _keyframes(reader: Reader, inputs: dict[str, int]) -> dict[str, Keyframe]:
    """The states that the file names; those without a name have their number."""
    model = reader.file.model
    return {
        reader.file.name("key", key) or str(key): Keyframe(
            *_state(reader, model.key_qpos[key], model.key_qvel[key]),
            {name: float(model.key_ctrl[key, at]) for name, at in inputs.items()},
        )
        for key in range(model.nkey)
    }


def _state(reader: Reader, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's coordinates and velocities of the file in the conventions here."""
    q, qd = [np.zeros(0)], [np.zeros(0)]
    ends = [*reader.file.model.jnt_qposadr[1:], len(qpos)], [*reader.file.model.jnt_dofadr[1:], len(qvel)]
    for joint, (at, dof) in enumerate(zip(reader.file.model.jnt_qposadr, reader.file.model.jnt_dofadr, strict=True)):
        x, v = qpos[at : ends[0][joint]], qvel[dof : ends[1][joint]]
        type = joint_type(reader, joint)
        if type == "free":
            x = compose(reader.base, pose(x[:3], x[3:]))
            turn = Rotation.from_quat(reader.base[3:])
            v = np.concatenate([turn.apply(v[:3]), Rotation.from_quat(x[3:]).apply(v[3:])])
        elif type == "spherical":
            x = x[[1, 2, 3, 0]]
        q.append(x)
        qd.append(v)
    return np.concatenate(q), np.concatenate(qd)
