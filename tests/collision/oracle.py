"""What coal and closed forms say of two geometries of a :class:`tests.collision.harness.Bench`."""

import coal
import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from tests.collision.harness import Bench
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, PLANE, SPHERE

NAMES = {
    PLANE: "plane", SPHERE: "sphere", CAPSULE: "capsule", BOX: "box", CONVEX: "convex", CYLINDER: "cylinder",
    ELLIPSOID: "ellipsoid",
}  # fmt: skip


def coal_shape(bench: Bench, geometry: int, world: int):
    x, y, z = bench.values["geometry_size"][world, geometry]
    kind = bench.types[geometry]
    if kind == PLANE:
        return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
    if kind == SPHERE:
        return coal.Sphere(x)
    if kind == CAPSULE:
        return coal.Capsule(x, 2.0 * y)
    if kind == CYLINDER:
        return coal.Cylinder(x, 2.0 * y)
    if kind == ELLIPSOID:
        return coal.Ellipsoid(x, y, z)
    if kind == BOX:
        return coal.Box(2.0 * x, 2.0 * y, 2.0 * z)
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for vertex in bench.mesh.vertices * (x, y, z):
        points.append(vertex)
    for a, b, c in bench.mesh.faces.tolist():
        triangles.append(coal.Triangle(a, b, c))
    return coal.Convex(points, triangles)


def coal_poses(poses: tuple[np.ndarray, ...]) -> list[list]:
    """The poses of both geometries in each world [worlds][2]."""
    turns = [Rotation.from_quat(pose[:, 3:]).as_matrix() for pose in poses]
    return [
        [coal.Transform3s(turn[world], pose[world, :3]) for pose, turn in zip(poses, turns, strict=True)]
        for world in range(len(poses[0]))
    ]


def coal_distances(
    bench: Bench, poses: tuple[np.ndarray, ...], tolerance: float = 1e-8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signed distances, normals from a to b, and points midway between the nearest points, [worlds, ...]."""
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = tolerance
    request.gjk_max_iterations = request.epa_max_iterations = 5000
    found = []
    for world, (pose_a, pose_b) in enumerate(coal_poses(poses)):
        a, b = (coal_shape(bench, geometry, world) for geometry in range(2))
        result.clear()
        coal.distance(a, pose_a, b, pose_b, request, result)
        middle = 0.5 * (result.getNearestPoint1() + result.getNearestPoint2())
        found.append((result.min_distance, result.normal.copy(), middle))
    distance, normal, middle = (np.array(column) for column in zip(*found, strict=True))
    return distance, normal, middle


def support(bench: Bench, geometry: int, directions: np.ndarray) -> np.ndarray:
    """How far a geometry reaches in a direction of its own frame, one for each world [worlds, 3] -> [worlds]."""
    size = bench.values["geometry_size"][:, geometry]
    x, y, z = directions.T
    kind = bench.types[geometry]
    if kind == SPHERE:
        return size[:, 0] * np.linalg.norm(directions, axis=1)
    if kind == CAPSULE:
        return size[:, 0] * np.linalg.norm(directions, axis=1) + size[:, 1] * np.abs(z)
    if kind == CYLINDER:
        return size[:, 0] * np.hypot(x, y) + size[:, 1] * np.abs(z)
    if kind == BOX:
        return (np.abs(directions) * size).sum(axis=1)
    if kind == ELLIPSOID:
        return np.linalg.norm(directions * size, axis=1)
    return (bench.mesh.vertices @ (directions * size).T).max(axis=0)


def separation(bench: Bench, poses: tuple[np.ndarray, ...], normals: np.ndarray) -> np.ndarray:
    """How far the geometries are apart along world directions [worlds, 3].

    That is never more than the signed distance, which is the greatest of them.
    """
    reach = [
        support(bench, geometry, Rotation.from_quat(pose[:, 3:]).inv().apply(sign * normals))
        for geometry, pose, sign in ((0, poses[0], 1.0), (1, poses[1], -1.0))
    ]
    return (normals * (poses[1][:, :3] - poses[0][:, :3])).sum(axis=1) - reach[0] - reach[1]


def depth_outside(bench: Bench, geometry: int, pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How far world points [worlds, 3] are outside a geometry's surface, by its equation: zero on it."""
    size = bench.values["geometry_size"][:, geometry]
    local = Rotation.from_quat(pose[:, 3:]).inv().apply(points - pose[:, :3])
    kind = bench.types[geometry]
    if kind == PLANE:
        return local[:, 2]
    if kind == SPHERE:
        return np.linalg.norm(local, axis=1) - size[:, 0]
    if kind == CAPSULE:
        coordinate = np.clip(local[:, 2], -size[:, 1], size[:, 1])
        return np.linalg.norm(local - coordinate[:, None] * (0.0, 0.0, 1.0), axis=1) - size[:, 0]
    if kind == CYLINDER:
        return np.maximum(np.hypot(local[:, 0], local[:, 1]) - size[:, 0], np.abs(local[:, 2]) - size[:, 1])
    if kind == BOX:
        return (np.abs(local) - size).max(axis=1)
    if kind == ELLIPSOID:
        # The equation over the length of its gradient.
        square = ((local / size) ** 2).sum(axis=1)
        return 0.5 * (square - 1.0) / np.maximum(np.linalg.norm(local / size**2, axis=1), 1e-6)
    planes = ConvexHull(bench.mesh.vertices).equations
    normals = planes[:, :3] / size[:, None]
    heights = np.einsum("wfi,wi->wf", normals, local) + planes[:, 3]
    return (heights / np.linalg.norm(normals, axis=2)).max(axis=1)
