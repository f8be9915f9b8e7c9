"""Meshes of an MJCF file, and their hulls."""

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.model.hulls import convex_hull
from sim.model.model import Mesh


def mesh_of(reader: Reader, index: int) -> Mesh:
    """A mesh of the file."""
    model = reader.file.model
    vertex, face = int(model.mesh_vertadr[index]), int(model.mesh_faceadr[index])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[index])]
    faces = model.mesh_face[face : face + int(model.mesh_facenum[index])]
    return Mesh(np.array(vertices, dtype=np.float64), np.array(faces, dtype=np.int32))


def bounded_hull(reader: Reader, index: int, mesh: Mesh) -> Mesh:
    """MuJoCo's hull of a mesh where the file bounds its number of vertices; otherwise the mesh."""
    model, start = reader.file.model, int(reader.file.model.mesh_graphadr[index])
    if reader.file.elements["mesh"][index].maxhullvert < 0 or start < 0:
        return mesh
    # The graph holds the number of vertices, that of faces, for each vertex where its edges begin, and its index.
    count = int(model.mesh_graph[start])
    return convex_hull(mesh.vertices[model.mesh_graph[start + 2 + count :][:count]])
