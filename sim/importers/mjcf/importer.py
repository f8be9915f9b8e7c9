"""MJCF import: a MuJoCo file into a :class:`sim.ModelBuilder`."""

import os
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.decomposition import as_triangles, threshold_of
from sim.importers.mjcf.actuators import add_actuators
from sim.importers.mjcf.contacts import read_surfaces, set_pairs
from sim.importers.mjcf.equalities import add_equalities
from sim.importers.mjcf.geoms import add_geometries
from sim.importers.mjcf.lights import add_lights
from sim.importers.mjcf.notes import mocap_notes, refuse_bodies, refuse_numbers, refuse_states, warn_of
from sim.importers.mjcf.options import (
    add_medium,
    apply_flags,
    gravity,
    mujoco_options,
    notes_on_options,
    of_the_soft_law,
)
from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.sensors import add_sensors
from sim.importers.mjcf.source.file import read_mjcf
from sim.importers.mjcf.tendons import add_tendons
from sim.importers.mjcf.tree import add_tree, joint_type
from sim.importers.transaction import all_or_nothing, check_arguments, named_file
from sim.model.builder import WorldBuilder
from sim.model.checks import free_name, require_choice
from sim.model.model import Keyframe, Part
from sim.model.poses import compose
from sim.model.spec_checks import pose as check_pose
from sim.model.specs import IDENTITY_QUATERNION, Vector

NO_TITLE = "MuJoCo Model"
DEFAULT_GRAVITY = (0.0, 0.0, -9.81)
SHORTEST = 1e-9  # length of a quaternion below which it counts as zero


def add_mjcf(
    builder: WorldBuilder,
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
    decompose: bool | float = False,
    static_meshes: Literal["hulls", "triangles"] = "hulls",
    mocap: Literal["fixed", "free"] = "fixed",
) -> Part:
    """Add the contents of an MJCF file, parsed and compiled by MuJoCo: everything, or nothing after an error.

    MuJoCo itself resolves defaults, includes, angle units, frames and inertia from geoms. Links are named after the
    bodies; joints, geoms and actuators keep their names. Coordinates and velocities are in the order of the file and,
    but for quaternions, equal to MuJoCo's (:func:`sim.to_mujoco` converts them). The model starts at MuJoCo's
    ``qpos0``, except for joints coupled by an ``<equality>``, which start where it is satisfied.

    - A body with several joints becomes a chain of massless links, ``<body>/<joint>``, that ends in link ``<body>``.
    - A link's frame is at its joint. Where that isn't the origin of the body, the frame ``<body>/origin`` is. Named
      sites become frames.
    - Geometry of static bodies belongs to the world, and collides with links hinged to them, as in MuJoCo. contype,
      conaffinity, ``<exclude>`` and ``<pair>`` select which geometries of the file collide with each other; all that
      can collide at all collide with the rest of the scene.
    - A mesh collides as its convex hull, as in MuJoCo, or with ``decompose`` as convex pieces; with
      ``static_meshes="triangles"`` as it is, where it isn't convex and its body doesn't move. Geoms of groups 3 and
      above are drawn only if their body has no others.
    - Pairs of the file have MuJoCo's friction: the larger one of the two geoms, that of the one with priority, or that
      of ``<pair>``. With the rest of the scene it is the product.
    - A model made only from MJCF files has MuJoCo's contact (:class:`sim.MujocoContact`) by default. ``solref``,
      ``solimp`` and ``margin`` of geoms, limits and dry friction are for that contact; hard contact doesn't use them.
    - Mocap bodies become links on kinematic fixed joints: their poses are entries of the parameter ``joint_placement``,
      and they have no velocity, as in MuJoCo. With ``mocap="free"`` they are on kinematic free joints, which move at
      the velocities of the input ``kinematic_qd``; q and qd then have their coordinates, too, unlike MuJoCo's.
    - ``ctrlrange`` becomes the ``control_range`` of an actuator, between which its input is clamped.
    - Gravity of the file, unless it is the default, becomes that of the world. Time step, integrator, cone,
      ``impratio``, ``noslip_iterations`` and ``noslip_tolerance`` are in the part; :func:`sim.mujoco_settings` makes a
      simulator's arguments of them.
    - ``density``, ``viscosity`` and ``wind`` become a medium (:meth:`sim.ModelBuilder.set_medium`) that drags the box
      equivalent to each body's inertia.

    Muscles and other features without a counterpart here are skipped, with a
    :class:`sim.MJCFWarning` that names them; deformable bodies are an error.

    Args:
        path: the file.
        name: prefix of all names, as "name/", which allows several copies in one world.
        position: position of the file's world frame in the world [m].
        orientation: orientation of that frame, quaternion xyzw. Gravity is not rotated.
        visual: read visual geometry, which doesn't collide.
        collision: let geometry collide.
        self_collision: let moving bodies collide with each other as in the file.
        world_geometry: read the geometry of the file's world and of bodies that don't move, such as its floor.
        friction: Coulomb friction of all geometry, instead of the file's.
        restitution: restitution of geometry that moves.
        decompose: let non-convex meshes collide as several convex pieces, which CoACD (the extra ``decompose``)
            computes in seconds to minutes per mesh; True, or its threshold, from 0.01 (many pieces) to 1 (few).
        static_meshes: collision shape of non-convex meshes that no joint moves: "hulls", or "triangles" for the
            original mesh, see :meth:`sim.ModelBuilder.add_static_mesh`.
        mocap: joints of mocap bodies, "fixed" or "free".

    Returns:
        One part with all bodies of the file, named ``name`` or as the model in the file, with its keyframes and
        time step.

    Raises:
        ImportFileError: naming the file and the element, or with MuJoCo's message.
        ModelError: for a wrong argument, or without MuJoCo (the extra ``mjcf``).

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import sim
        >>> path = Path(tempfile.mkdtemp()) / "ball.xml"
        >>> ball = '<body name="ball" pos="0 0 1"><freejoint/><geom size="0.1"/></body>'
        >>> _ = path.write_text(f"<mujoco><worldbody>{ball}</worldbody></mujoco>")
        >>> scene = sim.ModelBuilder()
        >>> scene.add_mjcf(path).links
        ('ball',)
    """
    check_arguments(
        "add_mjcf", path, name, friction, restitution,
        visual=visual, collision=collision, self_collision=self_collision, world_geometry=world_geometry,
    )  # fmt: skip
    base, threshold = check_pose("add_mjcf", position, orientation), threshold_of(decompose)
    triangles = as_triangles("add_mjcf", static_meshes)
    require_choice("add_mjcf: mocap", mocap, ("fixed", "free"))
    file = read_mjcf(Path(path))
    title = str(file.spec.modelname)
    label = name or (file.path.stem if title == NO_TITLE else title)
    with named_file(file.path), all_or_nothing(builder):
        refuse_bodies(file)
        refuse_numbers(file)
        refuse_states(file)
        options = mujoco_options(file)
        reader = Reader(file, builder, "" if name is None else f"{name}/", base, mocap == "free")
        before = builder.elements()
        reader.notes += apply_flags(file)
        _set_gravity(reader)
        links, joints = add_tree(reader)
        add_lights(reader)
        add_medium(reader)
        surfaces = read_surfaces(reader, friction, restitution, self_collision)
        shapes = add_geometries(
            reader, surfaces, visual=visual, collision=collision, world=world_geometry, threshold=threshold,
            triangles=triangles,
        )  # fmt: skip
        known = builder.geometries
        colliding = {geom: names for geom, names in shapes.items() if names and known[names[0]].geometry.collides}
        set_pairs(reader, surfaces, friction, colliding)
        add_tendons(reader)
        add_equalities(reader)
        inputs = add_actuators(reader)
        add_sensors(reader, shapes)
        part = builder.add_part(
            label, links, joints, keyframes=_keyframes(reader, inputs), timestep=float(file.model.opt.timestep),
            mujoco=options,
        )  # fmt: skip
        builder.from_mujoco += builder.elements() - before
        builder.soft_notes += of_the_soft_law(file)
        of_mocap = [] if reader.mocap_moves else mocap_notes(file)
        warn_of(file, [*of_mocap, *notes_on_options(file), *reader.notes])
    return part


