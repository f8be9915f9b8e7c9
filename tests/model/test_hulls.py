"""Faces, edges and bounds of hulls, and that they are found once per mesh."""

import gc
import time

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim.model.geometries import Geometry, Mesh
from sim.model.shapes import hulls
from sim.model.shapes.hulls import PackedShapes, convex_hull, hull_edges, hull_faces
from tests.model.hull_oracle import edges_of, faces_of, newell
from warp_kernels import types as codes


def ball(rng):
    points = rng.normal(size=(rng.integers(4, 200), 3))
    return points / np.linalg.norm(points, axis=1)[:, None] * rng.uniform(0.02, 2.0, size=3)


def cloud(rng):
    return rng.normal(size=(rng.integers(5, 80), 3)) * rng.uniform(0.02, 2.0, size=3)


def box(rng):
    corners = np.array([[2.0 * (k >> axis & 1) - 1.0 for axis in range(3)] for k in range(8)])
    return corners * rng.uniform(0.1, 1.0, size=3)


def prism(rng):
    angle = 2.0 * np.pi * np.arange(sides := rng.integers(3, 60)) / sides
    ring = np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    return np.concatenate([ring, ring + np.array([0.0, 0.0, rng.uniform(0.1, 2.0)])])


def plate(rng):
    return prism(rng) * (1.0, 1.0, 10.0 ** rng.uniform(-7.0, -3.0))


def divided(rng):
    line = np.linspace(-1.0, 1.0, rng.integers(3, 8))
    points = np.array(np.meshgrid(line, line, line)).reshape(3, -1).T
    return points + 10.0 ** rng.uniform(-8.0, -3.0) * rng.normal(size=points.shape)


def lathe(rng):
    turns, heights = np.meshgrid(2.0 * np.pi * np.arange(12) / 12, np.linspace(-1.5, 1.5, rng.integers(3, 12)))
    points = (np.cos(turns) * np.cos(heights), np.sin(turns) * np.cos(heights), np.sin(heights))
    return np.array(points).reshape(3, -1).T


def from_the_least(faces):
    """Faces from their least vertex on: which vertex is the first depends on rounding."""
    return [face[(start := face.index(min(face))) :] + face[:start] for face in faces]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [ball, cloud, box, prism, plate, divided, lathe])
def test_faces_and_edges_equal_those_by_brute_force(shape, seed):
    rng = np.random.default_rng(seed)
    mesh = convex_hull(Rotation.random(random_state=seed).apply(shape(rng)) + rng.normal(size=3))
    faces = hull_faces(mesh.vertices, mesh.faces)
    assert from_the_least(faces) == from_the_least(faces_of(mesh.vertices, mesh.faces))
    assert hull_edges(mesh.vertices, faces).tolist() == edges_of(mesh.vertices, faces)
    packed = PackedShapes()
    packed.add(geometry(mesh))
    np.testing.assert_allclose(packed.normals, [newell(mesh.vertices[face]) for face in faces], atol=1e-14)
    bounds = packed.bounds[0]
    depths = [newell(mesh.vertices[face]) @ (mesh.vertices[face[0]] - bounds.ball_centre) for face in faces]
    assert bounds.ball_radius == pytest.approx(min(depths), rel=1e-9, abs=1e-14)


def test_the_same_triangle_twice_is_one_face():
    mesh = convex_hull(cloud(np.random.default_rng(7)))
    twice = np.concatenate([mesh.faces, mesh.faces[3:5]])
    assert hull_faces(mesh.vertices, twice) == faces_of(mesh.vertices, twice)


def test_hulls_are_found_once_per_mesh_and_values(monkeypatch):
    made = []
    make = hulls._make_hull
    monkeypatch.setattr(hulls, "_make_hull", lambda shape: made.append(shape) or make(shape))
    mesh = convex_hull(ball(np.random.default_rng(1)))
    for _ in range(3):
        PackedShapes().add(geometry(mesh))
    assert len(made) == 1
    mesh.vertices[:] *= 2.0
    packed = PackedShapes()
    packed.add(geometry(mesh))
    assert len(made) == 2
    np.testing.assert_array_equal(packed.vertices, mesh.vertices)


def test_hulls_go_with_their_mesh():
    mesh = convex_hull(ball(np.random.default_rng(2)))
    PackedShapes().add(geometry(mesh))
    key = id(mesh)
    assert key in hulls._hulls
    del mesh
    gc.collect()
    assert key not in hulls._hulls


def test_a_line_tells_of_hulls_that_take_long(monkeypatch, capsys):
    make = hulls._make_hull
    monkeypatch.setattr(hulls, "SILENT", 0.1)
    monkeypatch.setattr(hulls, "_make_hull", lambda shape: time.sleep(0.06) or make(shape))
    packed = PackedShapes()
    meshes = [convex_hull(cloud(np.random.default_rng(seed))) for seed in range(4)]
    packed.add(geometry(meshes[0]))
    assert capsys.readouterr().err == ""
    for mesh in meshes[1:]:
        packed.add(geometry(mesh))
    assert capsys.readouterr().err.count("convex meshes") == 1


def geometry(mesh: Mesh) -> Geometry:
    return Geometry("stone", 0, codes.CONVEX, np.array([0, 0, 0, 0, 0, 0, 1.0]), np.ones(3), mesh=mesh)
