"""How many contacts convex pairs have, and where: faces on faces, edges on faces, rims; and what is degenerate."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim.model.shapes.hulls import convex_hull, hull_faces
from tests.collision.harness import CONVEX_PAIRS, OUTPUTS, Bench, hull_mesh, pebble
from tests.collision.test_manifolds import polygon_area, prism
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, SPHERE

LYING = Rotation.from_euler("y", 90.0, True)
SQUARE = np.array([(x, y) for x in (-1.0, 1.0) for y in (-1.0, 1.0)])


def on_table(kind: int, size, height: float, rotation: Rotation | None = None, at=(0.0, 0.0), mesh=None) -> np.ndarray:
    """Points [n, 3] of a shape above a table whose top is z = 0, 0.4 x 0.6 m; checks normals and distances."""
    types = (kind, BOX) if kind < BOX else (BOX, kind)
    bench = Bench(types, 1, mesh=mesh)
    shape = types.index(kind) if kind != BOX else 1
    bench.values["geometry_size"][0, 1 - shape] = (0.2, 0.3, 0.1)
    bench.values["geometry_size"][0, shape] = size
    turn = (rotation or Rotation.identity()).as_quat()
    bench.values["pose"][1 - shape, 0, :3] = (0.0, 0.0, -0.1)
    bench.values["pose"][shape, 0] = (*at, height, *turn)
    slots = bench.detect(0.01)
    count = slots.count.numpy()[0]
    out = bench.evaluate(slots)
    up = 1.0 if shape == 1 else -1.0
    np.testing.assert_allclose(out["frame"][:count, 0, 0], np.tile((0.0, 0.0, up), (count, 1)), atol=1e-12)
    np.testing.assert_allclose(out["distance"][:count, 0], -1e-3, atol=1e-12)
    points = out["point"][:count, 0]
    np.testing.assert_allclose(points[:, 2], -5e-4, atol=1e-12)
    return points


def same_set(found: np.ndarray, expected: np.ndarray) -> None:
    nearest = np.linalg.norm(found[:, None, :2] - np.asarray(expected)[None], axis=2).argmin(axis=1)
    assert sorted(nearest) == list(range(len(expected)))
    np.testing.assert_allclose(found[:, :2], np.asarray(expected)[nearest], atol=1e-12)


@pytest.mark.parametrize("yaw", [0.0, 0.3, 1.0])
def test_box_on_face_touches_at_its_four_corners(yaw):
    turn = Rotation.from_euler("z", yaw)
    found = on_table(BOX, (0.05, 0.1, 0.15), 0.149, turn, at=(0.02, -0.03))
    corners = np.column_stack([SQUARE * (0.05, 0.1), np.zeros(4)])
    same_set(found, turn.apply(corners)[:, :2] + (0.02, -0.03))


def test_box_that_overhangs_touches_where_its_edges_cross_those_of_the_table():
    found = on_table(BOX, (0.1, 0.1, 0.1), 0.099, at=(0.2, 0.25))
    same_set(found, [(0.1, 0.15), (0.1, 0.3), (0.2, 0.15), (0.2, 0.3)])


def test_bar_across_touches_at_four_crossings():
    same_set(on_table(BOX, (0.5, 0.05, 0.1), 0.099), SQUARE * (0.2, 0.05))


def test_larger_box_touches_at_the_corners_of_the_table():
    same_set(on_table(BOX, (0.5, 0.7, 0.1), 0.099), SQUARE * (0.2, 0.3))


def test_box_turned_by_45_degrees_keeps_four_of_eight_that_span_most():
    found = on_table(BOX, (0.25, 0.25, 0.1), 0.099, Rotation.from_euler("z", np.pi / 4.0))
    assert len(found) == 4
    area = 0.4 * 0.6 - 2.0 * (0.2 + 0.3 - 0.25 * np.sqrt(2.0)) ** 2
    assert polygon_area(found[:, :2]) > 0.65 * area


def test_box_on_edge_touches_twice_and_on_corner_once():
    tilt = Rotation.from_euler("x", 45.0, True)
    found = on_table(BOX, (0.1, 0.1, 0.1), 0.1 * np.sqrt(2.0) - 1e-3, tilt)
    same_set(found, [(-0.1, 0.0), (0.1, 0.0)])
    lowest = Rotation.align_vectors([(0.0, 0.0, -1.0)], [(0.1, 0.1, 0.1)])[0]
    assert len(on_table(BOX, (0.1, 0.1, 0.1), 0.1 * np.sqrt(3.0) - 1e-3, lowest)) == 1


def test_lying_capsule_touches_at_both_ends_or_at_the_table_s_edges():
    same_set(on_table(CAPSULE, (0.05, 0.1, 0.0), 0.049, LYING), [(-0.1, 0.0), (0.1, 0.0)])
    same_set(on_table(CAPSULE, (0.05, 0.5, 0.0), 0.049, LYING), [(-0.2, 0.0), (0.2, 0.0)])


def test_lying_cylinder_touches_at_both_rims_or_at_the_table_s_edges():
    same_set(on_table(CYLINDER, (0.05, 0.1, 0.0), 0.049, LYING), [(-0.1, 0.0), (0.1, 0.0)])
    same_set(on_table(CYLINDER, (0.05, 0.5, 0.0), 0.049, LYING), [(-0.2, 0.0), (0.2, 0.0)])


def test_standing_cylinder_touches_at_four_points_of_its_rim():
    found = on_table(CYLINDER, (0.1, 0.15, 0.0), 0.149)
    assert len(found) == 4
    np.testing.assert_allclose(np.linalg.norm(found[:, :2], axis=1), 0.1, atol=1e-12)
    assert polygon_area(found[:, :2]) > 0.99 * 2.0 * 0.1**2


@pytest.mark.parametrize(("sides", "least"), [(3, 0.999), (4, 0.999), (6, 0.6), (40, 0.6)])
def test_hull_on_face_spans_it(sides, least):
    mesh = hull_mesh(prism(sides))
    found = on_table(CONVEX, (0.1, 0.1, 0.2), 0.199, mesh=mesh)
    assert len(found) == min(sides, 4)
    assert polygon_area(found[:, :2]) > least * 0.1**2 * 0.5 * sides * np.sin(2.0 * np.pi / sides)


def test_tilted_cylinder_s_lowest_point_of_the_rim_is_a_contact():
    """Between the corners of the octagon, beside other contacts that lie higher."""
    tilt = Rotation.from_rotvec(0.02 * np.array([np.cos(0.3), np.sin(0.3), 0.0]))
    bench = Bench((BOX, CYLINDER), 1)
    bench.values["geometry_size"][0] = [(0.2, 0.3, 0.1), (0.1, 0.15, 0.0)]
    bench.values["pose"][:, 0, :3] = [(0.0, 0.0, -0.1), (0.0, 0.0, 0.149)]
    bench.values["pose"][1, 0, 3:] = tilt.as_quat()
    slots = bench.detect(0.05)
    out = bench.evaluate(slots)
    assert slots.count.numpy()[0] == 4
    lowest = 0.149 - 0.15 * np.cos(0.02) - 0.1 * np.sin(0.02)
    np.testing.assert_allclose(out["distance"][:, 0].min(), lowest, atol=1e-12)


@pytest.mark.parametrize("types", [(CAPSULE, CYLINDER), (CYLINDER, CYLINDER)])
@pytest.mark.parametrize("tilt", [0.0, 1e-12, 5e-3])
def test_lines_side_by_side_touch_at_both_ends_of_their_overlap(types, tilt):
    bench = Bench(types, 1)
    bench.values["geometry_size"][0] = [(0.1, 0.3, 0.0), (0.05, 0.2, 0.0)]
    bench.values["pose"][1, 0] = (0.149, 0.0, 0.2, *Rotation.from_rotvec((tilt, 0.0, 0.0)).as_quat())
    slots = bench.detect(0.01)
    out = bench.evaluate(slots)
    count = slots.count.numpy()[0]
    assert count == (2 if tilt < 1e-6 else 3)
    np.testing.assert_allclose(out["distance"][:count, 0], -1e-3, atol=1e-5)
    heights = out["point"][:count, 0, 2]
    np.testing.assert_allclose((heights.min(), heights.max()), (0.0, 0.3), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_equal_cylinders_side_by_side_touch_at_both_rims(dtype):
    bench = Bench((CYLINDER, CYLINDER), 50, dtype=dtype)
    bench.values["geometry_size"][:] = (0.1, 0.3, 0.0)
    turn = Rotation.random(50, rng=np.random.default_rng(2))
    bench.values["pose"][:, :, 3:] = turn.as_quat()
    bench.values["pose"][1, :, :3] = turn.apply((0.199, 0.0, 0.0))
    slots = bench.detect(0.01)
    assert (slots.count.numpy() == 2).all()
    points = bench.evaluate(slots)["point"]
    apart = np.linalg.norm(points[0] - points[1], axis=1)
    np.testing.assert_allclose(apart, 0.6, atol=1e-5)


def test_rounding_chooses_no_other_contacts():
    found = set()
    for rotvec in [(0.0, 0.0, 0.0), *(1e-10 * np.concatenate([np.eye(3), -np.eye(3)]))]:
        bench = Bench((BOX, BOX), 1)
        bench.values["geometry_size"][:] = 0.1
        bench.values["pose"][1, 0] = (0.03, 0.0, 0.2 - 1e-9, *Rotation.from_rotvec(rotvec).as_quat())
        slots = bench.detect(0.01)
        points = bench.evaluate(slots)["point"][:4, 0]
        found.add(tuple(sorted(map(tuple, np.round(points[:, :2], 6) + 0.0))))
    assert found == {((-0.07, -0.1), (-0.07, 0.1), (0.1, -0.1), (0.1, 0.1))}


def test_faces_of_a_cube_are_its_six_squares():
    mesh = hull_mesh(prism(4))
    faces = hull_faces(mesh.vertices, mesh.faces)
    assert sorted(map(len, faces)) == [4] * 6
    centre = mesh.vertices.mean(axis=0)
    for face in faces:
        p = mesh.vertices[face]
        for k in range(4):
            across = np.cross(p[(k + 1) % 4] - p[k], p[(k + 2) % 4] - p[(k + 1) % 4])
            assert across @ (p[0] - centre) > 0.0


@pytest.mark.parametrize("rounding", [0.0, 3e-8, 3e-7, 1e-6])
@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_faces_of_a_cube_in_a_file_are_its_six_squares(pieces, rounding):
    # Files round the corners of the triangles that a face was divided into: some stand out, some are sunk in.
    line = np.linspace(-1.0, 1.0, pieces + 1)
    grid = np.array(np.meshgrid(line, line, line)).reshape(3, -1).T
    surface = grid[(np.abs(grid) == 1.0).any(axis=1)]
    for turn in (Rotation.identity(), Rotation.from_rotvec((0.3, 0.4, 0.5))):
        mesh = convex_hull(turn.apply(surface) + rounding * np.random.default_rng(0).normal(size=surface.shape))
        faces = hull_faces(mesh.vertices, mesh.faces)
        assert sorted(map(len, faces)) == [4] * 6
        corners = turn.inv().apply(mesh.vertices[np.unique(np.concatenate(faces))])
        np.testing.assert_allclose(np.abs(corners), 1.0, atol=1e-5)


@pytest.mark.parametrize("away", [0.0, 1e5])
def test_faces_of_round_and_thin_hulls_enclose_them(away):
    turn = 2.0 * np.pi * np.arange(48) / 48
    ring = np.column_stack([np.cos(turn), np.sin(turn), 0.0 * turn])
    coin = np.concatenate([np.add(ring, (0.0, 0.0, height)) for height in (-1e-4, 1e-4)])
    needle = np.random.default_rng(1).normal(size=(30, 3)) * (1e-4, 1e-4, 1.0)
    for points in (coin, needle, pebble().vertices, 1e-4 * pebble().vertices):
        mesh = convex_hull(points + away)
        extent = np.ptp(mesh.vertices, axis=0).max()
        for face in hull_faces(mesh.vertices, mesh.faces):
            position = mesh.vertices[face] - mesh.vertices[face[0]]
            normal = np.cross(position, np.roll(position, -1, axis=0)).sum(axis=0)
            normal /= np.linalg.norm(normal)
            assert ((mesh.vertices - mesh.vertices[face[0]]) @ normal < 1e-5 * extent + 1e-9 * away).all()


CASES = {
    "coincident": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "1e-12 apart": ((1e-12, 0.0, 0.0), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "one in the other": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.1, 0.1, 0.1), (0.3, 0.3, 0.3)),
    "a point": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2)),
    "points": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    "flat": ((0.0, 0.0, 0.1), (0.0, 0.0, 0.0), (0.2, 0.2, 0.0), (0.2, 0.2, 0.0)),
    "line": ((0.0, 0.0, 0.1), (0.5, 0.0, 0.0), (0.0, 0.2, 0.0), (0.2, 0.2, 0.2)),
    "face to face": ((0.4, 0.0, 0.0), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "end to end": ((0.0, 0.0, 0.4), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "edge to edge": ((0.4, 0.4, 0.0), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "corner to corner": ((0.4, 0.4, 0.4), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "quarter turn": ((0.1, 0.0, 0.0), (np.pi / 2.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
    "half turn": ((0.0, 0.1, 0.0), (0.0, np.pi, 0.0), (0.2, 0.2, 0.2), (0.2, 0.2, 0.2)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("types", CONVEX_PAIRS, ids=str)
def test_degenerate_cases_stay_finite(types, dtype):
    """All at once, a world each."""
    mesh = hull_mesh(prism(6)) if dtype == "float64" else pebble()
    bench = Bench(types, len(CASES), dtype=dtype, mesh=mesh)
    for world, (position, rotvec, size_a, size_b) in enumerate(CASES.values()):
        bench.values["pose"][0, world] = (*position, *Rotation.from_rotvec(rotvec).as_quat())
        bench.values["geometry_size"][world] = (size_a, size_b)
    slots = bench.detect(0.5)
    out = bench.evaluate(slots)
    active = np.arange(4)[:, None] < slots.count.numpy()
    assert active.any(axis=0).all()
    for key in OUTPUTS:
        assert np.isfinite(out[key][active]).all()
        for gradient in bench.gradient(slots, {key: np.ones_like(out[key])}).values():
            assert np.isfinite(gradient).all()
    frames = out["frame"][active]
    products = frames @ frames.swapaxes(1, 2)
    np.testing.assert_allclose(products, np.tile(np.eye(3), (len(frames), 1, 1)), atol=1e-5)


def test_sphere_in_the_middle_of_a_cylinder_is_pushed_out_by_the_nearest_disc():
    bench = Bench((SPHERE, CYLINDER), 1)
    bench.values["geometry_size"][0] = [(0.1, 0.0, 0.0), (0.5, 0.3, 0.0)]
    bench.values["pose"][0, 0, :3] = (0.0, 0.0, 0.1)
    out = bench.evaluate(bench.detect(0.01))
    np.testing.assert_allclose(out["distance"][0, 0], -0.2 - 0.1, atol=1e-12)
    np.testing.assert_allclose(out["frame"][0, 0, 0], (0.0, 0.0, -1.0), atol=1e-12)
