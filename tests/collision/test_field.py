"""Bodies on heightfields: distances against trimesh and coal, gradients against central differences, special places."""

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import sim
from scenes.mjcf import to_mjcf
from tests.collision.field_harness import FieldBench, random_field_bench
from tests.collision.field_oracle import (
    BODIES,
    MARGIN,
    POLE,
    coal_distance,
    core_distance,
    kinds_and_parts,
    least_distance,
    over_surface,
    part_counts,
    resting,
    steady_rims,
    well_crossed,
)
from tests.collision.harness import OUTPUTS, Slots, assert_same_gradients
from tests.collision.test_gradients import differences
from warp_kernels.collision.field.contact import FIRST_DISC, FIRST_RIM, SEGMENT, SIDE
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, EDGE_Y, KINDS, LOWER_TRIANGLE, POINT, UPPER_TRIANGLE
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, SPHERE


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
    position = centre + (out["distance"] + radius)[:, :, None] * inward
    triangles = bench.surface()
    _, _, active = kinds_and_parts(bench, slots)
    worlds, count = bench.num_worlds, triangles.shape[1]
    around = np.random.default_rng(0).normal(size=(20, 2)) * 1e-7
    for slot in range(4):
        chosen = np.flatnonzero(active[slot] & (rise > 0.0))
        for dx, dy in around:
            p = np.zeros((worlds, 3))
            p[chosen] = position[slot, chosen] + (dx, dy, 0.0)
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
    triangles, (position, turn) = bench.surface(), bench.in_field()
    expected, normal = np.empty(worlds), np.empty((worlds, 3))

    def ask_coal(chosen: np.ndarray) -> None:
        for w in chosen:
            expected[w], normal[w] = coal_distance(bench, w, triangles[w], position[w], turn[w])

    ask_coal(np.arange(worlds))
    if touching:
        moved = np.flatnonzero((over_surface(triangles, position) > 0.0) & (expected > 1e-4) & np.isfinite(expected))[
            ::2
        ]
        gap = 10.0 ** np.random.default_rng(seed).uniform(-9.0, -4.0, len(moved))
        move = np.zeros((worlds, 3))
        move[moved] = (expected[moved] - gap)[:, None] * normal[moved]
        bench.values["pose"][0, :, :3] += Rotation.from_quat(bench.world_poses()[1][:, 3:]).apply(move)
        position, turn = bench.in_field()
        ask_coal(moved)
    slots = bench.detect(MARGIN)
    above = over_surface(triangles, position) > 0.0
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


def test_outside_the_field_nothing_is_supported():
    heights = np.zeros((3, 3))
    for x, count in ((0.0, 1), (0.1, 1), (0.104, 1), (0.16, 0), (1e12, 0), (-1e30, 0)):
        position = (x, 0.02, 0.05)
        assert len(resting(SPHERE, (0.05, 0.0, 0.0), Rotation.identity(), position, heights)[0]) == count
    # Half over the border a box stands on two corners and, where the border crosses its edges, on that.
    for x, count in ((0.0, 4), (0.1, 4), (0.16, 0), (1e12, 0)):
        position = (x, 0.0, 0.05)
        assert len(resting(BOX, (0.05, 0.05, 0.05), Rotation.identity(), position, heights)[0]) == count
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
    for position in ((0.0, 0.0, 0.1), (0.05, 0.0, 0.05), (-0.1, 0.0, 0.0), (0.0, 0.0, 0.0), (0.03, 0.04, 0.02)):
        for size in ((0.05, 0.05, 0.05), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0)):
            for turn in (Rotation.identity(), Rotation.from_euler("x", np.pi / 2.0)):
                _, out, bench, slots = resting(kind, size, turn, position, heights, dtype=dtype)
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
    assert_same_gradients(bench, slots, cotangents, expected, bench.values, good)
    touched = good & active.any(axis=0)
    for key in ("height", "geometry_size"):
        assert np.abs(expected["distance"][key][touched]).reshape(touched.sum(), -1).max(axis=1).min() > 1e-5


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
