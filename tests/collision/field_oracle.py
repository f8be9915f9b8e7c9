"""What contacts with heightfields are compared with: coal, least distances, kinds of element and part."""

from collections.abc import Sequence

import coal
import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.geometries import Mesh
from tests.collision.field_harness import FieldBench
from tests.collision.harness import Slots, hull_mesh, pebble
from warp_kernels.collision.field.contact import FIRST_DISC, FIRST_RIM, PARTS, SEGMENT, SIDE
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, KINDS, LOWER_TRIANGLE, POINT
from warp_kernels.collision.field.inner_ball import FIRST_BALL
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, HEIGHTFIELD, SPHERE

MARGIN = 0.1
BODIES = (SPHERE, CAPSULE, BOX, CONVEX, CYLINDER, ELLIPSOID)
# The parts of a box: corners from 0 on, faces, edges.
FIRST_FACE, FIRST_EDGE, END_PART = 8, 14, 26
# The part of a ball that leaves a wall: no other has this number.
BALL = 100_000
POLE = (-0.2817, -0.3672, -0.8864)  # tangents turn fast near this normal alone


# The faces of a flat triangle.
BOTH_SIDES = ((0, 1, 2), (0, 2, 1))


def over_surface(triangles: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Vertical distance of places [worlds, 3] over the surface [worlds, triangles, 3, 3]."""
    a, edges = triangles[:, :, 0], triangles[:, :, 1:] - triangles[:, :, :1]
    across = edges[..., :2].swapaxes(-1, -2)
    offset = points[:, None] - a
    weights = np.linalg.solve(across, offset[..., :2, None])[..., 0]
    inside = (weights.min(-1) >= 0.0) & (weights.sum(-1) <= 1.0)
    rise = offset[..., 2] - np.einsum("wtk,wtk->wt", weights, edges[..., 2])
    return rise[np.arange(len(points)), inside.argmax(1)]


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

    Parts of boxes and meshes are counted over vertices, faces and edges. A ball that leaves a wall is on a triangle.
    """
    feature = slots.feature.numpy()
    active = np.arange(len(feature))[:, None] < slots.count.numpy()
    kind, part = _kinds_and_parts_of(bench, feature)
    ball = feature <= FIRST_BALL
    return np.where(ball, LOWER_TRIANGLE, kind), np.where(ball, BALL, part), active


def _kinds_and_parts_of(bench: FieldBench, feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if bench.types[0] not in (BOX, CONVEX):
        return feature // PARTS % KINDS, feature % PARTS
    vertices, faces, edges = part_counts(bench)
    part = feature % (KINDS * vertices + faces + 4 * edges)
    edge = part - KINDS * vertices - faces
    kind = np.where(edge >= 0, EDGE_X + edge % 4, np.where(part >= KINDS * vertices, POINT, part % KINDS))
    number = np.where(edge >= 0, vertices + faces + edge // 4, part - KINDS * vertices + vertices)
    return kind, np.where(part < KINDS * vertices, part // KINDS, number)


def octahedron() -> Mesh:
    return hull_mesh(np.concatenate([np.eye(3), -np.eye(3)]))


def coal_convex(vertices: np.ndarray, faces: Sequence[Sequence[int]]) -> coal.Convex:
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for vertex in vertices:
        points.append(vertex)
    for a, b, c in faces:
        triangles.append(coal.Triangle(int(a), int(b), int(c)))
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
    bench: FieldBench, world: int, triangles: np.ndarray, position: np.ndarray, turn: np.ndarray
) -> tuple[float, np.ndarray]:
    """Least signed distance of a body and any triangle near it, and the normal there."""
    shape, radius = coal_shape(bench, world)
    reach = radius + MARGIN
    low, high = triangles.min(axis=1), triangles.max(axis=1)
    near = triangles[((low < position + reach) & (high > position - reach)).all(axis=1)]
    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = 1e-9
    request.gjk_max_iterations = request.epa_max_iterations = 5000
    pose, here = coal.Transform3s(turn, position), coal.Transform3s.Identity()
    least, normal = np.inf, np.zeros(3)
    for triangle in near:
        result = coal.DistanceResult()
        flat = coal_convex(triangle, BOTH_SIDES)
        distance = coal.distance(shape, pose, flat, here, request, result)
        if distance < least:
            least, normal = distance, np.array(result.normal)
    return least, normal


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
    edge = bench.edges(np.where(active, np.maximum(slots.feature.numpy(), 0) // per_point, 0), kind)
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
    position, turn = bench.in_field()
    radius, half = bench.values["geometry_size"][:, 0, :2].T
    axis, up = turn[:, :, 2], -bench.to_field(out["frame"][:, :, 0], vectors=True)
    on_body = bench.to_field(out["point"]) + 0.5 * out["distance"][..., None] * up
    upright = (part < FIRST_DISC) & (sine_between(up, axis) < 0.2)
    end = 2 * (part - FIRST_RIM >> 1) - 1
    outward = (on_body - position - end[..., None] * half[:, None] * axis) / radius[:, None]
    tangent, edge = np.cross(axis, outward), field_edges(bench, slots)
    across = tangent - (tangent * edge).sum(-1, keepdims=True) * edge
    # By how much the squared distance from the line bends along the rim, over its radius.
    bend = radius * (across**2).sum(-1) - out["distance"] * (up * outward).sum(-1)
    # Where the two sides of a rim meet, the contact goes over from one to the other.
    ahead = edge - (edge * axis).sum(-1, keepdims=True) * axis
    between = np.abs((outward * ahead).sum(-1)) < 0.05 * np.linalg.norm(ahead, axis=-1)
    rim = (part >= FIRST_RIM) & (part < SIDE)
    return ~upright & ~(rim & (between | (sine_between(tangent, edge) < 0.3) | (bend < 0.3 * radius)))


def resting(
    kind: int, size: tuple[float, ...], turn: Rotation, position: tuple[float, ...], heights: np.ndarray, **options
):
    """Parts and kinds of element, distances and points of one body over a field of 0.1 m cells."""
    mesh = pebble() if kind == CONVEX else None
    bench = FieldBench((kind, HEIGHTFIELD), 1, fixed=1, grid=heights.shape, mesh=mesh, **options)
    rows, columns = heights.shape
    bench.values["geometry_size"][0] = size, (0.05 * (columns - 1), 0.05 * (rows - 1), 1.0)
    bench.values["height"][0] = heights.ravel()
    bench.values["pose"][0, 0] = *position, *turn.as_quat()
    slots = bench.detect(0.01)
    count = slots.count.numpy()[0]
    out = {name: value[:count, 0] for name, value in bench.evaluate(slots).items()}
    kind, part, _ = kinds_and_parts(bench, slots)
    return list(zip(part[:count, 0].tolist(), kind[:count, 0].tolist(), strict=True)), out, bench, slots
