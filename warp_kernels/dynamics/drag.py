"""Drag of boxes in a medium, as in MuJoCo's inertia-box model (see :meth:`sim.ModelBuilder.set_medium`), and its
linearisation in a step from the middle.

Along its axis i a box moves through the medium with the velocity v, and turns about it with w. The drag is ``-(p + r
a_i |v| / 2) v`` and ``-(t + r s_i |w| / 2) w`` with the density r, the areas ``a_i = b_j b_k`` and ``s_i = b_i (b_j^4 +
b_k^4) / 32`` of the edges b, and for the viscosity m and the mean edge b ``p = 3 pi b m`` and ``t = pi b^3 m``. Minus
its derivatives are ``d = p + r a_i |v|`` and ``t + r s_i |w|``.

In a step from the middle the drag is that of the velocity before the step, less ``td d`` times the change of v, which
is of second order with td = 1/2. As for joint dampers (:mod:`warp_kernels.solver.midpoint.joint_weights`),

    td = (1 + Y) / (2 + Y),   Y = h d u,

so that stiff drag is implicit. u: a constant inverse inertia of the box, see
:func:`sim.model.shapes.inertia.box_mobilities`. With J, from the motion of the link to v and w, the boxes of a link have the
damping matrix ``D = sum of J' diag(h td d) J``, symmetric, which adds to the link's inertia where that acts on changes
of velocities (:mod:`warp_kernels.dynamics.aba`, :mod:`warp_kernels.solver.midpoint.link_damping`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.symmetric import symmetric_functions, symmetric_headers
from warp_kernels.kinematics.propagation import Links
from warp_kernels.types import kernel_module, lane_types, warp_types
from warp_kernels.variants import used_arguments_only

VARIANTS = {"drag_kernels": [(False,), (True,)]}


@functools.cache
def box_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions of one box for one precision and a number of worlds in a lane group."""
    t, a, one_vec3 = lane_types(scalar, lanes), algebra(scalar, lanes), warp_types(scalar).vec3
    real, vec3, mat33, articulated = t.real, t.vec3, t.mat33, t.articulated
    one, two = scalar(1.0), scalar(2.0)

    @wp.func
    def fourth(x: scalar):
        return x * x * x * x

    @wp.func
    def areas(b: one_vec3):
        """Return a_i."""
        return one_vec3(b[1] * b[2], b[0] * b[2], b[0] * b[1])

    @wp.func
    def turned_areas(b: one_vec3):
        """Return s_i."""
        x, y, z = fourth(b[0]), fourth(b[1]), fourth(b[2])
        return (scalar(1.0) / scalar(32.0)) * one_vec3(b[0] * (y + z), b[1] * (x + z), b[2] * (x + y))

    @wp.func
    def each(x: vec3, y: vec3):
        """Return the products of entries."""
        return a.make_vec3(a.mul(x[0], y[0]), a.mul(x[1], y[1]), a.mul(x[2], y[2]))

    @wp.func
    def signs(v: vec3):
        return a.make_vec3(a.sign(v[0]), a.sign(v[1]), a.sign(v[2]))

    @wp.func
    def scaled(x: one_vec3, v: vec3):
        """Return the products of entries, x common to all worlds."""
        return a.make_vec3(x[0] * v[0], x[1] * v[1], x[2] * v[2])

    @wp.func
    def slopes(v: vec3, area: one_vec3, density: real, viscous: real):
        """Return d for each axis, with v along the axes of the box."""
        rough = a.scale(density, scaled(area, each(signs(v), v)))
        return rough + a.make_vec3(viscous, viscous, viscous)

    @wp.func
    def force(v: vec3, slope: vec3, viscous: real):
        """Return the drag along each axis."""
        return scalar(-0.5) * each(slope + a.make_vec3(viscous, viscous, viscous), v)

    @wp.func
    def stiffness(dt: scalar, slope: real, mobility: scalar):
        """Return Y, and 1 / (2 + Y)."""
        y = (dt * mobility) * slope
        return y, a.div(a.real(one), a.real(two) + y)

    @wp.func
    def weight(dt: scalar, slope: real, mobility: scalar):
        """Return h td d."""
        y, over = stiffness(dt, slope, mobility)
        return dt * a.mul(slope, a.mul(a.real(one) + y, over))

    @wp.func
    def weight_rate(dt: scalar, slope: real, mobility: scalar):
        """Return the derivative of h td d in d."""
        y, over = stiffness(dt, slope, mobility)
        return dt * a.mul(a.real(one) + y + a.mul(y, over), over)

    @wp.func
    def weights(dt: scalar, slope: vec3, mobility: scalar):
        """Return h td d for each axis."""
        return a.make_vec3(
            weight(dt, slope[0], mobility), weight(dt, slope[1], mobility), weight(dt, slope[2], mobility)
        )

    @wp.func
    def weight_rates(dt: scalar, slope: vec3, mobility: scalar):
        """Return the derivatives of h td d in d for each axis."""
        return a.make_vec3(
            weight_rate(dt, slope[0], mobility),
            weight_rate(dt, slope[1], mobility),
            weight_rate(dt, slope[2], mobility),
        )

    @wp.func
    def symmetric(d: vec3, r: vec3):
        """Return the matrix with the diagonal d, and xy, xz and yz of r."""
        return a.mat_rows(a.make_vec3(d[0], r[0], r[1]), a.make_vec3(r[0], d[1], r[2]), a.make_vec3(r[1], r[2], d[2]))

    @wp.func
    def in_world(turn: mat33, diagonal: vec3):
        """Return R diag R'."""
        x = a.mat_row(turn, 0)
        y = a.mat_row(turn, 1)
        z = a.mat_row(turn, 2)
        dx = each(x, diagonal)
        dy = each(y, diagonal)
        return symmetric(
            a.make_vec3(a.dot(dx, x), a.dot(dy, y), a.dot(each(z, diagonal), z)),
            a.make_vec3(a.dot(dx, y), a.dot(dx, z), a.dot(dy, z)),
        )

    @wp.func
    def crossed(c: vec3, m: mat33):
        """Return the product of the matrix of c x with m."""
        x = a.mat_row(m, 0)
        y = a.mat_row(m, 1)
        z = a.mat_row(m, 2)
        return a.mat_rows(
            a.scale(c[1], z) - a.scale(c[2], y),
            a.scale(c[2], x) - a.scale(c[0], z),
            a.scale(c[0], y) - a.scale(c[1], x),
        )

    @wp.func
    def crossed_right(m: mat33, c: vec3):
        """Return the product of m with the matrix of c x."""
        return a.mat_rows(
            a.cross(a.mat_row(m, 0), c), a.cross(a.mat_row(m, 1), c), a.cross(a.mat_row(m, 2), c)
        )  # fmt: skip

    @wp.func
    def of_turns(bar: articulated):
        """Return the adjoint of the damping of turns."""
        return symmetric(a.make_vec3(bar[0], bar[1], bar[2]), a.make_vec3(bar[3], bar[4], bar[5]))

    @wp.func
    def mixed_at(bar: articulated, turns: mat33, c: vec3):
        """Return the adjoint of the block of a turn and a displacement of the point at c."""
        mixed = a.mat_rows(
            a.make_vec3(bar[6], bar[7], bar[8]),
            a.make_vec3(bar[9], bar[10], bar[11]),
            a.make_vec3(bar[12], bar[13], bar[14]),
        )
        return mixed + crossed_right(turns, c)

    @wp.func
    def of_point(bar: articulated, mixed: mat33, c: vec3):
        """Return the adjoint of the damping of the point at c, with that of :func:`mixed_at`."""
        transposed = a.mat_rows(
            a.make_vec3(bar[6], bar[9], bar[12]),
            a.make_vec3(bar[7], bar[10], bar[13]),
            a.make_vec3(bar[8], bar[11], bar[14]),
        )
        own = symmetric(a.make_vec3(bar[15], bar[16], bar[17]), a.make_vec3(bar[18], bar[19], bar[20]))
        return own + crossed_right(transposed, c) - crossed(c, mixed)

    @wp.func
    def product(m: mat33, n: mat33):
        return a.mat_rows(
            a.vec_mat(a.mat_row(m, 0), n), a.vec_mat(a.mat_row(m, 1), n), a.vec_mat(a.mat_row(m, 2), n)
        )  # fmt: skip

    @wp.func
    def along_axes(turn: mat33, moved: mat33):
        """Return r . P r for the axes r of the box, the columns of ``turn``, with ``moved`` = P times these."""
        return (
            each(a.mat_row(turn, 0), a.mat_row(moved, 0))
            + each(a.mat_row(turn, 1), a.mat_row(moved, 1))
            + each(a.mat_row(turn, 2), a.mat_row(moved, 2))
        )

    @wp.func
    def scale_columns(m: mat33, factors: vec3):
        return a.mat_rows(
            each(a.mat_row(m, 0), factors), each(a.mat_row(m, 1), factors), each(a.mat_row(m, 2), factors)
        )  # fmt: skip

    return SimpleNamespace(
        areas=areas,
        turned_areas=turned_areas,
        each=each,
        signs=signs,
        scaled=scaled,
        slopes=slopes,
        force=force,
        weights=weights,
        weight_rates=weight_rates,
        in_world=in_world,
        of_turns=of_turns,
        mixed_at=mixed_at,
        of_point=of_point,
        product=product,
        along_axes=along_axes,
        scale_columns=scale_columns,
    )


