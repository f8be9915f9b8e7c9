"""Decomposition of non-convex meshes into convex pieces by CoACD.

Wei, Liu, Ling, Su: *Approximate convex decomposition for 3D meshes with collision-aware concavity and tree search*
(2022).
"""

import numpy as np

from sim.errors import ModelError
from sim.importers.meshes import MeshLibrary
from sim.model.checks import is_positive, require_choice
from sim.model.geometries import Mesh
from sim.model.shapes.hulls import convex_hull
from warp_kernels import types as codes

# CoACD's range: maximum concavity of the pieces, relative to the size of the mesh
USUAL_THRESHOLD = 0.05
LEAST_THRESHOLD, MOST_THRESHOLD = 0.01, 1.0
# Share of the hull's volume by which a mesh may be smaller and still count as convex
CONVEX_TO = 1e-3


def threshold_of(decompose: bool | float) -> float | None:
    """Return CoACD's threshold for a reader's option; None to replace meshes by their hulls.

    Raises:
        ModelError: for a number outside 0.01 to 1.
    """
    if isinstance(decompose, bool):
        return USUAL_THRESHOLD if decompose else None
    if not (is_positive(decompose) and LEAST_THRESHOLD <= decompose <= MOST_THRESHOLD):
        raise ModelError(
            f"decompose is {decompose!r}; it must be True, False, or CoACD's threshold, a number from "
            f"{LEAST_THRESHOLD:g} to {MOST_THRESHOLD:g}"
        )
    return float(decompose)


def as_triangles(where: str, static_meshes: str) -> bool:
    """Return whether a reader's option asks for the triangles of static meshes.

    Raises:
        ModelError: for a value other than "hulls" or "triangles".
    """
    require_choice(f"{where}: static_meshes", static_meshes, ("hulls", "triangles"))
    return static_meshes == "triangles"


def is_convex(mesh: Mesh, hull: Mesh) -> bool:
    """Return whether a mesh fills its convex hull."""
    import trimesh

    volume, filled = (
        abs(float(trimesh.Trimesh(each.vertices, each.faces, process=False).volume)) for each in (mesh, hull)
    )
    return abs(volume - filled) <= CONVEX_TO * volume


def is_convex_solid(mesh: Mesh) -> bool:
    """Return whether a mesh is closed and fills its convex hull."""
    import trimesh

    if not trimesh.Trimesh(mesh.vertices, mesh.faces).is_watertight:
        return False
    try:
        return is_convex(mesh, convex_hull(mesh.vertices))
    except ModelError:
        return False  # flat


def convex_pieces(mesh: Mesh, threshold: float | None) -> list[Mesh]:
    """Decompose a mesh into convex pieces; return its hull alone if it is convex or there is no threshold.

    Args:
        mesh: the mesh, in metres.
        threshold: CoACD's threshold; smaller ones give more pieces. The result is deterministic.

    Raises:
        ModelError: for a flat mesh, one that CoACD can't decompose, and without CoACD.
    """
    hull = convex_hull(mesh.vertices)
    if threshold is None or is_convex(mesh, hull):
        return [hull]
    try:
        import coacd
    except ImportError:
        raise ModelError("needs the package coacd to be decomposed: pip install 'backswing[decompose]'") from None
    coacd.set_log_level("error")
    try:
        found = coacd.run_coacd(coacd.Mesh(mesh.vertices, mesh.faces), threshold=threshold, seed=0)
    except RuntimeError as error:
        raise ModelError(f"can't be decomposed by CoACD: {error}") from None
    pieces = []
    for vertices, _ in found:
        try:
            pieces.append(convex_hull(np.asarray(vertices, dtype=np.float64)))
        except ModelError:
            continue  # a sliver between two cuts
    return pieces or [hull]


def collider_of_file(
    meshes: MeshLibrary, filename: str, scale: np.ndarray, threshold: float | None, triangles: bool
) -> list[tuple[int, Mesh]]:
    """Return the collision shape of a mesh file: the code of its geometry type and its meshes.

    Args:
        meshes: reader of the file.
        filename: name in the robot file.
        scale: scale along x, y and z [3].
        threshold: see :func:`convex_pieces`.
        triangles: keep a non-convex mesh as triangles, for static geometry.

    Raises:
        ModelError: naming the mesh.
    """
    if triangles:
        surface = meshes.surface(filename, scale)
        if not is_convex_solid(surface):
            return [(codes.MESH, surface)]
    return [(codes.CONVEX, piece) for piece in pieces_of_file(meshes, filename, scale, threshold)]


def pieces_of_file(meshes: MeshLibrary, filename: str, scale: np.ndarray, threshold: float | None) -> list[Mesh]:
    """Return the convex pieces of a mesh file, cached, or its hull without a threshold.

    Args:
        meshes: reader of the file.
        filename: name in the robot file.
        scale: scale along x, y and z [3].
        threshold: see :func:`convex_pieces`.

    Raises:
        ModelError: naming the mesh.
    """
    if threshold is None:
        return [meshes.hull(filename, scale)]
    key = (meshes.find(filename), tuple(scale.tolist()))
    if key not in meshes.decomposed:
        try:
            meshes.decomposed[key] = convex_pieces(meshes.surface(filename, scale), threshold)
        except ModelError as error:
            raise type(error)(f"mesh '{filename}' ({key[0]}) {error}") from None
    return meshes.decomposed[key]
