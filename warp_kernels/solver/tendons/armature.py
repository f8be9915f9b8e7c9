"""Armature of tendons: inertia of their lengths, in the factors of the mass matrix and in the accelerations of a step.

A tendon with the armature m and the Jacobian J, the derivative of its length in the degrees of freedom, adds ``m J' J``
to the mass matrix, and with the curvature c, the second derivative of its length at constant velocities, ``m J' c`` to
the bias forces. Its degrees of freedom lie on one path from the root, so that the mass matrix keeps its sparsity. The
factors ``M = L' D L`` of :mod:`warp_kernels.dynamics.mass_matrix` are updated for ``M + m J' J`` in one pass along the
path, from its end to the root (Gill, Golub, Murray and Saunders 1974, method C2, which is accurate for large m too).
With the accelerations a of the bodies alone, those of all are ``a - (M + m J' J)^-1 m J' (J a + c)``.

A tendon adds ``-h m (w . J) (J qdd + c)`` to the scalar ``-h w . ID`` that the backward pass of a step differentiates
(:mod:`warp_kernels.solver.impulse`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def tendon_armature_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision: ``tendon_curvatures`` with Warp's own adjoint, the others one thread per
    world.
    """
    t = warp_types(scalar)
    sp, common = spatial_functions(scalar), row_functions(scalar)
    factor, products = factor_kernels(scalar), product_functions(scalar)
    vec3, spatial, array2d = t.vec3, t.spatial, wp.array2d(dtype=scalar)
    module = kernel_module("tendon_armature", scalar, headers=ROW_HEADERS)
    curvature_module = kernel_module("tendon_curvatures", scalar, inlined=True)
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)

    @wp.func
    def tendon_point_velocity(
        number: int, path_link: wp.array(dtype=int), point_position: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial), world: int,
    ):  # fmt: skip
        found = vec3()
        if path_link[number] >= 0:
            found = sp.point_velocity(velocity[path_link[number], world], point_position[number, world])
        return found

    @wp.func
    def tendon_point_acceleration(
        number: int, path_link: wp.array(dtype=int), point_position: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial), acceleration: wp.array2d(dtype=spatial), world: int,
    ):  # fmt: skip
        found = vec3()
        link = path_link[number]
        if link >= 0:
            v = velocity[link, world]
            point = point_position[number, world]
            found = sp.point_velocity(acceleration[link, world], point)
            found += wp.cross(sp.angular(v), sp.point_velocity(v, point))
        return found

    @wp.kernel(module=curvature_module)
    def tendon_curvatures(
        # Model
        curved_tendon: wp.array(dtype=int),
        segment_start: wp.array(dtype=int),
        segment_ends: wp.array(dtype=int),
        segment_share: wp.array(dtype=scalar),
        path_link: wp.array(dtype=int),
        # Data in
        point_position: wp.array2d(dtype=vec3),
        segment_length: wp.array2d(dtype=scalar),
        segment_pull: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        # Data out
        tendon_curvature: wp.array2d(dtype=scalar),
    ):
        """Compute curvatures over (tendon index, world), from the motion of links at zero joint accelerations. Adds to
        zeroed arrays.

        The contribution of segments that roll on wraps is omitted.
        """
        number, world = wp.tid()
        tendon = curved_tendon[number]
        for segment in range(segment_start[tendon], segment_start[tendon + 1]):
            first = segment_ends[2 * segment]
            last = segment_ends[2 * segment + 1]
            if segment_length[segment, world] > zero:
                share = segment_share[segment]
                pull = segment_pull[segment, world]
                apart = tendon_point_velocity(last, path_link, point_position, velocity, world)
                apart -= tendon_point_velocity(first, path_link, point_position, velocity, world)
                along = wp.dot(pull, apart)
                turning = share * share * wp.dot(apart, apart) - along * along
                change = tendon_point_acceleration(last, path_link, point_position, velocity, acceleration, world)
                change -= tendon_point_acceleration(first, path_link, point_position, velocity, acceleration, world)
                tendon_curvature[number, world] += turning / segment_length[segment, world] + wp.dot(pull, change)

    @wp.func
    def add_square(
        scale: scalar, tail: int, world: int, paths: Paths, factor_l: array2d, factor_d: array2d, vector: array2d
    ):
        """Update the factors: L' D L := L' D L + scale v v', for a vector [dof, world] along the path to ``tail``,
        which is scratch afterwards; factor_d is D^-1.
        """
        weight = scale
        depth = paths.dof_depth[tail]
        for back in range(depth + 1):
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, depth - back)
            value = vector[k, world]
            if value != zero:
                before = one / factor_d[k, world]
                after = before + weight * value * value
                share = weight * value / after
                kept = before / after
                weight = weight * kept
                factor_d[k, world] = one / after
                for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    entry = factor_l[at, world]
                    factor_l[at, world] = kept * entry + share * vector[j, world]
                    vector[j, world] -= value * entry

    @wp.func
    def pull(
        number: int, tendon: int, world: int, nv: int, qdd: array2d, tendon_slope: wp.array3d(dtype=scalar),
        tendon_curvature: array2d,
    ):  # fmt: skip
        """Return J qdd + c, the second derivative of the length."""
        total = tendon_curvature[number, world]
        for k in range(nv):
            total += tendon_slope[tendon, k, world] * qdd[world, k]
        return total

    @wp.kernel(module=module, enable_backward=False)
    def add_tendon_armature(
        # Model
        paths: Paths,
        heavy_tendon: wp.array(dtype=int),
        heavy_tail: wp.array(dtype=int),
        # Parameters
        tendon_armature: wp.array2d(dtype=scalar),
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        tendon_curvature: wp.array2d(dtype=scalar),
        # Data out
        armature_scratch: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
    ):
        """Update factors and accelerations of the bodies alone to include tendons."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for number in range(heavy_tendon.shape[0]):
            tendon = heavy_tendon[number]
            for k in range(nv):
                armature_scratch[k, world] = tendon_slope[tendon, k, world]
            own = common.value_of(tendon_armature, world, tendon)
            add_square(own, heavy_tail[number], world, paths, factor_l, factor_d, armature_scratch)
        for k in range(nv):
            armature_scratch[k, world] = zero
        for number in range(heavy_tendon.shape[0]):
            tendon = heavy_tendon[number]
            force = pull(number, tendon, world, nv, qdd, tendon_slope, tendon_curvature)
            force = force * common.value_of(tendon_armature, world, tendon)
            for k in range(nv):
                armature_scratch[k, world] += tendon_slope[tendon, k, world] * force
        products.solve(world, paths, factor_l, factor_d, armature_scratch)
        for k in range(nv):
            qdd[world, k] -= armature_scratch[k, world]

    @wp.kernel(module=module, enable_backward=False)
    def tendon_masses(
        # Model
        paths: Paths,
        heavy_tendon: wp.array(dtype=int),
        # Parameters
        tendon_armature: wp.array2d(dtype=scalar),
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        # Data out
        kahan_mass: wp.array2d(dtype=scalar),
        joint_diagonal: wp.array2d(dtype=scalar),
    ):
        """Add the entries m J' J below the diagonal, packed, and those on it to joint_diagonal."""
        world = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            first = paths.dof_row_start[k]
            for number in range(heavy_tendon.shape[0]):
                tendon = heavy_tendon[number]
                push = common.value_of(tendon_armature, world, tendon) * tendon_slope[tendon, k, world]
                joint_diagonal[k, world] += push * tendon_slope[tendon, k, world]
                for at in range(first, first + paths.dof_depth[k]):
                    kahan_mass[at, world] += push * tendon_slope[tendon, paths.ancestor[at], world]

    @wp.kernel(module=module, enable_backward=False)
    def tendon_armature_adjoint(
        # Model
        paths: Paths,
        heavy_tendon: wp.array(dtype=int),
        # Parameters
        tendon_armature: wp.array2d(dtype=scalar),
        # Data in
        qdd: wp.array2d(dtype=scalar),
        tendon_slope: wp.array3d(dtype=scalar),
        tendon_curvature: wp.array2d(dtype=scalar),
        # Adjoint in
        motion_weight: wp.array2d(dtype=scalar),
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        # Adjoint out
        armature_scratch: wp.array2d(dtype=scalar),
        tendon_slope_bar: wp.array3d(dtype=scalar),
        tendon_curvature_bar: wp.array2d(dtype=scalar),
        tendon_armature_bar: wp.array2d(dtype=scalar),
    ):
        """Add the adjoint of tendon armature. motion_weight: -h w; mass_bar: packed, each entry together with its
        mirror.
        """
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for number in range(heavy_tendon.shape[0]):
            tendon = heavy_tendon[number]
            own = common.value_of(tendon_armature, world, tendon)
            found = pull(number, tendon, world, nv, qdd, tendon_slope, tendon_curvature)
            weight = zero
            for k in range(nv):
                weight += motion_weight[world, k] * tendon_slope[tendon, k, world]
                armature_scratch[k, world] = zero
            # Derivative of J M_bar J' in J.
            for k in range(nv):
                slope = tendon_slope[tendon, k, world]
                armature_scratch[k, world] += two * mass_bar_diagonal[k, world] * slope
                for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    armature_scratch[k, world] += mass_bar[at, world] * tendon_slope[tendon, j, world]
                    armature_scratch[j, world] += mass_bar[at, world] * slope
            square = zero
            for k in range(nv):
                square += armature_scratch[k, world] * tendon_slope[tendon, k, world]
                bar = motion_weight[world, k] * found + weight * qdd[world, k] + armature_scratch[k, world]
                tendon_slope_bar[tendon, k, world] += own * bar
            tendon_curvature_bar[number, world] += own * weight
            common.add_at(tendon_armature_bar, world, tendon, weight * found + square / two)

    return SimpleNamespace(
        modules=(module, curvature_module),
        tendon_curvatures=tendon_curvatures,
        add_tendon_armature=add_tendon_armature,
        tendon_masses=tendon_masses,
        tendon_armature_adjoint=tendon_armature_adjoint,
    )