def _set_gravity(reader: Reader) -> None:
    """Set the world's gravity to the file's, unless that is the default; note if this replaces another one."""
    wanted, builder = gravity(reader.file), reader.builder
    if np.array_equal(wanted, DEFAULT_GRAVITY) or np.array_equal(wanted, builder.gravity):
        return
    if builder.links or not np.array_equal(builder.gravity, DEFAULT_GRAVITY):
        reader.notes.append(
            f"gravity of the world becomes {wanted.tolist()}, it was {np.asarray(builder.gravity).tolist()}; set "
            "builder.gravity afterwards to change it back"
        )
    builder.gravity = wanted


def _keyframes(reader: Reader, inputs: dict[str, int]) -> dict[str, Keyframe]:
    """Return the keyframes of the file by name, or by index if unnamed."""
    model, found = reader.file.model, dict[str, Keyframe]()
    named = {reader.file.name("key", key) for key in range(model.nkey)}
    for key in range(model.nkey):
        states = {
            name: float(model.key_act[key, model.actuator_actadr[actuator]])
            for actuator, name in reader.actuators.items()
            if reader.builder.actuators[name].dynamics
        }
        name = reader.file.name("key", key) or free_name(str(key), named | found.keys())
        found[name] = Keyframe(
            *_state(reader, key),
            {name: float(model.key_ctrl[key, at]) for name, at in inputs.items()},
            states,
        )
    return found


def _state(reader: Reader, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates and velocities of a keyframe in Backswing's conventions, body by body."""
    model = reader.file.model
    qpos, qvel = model.key_qpos[key], model.key_qvel[key]
    q, qd = [np.zeros(0)], [np.zeros(0)]
    ends = [*model.jnt_qposadr[1:], len(qpos)], [*model.jnt_dofadr[1:], len(qvel)]
    for body in range(model.nbody):
        mocap = int(model.body_mocapid[body])
        if mocap >= 0 and reader.mocap_moves:
            positions, rotations = model.key_mpos[key].reshape(-1, 3), model.key_mquat[key].reshape(-1, 4)
            if not np.abs(rotations[mocap]).max() >= SHORTEST:
                raise reader.file.error("key", key, f"mquat holds the zero quaternion for link '{reader.links[body]}'")
            q.append(compose(reader.base, pose(positions[mocap], rotations[mocap])))
            qd.append(np.zeros(6))
        first = int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])):
            at, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
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
