"""Structs that the kernels of Newton's method share."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# C++ of the functions for one world.
WORLD_HEADERS = ("newton/world.h",)


@functools.cache
def newton_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision. ``nc`` is the capacity for constraints of a world."""
    t = warp_types(scalar)

    @wp.struct
    class Problem:
        """Problem of a step's impulses.

        The unknown is z = L (v+ - v), with M = L' D L and v the velocity before the step; rows act on z.

        Attributes:
            row: rows along both paths, times L^-1 [2 nc max_depth, world].
            rhs: row values without impulses, at the velocity v* [nc, world], m/s or rad/s.
            value_before: row values at z = 0 [nc, world], m/s or rad/s.
            bound: friction coefficient, or largest impulse [nc, world].
            row_stiffness: 1 / R of the first row and of the others [nc, world], kg or kg m^2.
            size, size_before: sum of the magnitudes of the terms of the first row's velocity, and of the larger of the
                others, at v* and at v [nc, world], m/s or rad/s.
            bias_change: change of the first row's bias since the previous step, see
                :class:`warp_kernels.solver.structs.Rows` [nc, world]; no rows if the solver doesn't recall that step.
            resistance: torsional and rolling friction of each contact [contact, world], m.
            inverse_mass: 1 / D [nv, world].
            least_inverse_mass: see :mod:`warp_kernels.constraints.immovable` [nv], 1/kg.
            held_share: share of their velocity that contacts and limits stop in smoothed gradients [nc, world]; no rows
                without them.
            row_inverse_mass: W, the mean effective inverse mass of a constraint's rows, for smoothed gradients only
                [nc, world].
            smoothing_velocity: of the smoothed laws, m/s.
            start: impulses of the previous step, with which sweeps begin [nc, world]; no rows without a warm start.
        """

        row: wp.array2d(dtype=t.vec3)
        rhs: wp.array2d(dtype=t.vec3)
        value_before: wp.array2d(dtype=t.vec3)
        bound: wp.array2d(dtype=scalar)
        row_stiffness: wp.array2d(dtype=t.vec2)
        size: wp.array2d(dtype=t.vec2)
        size_before: wp.array2d(dtype=t.vec2)
        bias_change: wp.array2d(dtype=scalar)
        resistance: wp.array2d(dtype=t.vec2)
        inverse_mass: wp.array2d(dtype=scalar)
        least_inverse_mass: wp.array(dtype=scalar)
        held_share: wp.array2d(dtype=scalar)
        row_inverse_mass: wp.array2d(dtype=scalar)
        smoothing_velocity: scalar
        start: wp.array2d(dtype=t.vec3)

    @wp.struct
    class Iterate:
        """Iterate of Newton's method.

        Attributes:
            z: the unknown [nv, world].
            z_before: L (v - v*): minus the z without impulses [nv, world].
            residual: D (z + z_before) minus the impulses' momenta [nv, world].
            step: the step of Newton's method [nv, world].
            work: the same in elimination order, while the system is solved [nv, world].
            value: of each row at z [nc, world].
            slip: change of the values by the whole step [nc, world].
            impulse: constraint law at the values [nc, world].
            held: normal impulses that bound friction in a convex round [nc, world].
            sweep_impulse: impulses of Gauss-Seidel [nc, world].
            block: diagonal block of the Delassus matrix of each constraint, plus R [nc, world].
            row_compliance: R of the first row and of the others [nc, world].
            step_length: of an update of each row's impulse in sweeps [nc, world].
            part: start of the current part in the lists below, see :mod:`warp_kernels.solver.newton.parts` [7, world];
                no rows if worlds are not divided, nor in those lists.
            part_constraint: constraints, part by part [nc, world].
            part_dof: degrees of freedom, part by part [nv, world].
            part_tree: trees, part by part [num_trees, world].
        """

        z: wp.array2d(dtype=scalar)
        z_before: wp.array2d(dtype=scalar)
        residual: wp.array2d(dtype=scalar)
        step: wp.array2d(dtype=scalar)
        work: wp.array2d(dtype=scalar)
        value: wp.array2d(dtype=t.vec3)
        slip: wp.array2d(dtype=t.vec3)
        impulse: wp.array2d(dtype=t.vec3)
        held: wp.array2d(dtype=scalar)
        sweep_impulse: wp.array2d(dtype=t.vec3)
        block: wp.array2d(dtype=t.mat33)
        row_compliance: wp.array2d(dtype=t.vec2)
        step_length: wp.array2d(dtype=t.vec3)
        part: wp.array2d(dtype=int)
        part_constraint: wp.array2d(dtype=int)
        part_dof: wp.array2d(dtype=int)
        part_tree: wp.array2d(dtype=int)

    @wp.struct
    class State:
        """Iteration state of a world, see :mod:`warp_kernels.solver.newton.iteration`.

        Attributes:
            mode: mode of the next step.
            found: 1 if the system of the last step had pivots.
            bounds: source of the friction bounds at z: COUPLED or HELD.
            tries: 1 while another step length is tried.
            trials: step lengths that have been tried.
            length: next change of the step length, from the present z.
            square: of the residual at z.
            before: that before the step.
            enough: that with which a convex round ends.
            in_round: steps of the convex round.
            rounds: convex rounds.
            passes: passes of sweeps, the next one included.
            sweeps: of that pass.
            soft: whether the softer problem is solved: NEVER, NOW or BEFORE.
            harder: factor on the constraints' stiffness, from the last step to the next.
        """

        mode: int
        found: int
        bounds: int
        tries: int
        trials: int
        length: scalar
        square: scalar
        before: scalar
        enough: scalar
        in_round: int
        rounds: int
        passes: int
        sweeps: int
        soft: int
        harder: scalar

    @wp.struct
    class Islands:
        """Islands of a world: trees that interact.

        Attributes:
            connects: 1 for constraints that make their two trees one island [nc, world].
            island: of each tree, by index [num_trees, world].
            changed: 1 for trees whose island is to be solved [num_trees, world].
            scale: of rounding, of each tree (:func:`warp_kernels.solver.newton.descent.initial_guess`) [num_trees, world].
            left: residual of the island of each tree, as a velocity [num_trees, world], m/s or rad/s.
            start: start of the constraints, degrees of freedom and trees of each island in the lists of
                :class:`Iterate`, and the ends of the last [3 (num_trees + 1), world].
        """

        connects: wp.array2d(dtype=int)
        island: wp.array2d(dtype=int)
        changed: wp.array2d(dtype=int)
        scale: wp.array2d(dtype=scalar)
        left: wp.array2d(dtype=scalar)
        start: wp.array2d(dtype=int)

    @wp.struct
    class System:
        """Linear system ``D - sum of row' slope row``, and its factors.

        Constraints whose impulses don't change with their values are omitted: they don't couple their trees. Leaves
        come before roots, so that a branch of a tree causes no fill-in outside of its path. A row begins at its first
        entry that may be nonzero (an envelope, which factors keep). Rows are contiguous; up to
        :data:`warp_kernels.solver.newton.group.structs.MOST_DOFS` degrees of freedom the capacity suffices for every
        entry.

        Attributes:
            active: 1 for the active constraints, which are in it [nc, world].
            permutation: index of each degree of freedom in elimination order [nv, world].
            queue: trees, connected ones near each other [num_trees, world].
            tree_mark: scratch [num_trees, world].
            first: index of the first entry of each row, and of each column [nv, world].
            row_start: offset at which the entry of index 0 would be in each row [nv, world].
            is_packed: 0 if the rows exceed the capacity: then there is no step, nor a backward pass [world].
            lower: entries on and below the diagonal; factored the lower factor, with the inverse pivots [capacity,
                world].
            upper: entries above the diagonal, transposed; factored the upper factor [capacity, world].
        """

        active: wp.array2d(dtype=int)
        permutation: wp.array2d(dtype=int)
        queue: wp.array2d(dtype=int)
        tree_mark: wp.array2d(dtype=int)
        first: wp.array2d(dtype=int)
        row_start: wp.array2d(dtype=int)
        is_packed: wp.array(dtype=int)
        lower: wp.array2d(dtype=scalar)
        upper: wp.array2d(dtype=scalar)

    return SimpleNamespace(Problem=Problem, Iterate=Iterate, State=State, Islands=Islands, System=System)
