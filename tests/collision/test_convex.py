"""Convex pairs against coal and against what a signed distance is: the greatest separation over all directions.

The separation s(n) of two shapes along a direction n, from closed forms of their support functions, is never more than
their signed distance. So s(n) = d along the normal that was found proves that the distance is no less than d; that the
two points d apart lie on the surfaces proves, for shapes apart, that it is no more.
"""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.collision.harness import CONVEX_PAIRS, Bench, aligned_bench, random_bench
from tests.collision.oracle import NAMES, coal_distances, depth_outside, separation
from warp_kernels.collision.convex.contact import EDGES, FACE_BACK, FACE_CUT, FACE_VERTEX, OF_B, ROUND
from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID

WORLDS = 10_000
ALIGNED = 2_000
MARGIN = 0.15
GAPS = (0.0, 1e-9, -1e-9, 1e-5, -1e-5, 1e-3, -1e-3, 0.03, -0.02)
PAIRS = [pytest.param(types, id="-".join(NAMES[t] for t in types)) for types in CONVEX_PAIRS]
MODES = {FACE_VERTEX, FACE_CUT, FACE_BACK, OF_B + FACE_VERTEX, OF_B + FACE_CUT, OF_B + FACE_BACK, EDGES, ROUND}


def is_curved(bench: Bench) -> bool:
    """Whether coal's polytope never ends on a face of the Minkowski difference."""
    return bool({CYLINDER, ELLIPSOID} & {*bench.types})


class Found:
    """The contacts of a pair in many worlds; ``world`` are those that have any, the rest is of these."""

    def __init__(self, bench: Bench, margin: float = MARGIN):
        self.bench = bench
        self.slots = bench.detect(margin)
        self.count = self.slots.count.numpy()
        out = bench.evaluate(self.slots)
        self.world = np.flatnonzero(self.count)
        self.distance = out["distance"][:, self.world]
        self.normal = out["frame"][:, self.world, 0]
        self.point = (out["point"] + bench.reference())[:, self.world]
        self.least = np.nanmin(self.distance, axis=0)
        self.poses = bench.world_poses()

    def separation(self, normals: np.ndarray) -> np.ndarray:
        """Along directions [worlds with contacts, 3]."""
        every = np.tile((0.0, 0.0, 1.0), (self.bench.num_worlds, 1))
        every[self.world] = normals
        return separation(self.bench, self.poses, every)[self.world]


@pytest.fixture(scope="module", params=PAIRS)
def found(request):
    return Found(random_bench(request.param, WORLDS, seed=sum(request.param)))


@pytest.fixture(scope="module", params=PAIRS)
def aligned(request):
    return Found(aligned_bench(request.param, ALIGNED, sum(request.param), GAPS))


@pytest.fixture(scope="module")
def expected(found):
    """Distance, normal and middle that coal finds, and where they are right.

    With cylinders and ellipsoids coal's polytope sometimes ends at a depth that its own normal contradicts, or at one
    that is not the least: then the separation along the normal found here proves it wrong.
    """
    curved = is_curved(found.bench)
    distance, normal, middle = coal_distances(found.bench, found.poses, 1e-8 if curved else 1e-12)
    right = np.abs(separation(found.bench, found.poses, normal) - distance) < 1e-6
    at = distance[found.world]
    right[found.world] &= (found.separation(found.normal[0]) < at + 1e-6) | (at > 0.0)
    assert right.all() or curved
    assert right.mean() > 0.9
    return distance, normal, middle, right


def check_first_contact(found: Found, tolerance: float) -> None:
    """The distance is s(n), and no direction of many has more."""
    first = found.distance[0]
    np.testing.assert_allclose(found.separation(found.normal[0]), first, rtol=0.0, atol=tolerance)
    # Others may be deeper by a rounding that would choose among the corners of parallel faces.
    assert (found.least > first - 3.1e-7).all()
    rng = np.random.default_rng(4)
    for number in range(200):
        normals = rng.normal(size=found.normal[0].shape)
        if number >= 100:
            normals = found.normal[0] + 0.1 * normals
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        assert (found.separation(normals) < found.least + 1e-6).all()


def check_points(found: Found, loose: float) -> None:
    """Half of the distance to either side of every point are the surfaces."""
    bench = found.bench
    # Other contacts of a capsule are those of balls at the ends of its axis, or where that is cut.
    for slot in range(1 if CAPSULE in bench.types else CONVEX_PAIRS[bench.types]):
        there = np.isfinite(found.distance[slot])
        half = 0.5 * np.where(there, found.distance[slot], 0.0)[:, None] * np.nan_to_num(found.normal[slot])
        for geometry, side in ((0, -1.0), (1, 1.0)):
            points = found.poses[0][:, :3].copy()
            points[found.world] = np.nan_to_num(found.point[slot]) + side * half
            outside = depth_outside(bench, geometry, found.poses[geometry], points)[found.world]
            # The lowest corner, or a line, may be up to 1e-5 m outside the face nearest to it; part of them ``loose``.
            assert np.abs(outside[there]).max(initial=0.0) < 1.1e-5
            assert np.mean(np.abs(outside[there]) > 1.1e-7) < loose


