"""Faces and lines put flat on each other: contacts against coal's contact patch and against polygons that are cut here.

All of a surface that can touch is a polygon (a face, a disc) or a segment (the line of a lying capsule or cylinder);
where those of both sides overlap, seen along the normal, is the patch.
"""

import coal
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim.model.shapes.hulls import hull_faces
from tests.collision.harness import Bench, hull_mesh
from tests.collision.oracle import NAMES, coal_poses, coal_shape, depth_outside
from tests.collision.test_manifolds import prism
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, PLANE

WORLDS = 60
# Corners of the polygon that stands for a disc, here and in coal; it ends up to 1.2e-3 of the radius before the rim.
SAMPLES = 64
FACE, LINE = "face", "line"
SIDES = {PLANE: (FACE,), CAPSULE: (LINE,), BOX: (FACE,), CONVEX: (FACE,), CYLINDER: (FACE, LINE)}
CASES = [
    pytest.param(((a, b), (of_a, of_b)), id=f"{NAMES[a]} {of_a} - {NAMES[b]} {of_b}")
    for a in SIDES
    for b in SIDES
    for of_a in SIDES[a]
    for of_b in SIDES[b]
    if a <= b and b != PLANE
]


CUBE = hull_mesh(np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]))
PRISM = hull_mesh(prism(5))
FACES = {kind: (mesh.vertices, hull_faces(mesh.vertices, mesh.faces)) for kind, mesh in ((BOX, CUBE), (CONVEX, PRISM))}


