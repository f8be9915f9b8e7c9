"""Bodies on heightfields: distances against trimesh and coal, gradients against central differences, special places."""

from dataclasses import dataclass

import coal
import mujoco
import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from scenes.mjcf import to_mjcf
from sim.model.model import Mesh
from tests.collision.field_harness import FieldBench, random_field_bench
from tests.collision.harness import OUTPUTS, Bench, Slots, hull_mesh, pebble
from tests.collision.test_gradients import differences
from warp_kernels.collision.field.contact import FIRST_DISC, FIRST_RIM, PARTS, SEGMENT, SIDE
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, EDGE_Y, KINDS, LOWER_TRIANGLE, POINT, UPPER_TRIANGLE
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, PLANE, SPHERE

MARGIN = 0.1
BODIES = (SPHERE, CAPSULE, BOX, CONVEX, CYLINDER, ELLIPSOID)
# The parts of a box: corners from 0 on, faces, edges.
FIRST_FACE, FIRST_EDGE, END_PART = 8, 14, 26
POLE = (-0.2817, -0.3672, -0.8864)  # tangents turn fast near this normal alone


def over_surface(triangles: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Vertical distance of places [worlds, 3] over the surface [worlds, triangles, 3, 3]."""
    a, edges = triangles[:, :, 0], triangles[:, :, 1:] - triangles[:, :, :1]
    across = edges[..., :2].swapaxes(-1, -2)
    offset = places[:, None] - a
    weights = np.linalg.solve(across, offset[..., :2, None])[..., 0]
    inside = (weights.min(-1) >= 0.0) & (weights.sum(-1) <= 1.0)
    rise = offset[..., 2] - np.einsum("wtk,wtk->wt", weights, edges[..., 2])
    return rise[np.arange(len(places)), inside.argmax(1)]


def least_distance(out: dict[str, np.ndarray]) -> np.ndarray:
    """Least distance in each world, infinite without a contact."""
    return np.where(np.isnan(out["distance"]), np.inf, out["distance"]).min(axis=0)


def part_counts(bench: FieldBench) -> tuple[int, int, int]:
    """Numbers of vertices, faces and edges of a box or convex mesh."""
    packed = bench.collision.packed
    extent, edges = packed.extent.numpy()[0], packed.edge_extent.numpy()[0]
    return int(extent[1]), int(extent[3]), int(edges[1])


def kinds_and_parts(bench: FieldBench, slots: Slots) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kinds of element and parts of the body [slots, worlds], and which slots hold a contact.

    Parts of boxes and meshes are counted over vertices, faces and edges.
    """
    feature = slots.feature.numpy()
    active = np.arange(len(feature))[:, None] < slots.count.numpy()
    if bench.types[0] not in (BOX, CONVEX):
        return feature // PARTS % KINDS, feature % PARTS, active
    vertices, faces, edges = part_counts(bench)
    part = feature % (KINDS * vertices + faces + 4 * edges)
    edge = part - KINDS * vertices - faces
    kind = np.where(edge >= 0, EDGE_X + edge % 4, np.where(part >= KINDS * vertices, POINT, part % KINDS))
    number = np.where(edge >= 0, vertices + faces + edge // 4, part - KINDS * vertices + vertices)
    return kind, np.where(part < KINDS * vertices, part // KINDS, number), active


def octahedron() -> Mesh:
    return hull_mesh(np.concatenate([np.eye(3), -np.eye(3)]))


def coal_convex(vertices: np.ndarray, faces: np.ndarray) -> coal.Convex:
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for vertex in vertices:
        points.append(vertex)
    for face in faces:
        triangles.append(coal.Triangle(*(int(index) for index in face)))
    return coal.Convex(points, triangles)


def coal_shape(bench: FieldBench, world: int) -> tuple[coal.ShapeBase, float]:
    """A body and the radius of a ball around it."""
    x, y, z = bench.values["geometry_size"][world, 0]
    kind = bench.types[0]
    if kind == CONVEX:
        vertices = bench.mesh.vertices * (x, y, z)
        return coal_convex(vertices, bench.mesh.faces), np.linalg.norm(vertices, axis=1).max()
    return {
        CAPSULE: (coal.Capsule(x, 2.0 * y), x + y),
        BOX: (coal.Box(2.0 * x, 2.0 * y, 2.0 * z), np.linalg.norm((x, y, z))),
        CYLINDER: (coal.Cylinder(x, 2.0 * y), np.hypot(x, y)),
        ELLIPSOID: (coal.Ellipsoid(x, y, z), max(x, y, z)),
    }[kind]


def coal_distance(
    bench: FieldBench, world: int, triangles: np.ndarray, place: np.ndarray, turn: np.ndarray
) -> tuple[float, np.ndarray]:
    """Least signed distance of a body and any triangle near it, and the normal there."""
    shape, radius = coal_shape(bench, world)
    reach = radius + MARGIN
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    near = triangles[((low < place + reach) & (high > place - reach)).all(axis=1)]
    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = 1e-9
    request.gjk_max_iterations = request.epa_max_iterations = 5000
    least, normal = np.inf, np.zeros(3)
    for triangle in near:
        flat, here = coal_convex(triangle, np.array(((0, 1, 2), (0, 2, 1)))), coal.Transform3s.Identity()
        result = coal.DistanceResult()
        distance = coal.distance(shape, coal.Transform3s(turn, place), flat, here, request, result)
        if distance < least:
            least, normal = distance, np.array(result.normal)
    return least, normal


@pytest.fixture(scope="module")
def spheres():
    """10,000 spheres, with the closest point of any triangle by trimesh and the height of their centres over it."""
    worlds = 10_000
    bench = random_field_bench(SPHERE, worlds, seed=0, grid=(4, 5))
    slots = bench.detect(MARGIN)
    triangles, (centre, _) = bench.surface(), bench.in_field()
    count = triangles.shape[1]
    closest = trimesh.triangles.closest_point(triangles.reshape(-1, 3, 3), np.repeat(centre, count, axis=0))
    offset = closest.reshape(worlds, count, 3) - centre[:, None]
    nearest = np.linalg.norm(offset, axis=2).argmin(axis=1)
    return bench, slots, bench.evaluate(slots), offset[np.arange(worlds), nearest], over_surface(triangles, centre)


def test_sphere_distance_normal_and_point_above_the_surface(spheres):
    bench, slots, out, offset, rise = spheres
    above, count = rise > 0.0, slots.count.numpy()
    radius = bench.values["geometry_size"][:, 0, 0]
    distance = np.linalg.norm(offset, axis=1) - radius
    np.testing.assert_array_equal(count[above] > 0, distance[above] < MARGIN)
    touching = np.flatnonzero(above & (count > 0))
    assert len(touching) > 4000
    assert min((distance[touching] < 0.0).sum(), (distance[touching] > 0.0).sum()) > 1000
    np.testing.assert_allclose(least_distance(out)[touching], distance[touching], rtol=0.0, atol=1e-12)
    deepest = np.nanargmin(out["distance"][:, touching], axis=0)
    normal = bench.to_field(out["frame"][:, :, 0], vectors=True)[deepest, touching]
    direction = (offset / np.linalg.norm(offset, axis=1)[:, None])[touching]
    # Centres nearer than 1e-4 m to the surface magnify rounding.
    np.testing.assert_allclose(normal, direction, rtol=0.0, atol=1e-9)
    centre = bench.in_field()[0][touching]
    middle = centre + 0.5 * (offset[touching] + radius[touching, None] * direction)
    np.testing.assert_allclose(bench.to_field(out["point"])[deepest, touching], middle, rtol=0.0, atol=1e-9)


def test_sphere_below_the_surface_it_leaves_through_the_triangle_above(spheres):
    bench, slots, out, _, rise = spheres
    below = np.flatnonzero(rise < 0.0)
    assert len(below) > 1000
    assert (slots.count.numpy()[below] == 1).all()
    kind, _, _ = kinds_and_parts(bench, slots)
    assert (kind[0, below] <= UPPER_TRIANGLE).all()
    normal = -bench.to_field(out["frame"][:, :, 0], vectors=True)[0, below]
    expected = rise[below] * normal[:, 2] - bench.values["geometry_size"][below, 0, 0]
    np.testing.assert_allclose(out["distance"][0, below], expected, rtol=0.0, atol=1e-12)
    corners = bench.surface()[below]
    normals = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0])
    normals /= np.linalg.norm(normals, axis=2)[:, :, None]
    assert np.abs(normals - normal[:, None]).max(axis=2).min(axis=1).max() < 1e-12


def test_sphere_all_kinds_of_element_are_touched(spheres):
    kind, _, active = kinds_and_parts(*spheres[:2])
    assert set(kind[active].tolist()) == set(range(KINDS))


def test_every_contact_is_a_local_minimum_of_the_distance(spheres):
    """No point of the surface around a contact is nearer to the centre."""
    bench, slots, out, _, rise = spheres
    centre, _ = bench.in_field()
    radius = bench.values["geometry_size"][:, 0, 0]
    inward = bench.to_field(out["frame"][:, :, 0], vectors=True)
    place = centre + (out["distance"] + radius)[:, :, None] * inward
    triangles = bench.surface()
    _, _, active = kinds_and_parts(bench, slots)
    worlds, count = bench.num_worlds, triangles.shape[1]
    around = np.random.default_rng(0).normal(size=(20, 2)) * 1e-7
    for slot in range(4):
        chosen = np.flatnonzero(active[slot] & (rise > 0.0))
        for dx, dy in around:
            p = np.zeros((worlds, 3))
            p[chosen] = place[slot, chosen] + (dx, dy, 0.0)
            p[chosen, 2] -= over_surface(triangles[chosen], p[chosen])
            size = bench.values["geometry_size"][chosen, 1, :2]
            within = (np.abs(p[chosen, :2]) < size).all(axis=1)
            gap = np.linalg.norm(p[chosen] - centre[chosen], axis=1) - radius[chosen]
            assert (gap >= out["distance"][slot, chosen] - 1e-12)[within].all()
    assert count == 24


@dataclass
class Compared:
    """Random bodies over random fields with what coal says: least distance, normal from the body to the field there."""

    bench: FieldBench
    slots: Slots
    out: dict[str, np.ndarray]
    expected: np.ndarray
    normal: np.ndarray
    above: np.ndarray  # whether the centre is above the surface

    @property
    def found(self) -> np.ndarray:
        return least_distance(self.out)

    def seen(self) -> set[tuple[int, int]]:
        """The parts of the body and the kinds of element that touch."""
        kind, part, active = kinds_and_parts(self.bench, self.slots)
        return set(zip(part[active].tolist(), kind[active].tolist(), strict=True))


def compared(kind: int, worlds: int, seed: int, touching: bool = False) -> Compared:
    """If ``touching``, half of the bodies that are apart are brought near, to gaps of 1e-9 m to 1e-4 m."""
    bench = random_field_bench(kind, worlds, seed=seed, grid=(4, 5))
    triangles, (place, turn) = bench.surface(), bench.in_field()
    expected, normal = np.empty(worlds), np.empty((worlds, 3))

    def ask_coal(chosen: np.ndarray) -> None:
        for w in chosen:
            expected[w], normal[w] = coal_distance(bench, w, triangles[w], place[w], turn[w])

    ask_coal(np.arange(worlds))
    if touching:
        moved = np.flatnonzero((over_surface(triangles, place) > 0.0) & (expected > 1e-4) & np.isfinite(expected))[::2]
        gap = 10.0 ** np.random.default_rng(seed).uniform(-9.0, -4.0, len(moved))
        move = np.zeros((worlds, 3))
        move[moved] = (expected[moved] - gap)[:, None] * normal[moved]
        bench.values["pose"][0, :, :3] += Rotation.from_quat(bench.world_poses()[1][:, 3:]).apply(move)
        place, turn = bench.in_field()
        ask_coal(moved)
    slots = bench.detect(MARGIN)
    above = over_surface(triangles, place) > 0.0
    return Compared(bench, slots, bench.evaluate(slots), expected, normal, above)


@pytest.mark.parametrize(("kind", "seed"), [(CAPSULE, 1), (ELLIPSOID, 6)])
def test_round_bodies_against_coal(kind, seed):
    """Apart the distance is exact; where it overlaps any triangle, and nowhere else, a distance is negative."""
    c = compared(kind, 10_000, seed)
    apart, overlap = c.above & (c.expected > 1e-6), c.expected < -1e-6
    np.testing.assert_array_equal(np.isfinite(c.found[apart]), c.expected[apart] < MARGIN)
    near = apart & (c.expected < MARGIN)
    assert min(near.sum(), overlap.sum()) > 1000
    # coal iterates between a curved shape and a triangle until the distance is right to 1e-7.
    np.testing.assert_allclose(c.found[near], c.expected[near], rtol=0.0, atol=1e-6)
    assert (c.found[overlap] < 0.0).all()
    ends = {(end, k) for end in range(2) for k in range(KINDS)} | {(SEGMENT, k) for k in range(EDGE_X, KINDS)}
    assert c.seen() == (ends if kind == CAPSULE else {(0, k) for k in range(KINDS)})


@pytest.mark.parametrize(("kind", "seed"), [(BOX, 2), (CONVEX, 12), (CYLINDER, 13)])
def test_bodies_with_edges_against_coal(kind, seed):
    """Apart and touching the distance is exact; where one overlaps any triangle, and nowhere else, it is negative."""
    c = compared(kind, 10_000, seed, touching=True)
    apart, overlap = c.above & (c.expected > 1e-9), c.expected < -1e-6
    near = apart & (c.expected < MARGIN)
    assert min(near.sum(), overlap.sum()) > 2000
    assert (near & (c.expected < 1e-6)).sum() > 500
    assert (c.found[overlap] < 0.0).all()
    np.testing.assert_array_equal(np.isfinite(c.found[apart]), near[apart])
    # Of places as deep but for 1e-6 m any may be kept.
    np.testing.assert_allclose(c.found[near], c.expected[near], rtol=0.0, atol=1e-6)
    # Nearer, coal's normals are only as good as its points on either side.
    clear = near & (c.expected > 1e-3)
    same = clear & np.isclose(c.found, c.expected, rtol=0.0, atol=1e-8)
    assert same.sum() > 0.99 * clear.sum()
    deepest = np.where(np.isnan(c.out["distance"]), np.inf, c.out["distance"]).argmin(axis=0)[same]
    normal = c.bench.to_field(c.out["frame"][:, :, 0], vectors=True)[deepest, np.flatnonzero(same)]
    # The normal of a least distance that coal has to 1e-9 m by iteration is right to the root of that.
    np.testing.assert_allclose(normal, c.normal[same], rtol=0.0, atol=1e-6 if kind != CYLINDER else 3e-4)
    assert seen_kinds(c) == PART_KINDS[kind]


def seen_kinds(c: Compared) -> set[tuple[str, int]]:
    """What kinds of part touch which kinds of element."""
    if c.bench.types[0] == CYLINDER:
        bounds, names = (FIRST_DISC, FIRST_RIM, SIDE), ("rim point", "disc", "rim", "side")
    else:
        vertices, faces, _ = part_counts(c.bench)
        bounds, names = (vertices, vertices + faces), ("corner", "face", "edge")
    return {(names[int(np.searchsorted(bounds, part, side="right"))], kind) for part, kind in c.seen()}


TRIANGLES, EDGES = (LOWER_TRIANGLE, UPPER_TRIANGLE), (EDGE_X, EDGE_Y, DIAGONAL)
EDGES_AND_POINT = (*EDGES, POINT)
PART_KINDS = {
    CYLINDER: {
        *(("rim point", kind) for kind in TRIANGLES), ("disc", POINT), *(("rim", kind) for kind in EDGES_AND_POINT),
        *(("side", kind) for kind in EDGES_AND_POINT),
    },
    BOX: {
        *(("corner", kind) for kind in (*TRIANGLES, *EDGES_AND_POINT)), ("face", POINT),
        *(("edge", kind) for kind in EDGES_AND_POINT),
    },
}  # fmt: skip
PART_KINDS[CONVEX] = PART_KINDS[BOX]


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


def resting(
    kind: int, size: tuple[float, ...], turn: Rotation, place: tuple[float, ...], heights: np.ndarray, **options
):
    """Parts and kinds of element, distances and points of one body over a field of 0.1 m cells."""
    mesh = pebble() if kind == CONVEX else None
    bench = FieldBench((kind, HEIGHTFIELD), 1, fixed=1, grid=heights.shape, mesh=mesh, **options)
    rows, columns = heights.shape
    bench.values["geometry_size"][0] = size, (0.05 * (columns - 1), 0.05 * (rows - 1), 1.0)
    bench.values["height"][0] = heights.ravel()
    bench.values["pose"][0, 0] = *place, *turn.as_quat()
    slots = bench.detect(0.01)
    count = slots.count.numpy()[0]
    out = {name: value[:count, 0] for name, value in bench.evaluate(slots).items()}
    kind, part, _ = kinds_and_parts(bench, slots)
    return list(zip(part[:count, 0].tolist(), kind[:count, 0].tolist(), strict=True)), out, bench, slots


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
    place = np.array((0.0, 0.0, 0.08)) + 0.005 * away - turn.apply(0.05 * np.array(point))
    features, out, bench, slots = resting(kind, (0.05,) * 3, turn, place, heights)
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
    for place in ((0.0, 0.0), (0.05, 0.05), (0.0, 0.08)):
        for lift in (0.0, 1e-9, -1e-9):
            turn = Rotation.from_euler("z", yaw)
            _, out, _, _ = resting(CYLINDER, (0.09, 0.1, 0.0), turn, (*place, 0.2 + lift), heights, dtype=dtype)
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
    triangles, (place, turn) = bench.surface(), bench.in_field()
    expected = np.array([coal_distance(bench, w, triangles[w], place[w], turn[w])[0] for w in range(worlds)])
    found = least_distance(bench.evaluate(bench.detect(MARGIN)))
    above = over_surface(triangles, place) > 1e-9
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
    place = (0.0, 0.02, radius * np.sqrt(5.0) / 2.0 - 1e-3)
    features, out, _, _ = resting(SPHERE, (radius, 0.0, 0.0), Rotation.identity(), place, heights)
    assert [kind <= UPPER_TRIANGLE for _, kind in features] == [True, True]
    np.testing.assert_allclose(out["distance"], -1e-3 * 2.0 / np.sqrt(5.0), atol=1e-15)


def test_ball_with_its_centre_on_the_surface_is_pushed_out():
    """Of a triangle, an edge or a point, where rounding decides on which side of them it is."""
    heights = np.zeros((5, 5))
    heights[2, 2] = 0.1
    for x, y in ((0.05, 0.02), (0.05, 0.0), (0.0, 0.05), (0.05, 0.05), (0.03, 0.03), (0.0, 0.0), (0.1, 0.0)):
        place = (x, y, 0.1 - max(x, y))
        _, out, _, _ = resting(SPHERE, (0.05, 0.0, 0.0), Rotation.identity(), place, heights)
        np.testing.assert_allclose(out["distance"].min(), -0.05, rtol=0.0, atol=1e-15)


def test_outside_the_field_nothing_is_supported():
    heights = np.zeros((3, 3))
    for x, count in ((0.0, 1), (0.1, 1), (0.104, 1), (0.16, 0), (1e12, 0), (-1e30, 0)):
        place = (x, 0.02, 0.05)
        assert len(resting(SPHERE, (0.05, 0.0, 0.0), Rotation.identity(), place, heights)[0]) == count
    # Half over the border a box stands on two corners and, where the border crosses its edges, on that.
    for x, count in ((0.0, 4), (0.1, 4), (0.16, 0), (1e12, 0)):
        place = (x, 0.0, 0.05)
        assert len(resting(BOX, (0.05, 0.05, 0.05), Rotation.identity(), place, heights)[0]) == count
    # The border bears from above, never from below.
    assert resting(SPHERE, (0.05, 0.0, 0.0), Rotation.identity(), (0.13, 0.02, -0.03), heights)[0] == []


def test_fast_ball_is_met_before_it_arrives():
    bench = FieldBench((SPHERE, HEIGHTFIELD), 3, fixed=1)
    bench.values["geometry_size"][:, 0] = 0.1
    bench.values["pose"][0, :, :3] = 0.03, 0.02, 1.0
    velocity = np.zeros((1, 3, 6))
    velocity[0, :, 5] = 0.0, -8.8, -9.0
    assert bench.detect(0.01, velocity=velocity, dt=0.1).count.numpy().tolist() == [0, 0, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", BODIES)
def test_numbers_stay_finite_on_edges_and_points(kind, dtype):
    """Centres, ends, corners and edges exactly on the surface's points, edges and triangles."""
    heights = np.zeros((3, 3))
    heights[1, 1] = 0.1
    for place in ((0.0, 0.0, 0.1), (0.05, 0.0, 0.05), (-0.1, 0.0, 0.0), (0.0, 0.0, 0.0), (0.03, 0.04, 0.02)):
        for size in ((0.05, 0.05, 0.05), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0)):
            for turn in (Rotation.identity(), Rotation.from_euler("x", np.pi / 2.0)):
                _, out, bench, slots = resting(kind, size, turn, place, heights, dtype=dtype)
                for name in OUTPUTS:
                    assert np.isfinite(out[name]).all()
                    gradient = bench.gradient(slots, {name: np.ones((4, 1, *out[name].shape[1:]))})
                    assert all(np.isfinite(value).all() for value in gradient.values())


@pytest.mark.parametrize("kind", BODIES)
def test_single_precision_finds_the_same_contacts(kind):
    found = []
    for dtype in ("float64", "float32"):
        bench = random_field_bench(kind, 5000, seed=7, dtype=dtype)
        slots = bench.detect(MARGIN)
        found.append((slots.count.numpy(), least_distance(bench.evaluate(slots))))
    (count, exact), (same, single) = found
    # Which of four contacts are kept, and whether one is at the margin, may hang on a rounding.
    assert (count != same).sum() <= 5
    both = np.isfinite(exact) & np.isfinite(single)
    assert (np.isfinite(exact) != np.isfinite(single)).sum() <= 1
    # Rounding of poses a metre from the world's origin; that of an ellipsoid deep inside is magnified.
    np.testing.assert_allclose(single[both], exact[both], rtol=0.0, atol=1e-5 if kind == ELLIPSOID else 3e-6)


@pytest.mark.parametrize("fixed", [None, 1])
@pytest.mark.parametrize("kind", BODIES)
def test_gradients_match_central_differences(kind, fixed, device):
    """In poses, sizes and heights, for every part of the body and kind of element, away from where they change."""
    bench = random_field_bench(kind, 9000, seed=4, roughness=0.25, grid=(3, 4), fixed=fixed, device=device)
    if kind == ELLIPSOID:
        # No edge sharper than 9 cm, the scale on which the closest point turns.
        bench.values["geometry_size"][:, 0] = 0.5 * (bench.values["geometry_size"][:, 0] + 0.25)
    slots = bench.detect(2.0 * MARGIN)
    out = bench.evaluate(slots)
    rng = np.random.default_rng(5)
    cotangents = {name: rng.normal(size=value.shape) for name, value in out.items()}
    element, part, active = kinds_and_parts(bench, slots)
    # Directions between places that nearly coincide, and across lines that are nearly parallel, turn fast.
    near = (core_distance(bench, element, part, out["distance"]) < 0.1) & (element > UPPER_TRIANGLE)
    good = ~(active & near)
    good &= ~(active & (np.linalg.norm(out["frame"][:, :, 0] - POLE, axis=-1) < 0.4))
    good = good.all(axis=0) & (well_crossed(bench, slots) | ~active).all(axis=0)
    if kind == CYLINDER:
        good &= (steady_rims(bench, slots, out) | ~active).all(axis=0)
    seen = set(zip(part[active & good].tolist(), element[active & good].tolist(), strict=True))
    print(len(seen))
    assert len(seen) >= {SPHERE: 6, CAPSULE: 16, BOX: 55, CONVEX: 150, CYLINDER: 29, ELLIPSOID: 6}[kind]
    expected = differences(bench, slots, cotangents)
    for name, cotangent in cotangents.items():
        found = bench.gradient(slots, {name: cotangent})
        for key in bench.values:
            world_axis = 1 if key in ("pose", "origin") else 0
            a, b = (np.moveaxis(value[key], world_axis, 0)[good] for value in (found, expected[name]))
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=f"{name} in {key}")
    touched = good & active.any(axis=0)
    for key in ("height", "geometry_size"):
        assert np.abs(expected["distance"][key][touched]).reshape(touched.sum(), -1).max(axis=1).min() > 1e-5