@functools.cache
def drag_kernels(scalar: Any, damping: bool, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, over (tree, group).

    Boxes are sorted by link; ``drag_start`` has the first of each tree, and their number [num_trees + 1].

    Args:
        damping: whether the drag is linearised for a step from the middle.
    """
    t, one = lane_types(scalar, lanes), warp_types(scalar)
    a, sp, box_of = algebra(scalar, lanes), spatial_functions(scalar, lanes), box_functions(scalar, lanes)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    states, motions, poses = wp.array2d(dtype=scalar), wp.array2d(dtype=spatial), wp.array2d(dtype=transform)
    ints, matrices = wp.array(dtype=int), wp.array2d(dtype=t.articulated)
    symmetric = symmetric_functions(scalar, lanes)
    kind = "damped_drag" if damping else "drag"
    module = kernel_module(kind, scalar, lanes, headers=symmetric_headers(lanes))
    adjoint_module = kernel_module(f"{kind}_adjoint", scalar, lanes)
    two = scalar(2.0)
    push_share, turn_share = scalar(3.0 * wp.pi), scalar(wp.pi)

    @wp.func
    def mean_edge(b: one.vec3):
        return (b[0] + b[1] + b[2]) / scalar(3.0)

    @wp.func
    def total(x: vec3):
        return x[0] + x[1] + x[2]

    @wp.func
    def all_slopes(b: one.vec3, v: vec3, w: vec3, density: t.real, viscosity: t.real):
        """Return p and t, and d for velocities and for turns, along the axes of a box."""
        mean = mean_edge(b)
        push = (push_share * mean) * viscosity
        twist = (turn_share * mean * mean * mean) * viscosity
        slope = box_of.slopes(v, box_of.areas(b), density, push)
        return push, twist, slope, box_of.slopes(w, box_of.turned_areas(b), density, twist)

    @wp.kernel(name=kind, module=module, enable_backward=False)
    @used_arguments_only
    def drag(
        # Model
        links: Links,
        drag_start: ints,
        drag_link: ints,
        drag_size: wp.array(dtype=one.vec3),
        drag_placement: wp.array2d(dtype=one.transform),
        drag_mobility: wp.array(dtype=one.vec2),
        dt: scalar,
        # Parameters
        medium_density: states,
        medium_viscosity: states,
        wind: wp.array2d(dtype=one.vec3),
        # Data in
        qd: states,
        pose: poses,
        subspace: motions,
        # Data out
        drag_motion: motions,
        common_wrench: motions,
        link_damping: matrices,
    ):
        """Add the drag of boxes to common_wrench, and compute D. drag_motion: of links."""
        tree, group = wp.tid()
        if drag_start[tree] == drag_start[tree + 1]:
            return
        for link in range(links.tree_start[tree], links.tree_start[tree + 1]):
            motion = spatial()
            if links.parent[link] >= 0:
                motion = drag_motion[links.parent[link], group]
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                motion += a.scale_spatial(a.load(qd, group, k), subspace[k, group])
            drag_motion[link, group] = motion
            if wp.static(damping):
                link_damping[link, group] = t.articulated()
        density = a.load_param_scalar(medium_density, group, 0)
        viscosity = a.load_param_scalar(medium_viscosity, group, 0)
        for box in range(drag_start[tree], drag_start[tree + 1]):
            link = drag_link[box]
            motion = drag_motion[link, group]
            own = pose[link, group]
            placement = a.load_param_transform(drag_placement, group, box)
            centre = a.position(own) + a.rotate(a.rotation(own), a.position(placement))
            turn = a.matrix(a.product(a.rotation(own), a.rotation(placement)))
            through = sp.point_velocity(motion, centre) - a.load_param_vec3(wind, group, 0)
            v = a.vec_mat(through, turn)
            w = a.vec_mat(a.angular(motion), turn)
            push, twist, slope, turn_slope = all_slopes(drag_size[box], v, w, density, viscosity)
            force = a.mat_vec(turn, box_of.force(v, slope, push))
            moment = a.mat_vec(turn, box_of.force(w, turn_slope, twist)) + a.cross(centre, force)
            common_wrench[link, group] = common_wrench[link, group] + a.join(moment, force)
            if wp.static(damping):
                mobility = drag_mobility[box]
                along = box_of.in_world(turn, box_of.weights(dt, slope, mobility[0]))
                about = box_of.in_world(turn, box_of.weights(dt, turn_slope, mobility[1]))
                symmetric.add_damping(link_damping, link, group, about, along, centre)

    @wp.kernel(name=f"{kind}_adjoint", module=adjoint_module, enable_backward=False)
    @used_arguments_only
    def drag_adjoint(
        # Model
        links: Links,
        drag_start: ints,
        drag_link: ints,
        drag_size: wp.array(dtype=one.vec3),
        drag_placement: wp.array2d(dtype=one.transform),
        drag_mobility: wp.array(dtype=one.vec2),
        dt: scalar,
        # Parameters
        medium_density: states,
        medium_viscosity: states,
        wind: wp.array2d(dtype=one.vec3),
        # Data in
        qd: states,
        pose: poses,
        subspace: motions,
        drag_motion: motions,
        # Adjoint in
        common_wrench_bar: motions,
        link_damping_bar: matrices,
        # Adjoint out
        drag_motion_bar: motions,
        medium_density_bar: states,
        medium_viscosity_bar: states,
        wind_bar: wp.array2d(dtype=one.vec3),
        qd_bar: states,
        pose_bar: poses,
        subspace_bar: motions,
    ):
        """Add the adjoint of ``drag`` to those of the parameters, if they have rows, of velocities, poses and motions.

        drag_motion_bar: scratch.
        """
        tree, group = wp.tid()
        if drag_start[tree] == drag_start[tree + 1]:
            return
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        for link in range(first, last):
            drag_motion_bar[link, group] = spatial()
        density = a.load_param_scalar(medium_density, group, 0)
        viscosity = a.load_param_scalar(medium_viscosity, group, 0)
        for box in range(drag_start[tree], drag_start[tree + 1]):
            link = drag_link[box]
            motion = drag_motion[link, group]
            own = pose[link, group]
            placement = a.load_param_transform(drag_placement, group, box)
            offset = a.rotate(a.rotation(own), a.position(placement))
            centre = a.position(own) + offset
            turn = a.matrix(a.product(a.rotation(own), a.rotation(placement)))
            through = sp.point_velocity(motion, centre) - a.load_param_vec3(wind, group, 0)
            spin = a.angular(motion)
            v = a.vec_mat(through, turn)
            w = a.vec_mat(spin, turn)
            b = drag_size[box]
            area = box_of.areas(b)
            turned_area = box_of.turned_areas(b)
            mean = mean_edge(b)
            push, twist, slope, turn_slope = all_slopes(b, v, w, density, viscosity)
            force = box_of.force(v, slope, push)
            # Forces along the axes of the box.
            wrench_bar = common_wrench_bar[link, group]
            moment_bar = a.angular(wrench_bar)
            force_bar = a.linear(wrench_bar) + a.cross(moment_bar, centre)
            f_bar = a.vec_mat(force_bar, turn)
            m_bar = a.vec_mat(moment_bar, turn)
            centre_bar = a.cross(a.mat_vec(turn, force), moment_bar)
            turn_bar = a.outer(force_bar, force) + a.outer(moment_bar, box_of.force(w, turn_slope, twist))
            v_bar = -box_of.each(slope, f_bar)
            w_bar = -box_of.each(turn_slope, m_bar)
            # Adjoint of -(d + p) / 2 at fixed v.
            slope_bar = scalar(-0.5) * box_of.each(v, f_bar)
            turn_slope_bar = scalar(-0.5) * box_of.each(w, m_bar)
            push_bar = two * total(slope_bar)
            twist_bar = two * total(turn_slope_bar)
            if wp.static(damping):
                mobility = drag_mobility[box]
                damping_bar = link_damping_bar[link, group]
                weight = box_of.weights(dt, slope, mobility[0])
                turn_weight = box_of.weights(dt, turn_slope, mobility[1])
                turns = box_of.of_turns(damping_bar)
                mixed = box_of.mixed_at(damping_bar, turns, centre)
                moved = box_of.product(box_of.of_point(damping_bar, mixed, centre), turn)
                turned = box_of.product(turns, turn)
                turn_bar += two * (box_of.scale_columns(moved, weight) + box_of.scale_columns(turned, turn_weight))
                centre_bar += scalar(-2.0) * a.axial(mixed, box_of.in_world(turn, weight))
                d_bar = box_of.each(box_of.along_axes(turn, moved), box_of.weight_rates(dt, slope, mobility[0]))
                t_bar = box_of.each(box_of.along_axes(turn, turned), box_of.weight_rates(dt, turn_slope, mobility[1]))
                v_bar += a.scale(density, box_of.scaled(area, box_of.each(box_of.signs(v), d_bar)))
                w_bar += a.scale(density, box_of.scaled(turned_area, box_of.each(box_of.signs(w), t_bar)))
                slope_bar += d_bar
                turn_slope_bar += t_bar
                push_bar += total(d_bar)
                twist_bar += total(t_bar)
            if medium_density_bar.shape[0] > 0:
                rough = box_of.scaled(area, box_of.each(box_of.signs(v), v))
                turned_rough = box_of.scaled(turned_area, box_of.each(box_of.signs(w), w))
                a.add_scalar(
                    medium_density_bar, group, 0, a.dot(rough, slope_bar) + a.dot(turned_rough, turn_slope_bar)
                )
            if medium_viscosity_bar.shape[0] > 0:
                whole = (push_share * mean) * push_bar + (turn_share * mean * mean * mean) * twist_bar
                a.add_scalar(medium_viscosity_bar, group, 0, whole)
            # Velocities along the axes, and the axes.
            turn_bar += a.outer(through, v_bar) + a.outer(spin, w_bar)
            through_bar = a.mat_vec(turn, v_bar)
            if wind_bar.shape[0] > 0:
                a.add_vec3(wind_bar, group, 0, -through_bar)
            centre_bar += a.cross(through_bar, spin)
            spin_bar = a.mat_vec(turn, w_bar) + a.cross(centre, through_bar)
            drag_motion_bar[link, group] = drag_motion_bar[link, group] + a.join(spin_bar, through_bar)
            link_turn = a.axial(turn, turn_bar) + a.cross(offset, centre_bar)
            pose_change = a.make_pose(centre_bar, a.quaternion_of_turn(a.rotation(own), link_turn))
            pose_bar[link, group] = pose_bar[link, group] + pose_change
        for back in range(last - first):
            link = last - 1 - back
            bar = drag_motion_bar[link, group]
            parent = links.parent[link]
            if parent >= 0:
                drag_motion_bar[parent, group] = drag_motion_bar[parent, group] + bar
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                a.add(qd_bar, group, k, a.dot_spatial(subspace[k, group], bar))
                subspace_bar[k, group] = subspace_bar[k, group] + a.scale_spatial(a.load(qd, group, k), bar)

    return SimpleNamespace(modules=(module, adjoint_module), drag=drag, drag_adjoint=drag_adjoint)
