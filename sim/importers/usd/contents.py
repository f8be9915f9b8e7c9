"""Import of an open USD scene's contents into a builder."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from pxr import UsdPhysics

from sim.errors import ImportFileError, USDWarning
from sim.importers.transaction import all_or_nothing
from sim.importers.usd.bodies import (
    add_actuators,
    add_cameras,
    add_couplings,
    add_frames,
    add_joint,
    add_links,
    add_medium,
    add_parts,
    add_sensors,
    keep_prims,
    name_links,
    named_joints,
    read_masses,
)
from sim.importers.usd.filters import read_filters
from sim.importers.usd.geometries import add_geometries, enabled_colliders, note_no_shapes
from sim.importers.usd.joints.forest import forest
from sim.importers.usd.joints.loops import close_loops
from sim.importers.usd.joints.reading import read_joints
from sim.importers.usd.joints.series import in_series
from sim.importers.usd.layers import readable
from sim.importers.usd.lights import add_lights
from sim.importers.usd.prims import colliders, seen_from
from sim.importers.usd.reader import Reader
from sim.importers.usd.schemas.properties import SWITCHES_OF_GRAVITY, note_unread, refuse_numbers, refuse_types
from sim.importers.usd.schemas.springdamper import set_springs
from sim.importers.usd.stage import Kind, Scene, open_scene
from sim.importers.usd.tendons import add_tendons
from sim.model.builder import WorldBuilder
from sim.model.model import Part
from sim.usd.annotations import agreed
from sim.usd.parts import is_by_mujoco


def add_contents(
    builder: WorldBuilder,
    path: Path,
    base: np.ndarray,
    name: str | None,
    *,
    visual: bool,
    collision: bool,
    friction: float,
    restitution: float,
    threshold: float | None,
    drives: str,
) -> list[Part]:
    """Add the contents of a file: :func:`sim.importers.usd.importer.add_usd` with checked arguments.

    Args:
        builder: the builder to add to; left as it was if this raises.
        path: the file.
        base: pose of the origin of the stage in the world [7].
        name, visual, collision, friction, restitution, drives: see ``add_usd``.
        threshold: see :func:`sim.importers.decomposition.convex_pieces`.

    Raises:
        ImportFileError: naming the file and the prim.
    """
    scene = open_scene(path)
    reader = Reader(builder, scene, base, "" if name is None else f"{name}/", drives, friction, restitution, threshold)
    with all_or_nothing(builder):
        # Results of extreme numbers are checked where they are used, so NumPy's warnings are disabled.
        with readable(scene.path), np.errstate(over="ignore", invalid="ignore"):
            before = builder.elements()
            parts = _read(reader, visual, collision)
            if is_by_mujoco(scene.stage):
                builder.from_mujoco += builder.elements() - before
        for note in dict.fromkeys(scene.notes):
            warnings.warn(f"{scene.path}: {note}", USDWarning, stacklevel=3)
    return parts


def scene_gravity(path: Path) -> np.ndarray:
    """Return the gravity of a file, z up [m/s^2]; errors as for :func:`sim.importers.usd.importer.read_gravity`."""
    scene = open_scene(path)
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
    trees = forest(scene, in_series(scene, read_joints(scene)))
    name_links(reader, trees)
    read_masses(reader, trees.carriers)
    for body, carrier in trees.carriers.items():
        add_links(reader, body, carrier)
    joint_names = {body: add_joint(reader, body, carrier) for body, carrier in trees.carriers.items()}
    add_medium(reader, trees.carriers)
    add_frames(reader)
    add_cameras(reader)
    add_lights(reader)
    keep_prims(reader)
    add_tendons(reader)
    add_actuators(reader, trees, joint_names)
    add_couplings(reader, trees, joint_names)
    close_loops(reader, trees)
    set_springs(reader, ((step.path, name) for step, name in named_joints(trees, joint_names)))
    filters = read_filters(scene, touching)
    for pair in filters.bodies:
        reader.builder.exclude_collision(*(reader.names[body] for body in pair))
    add_geometries(reader, touching if collision else [], filters, visual)
    add_sensors(reader)
    note_no_shapes(scene)
    parts = add_parts(reader, trees, joint_names)
    note_unread(scene)
    return parts