def outline(kind: int, side: str, size: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Corners of a face, or ends of a line, in the frame of a shape [n, 3], and the outward normal there."""
    if kind == PLANE:
        return np.array([(x, y, 0.0) for x, y in ((2, 2), (-2, 2), (-2, -2), (2, -2))]), np.array((0.0, 0.0, 1.0))
    if side == LINE:
        angle = rng.uniform(0.0, 2.0 * np.pi)
        normal = np.array((np.cos(angle), np.sin(angle), 0.0))
        return size[0] * normal + size[1] * np.array([(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)]), normal
    if kind == CYLINDER:
        up = rng.choice((-1.0, 1.0))
        angles = 2.0 * np.pi * np.arange(SAMPLES) / SAMPLES
        rim = np.stack([size[0] * np.cos(angles), size[0] * np.sin(angles), np.full(SAMPLES, up * size[1])], axis=1)
        return rim, np.array((0.0, 0.0, up))
    vertices, faces = FACES[kind]
    corners = (vertices * size)[faces[rng.integers(len(faces))]]
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[1])
    return corners, normal / np.linalg.norm(normal)


def cut(polygon: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A segment or a polygon [n, 2] cut to a convex polygon that turns left."""
    for start, end in zip(by, np.roll(by, -1, axis=0), strict=True):
        across = np.array((start[1] - end[1], end[0] - start[0]))
        height = (polygon - start) @ across
        result = []
        for k in range(len(polygon)):
            m = (k + 1) % len(polygon)
            if height[k] >= 0.0:
                result.append(polygon[k])
            if height[k] * height[m] < 0.0 and (len(polygon) > 2 or k == 0):
                result.append(polygon[k] + height[k] / (height[k] - height[m]) * (polygon[m] - polygon[k]))
        polygon = np.array(result).reshape(-1, 2)
    return polygon


def turning_left(points: np.ndarray) -> np.ndarray:
    """Corners of a convex polygon [n, 2] in order; of a segment its ends."""
    centred = points - points.mean(axis=0)
    if np.linalg.matrix_rank(centred, tol=1e-6) < 2:
        along = centred[np.linalg.norm(centred, axis=1).argmax()]
        order = np.argsort(points @ along)
        return points[order[[0, -1]]]
    return points[np.argsort(np.arctan2(centred[:, 1], centred[:, 0]))]


def beyond(patch: np.ndarray, points: np.ndarray) -> float:
    """How far the farthest of some points is outside a patch [n, 2]."""
    if len(patch) == 2:
        along = patch[1] - patch[0]
        along_line = np.clip((points - patch[0]) @ along / (along @ along), 0.0, 1.0)
        return np.linalg.norm(points - patch[0] - along_line[:, None] * along, axis=1).max()
    edges = np.roll(patch, -1, axis=0) - patch
    length = np.linalg.norm(edges, axis=1)
    outward = np.stack([edges[:, 1], -edges[:, 0]], axis=1)[length > 1e-9] / length[length > 1e-9, None]
    return ((points[:, None] - patch[length > 1e-9]) * outward).sum(axis=2).max()


def largest_quadrilateral(polygon: np.ndarray) -> float:
    """The largest area of four corners of a polygon: over all diagonals, the highest triangle on either side."""
    x, y = polygon.T
    height = (x[None, :, None] - x[:, None, None]) * (y[None, None, :] - y[:, None, None])
    height -= (y[None, :, None] - y[:, None, None]) * (x[None, None, :] - x[:, None, None])
    return 0.5 * (height.max(axis=2) - height.min(axis=2)).max()


def area(polygon: np.ndarray) -> float:
    x, y = turning_left(polygon).T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def widths(points: np.ndarray) -> np.ndarray:
    """Of points [n, 2] in 32 directions."""
    angles = np.pi * np.arange(32) / 32
    along = points @ np.stack([np.cos(angles), np.sin(angles)])
    return along.max(axis=0) - along.min(axis=0)


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of two outlines; two segments lie on the first axis."""
    if len(a) == len(b) == 2:
        ends = np.sort(np.stack([a[:, 0], b[:, 0]], axis=1), axis=0)
        return np.array([(ends[0].max(), 0.0), (ends[1].min(), 0.0)])
    if len(a) == 2:
        return cut(a, turning_left(b))
    return cut(b, turning_left(a))


class Flat:
    """Two shapes with a side flat on each other in many worlds; lines on lines are parallel.

    Patches, points and normals are along the axes of the patch, the normal from a to b last.
    """

    def __init__(self, types: tuple[int, int], sides: tuple[str, str]):
        rng = np.random.default_rng([*types, *(side == LINE for side in sides)])
        self.types, self.sides = types, sides
        self.bench = bench = Bench(types, WORLDS, mesh=PRISM if CONVEX in types else None)
        bench.values["geometry_size"] = rng.uniform(0.1, 0.3, (WORLDS, 2, 3))
        self.depth = rng.choice((1e-4, 1e-3), WORLDS)
        self.base = Rotation.random(WORLDS, rng=rng)
        self.patch = [turning_left(self.put_together(world, rng)) for world in range(WORLDS)]
        self.poses = bench.world_poses()
        slots = bench.detect(0.01)
        out = bench.evaluate(slots)
        seen = [range(count) for count in slots.count.numpy()]
        self.distance = [out["distance"][there, world] for world, there in enumerate(seen)]
        self.normal = [self.base[world].inv().apply(out["frame"][there, world, 0]) for world, there in enumerate(seen)]
        self.contacts = [out["point"][there, world] for world, there in enumerate(seen)]
        self.points = [self.base[world].inv().apply(contacts)[:, :2] for world, contacts in enumerate(self.contacts)]

    def put_together(self, world: int, rng: np.random.Generator) -> np.ndarray:
        """Place both shapes in a world; the patch."""
        parallel = self.sides == (LINE, LINE)
        outlines = []
        for shape, outward in ((0, 1.0), (1, -1.0)):
            size = self.bench.values["geometry_size"][world, shape]
            corners, normal = outline(self.types[shape], self.sides[shape], size, rng)
            first = corners[1] - corners[0]
            turn = Rotation.align_vectors([(0, 0, outward), (1, 0, 0)], [normal, first / np.linalg.norm(first)])[0]
            at = np.zeros(3)
            if shape == 1:
                turn = Rotation.from_euler("z", 0.0 if parallel else rng.uniform(-np.pi, np.pi)) * turn
                at[:2] = rng.uniform(-0.05, 0.05, 2) * (1.0, 0.0 if parallel else 1.0)
                at[2] = -self.depth[world]
            at -= turn.apply(corners.mean(axis=0))
            outlines.append((turn.apply(corners) + at)[:, :2])
            self.bench.values["pose"][shape, world, :3] = self.base[world].apply(at)
            self.bench.values["pose"][shape, world, 3:] = (self.base[world] * turn).as_quat()
        return overlap(*outlines)

    def coal_patch(self, world: int) -> np.ndarray:
        """Corners of coal's patch [n, 2]."""
        shapes = [coal_shape(self.bench, geometry, world) for geometry in range(2)]
        poses = coal_poses(self.poses)[world]
        request, result = coal.CollisionRequest(), coal.CollisionResult()
        request.num_max_contacts = 1
        request.gjk_tolerance = request.epa_tolerance = 1e-9
        coal.collide(shapes[0], poses[0], shapes[1], poses[1], request, result)
        patch_request, patch_result = coal.ContactPatchRequest(), coal.ContactPatchResult()
        patch_request.setNumSamplesCurvedShapes(SAMPLES)
        coal.computeContactPatch(shapes[0], poses[0], shapes[1], poses[1], result, patch_request, patch_result)
        patch = patch_result.getContactPatch(0)
        points = np.array([patch.getPoint(k) for k in range(patch.size())])
        return self.base[world].inv().apply(points)[:, :2]

    def on_both_surfaces(self, world: int) -> bool:
        """Whether half the distance to either side of every contact are the surfaces, by their equations."""
        normal = self.base[world].apply((0.0, 0.0, 1.0))
        outside = []
        for point in self.contacts[world]:
            for geometry, side in ((0, 0.5), (1, -0.5)):
                points = self.poses[geometry][:, :3].copy()
                points[world] = point + side * self.depth[world] * normal
                outside.append(depth_outside(self.bench, geometry, self.poses[geometry], points)[world])
        return bool(np.abs(outside).max() < 1e-9)


def has_disc(flat: Flat) -> bool:
    return (CYLINDER, FACE) in zip(flat.types, flat.sides, strict=True)


def coal_finds_all(flat: Flat) -> bool:
    """Of discs, but on a plane, and of lines on lines coal gives a single point in about half of the poses."""
    return PLANE in flat.types or not (flat.sides == (LINE, LINE) or has_disc(flat))


@pytest.fixture(scope="module", params=CASES)
def flat(request):
    return Flat(*request.param)


def test_contacts_lie_on_the_patch_and_span_it(flat):
    """At least 0.75 of the largest quadrilateral in it and 0.6 of its width in every direction; all of a line.

    Discs are cut as octagons, which end up to 0.08 radii before the rim and have many corners to choose four of, one
    after the other: 0.55 of area, 0.4 of width and 0.8 of a line's length.
    """
    least_area, least_width, least_length = (0.55, 0.4, 0.8) if has_disc(flat) else (0.75, 0.6, 0.9999)
    for world, patch in enumerate(flat.patch):
        points = flat.points[world]
        np.testing.assert_allclose(flat.distance[world], -flat.depth[world], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(flat.normal[world], np.tile((0.0, 0.0, 1.0), (len(points), 1)), rtol=0.0, atol=1e-9)
        # A corner up to 1e-5 m beside either of two sides of a face counts as above it.
        assert beyond(patch, points) < 1.5e-5
        assert len(points) == min(len(patch), 4)
        if len(patch) > 2:
            assert area(points) > least_area * largest_quadrilateral(patch)
            assert (widths(points) > least_width * widths(patch)).all()
        else:
            share = np.linalg.norm(points[1] - points[0]) / np.linalg.norm(patch[1] - patch[0])
            assert share > least_length


def test_contacts_lie_on_coal_s_patch_and_coal_s_on_both_surfaces(flat):
    """Where coal gives one point of a patch, contacts on both surfaces apart from it prove that there is more."""
    whole = 0
    for world, patch in enumerate(flat.patch):
        corners = flat.coal_patch(world)
        assert beyond(patch, corners) < 4e-4
        if len(corners) == 1:
            assert flat.on_both_surfaces(world)
            assert np.linalg.norm(flat.points[world] - corners, axis=1).max() > 0.01
        else:
            corners = turning_left(corners)
            assert beyond(corners, patch) < 4e-4
            assert beyond(corners, flat.points[world]) < 4e-4
            whole += 1
    assert whole == WORLDS if coal_finds_all(flat) else whole > 0.25 * WORLDS
