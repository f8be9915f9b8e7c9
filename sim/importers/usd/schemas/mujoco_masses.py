"""Masses of colliders and bodies by the rules of MuJoCo's schema."""

from __future__ import annotations

import numpy as np
from pxr import Usd, UsdPhysics

from sim.importers.usd.prims import Shape, mesh_of
from sim.importers.usd.schemas.mujoco_scene import MassRules
from sim.importers.usd.stage import Scene
from sim.model.geometries import Mesh
from sim.model.shapes.inertia import mesh_mass_properties, solid_properties

Solid = tuple[float, np.ndarray, np.ndarray]


def is_massless(scene: Scene, prim: Usd.Prim, rules: MassRules) -> bool:
    """Return whether a collider in MuJoCo's schema has no mass: it states zero, or its group has none.

    UsdPhysics computes a mass of zero from the volume.
    """
    if not scene.has_schema(prim, "MjcCollisionAPI"):
        return False
    mass = UsdPhysics.MassAPI(prim).GetMassAttr() if prim.HasAPI(UsdPhysics.MassAPI) else None
    group = scene.number(prim, "mjc:group") or 0.0
    return (
        bool(mass and mass.HasAuthoredValue() and mass.Get() == 0.0) or not rules.groups[0] <= group <= rules.groups[1]
    )


def solids_of(scene: Scene, prim: Usd.Prim, shapes: list[Shape]) -> list[tuple[Solid, np.ndarray]]:
    """Return volume, centre and inertia per unit mass of the shapes of a collider, each with its pose [7].

    A mesh in MuJoCo's schema may have the inertia of its own triangles instead of that of its hull.
    """
    kind = scene.stated(prim, "mjc:inertia") if scene.has_schema(prim, "MjcMeshCollisionAPI") else None
    own = mesh_of(scene, prim) if kind in ("legacy", "exact") and len(shapes) == 1 else None
    if own is not None:
        properties = legacy_mass_properties if kind == "legacy" else mesh_mass_properties
        solid = properties(own[0])
        if solid[0] > 0.0:
            return [(solid, shapes[0].pose)]
        scene.notes.append(f"prim '{prim.GetPath()}': its mesh has no volume; its mass is that of its convex hull")
    return [(solid_properties(shape.type, shape.size, shape.mesh), shape.pose) for shape in shapes]


def legacy_mass_properties(mesh: Mesh) -> Solid:
    """Return volume [m^3], centre [3] and inertia per unit mass [3, 3] of a mesh, MuJoCo's ``inertia="legacy"``.

    Each triangle spans a pyramid with the centre of the surface, then with the centre of mass; all volumes count as
    positive.
    """
    corners = mesh.vertices[mesh.faces]
    normals = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1])
    areas, centres = np.linalg.norm(normals, axis=1), corners.mean(axis=1)
    if not areas.sum() > 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    middle = areas @ centres / areas.sum()
    volumes = np.abs(np.sum((centres - middle) * normals, axis=1)) / 3.0
    volume = float(volumes.sum())
    if not volume > 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    com = volumes @ (0.75 * centres + 0.25 * middle) / volume
    corners, centres = corners - com, centres - com
    volumes = np.abs(np.sum(centres * normals, axis=1)) / 3.0
    sums = corners.sum(axis=1)
    second = np.einsum("f,fci,fcj->ij", volumes, corners, corners) + np.einsum("f,fi,fj->ij", volumes, sums, sums)
    volume = float(volumes.sum())
    if not volume > 0.0:
        return 0.0, com, np.zeros((3, 3))
    second /= 20.0 * volume
    return volume, com, np.trace(second) * np.eye(3) - second


def bounded(mass: float, inertia: np.ndarray, rules: MassRules) -> tuple[float, np.ndarray]:
    """Return mass and inertia [3, 3] of a body within the bounds of MuJoCo's compiler."""
    if not (rules.least_mass or rules.least_inertia or rules.balanced):
        return mass, inertia
    moments, axes = np.linalg.eigh(inertia)
    if moments[0] < rules.least_inertia:
        moments = np.maximum(moments, rules.least_inertia)
    if rules.balanced and moments[0] + moments[1] < moments[2]:
        moments = np.full(3, moments.mean())
    return max(mass, rules.least_mass), axes @ np.diag(moments) @ axes.T