def test_poses_are_deep_touching_and_apart(expected):
    distance = expected[0]
    for low, high in ((-1.0, -0.05), (-0.05, 0.0), (0.0, MARGIN), (MARGIN, 10.0)):
        assert ((distance > low) & (distance < high)).sum() >= 200


def test_contacts_exist_within_margin(found, expected):
    distance, _, _, right = expected
    clear = right & (np.abs(distance - MARGIN) > 1e-6)
    np.testing.assert_array_equal(found.count[clear] > 0, distance[clear] < MARGIN)
    assert (found.slots.overflow.numpy() == 0).all()


def test_least_distance_normal_and_point(found, expected):
    distance, normal, middle, right = (column[found.world] for column in expected)
    np.testing.assert_allclose(found.least[right], distance[right], rtol=0.0, atol=1e-6)
    # coal's places on curved surfaces are as good as the root of its tolerance.
    bound = 2e-3 if is_curved(found.bench) else 1e-5
    # Near parallel, or where two features are equally near, either normal is right.
    unique = right & (found.separation(normal) < found.distance[0] + 1e-7)
    difference = np.abs(found.normal[0] - normal).max(axis=1)
    assert np.mean(difference[unique] < bound) > 0.999
    same = unique & (difference < bound)
    assert np.mean(np.abs(found.point[0] - middle)[same].max(axis=1) < bound) > 0.99


def test_first_contact_is_the_greatest_separation(found):
    check_first_contact(found, 1e-9)


def test_points_lie_on_both_surfaces(found):
    check_points(found, 1e-3)


def test_every_contact_lies_within_margin_once(found):
    active = np.arange(4)[:, None] < found.count[found.world]
    assert (found.distance[active] < MARGIN).all()
    assert np.isnan(found.distance[~active]).all()
    assert (found.count <= CONVEX_PAIRS[found.bench.types]).all()
    assert set(found.slots.feature.numpy()[:, found.world][active].tolist()) <= MODES
    apart = np.linalg.norm(found.point[:, None] - found.point[None], axis=-1)
    apart[np.arange(4), np.arange(4)] = np.inf
    assert np.nanmin(apart) > 1e-7


def test_aligned_shapes(aligned):
    """Parallel faces, edges and axes, at all distances and exactly touching."""
    assert len(aligned.world) == ALIGNED
    # The plane of a face parallel to 1e-8 rad takes the place of an edge beside it. A cylinder upright to 1e-5 rad
    # stands on the corners of an octagon, the lowest of them up to 8e-7 of the radius higher than its rim.
    check_first_contact(aligned, 1e-7 if CYLINDER not in aligned.bench.types else 3.2e-7)
    # Many a line lies above an edge to rounding.
    check_points(aligned, 0.02)


def test_single_precision(found):
    """Within 2e-5 m of what double precision finds.

    In very few deep poses of a curved shape the polytope is not fine enough to tell which of two directions is the
    shorter.
    """
    single = Bench(found.bench.types, WORLDS, dtype="float32", mesh=found.bench.mesh)
    single.values = found.bench.values
    other = Found(single, margin=MARGIN + 1e-4)
    least = np.full(WORLDS, np.inf)
    least[other.world] = other.least
    error = np.abs(least[found.world] - found.least)
    assert np.mean(error > 2e-5) <= (1e-3 if is_curved(found.bench) else 0.0)
    assert error.max() < 0.02


def test_turning_both_changes_nothing(found):
    """The choice of four contacts does not depend on the world's axes."""
    rotation = Rotation.from_rotvec((0.3, -0.7, 1.1))
    turned = Bench(found.bench.types, WORLDS, mesh=found.bench.mesh)
    turned.values = {key: value.copy() for key, value in found.bench.values.items()}
    pose = turned.values["pose"]
    shape = pose.shape[:2]
    where = found.bench.values["origin"] + pose[..., :3]
    turned.values["origin"] = rotation.apply(found.bench.values["origin"].reshape(-1, 3)).reshape(*shape, 3)
    pose[..., :3] = rotation.apply(where.reshape(-1, 3)).reshape(*shape, 3) - turned.values["origin"]
    pose[..., 3:] = (rotation * Rotation.from_quat(pose[..., 3:].reshape(-1, 4))).as_quat().reshape(*shape, 4)
    other = Found(turned)
    same = found.count == other.count
    assert same.mean() > 0.999
    both = np.flatnonzero(same[found.world])
    again = np.flatnonzero(same[other.world])
    np.testing.assert_allclose(found.least[both], other.least[again], rtol=0.0, atol=1e-9)
