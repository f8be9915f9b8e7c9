"""Contacts of bodies with flat fields, ridges, peaks, steps and grooves: the places that carry them."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.collision.field_harness import FieldBench, random_field_bench
from tests.collision.field_oracle import (
    BODIES,
    END_PART,
    FIRST_EDGE,
    FIRST_FACE,
    MARGIN,
    coal_distance,
    least_distance,
    octahedron,
    over_surface,
    resting,
)
from tests.collision.harness import Bench
from tests.collision.test_gradients import differences
from warp_kernels.collision.field.contact import FIRST_RIM
from warp_kernels.collision.field.grid import EDGE_Y, POINT, UPPER_TRIANGLE
from warp_kernels.types import BOX, CONVEX, CYLINDER, HEIGHTFIELD, PLANE, SPHERE


@pytest.mark.parametrize("kind", BODIES)
def test_flat_field_is_a_plane(kind):
    """The same distances, points and normals but for their sign, and no others, wherever cells and creases lie."""
    worlds = 2000
    field = random_field_bench(kind, worlds, seed=3, roughness=0.0, fixed=1)
    field.values["pose"][0, :100, :3] += 0.0
    plane = Bench((PLANE, kind), worlds, fixed=0, mesh=field.mesh)
    for name in ("geometry_placement", "geometry_size"):
        plane.values[name] = field.values[name][:, ::-1].copy()
    for name in ("pose", "origin"):
        plane.values[name] = field.values[name].copy()
    found, expected = (
        {**bench.evaluate(slots), "count": slots.count.numpy()}
        for bench in (field, plane)
        for slots in (bench.detect(MARGIN),)
    )
    body, turn = field.in_field()
    extent = 0.25 * np.abs(turn).sum(axis=2).max()
    inside = (np.abs(body[:, :2]) + extent < field.values["geometry_size"][:, 1, :2]).all(axis=1)
    # A box has its four lowest corners against a plane; on the field all eight may be within reach.
    few = inside & (body[:, 2] > -0.05)
    assert (expected["count"][few] > 0).sum() > 100
    np.testing.assert_array_equal(found["count"][few] > 0, expected["count"][few] > 0)
    for world in np.flatnonzero(few & (expected["count"] > 0)):
        n, m = found["count"][world], expected["count"][world]
        least = expected["distance"][:m, world].argmin()
        match = np.abs(found["distance"][:n, world] - expected["distance"][least, world]).argmin()
        np.testing.assert_allclose(found["distance"][match, world], expected["distance"][least, world], atol=1e-13)
        np.testing.assert_allclose(found["point"][match, world], expected["point"][least, world], atol=1e-12)
        np.testing.assert_allclose(found["frame"][match, world, 0], -expected["frame"][least, world, 0], atol=1e-12)


@pytest.mark.parametrize("yaw", [0.0, 0.3, np.pi / 4.0])
@pytest.mark.parametrize("tilt", [0.0, 1e-12, 1e-7])
def test_box_on_a_flat_field_stands_on_its_four_corners(yaw, tilt):
    """Of all the points of the field under it, whatever the rounding."""
    turn = Rotation.from_euler("z", yaw) * Rotation.from_euler("x", tilt)
    features, out, _, _ = resting(BOX, (0.25, 0.15, 0.05), turn, (0.02, 0.03, 0.05), np.zeros((11, 12)))
    assert sorted(part for part, _ in features) == [0, 1, 2, 3]
    np.testing.assert_allclose(out["distance"], 0.0, atol=1e-7)
    corners = np.array([(x, y, -0.05) for x in (-0.25, 0.25) for y in (-0.15, 0.15)])
    expected = turn.apply(corners) + np.array((0.02, 0.03, 0.05))
    order = np.lexsort(np.round(out["point"], 6).T), np.lexsort(np.round(expected, 6).T)
    np.testing.assert_allclose(out["point"][order[0]], expected[order[1]], atol=1e-6)


def test_box_across_a_ridge_lies_on_it_along_its_width():
    """Its corners hang in the air; two of its edges carry it, at both ends of the ridge under it."""
    heights = np.zeros((5, 5))
    heights[:, 2] = 0.08
    features, out, _, _ = resting(BOX, (0.15, 0.06, 0.05), Rotation.identity(), (0.02, 0.01, 0.13), heights)
    assert all(part >= FIRST_EDGE and kind == EDGE_Y for part, kind in features)
    np.testing.assert_allclose(out["distance"], 0.0, atol=1e-15)
    np.testing.assert_allclose(out["frame"][:, 0], [(0.0, 0.0, -1.0)] * 2, atol=1e-15)
    np.testing.assert_allclose(sorted(out["point"].tolist()), [(0.0, -0.05, 0.08), (0.0, 0.07, 0.08)], atol=1e-15)


def test_box_on_a_peak_touches_it_with_its_face():
    heights = np.zeros((5, 5))
    heights[2, 2] = 0.08
    features, out, _, _ = resting(BOX, (0.15, 0.06, 0.05), Rotation.identity(), (0.02, 0.01, 0.125), heights)
    assert features == [(FIRST_FACE + 4, POINT)]
    np.testing.assert_allclose(out["distance"], -0.005, atol=1e-15)
    np.testing.assert_allclose(out["point"], [(0.0, 0.0, 0.0775)], atol=1e-15)


EDGE_DOWN = Rotation.from_euler("y", np.pi / 4.0)
CORNER_DOWN = Rotation.align_vectors([(0.0, 0.0, -1.0)], [(1.0, -1.0, -1.0)])[0]


@pytest.mark.parametrize("side", [0.0, 0.3])
@pytest.mark.parametrize(
    ("kind", "turn", "point", "parts"),
    [
        (BOX, EDGE_DOWN, (1.0, 0.3, -1.0), range(FIRST_EDGE, END_PART)),
        (BOX, CORNER_DOWN, (1.0, -1.0, -1.0), [1]),
        # The tangent of the rim is along the ridge.
        (CYLINDER, EDGE_DOWN, (1.0, 0.0, -1.0), [FIRST_RIM, FIRST_RIM + 1]),
    ],
)
@pytest.mark.parametrize("element", [POINT, EDGE_Y])
def test_sharp_features_apart_from_a_peak_or_ridge(kind, turn, point, parts, element, side):
    """A place of the body, given in its half sizes, hangs 5 mm over the middle of a peak or ridge, or to its side."""
    heights = np.zeros((5, 5))
    heights[2 if element == POINT else slice(None), 2] = 0.08
    away = np.array((np.sin(side), 0.0, np.cos(side)))
    position = np.array((0.0, 0.0, 0.08)) + 0.005 * away - turn.apply(0.05 * np.array(point))
    features, out, bench, slots = resting(kind, (0.05,) * 3, turn, position, heights)
    np.testing.assert_allclose(out["distance"].min(), 0.005, rtol=0.0, atol=1e-12)
    nearest = out["distance"].argmin()
    np.testing.assert_allclose(out["frame"][nearest, 0], -away, rtol=0.0, atol=1e-9)
    part, touched = features[nearest]
    # A box's edge along the ridge is as far from it at all places, and counts at its ends.
    if (kind, element) != (BOX, EDGE_Y) or len(parts) == 1:
        assert part in parts
        assert touched == element
    cotangents = {"distance": np.eye(4)[:, nearest : nearest + 1]}
    found = bench.gradient(slots, cotangents)
    np.testing.assert_allclose(found["pose"][0, 0, :3], away, rtol=0.0, atol=1e-9)
    # A rim that turns away from the ridge is nearest to it with its other side: another feature.
    if (kind, element) != (CYLINDER, EDGE_Y):
        expected = differences(bench, slots, cotangents)["distance"]
        for key in bench.values:
            np.testing.assert_allclose(found[key], expected[key], rtol=0.0, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("yaw", [0.0, 0.3])
def test_cylinder_on_a_platform_stands_on_it(yaw, dtype):
    """With a point of the field on its axis, and though cliffs of the platform reach to its disc."""
    heights = np.zeros((5, 5))
    heights[1:4, 1:4] = 0.1
    for position in ((0.0, 0.0), (0.05, 0.05), (0.0, 0.08)):
        for lift in (0.0, 1e-9, -1e-9):
            turn = Rotation.from_euler("z", yaw)
            _, out, _, _ = resting(CYLINDER, (0.09, 0.1, 0.0), turn, (*position, 0.2 + lift), heights, dtype=dtype)
            np.testing.assert_allclose(out["distance"], lift, rtol=0.0, atol=1e-12 if dtype == "float64" else 3e-8)
            np.testing.assert_allclose(out["frame"][:, 0], [(0.0, 0.0, -1.0)] * len(out["distance"]), atol=1e-6)
            assert len(out["distance"]) >= 3


@pytest.mark.parametrize("kind", [BOX, CONVEX, CYLINDER])
def test_bodies_aligned_with_steps_against_coal(kind):
    """Corners over points, edges along edges, faces in planes of triangles: the places where rounding decides."""
    worlds, rng = 1000, np.random.default_rng(5)
    bench = FieldBench((kind, HEIGHTFIELD), worlds, fixed=1, grid=(6, 7), mesh=octahedron() if kind == CONVEX else None)
    v = bench.values
    v["geometry_size"][:] = np.zeros(3), (0.3, 0.25, 1.0)
    v["geometry_size"][:, 0] = 0.025 * rng.integers(2, 7, (worlds, 3))
    v["height"] = rng.choice((0.0, 0.05, 0.1), (worlds, 1)) * rng.integers(0, 3, (worlds, 42))
    angle = 45.0 * rng.integers(0, 8, (worlds, 3)) * rng.integers(0, 2, (worlds, 3))
    v["pose"][0, :, :2] = 0.025 * rng.integers(-8, 9, (worlds, 2))
    v["pose"][0, :, 2] = 0.025 * rng.integers(2, 16, worlds)
    v["pose"][0, :, 3:] = Rotation.from_euler("xyz", angle, degrees=True).as_quat()
    triangles, (position, turn) = bench.surface(), bench.in_field()
    expected = np.array([coal_distance(bench, w, triangles[w], position[w], turn[w])[0] for w in range(worlds)])
    found = least_distance(bench.evaluate(bench.detect(MARGIN)))
    above = over_surface(triangles, position) > 1e-9
    apart, overlap = above & (expected > 1e-6) & (expected < MARGIN - 1e-6), above & (expected < -1e-6)
    assert min(apart.sum(), overlap.sum()) > 200
    np.testing.assert_allclose(found[apart], expected[apart], rtol=0.0, atol=1e-6)
    assert (found[overlap] < 0.0).all()
    touching = above & (np.abs(expected) < 1e-6)
    assert touching.sum() > 15
    np.testing.assert_allclose(found[touching], 0.0, rtol=0.0, atol=1e-6)


def test_corners_in_a_groove_touch_both_sides():
    """Each of two corners stands in two places at once, one for each normal."""
    heights = np.full((5, 5), 0.05)
    heights[:, 2] = 0.0
    turn = Rotation.from_euler("y", np.pi / 4.0)
    features, out, _, _ = resting(BOX, (0.05, 0.05, 0.05), turn, (0.0, 0.02, 0.05 * np.sqrt(2.0)), heights)
    assert sorted(part for part, _ in features) == [1, 1, 3, 3]
    up, side = 2.0 / np.sqrt(5.0), 1.0 / np.sqrt(5.0)
    normals = sorted(frame[0].tolist() for frame in out["frame"])
    np.testing.assert_allclose(normals, [(-side, 0.0, -up)] * 2 + [(side, 0.0, -up)] * 2, atol=1e-14)
    np.testing.assert_allclose(out["distance"], 0.0, atol=1e-14)


def test_ball_in_a_groove_touches_both_sides():
    heights = np.full((5, 5), 0.05)
    heights[:, 2] = 0.0
    radius = 0.03
    position = (0.0, 0.02, radius * np.sqrt(5.0) / 2.0 - 1e-3)
    features, out, _, _ = resting(SPHERE, (radius, 0.0, 0.0), Rotation.identity(), position, heights)
    assert [kind <= UPPER_TRIANGLE for _, kind in features] == [True, True]
    np.testing.assert_allclose(out["distance"], -1e-3 * 2.0 / np.sqrt(5.0), atol=1e-15)


def test_ball_with_its_centre_on_the_surface_is_pushed_out():
    """Of a triangle, an edge or a point, where rounding decides on which side of them it is."""
    heights = np.zeros((5, 5))
    heights[2, 2] = 0.1
    for x, y in ((0.05, 0.02), (0.05, 0.0), (0.0, 0.05), (0.05, 0.05), (0.03, 0.03), (0.0, 0.0), (0.1, 0.0)):
        position = (x, y, 0.1 - max(x, y))
        _, out, _, _ = resting(SPHERE, (0.05, 0.0, 0.0), Rotation.identity(), position, heights)
        np.testing.assert_allclose(out["distance"].min(), -0.05, rtol=0.0, atol=1e-15)