def core_distance(bench: FieldBench, element: np.ndarray, part: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """How far a sharp feature, or the middle of a rounding, is from its place; infinite where faces tell the normal."""
    kind, size = bench.types[0], bench.values["geometry_size"][:, 0]
    if kind in (BOX, CONVEX):
        vertices, faces, _ = part_counts(bench)
        return np.where((part < vertices) | ((part >= vertices + faces) & (element == POINT)), distance, np.inf)
    if kind == CYLINDER:
        rim = (part >= FIRST_RIM) & (part < SIDE) & (element == POINT)
        return np.where(part == SIDE, distance + size[:, 0], np.where(rim, distance, np.inf))
    return distance + (size.min(axis=1) if kind == ELLIPSOID else size[:, 0])


def field_edges(bench: FieldBench, slots: Slots) -> np.ndarray:
    """Unit vector along the edge of the field that each contact is with, in the field's frame [slots, worlds, 3].

    NaN where it isn't with an edge.
    """
    kind, _, active = kinds_and_parts(bench, slots)
    vertices, faces, edges = part_counts(bench)
    per_point = KINDS * vertices + faces + 4 * edges if vertices else PARTS * KINDS
    row, column = np.divmod(np.where(active, slots.feature.numpy() // per_point, 0), bench.grid[1])
    rows, columns = bench.grid
    grid = bench.values["height"].reshape(-1, rows, columns) * bench.values["geometry_size"][:, 1, 2, None, None]
    step = 2.0 * bench.values["geometry_size"][:, 1, :2] / (columns - 1, rows - 1)
    dr, dc = np.isin(kind, (EDGE_Y, DIAGONAL)), np.isin(kind, (EDGE_X, DIAGONAL))
    world = np.arange(bench.num_worlds)
    end = np.minimum(row + dr, rows - 1), np.minimum(column + dc, columns - 1)
    edge = np.stack([dc * step[:, 0], dr * step[:, 1], grid[world, *end] - grid[world, row, column]], axis=-1)
    with_edge = active & (kind >= EDGE_X) & (kind <= DIAGONAL)
    return np.where(with_edge, 1.0, np.nan)[..., None] * edge / np.linalg.norm(edge, axis=-1)[..., None]


def sine_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.cross(a, b), axis=-1)


def well_crossed(bench: FieldBench, slots: Slots) -> np.ndarray:
    """Which contacts aren't those of an edge or an axis that is nearly parallel to the edge that it crosses."""
    _, part, active = kinds_and_parts(bench, slots)
    _, turn = bench.in_field()
    if bench.types[0] in (SPHERE, ELLIPSOID):
        return np.ones_like(active)
    along = np.broadcast_to(turn[:, :, 2], (*part.shape, 3))
    by_axis = part == (SIDE if bench.types[0] == CYLINDER else SEGMENT)
    if bench.types[0] in (BOX, CONVEX):
        vertices, faces, edges = part_counts(bench)
        ends = bench.collision.packed.edges.numpy()[np.clip(part - vertices - faces, 0, edges - 1), :2]
        corners = bench.collision.packed.vertices.numpy()[ends] * bench.values["geometry_size"][:, None, 0]
        along = corners[..., 1, :] - corners[..., 0, :]
        along = np.einsum("wij,swj->swi", turn, along / np.linalg.norm(along, axis=-1)[..., None])
        by_axis = part >= vertices + faces
    return ~(by_axis & (sine_between(field_edges(bench, slots), along) < 0.3))


def steady_rims(bench: FieldBench, slots: Slots, out: dict[str, np.ndarray]) -> np.ndarray:
    """Which contacts of a cylinder aren't those of a rim point that turns fast about its disc."""
    _, part, _ = kinds_and_parts(bench, slots)
    place, turn = bench.in_field()
    radius, half = bench.values["geometry_size"][:, 0, :2].T
    axis, up = turn[:, :, 2], -bench.to_field(out["frame"][:, :, 0], vectors=True)
    on_body = bench.to_field(out["point"]) + 0.5 * out["distance"][..., None] * up
    upright = (part < FIRST_DISC) & (sine_between(up, axis) < 0.2)
    end = 2 * (part - FIRST_RIM >> 1) - 1
    outward = (on_body - place - end[..., None] * half[:, None] * axis) / radius[:, None]
    tangent, edge = np.cross(axis, outward), field_edges(bench, slots)
    across = tangent - (tangent * edge).sum(-1, keepdims=True) * edge
    # By how much the squared distance from the line bends along the rim, over its radius.
    bend = radius * (across**2).sum(-1) - out["distance"] * (up * outward).sum(-1)
    # Where the two sides of a rim meet, the contact goes over from one to the other.
    ahead = edge - (edge * axis).sum(-1, keepdims=True) * axis
    between = np.abs((outward * ahead).sum(-1)) < 0.05 * np.linalg.norm(ahead, axis=-1)
    rim = (part >= FIRST_RIM) & (part < SIDE)
    return ~upright & ~(rim & (between | (sine_between(tangent, edge) < 0.3) | (bend < 0.3 * radius)))


def test_cells_are_divided_as_in_mujoco():
    """Rays from above meet the same surface."""
    rng = np.random.default_rng(0)
    heights = rng.uniform(-0.3, 0.5, (4, 6))
    builder = sim.ModelBuilder()
    builder.add_heightfield(heights, spacing=(0.2, 0.3), position=(0.1, 0.2, 0.3), orientation=(0.1, 0.0, 0.2, 1.0))
    builder.add_sphere(radius=0.1, mass=1.0)
    model = builder.finalize("float64")
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=0.01, sweeps=10))
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    bench = FieldBench((SPHERE, HEIGHTFIELD), 200, fixed=1, grid=heights.shape)
    bench.values["geometry_size"][:] = (0.0, 0.0, 0.0), model.geometries[0].size
    bench.values["height"][:] = heights.ravel()
    local = rng.uniform((-0.45, -0.4, 1.0), (0.45, 0.4, 1.0), (200, 3))
    rise = over_surface(bench.surface(), local)
    turn = Rotation.from_quat(model.geometries[0].placement[3:])
    for start, length in zip(turn.apply(local) + np.array((0.1, 0.2, 0.3)), rise, strict=True):
        hit = np.zeros(1, dtype=np.int32)
        found = mujoco.mj_ray(peer, data, start, turn.apply((0.0, 0.0, -1.0)), None, 1, -1, hit)
        np.testing.assert_allclose(found, length, atol=1e-6)
