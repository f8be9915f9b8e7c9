"""Batched distances between geometries, differentiable in the poses of links and in the shapes."""

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
    """How far pairs of geometries are from each other; Warp arrays, or tensors from a robot.

    Attributes:
        distance: between the surfaces [num_worlds, pairs], m; below zero, where they overlap, the least way that
            parts them.
        point_a: the place on the first geometry's surface that is nearest to the second, in the world
            [num_worlds, pairs, 3], m; of two that overlap the deepest one.
        point_b: the same on the second.
        normal: unit vector from the first to the second, in the world [num_worlds, pairs, 3]. ``point_b`` is
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
    """Distances between pairs of geometries, in every world.

    Any two geometries may be asked for, whether or not they collide: those of one link, those of the world, and pairs
    that are excluded from contact too. There are distances between spheres, capsules, cylinders, ellipsoids, boxes and
    convex meshes, and from each of these to a plane, whose side below is solid. A mesh that is only drawn counts as its
    convex hull.

    All results are differentiable in q and in the parameters ``geometry_placement`` and ``geometry_size``, by the
    formula of the features (corners, edges, faces, round surfaces) that are nearest. Where other features become the
    nearest, points and normal jump or bend; the distance bends where its normal jumps.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        pairs: of geometries, by name or index in ``model.geometries``.
        max_distance: pairs as far apart as this or farther have this distance, without gradient, and zeros for points
            and normal [m].

    Raises:
        ModelError: for a wrong shape, dtype or device, an unknown geometry, two shapes that have no distance, and a
            ``max_distance`` below zero.

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
    """Distances, of poses of links [num_worlds, num_links, 7].

    The result [num_worlds, pairs, DISTANCE_NUMBERS] has distance, both points and normal first.
    """
    if not number("geometry_distances", "max_distance", max_distance) >= 0.0:
        raise ModelError(f"geometry_distances: max_distance is {max_distance}; it must be zero or more")

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
    """The pairs on a device, kept for calls that come again."""
    return _kept.get(m, pairs, lambda: DistanceArrays(m, pairs))
