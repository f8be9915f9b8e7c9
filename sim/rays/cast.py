"""Batched ray casting, differentiable with respect to link poses, rays and shapes."""

from typing import NamedTuple

import numpy as np
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch
from sim.arrays.scratch import scratch_array
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    KeptArrays,
    batch,
    launch_last,
    on_device,
    run,
)
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.checks import as_numbers, number, require_type
from sim.model.model import Model
from sim.rays.targets import RayTargets, TargetArrays
from warp_kernels.rays.evaluate import RAY_NUMBERS, evaluate_ray_kernels
from warp_kernels.rays.search import search_ray_kernels

RAY_PARAMETERS = ("geometry_placement", "geometry_size", "height")
CACHED_TARGETS = 16
_kept: KeptArrays[TargetArrays] = KeptArrays(CACHED_TARGETS)


class RayHits(NamedTuple):
    """First hits of rays.

    Attributes:
        distance: distance from a ray's origin [num_worlds, rays], m; infinite without a hit.
        geometry: index in ``model.geometries`` [num_worlds, rays], int32; -1 without a hit.
        normal: outward unit normal of the surface at the hit, in the world frame [num_worlds, rays, 3]; zero without a
            hit.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.5))
        >>> model = scene.finalize("float64")
        >>> hits = sim.cast_rays(model, model.q0[None], [[[0.0, 0.0, 2.0]]], [[[0.0, 0.0, -1.0]]])
        >>> [round(float(x), 3) for x in hits.distance.numpy().ravel()]
        [1.4]
    """

    distance: wp.array
    geometry: wp.array
    normal: wp.array


def cast_rays(
    model: Model | DeviceModel,
    q: Array,
    origin: Array,
    direction: Array,
    targets: RayTargets = RayTargets(),  # noqa: B008  (immutable)
    *,
    max_distance: float = np.inf,
) -> RayHits:
    """Cast rays in every world and return the first hit of each.

    Primitive shapes are exact, not tessellated. Rays hit the hulls of convex meshes, the triangles of visual meshes
    from both sides, and planes from above only. A ray that starts inside a solid hits its surface from within.

    Distance and normal are differentiable with respect to q, origin and direction and the parameters
    ``geometry_placement``, ``geometry_size`` and ``height``. The gradient is that of the piece of surface that is hit;
    it jumps between pieces, and distance and normal jump along an outline.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        origin: start points of the rays, in the world frame [num_worlds, rays, 3], m.
        direction: directions of the rays, in the world frame [num_worlds, rays, 3], of any length; a ray with a zero
            direction has no hit.
        targets: geometries that rays can hit.
        max_distance: maximum distance of a hit [m].

    Raises:
        ModelError: for a wrong shape, dtype or device, an unknown frame, and a ``max_distance`` that isn't positive.

    Example:
        >>> import sim
        >>> builder = sim.ModelBuilder()
        >>> ball = builder.add_sphere(radius=0.5, mass=1.0, position=(0.0, 0.0, 2.0))
        >>> model = builder.finalize()
        >>> hits = sim.cast_rays(model, model.q0[None], [[[0.0, 0.0, 0.0]]], [[[0.0, 0.0, 1.0]]])
        >>> float(hits.distance.numpy()[0, 0]), int(hits.geometry.numpy()[0, 0])
        (1.5, 0)
    """
    m = on_device(model, q, origin, direction)
    q = batch(m, "q", q, (m.model.nq,))
    shape = origin.shape if isinstance(origin, wp.array | np.ndarray) else as_numbers("origin", origin).shape
    rays = shape[1] if len(shape) == 3 else 0
    origin = batch(m, "origin", origin, (rays, 3), q.shape[0])
    direction = batch(m, "direction", direction, (rays, 3), q.shape[0])
    poses = forward_kinematics(m, q)
    seen = run(m, ray_operation(m.model, rays, targets, max_distance), [poses, origin, direction])
    geometry = wp.empty(seen.shape[:2], dtype=wp.int32, device=m.device)
    kernel = evaluate_ray_kernels(m.types.scalar).read_geometry
    launch(kernel, geometry.shape, device=m.device, record_tape=False, seen=seen, geometry=geometry)
    return RayHits(seen[:, :, 0], geometry, seen[:, :, 1:4])


def ray_operation(model: Model, rays: int, targets: RayTargets, max_distance: float = np.inf) -> DifferentiableOp:
    """Cast rays, from link poses [num_worlds, num_links, 7], origins and directions [num_worlds, rays, 3].

    The result [num_worlds, rays, RAY_NUMBERS] begins with distance, normal and geometry.
    """
    require_type("cast_rays: targets", targets, RayTargets, "a sim.RayTargets")
    if not number("cast_rays", "max_distance", max_distance) > 0.0:
        raise ModelError(f"cast_rays: max_distance is {max_distance}; it must be positive")
    selected = targets.geometries(model)

    def forward(m: DeviceModel, result: wp.array, poses: wp.array, origin: wp.array, direction: wp.array) -> None:
        arrays = _arrays(m, targets, selected)
        kernels, worlds = search_ray_kernels(m.types.scalar), result.shape[0]
        dim = (worlds, arrays.count)
        scratch = {
            "target_pose": scratch_array(dim, m.types.transform, m.device),
            "target_ball": scratch_array(dim, wp.types.vector(4, m.types.scalar), m.device),
            "found": scratch_array((worlds, rays), wp.vec2i, m.device),
        }
        sources = ({"targets": arrays.targets}, scratch, m.parameters)
        state = {"link_pose": poses, "origin": origin, "direction": direction}
        launch(kernels.pose_targets, dim, *sources, device=m.device, link_pose=poses)
        farthest = m.types.scalar(max_distance)
        launch(kernels.search_rays, (worlds, rays), *sources, state, device=m.device, max_distance=farthest)
        evaluate = evaluate_ray_kernels(m.types.scalar).evaluate_rays
        launch(evaluate, (worlds, rays), *sources, state, device=m.device, seen=result)

    def backward(m: DeviceModel, result: wp.array, poses: wp.array, origin: wp.array, direction: wp.array) -> None:
        kernels, dim = evaluate_ray_kernels(m.types.scalar), (result.shape[0], rays)
        found = scratch_array(dim, wp.vec2i, m.device)
        launch(kernels.read_found, dim, device=m.device, seen=result, found=found)
        again = scratch_array(result.shape, result.dtype, m.device, gradient=True)
        wp.copy(again.grad, result.grad)
        with wp.Tape() as tape:
            launch_last(
                kernels.evaluate_rays, dim, {"targets": _arrays(m, targets, selected).targets}, m.parameters,
                device=m.device, found=found, link_pose=poses, origin=origin, direction=direction, seen=again,
            )  # fmt: skip
        tape.backward()

    return DifferentiableOp((rays, RAY_NUMBERS), forward, backward, RAY_PARAMETERS, needs_result=True)


def _arrays(m: DeviceModel, targets: RayTargets, selected: list[int]) -> TargetArrays:
    """Return the geometries on a device, cached for repeated calls."""
    return _kept.get(m, targets, lambda: TargetArrays(m, selected))
