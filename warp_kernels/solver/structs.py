"""Structs of arrays that the solver's kernels share, by subject, with shapes and units.

``nc`` is the capacity for constraints of a world, ``max_contacts`` that for contacts. An argument ``x_bar`` of the type
of ``x`` holds the gradients of its arrays.

The recursions over the tree (``aba``, ``rnea_adjoint``, ``kinematics_adjoint``) take their arrays of numbers one by
one, some 20 of them: in a lane group the compiler reloads struct members after each store, which slows a small kernel
by up to 6 %. The links come as a struct, except in ``rnea_adjoint``, where that takes more registers of a GPU.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@wp.struct
class Paths:
    """Degrees of freedom from the root of a tree to each one, and the packed storage over them.

    Attributes:
        dof_depth: number of degrees of freedom above each one [nv].
        dof_row_start: start of the ancestors of each one in packed storage [nv].
        ancestor: degrees of freedom above each one, from the root on [sum of dof_depth].
        max_depth: length of the longest path.
    """

    dof_depth: wp.array(dtype=int)
    dof_row_start: wp.array(dtype=int)
    ancestor: wp.array(dtype=int)
    max_depth: int


@wp.struct
class TreeDofs:
    """Degrees of freedom of each tree.

    Attributes:
        dof_tree: tree of each degree of freedom [nv].
        tree_dof_start: first degree of freedom of each tree, and nv [num_trees + 1].
        max_tree_dofs: most degrees of freedom of a tree.
    """

    dof_tree: wp.array(dtype=int)
    tree_dof_start: wp.array(dtype=int)
    max_tree_dofs: int


@wp.struct
class Constrained:
    """Degrees of freedom and links that constraints other than contacts act on.

    Attributes:
        limited_dof: degrees of freedom of revolute and prismatic joints with a limit.
        friction_dof: degrees of freedom with dry friction.
        cone_dof: first degree of freedom of the spherical joint of each swing or twist limit.
        coupling_dof: dependent degree of freedom of each coupling of two joints.
        coupling_other: degree of freedom that it is coupled to.
        anchor_link_a: one link of each pair of anchors, -1 for the world.
        anchor_link_b: the other link.
        anchor_welded: 1 if the orientations coincide too, 0 if only the points do.
        tendon_kind: of each constraint of tendons TENDON_LIMIT or TENDON.
        tendon_tail: last degree of freedom of the path that each side acts on, -1 for none, that of side s of
            constraint i at 2 i + s.
        tendon_side: side that a degree of freedom belongs to, -1 if it is on neither path [constraint, dof].
    """

    limited_dof: wp.array(dtype=int)
    friction_dof: wp.array(dtype=int)
    cone_dof: wp.array(dtype=int)
    coupling_dof: wp.array(dtype=int)
    coupling_other: wp.array(dtype=int)
    anchor_link_a: wp.array(dtype=int)
    anchor_link_b: wp.array(dtype=int)
    anchor_welded: wp.array(dtype=int)
    tendon_kind: wp.array(dtype=int)
    tendon_tail: wp.array(dtype=int)
    tendon_side: wp.array2d(dtype=int)


@wp.struct
class TendonRows:
    """Constraints of tendons that a model may have; see :mod:`warp_kernels.solver.tendons.rows`.

    Attributes:
        kind: LOWER, UPPER, LOSS or TIED.
        tendon: tendon whose length is constrained.
        other: tendon that its length is coupled to, -1 for none.
        coupling: index of the coupling, -1 for none.
    """

    kind: wp.array(dtype=int)
    tendon: wp.array(dtype=int)
    other: wp.array(dtype=int)
    coupling: wp.array(dtype=int)


@wp.struct
class TendonWraps:
    """Spheres and cylinders that tendons wrap around; see :class:`sim.model.tendons.tendons.Tendons`.

    Attributes:
        link: link of the wrap, -1 for the world.
        is_cylinder: 1 for a cylinder, 0 for a sphere.
        ends: points before and after wrap i, at 2 i and 2 i + 1.
        side_link: link of the side site, on whose side the tendon passes, -1 for the world, -2 for none.
    """

    link: wp.array(dtype=int)
    is_cylinder: wp.array(dtype=int)
    ends: wp.array(dtype=int)
    side_link: wp.array(dtype=int)


@wp.struct
class Constraints:
    """Active constraints of each world, listed in every step.

    Attributes:
        count: number of constraints [world].
        kind: CONTACT, LOWER_LIMIT ... of :mod:`warp_kernels.constraints.kinds` [nc, world].
        item: the slot of a contact, the degree of freedom, actuator, coupling or anchor [nc, world].
        tail: last degree of freedom of the path that each side acts on, -1 for the world [2 nc, world], that of side s
            of constraint c at 2 c + s.
        reference: tree about whose origin a point is given: that of side b, or of side a if b is the world [nc, world].
    """

    count: wp.array(dtype=int)
    kind: wp.array2d(dtype=int)
    item: wp.array2d(dtype=int)
    tail: wp.array2d(dtype=int)
    reference: wp.array2d(dtype=int)


@wp.struct
class Couplings:
    """Constraints of each tree and the entries of each row of the Delassus matrix; see
    :mod:`warp_kernels.solver.delassus`.

    Attributes:
        tree_start: first incidence of each tree, and their number [num_trees + 1, world].
        incidence_constraint: constraint of each incidence, ascending within a tree [incidence, world].
        constraint_incidence: incidence of each side, -1 for the world; both sides have the same one if they share their
            tree [2 nc, world].
        row: of each row its first entry, its own constraint's entry, its first run and the one after its last [nc,
            world].
        run: first constraint of a run, and the one after its last [run, world].
        mirror: for an entry before the diagonal, the index of its transpose [entry, world].
        cursor: scratch [nc, world].
    """

    tree_start: wp.array2d(dtype=int)
    incidence_constraint: wp.array2d(dtype=int)
    constraint_incidence: wp.array2d(dtype=int)
    row: wp.array2d(dtype=wp.vec4i)
    run: wp.array2d(dtype=wp.vec2i)
    mirror: wp.array2d(dtype=int)
    cursor: wp.array2d(dtype=int)


@functools.cache
def solver_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    t = warp_types(scalar)

    @wp.struct
    class Options:
        """Contact options.

        Attributes:
            dt: time step [s].
            erp: share of a position error that is removed in the time step, or in that and ``recovery_time``.
            recovery_time: parameter [1 or world, 1]; no rows if the model has none [s].
            cfm: constant added to the diagonal of the Delassus matrix [1/kg or 1/(kg m^2)].
            max_correction: maximum velocity that removes an error [m/s or rad/s].
            own_correction: maximum depenetration velocity between links of one tree [m/s].
            restitution_threshold: slowest rebound of a bouncing contact [m/s].
            limit_margin: distance at which a joint limit is listed [m or rad]; negative if limits are listed once
                passed.
        """

        dt: scalar
        erp: scalar
        recovery_time: wp.array2d(dtype=scalar)
        cfm: scalar
        max_correction: scalar
        own_correction: scalar
        restitution_threshold: scalar
        limit_margin: scalar

    @wp.struct
    class Limits:
        """Parameters of joint limits, [1 or world, nv].

        Attributes:
            lower: least coordinate [rad or m].
            upper: greatest coordinate [rad or m].
            margin: distance from a limit at which it becomes active [rad or m].
            stiffness: of a compliant limit, infinite for a hard one [N m/rad or N/m].
            damping: of a compliant limit [N m s/rad or N s/m].
        """

        lower: wp.array2d(dtype=scalar)
        upper: wp.array2d(dtype=scalar)
        margin: wp.array2d(dtype=scalar)
        stiffness: wp.array2d(dtype=scalar)
        damping: wp.array2d(dtype=scalar)

    @wp.struct
    class JointParameters:
        """Parameters of joints that each degree of freedom has, [1 or world, nv].

        Attributes:
            damping: [N m s/rad or N s/m].
            armature: inertia on the diagonal of the mass matrix [kg m^2 or kg].
            stiffness: of the joint's spring [N m/rad or N/m].
            rest_position: coordinate at which the spring force is zero [rad or m].
        """

        damping: wp.array2d(dtype=scalar)
        armature: wp.array2d(dtype=scalar)
        stiffness: wp.array2d(dtype=scalar)
        rest_position: wp.array2d(dtype=scalar)

    @wp.struct
    class Beginning:
        """State and joint forces at the beginning of a step.

        Attributes:
            q: coordinates [world, nq].
            qd: velocity [world, nv].
            tau: applied joint forces [world, nv], N m or N.
        """

        q: wp.array2d(dtype=scalar)
        qd: wp.array2d(dtype=scalar)
        tau: wp.array2d(dtype=scalar)

    @wp.struct
    class Gains:
        """Parameters of actuators, [1 or world, nu].

        Attributes:
            gear: velocity of the actuator per velocity of its joint.
            kp: position gain [N m/rad or N/m, of the actuator's coordinate].
            kd: velocity gain [N m s/rad or N s/m].
            gain: force per unit of input of an affine actuator.
            offset: force at zero input, zero position and zero velocity [N m or N].
            kp_per_input: position gain per unit of input.
            kd_per_input: velocity gain per unit of input.
            force_centre: middle of the range of forces [N m or N].
            force_limit: half of that range [N m or N].
            control_lower: smallest input.
            control_upper: largest input.
        """

        gear: wp.array2d(dtype=scalar)
        kp: wp.array2d(dtype=scalar)
        kd: wp.array2d(dtype=scalar)
        gain: wp.array2d(dtype=scalar)
        offset: wp.array2d(dtype=scalar)
        kp_per_input: wp.array2d(dtype=scalar)
        kd_per_input: wp.array2d(dtype=scalar)
        force_centre: wp.array2d(dtype=scalar)
        force_limit: wp.array2d(dtype=scalar)
        control_lower: wp.array2d(dtype=scalar)
        control_upper: wp.array2d(dtype=scalar)

    @wp.struct
    class Contacts:
        """Contacts of each world, [max_contacts, world].

        Attributes:
            point: midway between the surfaces, relative to the origin of the reference tree [m].
            apart: vector from the contact point of side a to that of side b; ``point`` is midway. Both coincide when
                the sides touch, to which both have yet to move [m]. No rows if all contacts are those of the present.
            frame: rows normal (from a to b) and two tangents, along world axes. Tangents of contacts whose friction
                differs along them have other lengths than one; a second [max_contacts, world] then follows, the frames
                of torsional and rolling friction (:mod:`warp_kernels.collision.directions`).
            distance: signed distance between the surfaces, negative for penetration [m].
            friction: product of both coefficients.
            restitution: product of both coefficients; of an inner ball -1 minus the time at which its pair bounces.
            spring: stiffness [N/m] and damping [N s/m] of a compliant contact; no rows if the model has none.
        """

        point: wp.array2d(dtype=t.vec3)
        apart: wp.array2d(dtype=t.vec3)
        frame: wp.array2d(dtype=t.mat33)
        distance: wp.array2d(dtype=scalar)
        friction: wp.array2d(dtype=scalar)
        restitution: wp.array2d(dtype=scalar)
        spring: wp.array2d(dtype=t.vec2)

    @wp.struct
    class Equalities:
        """Position errors of equality constraints, as velocity biases.

        Attributes:
            coupling_bias: of coupled joints [coupling, world], rad/s or m/s.
            anchor_point: midway between both anchors, relative to the origin of the reference tree [anchor, world], m.
            anchor_bias: of the points [anchor, world], m/s.
            anchor_turn: of the orientations [anchor, world], rad/s.
            anchor_apart: from the first anchor to the second one, each of which moves with its own link under MuJoCo's
                law [anchor, world], m; no rows if both move like the point midway.
            anchor_error: removes errors of anchor_bias and anchor_turn, alternating [2 anchor, world]; no rows under
                MuJoCo's law.
            anchor_frame: maps the relative velocity to the rows of a point and of an orientation, alternating [2
                anchor, world].
        """

        coupling_bias: wp.array2d(dtype=scalar)
        anchor_point: wp.array2d(dtype=t.vec3)
        anchor_bias: wp.array2d(dtype=t.vec3)
        anchor_turn: wp.array2d(dtype=t.vec3)
        anchor_apart: wp.array2d(dtype=t.vec3)
        anchor_error: wp.array2d(dtype=t.vec3)
        anchor_frame: wp.array2d(dtype=t.mat33)

    @wp.struct
    class Cones:
        """Swing and twist limits of spherical joints, [cone, world].

        Attributes:
            gap: remaining angle to the limit, negative past it [rad].
            row: rate of the gap per rate of each of the joint's three degrees of freedom.
        """

        gap: wp.array2d(dtype=scalar)
        row: wp.array2d(dtype=t.vec3)

    @wp.struct
    class Motions:
        """Origins of trees and motions of degrees of freedom.

        Attributes:
            origin: of each tree, in the world [num_trees, world], m.
            subspace: motion of each degree of freedom about the origin of its tree, angular part first [nv, world].
        """

        origin: wp.array2d(dtype=t.vec3)
        subspace: wp.array2d(dtype=t.spatial)

    @wp.struct
    class Rows:
        """Right-hand side, bound and compliance of each constraint, [nc, world].

        Attributes:
            rhs: velocity without impulses plus bias, three rows [m/s or rad/s].
            bound: friction coefficient, or largest impulse [N s or N m s].
            compliance: addition to the first diagonal entry [1/kg or 1/(kg m^2)]; negative: minus the share of R
                that remains for the first row (Newton's method).
            size: sum of the magnitudes of the terms of the first row's velocity, and of the larger of the others; for
                Newton's method [m/s or rad/s].
            value_before: velocity before the step plus bias; for Newton's method [m/s or rad/s].
            size_before: ``size`` of the velocity before the step.
            bias_change: change of the bias of a contact since the previous step, by the distance covered since then;
                zero for other constraints. For Newton's method under the hard law [m/s].
        """

        rhs: wp.array2d(dtype=t.vec3)
        bound: wp.array2d(dtype=scalar)
        compliance: wp.array2d(dtype=scalar)
        size: wp.array2d(dtype=t.vec2)
        value_before: wp.array2d(dtype=t.vec3)
        size_before: wp.array2d(dtype=t.vec2)
        bias_change: wp.array2d(dtype=scalar)

    @wp.struct
    class References:
        """Reference biases and regularisation of MuJoCo's law (:mod:`warp_kernels.solver.mujoco.references`); no rows
        under the hard law, except for tendons.

        Each is the bias of the first row [m/s or rad/s], R [1/kg or 1/(kg m^2)], and the share of the velocity before
        the step in the rows.

        Attributes:
            contact: of each contact [max_contacts, world].
            limit: of the lower limit of degree of freedom k at 2 k, of the upper one at 2 k + 1 [2 nv, world].
            loss: of dry friction [nv, world].
            anchor: of points that coincide at 2 i, of orientations at 2 i + 1 [2 anchors, world]; their biases are
                among the equalities.
            coupling: of coupled joints [couplings, world].
            cone: of limits of spherical joints [cones, world].
            tendon: of the constraints of tendons, by either law [tendon constraints, world].
        """

        contact: wp.array2d(dtype=t.vec3)
        limit: wp.array2d(dtype=t.vec3)
        loss: wp.array2d(dtype=t.vec3)
        anchor: wp.array2d(dtype=t.vec3)
        coupling: wp.array2d(dtype=t.vec3)
        cone: wp.array2d(dtype=t.vec3)
        tendon: wp.array2d(dtype=t.vec3)

    @wp.struct
    class Bounces:
        """Velocities and impact time of each contact, [nc, world]; no rows if nothing bounces.

        Attributes:
            before: normal velocity before the step [m/s].
            free: normal velocity after the step if there were no impulses [m/s]; zero if the contact doesn't bounce.
            late: fraction of the step at which the surfaces touch.
        """

        before: wp.array2d(dtype=scalar)
        free: wp.array2d(dtype=scalar)
        late: wp.array2d(dtype=scalar)

    @wp.struct
    class RowInputs:
        """Inputs of the rows of constraints.

        Attributes:
            options: numbers of the contact options.
            limits: parameters of joint limits.
            friction_loss: parameter [1 or world, nv], N m or N.
            coupling_ratio: parameter [1 or world, coupling].
            q: coordinates [world, nq].
            qd: velocity before the step [world, nv].
            motions: origins of trees and motions of degrees of freedom.
            contacts: of each world.
            equalities: of each world.
            cones: limits of spherical joints.
            references: of MuJoCo's law.
            actuator_row: bias, compliance and bound of each actuator's row [actuator, world].
            tendon_row: Jacobian of each constraint of tendons [tendon constraint, dof, world]; no rows without tendons.
            tendon_bound: largest impulses of these [tendon constraint, world], N s.
        """

        options: Options
        limits: Limits
        friction_loss: wp.array2d(dtype=scalar)
        coupling_ratio: wp.array2d(dtype=scalar)
        q: wp.array2d(dtype=scalar)
        qd: wp.array2d(dtype=scalar)
        motions: Motions
        contacts: Contacts
        equalities: Equalities
        cones: Cones
        references: References
        actuator_row: wp.array2d(dtype=t.vec3)
        tendon_row: wp.array3d(dtype=scalar)
        tendon_bound: wp.array2d(dtype=scalar)

    @wp.struct
    class Solved:
        """Solution of a step for adjoints, with the names of :mod:`warp_kernels.solver.impulse`.

        Attributes:
            qd: v+, the velocity after the step [world, nv].
            qdd: acceleration without impulses [world, nv].
            impulse: lambda [nc, world].
            weight: w [nv, world].
            lag: difference of v+ from the position velocity (:mod:`warp_kernels.solver.impact_time`); no rows if
                nothing bounces, nor in the next two [nv, world].
            lag_weight: adjoint of the position velocity [nv, world].
            free_weight: adjoint of w from the velocities at which contacts bounce [nv, world].
            damping_loss: reduction of v+ by MuJoCo's damping (:mod:`warp_kernels.solver.mujoco.integrators.damping`);
                no rows under the hard law, nor in the next one [world, nv].
            damping_weight: its adjoint [world, nv].
            response: sums of (D + D') Y' along the trees of each incidence; no rows if they are zero [incidence times
                max_tree_dofs, world].
            distance_share: of smoothed gradients (:mod:`warp_kernels.solver.newton.adjoint.smoothing`); no rows without [nc,
                world].
        """

        qd: wp.array2d(dtype=scalar)
        qdd: wp.array2d(dtype=scalar)
        impulse: wp.array2d(dtype=t.vec3)
        weight: wp.array2d(dtype=scalar)
        lag: wp.array2d(dtype=scalar)
        lag_weight: wp.array2d(dtype=scalar)
        free_weight: wp.array2d(dtype=scalar)
        damping_loss: wp.array2d(dtype=scalar)
        damping_weight: wp.array2d(dtype=scalar)
        response: wp.array2d(dtype=t.vec3)
        distance_share: wp.array2d(dtype=scalar)

    return SimpleNamespace(
        Options=Options,
        Limits=Limits,
        JointParameters=JointParameters,
        Beginning=Beginning,
        Gains=Gains,
        Contacts=Contacts,
        Equalities=Equalities,
        Cones=Cones,
        Motions=Motions,
        Rows=Rows,
        References=References,
        Bounces=Bounces,
        RowInputs=RowInputs,
        Solved=Solved,
    )
