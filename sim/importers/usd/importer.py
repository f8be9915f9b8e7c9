"""USD: read a UsdPhysics scene into a :class:`sim.ModelBuilder`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from pxr import UsdPhysics

from sim.errors import ImportFileError, ModelError, USDWarning
from sim.importers.arguments import check_arguments
from sim.importers.decomposition import threshold_of
from sim.importers.transaction import all_or_nothing
from sim.importers.usd.bodies import (
    add_actuators,
    add_couplings,
    add_frames,
    add_joint,
    add_link,
    add_medium,
    add_parts,
    add_sensors,
    name_links,
)
from sim.importers.usd.filters import read_filters
from sim.importers.usd.geometries import add_geometries, enabled_colliders, note_no_shapes
from sim.importers.usd.joints.forest import forest
from sim.importers.usd.joints.loops import close_loops
from sim.importers.usd.joints.reading import read_joints
from sim.importers.usd.layers import readable
from sim.importers.usd.reader import Reader
from sim.importers.usd.schemas.properties import SWITCHES_OF_GRAVITY, note_unread, refuse_numbers, refuse_types
from sim.importers.usd.shapes import colliders, seen_from
from sim.importers.usd.stage import Kind, Scene, open_scene
from sim.importers.usd.tendons import add_tendons
from sim.model.builder import ModelBuilder
from sim.model.checks import require_path
from sim.model.model import Part
from sim.model.spec_checks import pose
from sim.model.specs import IDENTITY_QUATERNION, Vector
from sim.usd.annotations import agreed
from sim.usd.parts import is_by_mujoco


def add_usd(
    builder: ModelBuilder,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    position: Vector = (0.0, 0.0, 0.0),
    orientation: Vector = IDENTITY_QUATERNION,
    visual: bool = True,
    collision: bool = True,
    friction: float = 1.0,
    restitution: float = 0.0,
    decompose: bool | float = False,
    drives: Literal["actuators", "springs"] = "actuators",
) -> list[Part]:
    """Add what a USD file describes in UsdPhysics. Either all of it is added, or an error is raised and nothing is.

    Bodies start where they are at the file's first time, and the coordinates of the joints follow from that. Units and
    the up axis of the stage are converted to metres, kilograms and z up. Gravity stays as the builder has it
    (:func:`sim.load` takes that of the file).

    - A body that no joint carries is free. A tree of joints starts at the body joined to the world, otherwise at the
      root of its articulation, otherwise at its first body in the file. Ball and fixed joints that close loops become
      constraints of the solver (:meth:`sim.ModelBuilder.add_point_constraint`, ``add_weld_constraint``), and hinges two
      points on their axis; a prismatic joint that closes a loop is an error.
    - The frame of a link is that of its body, moved to the origin of the joint that carries it.
    - A joint with six degrees of freedom becomes the joint that its free axes are, or several in a row with massless
      links between them: slides along x, y and z, then turns about x, y and z, or a ball for three turns without
      limits or drives. Where nothing is locked, limited or driven it is left out.
    - Friction of a contact is the product of the two dynamic frictions, restitution that of the two restitutions,
      whatever the file's combine modes say.
    - Meshes collide as their convex hull, or as that of each connected piece for "convexDecomposition". A static mesh
      that is not convex collides as its triangles unless one of these is asked for. With ``decompose`` meshes become
      convex pieces, unless the file asks for their hull.
    - Kinematic bodies don't move. Initial velocities and break forces are ignored.
    - Of the schemas of Newton, MuJoCo and PhysX, armature, dry friction, damping, springs and limits of joints, joints
      that follow others, actuators and constraints are read. A warning names what was skipped.

    A file of :func:`sim.usd.write_usd` comes back as it was, in double precision.

    Arguments, result and errors are those of :meth:`sim.ModelBuilder.add_usd`.

    Example:
        >>> import tempfile
        >>> import sim
        >>> from sim.importers.usd import add_usd
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> path = sim.usd.write_usd(tempfile.mkdtemp() + "/robot.usda", model, poses, fps=60)
        >>> scene = sim.ModelBuilder()
        >>> [len(part.joints) for part in add_usd(scene, path, name="left")]
        [7]
    """
    if drives not in ("actuators", "springs"):
        raise ModelError(f"add_usd: drives is {drives!r}; it must be 'actuators' or 'springs'")
    check_arguments("add_usd", name, friction, restitution, visual=visual, collision=collision)
    base, threshold = pose("add_usd", position, orientation), threshold_of(decompose)
    scene = open_scene(Path(path))
    reader = Reader(builder, scene, base, "" if name is None else f"{name}/", drives, friction, restitution, threshold)
    with all_or_nothing(builder):
        # Results of extreme numbers are checked where they are used; NumPy need not warn before.
        with readable(scene.path), np.errstate(over="ignore", invalid="ignore"):
            before = builder.elements()
            parts = _read(reader, visual, collision)
            if is_by_mujoco(scene.stage):
                builder.from_mujoco += builder.elements() - before
        for note in dict.fromkeys(scene.notes):
            warnings.warn(f"{scene.path}: {note}", USDWarning, stacklevel=3)
    return parts


def read_gravity(path: str | os.PathLike[str]) -> np.ndarray:
    """Gravity of a USD file, z up [m/s^2]; (0, 0, -9.81) if it states none.

    Raises:
        ImportFileError: if the file can't be opened, or states a gravity that is not finite.
    """
    require_path(path)
    scene = open_scene(Path(path))
    with readable(scene.path):
        return _gravity(scene)


def _gravity(scene: Scene) -> np.ndarray:
    found = scene.of(Kind.Scene)
    if not found:
        return np.array([0.0, 0.0, -9.81])
    prim = scene.prim(found[0].primPath)
    if any(scene.stated(prim, name) is False for name in SWITCHES_OF_GRAVITY):
        return np.zeros(3)
    api = UsdPhysics.Scene(prim)
    direction = np.array(api.GetGravityDirectionAttr().Get(), dtype=np.float64)
    strength = float(api.GetGravityMagnitudeAttr().Get())
    if np.isnan(strength) or strength == np.inf or not np.isfinite(direction).all():
        raise scene.error(prim, f"gravity is {strength} along {direction.tolist()}; it must be finite")
    down = scene.up.apply(direction) if direction.any() else np.array([0.0, 0.0, -1.0])
    # Any negative number means the Earth's gravity.
    metres = strength * scene.length if strength >= 0.0 else 9.81
    return agreed(prim, "gravity", metres * down / np.linalg.norm(down))


def _read(reader: Reader, visual: bool, collision: bool) -> list[Part]:
    """Add everything."""
    scene = reader.scene
    refuse_types(scene)
    refuse_numbers(scene)
    touching = enabled_colliders(scene)
    if not scene.bodies and not touching:
        raise ImportFileError(scene.path, "contains neither rigid bodies nor colliders; there is nothing to simulate")
    if len(scene.of(Kind.Scene)) > 1:
        scene.notes.append("contains several physics scenes; they are merged into one world")
    for found in touching:
        path, body = found.primPath, scene.body_of(found.primPath)
        found_shapes = colliders(scene, scene.prim(path), body is not None, reader.threshold)
        reader.shapes[path] = [seen_from(scene, body, shape) for shape in found_shapes]
        if body is not None:
            reader.colliders.setdefault(body, []).append(path)
    trees = forest(scene, read_joints(scene))
    name_links(reader, trees)
    for body in trees.carriers:
        add_link(reader, body)
    joint_names = {body: add_joint(reader, body, carrier) for body, carrier in trees.carriers.items()}
    add_medium(reader, trees.carriers)
    add_frames(reader)
    add_tendons(reader)
    add_actuators(reader, trees, joint_names)
    add_couplings(reader, trees, joint_names)
    close_loops(reader, trees)
    filters = read_filters(scene, touching)
    for pair in filters.bodies:
        reader.builder.exclude_collision(*(reader.names[body] for body in pair))
    add_geometries(reader, touching if collision else [], filters, visual)
    add_sensors(reader)
    note_no_shapes(scene)
    note_unread(scene)
    return add_parts(reader, trees, joint_names)
