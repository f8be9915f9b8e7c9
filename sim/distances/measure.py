"""Batched distances between geometries, differentiable with respect to link poses and shapes."""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch
from sim.arrays.scratch import scratch_array
from sim.distances.pairs import DistanceArrays, GeometryPair, numbered_pairs
from sim.dynamics.differentiable_op import Array, DifferentiableOp, KeptArrays, batch, launch_last, on_device, run
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.checks import number
from sim.model.model import Model
from warp_kernels.distances import (
    DISTANCE_NUMBERS,
    evaluate_distance_kernels,
    found_distance_kernels,
    search_distance_kernels,
)

DISTANCE_PARAMETERS = ("geometry_placement", "geometry_size")
CACHED_PAIRS = 16
_kept: KeptArrays[DistanceArrays] = KeptArrays(CACHED_PAIRS)
Numbers = TypeVar("Numbers")


class GeometryDistances(NamedTuple, Generic[Numbers]):
    """Signed distances and witness points of pairs of geometries; Warp arrays, or tensors from a robot.

    Attributes:
        distance: signed distance between the surfaces [num_worlds, pairs], m. Where they overlap it is negative: the
            penetration depth, which is the shortest translation that separates them.
        point_a: witness point on the first geometry's surface, in the world frame [num_worlds, pairs, 3], m: the
            nearest to the second, or the deepest of two that overlap.
        point_b: the same on the second geometry.
        normal: unit vector from the first to the second, in the world frame [num_worlds, pairs, 3]. ``point_b`` is
            ``point_a + distance * normal``.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ball = scene.add_sphere(radius=0.5, mass=1.0, position=(0, 0, 2), name="ball")
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, name="box")
        >>> model = scene.finalize("float64")
        >>> found = sim.geometry_distances(model, model.q0[None], [("box/geometry", "ball/geometry")])
        >>> found.point_a.numpy().ravel().round(6).tolist(), found.normal.numpy().ravel().round(6).tolist()
        ([0.0, 0.0, 0.1], [0.0, 0.0, 1.0])
    """

    distance: Numbers
    point_a: Numbers
    point_b: Numbers
    normal: Numbers


def geometry_distances(
    model: Model | DeviceModel,
    q: Array,
    pairs: Sequence[GeometryPair],
    *,
    max_distance: float = math.inf,
) -> GeometryDistances[wp.array]:
    """Compute signed distances and witness points between pairs of geometries, in every world.

    Any two geometries can be measured, whether or not they collide: of one link, of the world, and pairs that are
    excluded from contact. Supported are distances between spheres, capsules, cylinders, ellipsoids, boxes and convex
    meshes, and from each of these to a plane, which is solid below. A visual mesh is replaced by its convex hull.

    All results are differentiable with respect to q and the parameters ``geometry_placement`` and ``geometry_size``.
    The gradient is that of the nearest features (vertices, edges, faces, round surfaces). Where the nearest features
    change, points and normal have a jump or a kink; the distance has a kink where the normal jumps.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        pairs: pairs of geometries, by name or index in ``model.geometries``.
        max_distance: maximum distance [m]. Pairs at least this far apart return it as their distance, with zero
            gradient and zeros for points and normal.

    Raises:
        ModelError: for a wrong shape, dtype or device, an unknown geometry, two shapes without a distance, and a
            negative ``max_distance``.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> ball = scene.add_sphere(radius=0.5, mass=1.0, position=(0, 0, 2), name="ball")
        >>> model = scene.finalize("float64")
        >>> found = sim.geometry_distances(model, model.q0[None], [("ground", "ball/geometry")])
        >>> found.distance.numpy().tolist()
        [[1.5]]
    """
    m = on_device(model, q)
    q = batch(m, "q", q, (m.model.nq,))
    operation = distance_operation(m.model, numbered_pairs(m.model, pairs), max_distance)
    numbers = run(m, operation, [forward_kinematics(m, q)])
    return GeometryDistances(numbers[:, :, 0], numbers[:, :, 1:4], numbers[:, :, 4:7], numbers[:, :, 7:10])


def distance_operation(model: Model, pairs: tuple[tuple[int, int], ...], max_distance: float) -> DifferentiableOp:
    """Compute distances from link poses [num_worlds, num_links, 7].

    The result [num_worlds, pairs, DISTANCE_NUMBERS] begins with distance, both points and normal.
    """
    if not number("geometry_distances", "max_distance", max_distance) >= 0.0:
        raise ModelError(f"geometry_distances: max_distance is {max_distance}; it must not be negative")

    def found_arrays(m: DeviceModel, worlds: int) -> dict[str, wp.array]:
        dim = (worlds, len(pairs))
        return {
            "found_feature": scratch_array(dim, wp.int32, m.device),
            "found_codes_a": scratch_array(dim, wp.vec3i, m.device),
            "found_codes_b": scratch_array(dim, wp.vec3i, m.device),
            "found_witness": scratch_array(dim, m.types.vec3, m.device),
        }

    def forward(m: DeviceModel, result: wp.array, poses: wp.array) -> None:
        scalar, worlds = m.types.scalar, result.shape[0]
        found = found_arrays(m, worlds)
        for family, (count, arrays) in _arrays(m, pairs).families.items():
            state = {"max_distance": scalar(max_distance), "link_pose": poses, "measured": result}
            for kernel in (
                search_distance_kernels(scalar, family).search_pairs,
                evaluate_distance_kernels(scalar, family).evaluate_pairs,
            ):
                launch(kernel, (worlds, count), arrays, found, m.parameters, state, device=m.device)

    def backward(m: DeviceModel, result: wp.array, poses: wp.array) -> None:
        scalar, worlds = m.types.scalar, result.shape[0]
        found = found_arrays(m, worlds)
        launch(
            found_distance_kernels(scalar).read_found_pairs,
            (worlds, len(pairs)),
            found,
            device=m.device,
            record_tape=False,
            measured=result,
        )
        again = scratch_array(result.shape, result.dtype, m.device, gradient=True)
        wp.copy(again.grad, result.grad)
        with wp.Tape() as tape:
            for family, (count, arrays) in _arrays(m, pairs).families.items():
                launch_last(
                    evaluate_distance_kernels(scalar, family).evaluate_pairs, (worlds, count), arrays, found,
                    m.parameters, device=m.device, max_distance=scalar(max_distance), link_pose=poses, measured=again,
                )  # fmt: skip
        tape.backward()

    return DifferentiableOp((len(pairs), DISTANCE_NUMBERS), forward, backward, DISTANCE_PARAMETERS, needs_result=True)


def _arrays(m: DeviceModel, pairs: tuple[tuple[int, int], ...]) -> DistanceArrays:
    """Return the pairs on a device, cached for repeated calls."""
    return _kept.get(m, pairs, lambda: DistanceArrays(m, pairs))
