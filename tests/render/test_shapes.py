"""Triangles of the geometry types against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from sim.model.geometries import Geometry, Mesh
from sim.render.tessellation import tessellate, with_normals
from tests.collision.field_harness import FieldBench
from tests.errors import raises_naming
from warp_kernels import types as codes

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def geometry(kind, size, mesh=None):
    return Geometry("shape", 0, kind, IDENTITY, np.array(size, dtype=float), mesh)


@pytest.mark.parametrize(
    ("kind", "size", "volume", "extents"),
    [
        (codes.SPHERE, (0.3, 0, 0), 4 / 3 * np.pi * 0.3**3, (0.6, 0.6, 0.6)),
        (codes.CAPSULE, (0.2, 0.4, 0), np.pi * 0.04 * 0.8 + 4 / 3 * np.pi * 0.008, (0.4, 0.4, 1.2)),
        (codes.CYLINDER, (0.2, 0.4, 0), np.pi * 0.04 * 0.8, (0.4, 0.4, 0.8)),
        (codes.BOX, (0.1, 0.2, 0.3), 0.048, (0.2, 0.4, 0.6)),
        (codes.ELLIPSOID, (0.1, 0.2, 0.3), 4 / 3 * np.pi * 0.006, (0.2, 0.4, 0.6)),
    ],
)
def test_primitives_are_closed_and_have_their_volume(kind, size, volume, extents):
    shape = tessellate(geometry(kind, size), segments=128)
    mesh = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
    assert mesh.is_watertight
    # An inscribed polyhedron of 128 sides lacks less than (2 pi / 128)^2 of the volume; outward faces make it positive.
    assert volume * (1 - (2 * np.pi / 128) ** 2) < mesh.volume <= volume * (1 + 1e-12)
    np.testing.assert_allclose(np.ptp(shape.vertices, axis=0), extents, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(shape.normals, axis=2), 1.0, atol=1e-12)
    assert (np.einsum("fci,fi->fc", shape.normals, mesh.face_normals) > 0.8).all()


def test_normals_of_a_sphere_are_radial():
    shape = tessellate(geometry(codes.SPHERE, (2.0, 0, 0)), segments=64)
    assert np.abs(shape.normals - shape.vertices[shape.faces] / 2.0).max() < 0.01


def test_normals_of_an_ellipsoid_are_those_of_its_surface():
    size = np.array((1.0, 2.0, 0.5))
    shape = tessellate(geometry(codes.ELLIPSOID, size), segments=64)
    expected = shape.vertices[shape.faces] / size**2
    expected /= np.linalg.norm(expected, axis=2, keepdims=True)
    # Between neighbouring vertices of the ball the surface turns by 0.1 rad, stretched here.
    assert np.abs(shape.normals - expected).max() < 0.03


def test_a_heightfield_has_the_triangles_that_bodies_touch():
    bench = FieldBench((codes.SPHERE, codes.HEIGHTFIELD), 1, grid=(4, 5))
    heights = np.random.default_rng(0).normal(size=(4, 5))
    bench.values["height"][0] = heights.ravel()
    bench.values["geometry_size"][0, 1] = size = (1.0, 0.7, 2.0)
    field = replace(geometry(codes.HEIGHTFIELD, size), heights=heights)
    shape = tessellate(field)
    np.testing.assert_allclose(shape.vertices[shape.faces], bench.surface()[0], atol=1e-15)
    assert (shape.normals[..., 2] > 0.0).all()


def test_normals_of_a_box_are_flat():
    shape = tessellate(geometry(codes.BOX, (1, 2, 3)))
    assert set(np.unique(np.round(np.abs(shape.normals), 12))) == {0.0, 1.0}


def test_mesh_scale_is_applied_and_empty_faces_are_dropped():
    mesh = Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2], [0, 0, 1]]))
    shape = tessellate(geometry(codes.CONVEX, (2.0, 3.0, 1.0), mesh))
    np.testing.assert_array_equal(shape.vertices.max(axis=0), [2.0, 3.0, 0.0])
    assert len(shape.faces) == 1
    np.testing.assert_array_equal(shape.normals, np.broadcast_to([0.0, 0.0, 1.0], (1, 3, 3)))


def test_repeated_vertices_share_a_smooth_normal():
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.1]])
    split = corners[[0, 1, 2, 2, 1, 3]]
    shape = with_normals(split, np.array([[0, 1, 2], [3, 4, 5]]))
    np.testing.assert_allclose(shape.normals[0, 1], shape.normals[1, 1])
    assert abs(shape.normals[0, 0, 2]) > 0.999999


def test_a_plane_has_no_triangles():
    with raises_naming("plane"):
        tessellate(geometry(codes.PLANE, (0, 0, 0)))
