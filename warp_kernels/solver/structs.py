"""What the kernels of the solver share, by subject: where each array lies, what it holds, and in which unit.

``nc`` is the room for constraints of a world, ``max_contacts`` that for contacts. An argument ``x_bar`` of the type of ``x``
holds the gradients of its arrays.

The recursions over the tree (``aba``, ``rnea_adjoint``, ``kinematics_adjoint``) take their arrays of numbers one by one, some 20 of them:
what a lane group reads of a struct the compiler loads anew after each store, which takes up to 6 % of a small kernel's time. The
links come as a struct, but for ``rnea_adjoint``, where that takes more registers of a GPU.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@wp.struct
class Paths:
    """The degrees of freedom from the root of a tree to each one, and the packed storage over them.

    Attributes:
        dof_depth: number of degrees of freedom above each one [nv].
        dof_row_start: where those of each one begin in packed storage [nv].
        ancestor: degrees of freedom above each one, from the root on [sum of dof_depth].
        max_depth: length of the longest path.
    """

    dof_depth: wp.array(dtype=int)
    dof_row_start: wp.array(dtype=int)
    ancestor: wp.array(dtype=int)
    max_depth: int


@wp.struct
class TreeDofs:
    """The degrees of freedom of each tree.

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
    """What the constraints of a model can act on, contacts aside.

    Attributes:
        limited_dof: degrees of freedom of revolute and prismatic joints with a limit.
        friction_dof: degrees of freedom with dry friction.
        cone_dof: first degree of freedom of the spherical joint of each swing or twist limit.
        coupling_dof: degree of freedom that follows, of each coupling of two joints.
        coupling_other: degree of freedom that it follows.
        anchor_link_a: one link of each pair of anchors, -1 for the world.
        anchor_link_b: the other link.
        anchor_welded: 1 where the orientations coincide too, 0 where the points alone do.
        tendon_kind: of each constraint of tendons TENDON_LIMIT or TENDON.
        tendon_tail: last degree of freedom of the path that each side acts on, -1 for none, that of side s of constraint i
            at 2 i + s.
        tendon_side: side that a degree of freedom belongs to, -1 where it is on neither path [constraint, dof].
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
    """The constraints of tendons that a model may have; see :mod:`warp_kernels.solver.tendons.rows`.

    Attributes:
        kind: LOWER, UPPER, LOSS or TIED.
        tendon: whose length it is about.
        other: the tendon whose length that one follows, -1 for none.
        coupling: number of the constraint that ties them, -1 for none.
    """

    kind: wp.array(dtype=int)
    tendon: wp.array(dtype=int)
    other: wp.array(dtype=int)
    coupling: wp.array(dtype=int)


@wp.struct
class TendonWraps:
    """The spheres and cylinders that tendons lie around; see :class:`sim.model.tendons.Tendons`.

    Attributes:
        link: the link that it moves with, -1 for the world.
        is_cylinder: 1 for a cylinder, 0 for a sphere.
        ends: the points before and behind wrap i, at 2 i and 2 i + 1.
        side_link: link of the point on whose side the tendon passes, -1 for the world, -2 for none.
    """

    link: wp.array(dtype=int)
    is_cylinder: wp.array(dtype=int)
    ends: wp.array(dtype=int)
    side_link: wp.array(dtype=int)


@wp.struct
class Constraints:
    """The constraints of each world, listed anew in every step.

    Attributes:
        count: how many there are [world].
        kind: CONTACT, LOWER_LIMIT ... of :mod:`warp_kernels.constraints.kinds` [nc, world].
        item: the slot of a contact, the degree of freedom, actuator, coupling or anchor [nc, world].
        tail: last degree of freedom of the path that each side acts on, -1 for the world [2 nc, world], that of side s of
            constraint c at 2 c + s.
        reference: tree about whose origin a point is given: that of side b, or of side a where b is the world [nc, world].
    """

    count: wp.array(dtype=int)
    kind: wp.array2d(dtype=int)
    item: wp.array2d(dtype=int)
    tail: wp.array2d(dtype=int)
    reference: wp.array2d(dtype=int)


@wp.struct
class Couplings:
    """The constraints of each tree and the entries of each row of the Delassus matrix; see :mod:`warp_kernels.solver.delassus`.

    Attributes:
        tree_start: first incidence of each tree, and their number [num_trees + 1, world].
        incidence_constraint: constraint of each incidence, ascending within a tree [incidence, world].
        constraint_incidence: incidence of each side, -1 for the world; both sides have the same one if they share their tree
            [2 nc, world].
        row: of each row its first entry, its own constraint's entry, its first run and the one after its last [nc, world].
        run: first constraint of a run, and the one after its last [run, world].
        mirror: for an entry before the diagonal, the place of its transpose [entry, world].
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
    """The structs of one precision."""
    t = warp_types(scalar)

    @wp.struct
    class Options:
        """Numbers of the contact options.

        Attributes:
            dt: time step [s].
            erp: share of a position error that is removed in the time step, or in that and ``recovery_time``.
            recovery_time: parameter [1 or world, 1]; no rows where there is none [s].
            cfm: what is added to the diagonal of the Delassus matrix [1/kg or 1/(kg m^2)].
            max_correction: largest velocity that removes an error [m/s or rad/s].
            own_correction: the same of overlaps between links of one tree [m/s].
            restitution_threshold: slowest rebound of a contact that bounces [m/s].
            limit_margin: distance at which a joint limit is listed [m or rad]; negative where it is once it is passed.
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
            margin: distance from a limit at which it begins to bear [rad or m].
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
            rest_position: coordinate at which that pulls nowhere [rad or m].
        """

        damping: wp.array2d(dtype=scalar)
        armature: wp.array2d(dtype=scalar)
        stiffness: wp.array2d(dtype=scalar)
        rest_position: wp.array2d(dtype=scalar)

    @wp.struct
    class Beginning:
        """What a step begins with.

        Attributes:
            q: coordinates [world, nq].
            qd: velocity [world, nv].
            tau: joint forces that are given [world, nv], N m or N.
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
            offset: its force at no input, in position zero and at rest [N m or N].
            kp_per_input: position gain per unit of input.
            kd_per_input: velocity gain per unit of input.
            force_centre: middle of the range of forces [N m or N].
            force_limit: how far a force may be from it [N m or N].
            control_lower: least input.
            control_upper: greatest input.
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
        """The contacts of each world, [max_contacts, world].

        Attributes:
            point: midway between the surfaces, relative to the origin of the reference tree [m].
            apart: from where the contact acts on side a to where it acts on side b; ``point`` is midway. They are one place
                when the sides touch, to which both have yet to move [m]. No rows if all contacts are those of the present.
            frame: rows normal (from a to b) and two tangents, along world axes.
            distance: between the surfaces, negative where they overlap [m].
            friction: product of both coefficients.
            restitution: product of both coefficients; of an inner ball -1 less the time at which its pair bounces.
            spring: stiffness [N/m] and damping [N s/m] of a compliant contact; no rows if there is none in the model.
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
            coupling_bias: of joints that move together [coupling, world], rad/s or m/s.
            anchor_point: midway between both anchors, relative to the origin of the reference tree [anchor, world], m.
            anchor_bias: of the points [anchor, world], m/s.
            anchor_turn: of the orientations [anchor, world], rad/s.
            anchor_apart: from the first anchor to the second one, each of which moves with its own link under MuJoCo's law [anchor,
                world], m; no rows where both move like the point midway.
            anchor_error: what removes errors of anchor_bias and anchor_turn, in turn [2 anchor, world]; no rows under MuJoCo's law.
            anchor_frame: what the rows of a point and of an orientation are made of from the relative velocity, in turn
                [2 anchor, world].
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
            gap: angle left before the limit, negative past it [rad].
            row: rate of the gap per rate of each of the joint's three degrees of freedom.
        """

        gap: wp.array2d(dtype=scalar)
        row: wp.array2d(dtype=t.vec3)

    @wp.struct
    class Motions:
        """Where trees and degrees of freedom are.

        Attributes:
            origin: of each tree, in the world [num_trees, world], m.
            subspace: motion of each degree of freedom about the origin of its tree, angular part first [nv, world].
        """

        origin: wp.array2d(dtype=t.vec3)
        subspace: wp.array2d(dtype=t.spatial)

    @wp.struct
    class Rows:
        """Of each constraint, what the solver sees beside the Delassus matrix, [nc, world].

        Attributes:
            rhs: velocity without impulses plus bias, three rows [m/s or rad/s].
            bound: friction coefficient, or largest impulse [N s or N m s].
            softness: what a compliant constraint adds to its first diagonal entry [1/kg or 1/(kg m^2)]; below zero, minus the share
                of R that is left of its first row (Newton's method).
            size: of Newton's method, the sum of the sizes of what the velocity of the first row is the sum of, and of the
                larger of the others [m/s or rad/s].
        """

        rhs: wp.array2d(dtype=t.vec3)
        bound: wp.array2d(dtype=scalar)
        softness: wp.array2d(dtype=scalar)
        size: wp.array2d(dtype=t.vec2)

    @wp.struct
    class References:
        """What MuJoCo's law asks for (:mod:`warp_kernels.solver.mujoco.references`); no rows where the law is another, but for tendons.

        Each is the bias of the first row [m/s or rad/s], R [1/kg or 1/(kg m^2)], and the share of the velocity before the step that
        rows hold.

        Attributes:
            contact: of each contact [max_contacts, world].
            limit: of the lower limit of degree of freedom k at 2 k, of the upper one at 2 k + 1 [2 nv, world].
            loss: of dry friction [nv, world].
            anchor: of points that coincide at 2 i, of orientations at 2 i + 1 [2 anchors, world]; their biases are among the equalities.
            coupling: of joints that move together [couplings, world].
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
        """Of each contact, where the time of its impact follows from, [nc, world]; no rows where nothing bounces.

        Attributes:
            before: normal velocity before the step [m/s].
            free: normal velocity after the step if there were no impulses [m/s]; zero if the contact doesn't bounce.
            late: share of the step that is over when the surfaces touch.
        """

        before: wp.array2d(dtype=scalar)
        free: wp.array2d(dtype=scalar)
        late: wp.array2d(dtype=scalar)

    @wp.struct
    class RowInputs:
        """What the rows of constraints are made of.

        Attributes:
            options: numbers of the contact options.
            limits: parameters of joint limits.
            friction_loss: parameter [1 or world, nv], N m or N.
            coupling_ratio: parameter [1 or world, coupling].
            q: coordinates [world, nq].
            qd: velocity before the step [world, nv].
            motions: where trees and degrees of freedom are.
            contacts: of each world.
            equalities: of each world.
            cones: limits of spherical joints.
            references: what MuJoCo's law asks for.
            actuator_row: bias, softness and bound of each actuator's row [actuator, world].
            tendon_row: Jacobian of each constraint of tendons [tendon constraint, dof, world]; no rows where there are none.
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
        """What adjoints need of a step's solution, with the names of :mod:`warp_kernels.solver.impulse`.

        Attributes:
            qd: v+, the velocity after the step [world, nv].
            qdd: acceleration without impulses [world, nv].
            impulse: lambda [nc, world].
            weight: w [nv, world].
            lag: what positions lag behind by, as a velocity (:mod:`warp_kernels.solver.impact_time`); no rows where nothing bounces, nor
                in the next two [nv, world].
            lag_weight: what reaches the path of positions [nv, world].
            free_weight: what reaches w by the velocities at which contacts bounce [nv, world].
            damping_loss: what MuJoCo's damping takes of v+ (:mod:`warp_kernels.solver.mujoco.integrators.damping`); no rows by the other
                law, nor in the next one [world, nv].
            damping_weight: what reaches that [world, nv].
            response: sums of (D + D') Y' along the trees of each incidence; no rows where they are zero
                [incidence times max_tree_dofs, world].
            distance_share: of smoothed gradients (:mod:`warp_kernels.solver.newton.smoothing`); no rows without [nc, world].
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
