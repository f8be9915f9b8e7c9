"""What the kernels of Newton's method share."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# C++ of the functions for one world.
WORLD_HEADERS = ("newton/world.h",)


@functools.cache
def newton_structs(scalar: Any) -> SimpleNamespace:
    """The structs of one precision. ``nc`` is the room for constraints of a world."""
    t = warp_types(scalar)

    @wp.struct
    class Problem:
        """What the impulses of a step solve.

        The unknown is z = L (v+ - v*), with M = L' D L and v* the velocity without impulses; rows act on z.

        Attributes:
            row: rows along both paths, times L^-1 [2 nc max_depth, world].
            rhs: row values without impulses [nc, world], m/s or rad/s.
            bound: friction coefficient, or largest impulse [nc, world].
            grip: 1 / R of the first row and of the others [nc, world], kg or kg m^2.
            size: sum of the sizes of what the value of the first row is the sum of, and of the larger of the others [nc, world],
                m/s or rad/s.
            resistance: torsional and rolling friction of each contact [contact, world], m.
            inverse_mass: 1 / D [nv, world].
            least_inverse_mass: see :mod:`warp_kernels.constraints.immovable` [nv], 1/kg.
            held_share: what contacts and limits hold of their velocity in smoothed gradients [nc, world]; no rows without them.
            row_inverse_mass: W, the mean inverse mass of a constraint's rows, for smoothed gradients alone [nc, world].
            reach: of the smoothed laws, m/s.
            start: impulses of the step before, with which sweeps begin [nc, world]; no rows without a warm start.
        """

        row: wp.array2d(dtype=t.vec3)
        rhs: wp.array2d(dtype=t.vec3)
        bound: wp.array2d(dtype=scalar)
        grip: wp.array2d(dtype=t.vec2)
        size: wp.array2d(dtype=t.vec2)
        resistance: wp.array2d(dtype=t.vec2)
        inverse_mass: wp.array2d(dtype=scalar)
        least_inverse_mass: wp.array(dtype=scalar)
        held_share: wp.array2d(dtype=scalar)
        row_inverse_mass: wp.array2d(dtype=scalar)
        reach: scalar
        start: wp.array2d(dtype=t.vec3)

    @wp.struct
    class Iterate:
        """Where the iteration is.

        Attributes:
            z: the unknown [nv, world].
            residual: D z less the impulses' push [nv, world].
            step: the step of Newton's method [nv, world].
            work: the same by places, while the system is solved [nv, world].
            value: of each row at z [nc, world].
            slip: change of the values by the whole step [nc, world].
            impulse: the answers to the values [nc, world].
            held: normal impulses that bound friction in a convex round [nc, world].
            swept: impulses of Gauss-Seidel [nc, world].
            own: matrix of each constraint alone, R included [nc, world].
            softness: R of the first row and of the others [nc, world].
            step_length: of an update of each row's swept impulse [nc, world].
            part: where the part of the world that is worked on begins in the lists below, see
                :mod:`warp_kernels.solver.newton.parts` [7, world]; no rows where worlds are not divided, nor in those lists.
            part_constraint: constraints, part by part [nc, world].
            part_dof: degrees of freedom, part by part [nv, world].
            part_tree: trees, part by part [num_trees, world].
        """

        z: wp.array2d(dtype=scalar)
        residual: wp.array2d(dtype=scalar)
        step: wp.array2d(dtype=scalar)
        work: wp.array2d(dtype=scalar)
        value: wp.array2d(dtype=t.vec3)
        slip: wp.array2d(dtype=t.vec3)
        impulse: wp.array2d(dtype=t.vec3)
        held: wp.array2d(dtype=scalar)
        swept: wp.array2d(dtype=t.vec3)
        own: wp.array2d(dtype=t.mat33)
        softness: wp.array2d(dtype=t.vec2)
        step_length: wp.array2d(dtype=t.vec3)
        part: wp.array2d(dtype=int)
        part_constraint: wp.array2d(dtype=int)
        part_dof: wp.array2d(dtype=int)
        part_tree: wp.array2d(dtype=int)

    @wp.struct
    class State:
        """Where a world is in its iteration, see :mod:`warp_kernels.solver.newton.iteration`.

        Attributes:
            mode: what its next step is.
            found: 1 if the system of the last step had pivots.
            bounds: what friction is bounded by at z: COUPLED or HELD.
            tries: 1 while another length of the step is tried.
            trials: lengths of the step that have been tried.
            length: how far to go along the step from where z is.
            square: of the residual at z.
            before: that before the step.
            enough: that with which a convex round ends.
            in_round: steps of the convex round.
            rounds: convex rounds.
            passes: how often sweeps have come, the coming ones included.
            sweeps: of that pass.
            soft: whether the softer problem is solved: NEVER, NOW or BEFORE.
            harder: factor of what constraints resist with, from the last step to the next.
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
        """Which trees of a world hang together.

        Attributes:
            connects: 1 for constraints that make their two trees one island [nc, world].
            island: of each tree, by number [num_trees, world].
            changed: 1 for trees whose island is to be solved [num_trees, world].
            scale: what rounding scales with, of each tree (:func:`warp_kernels.solver.newton.descent.look_back`) [num_trees, world].
            left: velocity that the island of each tree still misses [num_trees, world], m/s or rad/s.
            start: where the constraints, degrees of freedom and trees of each island begin in the lists of :class:`Iterate`, and
                the ends of the last [3 (num_trees + 1), world].
        """

        connects: wp.array2d(dtype=int)
        island: wp.array2d(dtype=int)
        changed: wp.array2d(dtype=int)
        scale: wp.array2d(dtype=scalar)
        left: wp.array2d(dtype=scalar)
        start: wp.array2d(dtype=int)

    @wp.struct
    class System:
        """The linear system ``D - sum of row' slope row``, and its factors.

        Constraints that answer nothing however their values change are left out: they don't connect what they touch.
        Leaves come before roots, so that a branch of a tree fills nothing outside of its path. A row begins at its first entry that may
        differ from zero (an envelope, which factors keep). Rows stand one after the other; up to
        :data:`warp_kernels.solver.newton.group.structs.MOST_DOFS` degrees of freedom they have room for every entry.

        Attributes:
            answers: 1 for the constraints that are in it [nc, world].
            place: of each degree of freedom [nv, world].
            queue: trees, those that hang together near each other [num_trees, world].
            tree_mark: scratch [num_trees, world].
            first: place of the first entry of each row, and of each column [nv, world].
            row_start: where the entry of the first place would be in each row [nv, world].
            is_packed: 0 where the rows find no room: then there is no step, nor a way back [world].
            lower: entries on and below the diagonal; factored the lower factor, with the inverse pivots [room, world].
            upper: entries above the diagonal, transposed; factored the upper factor [room, world].
        """

        answers: wp.array2d(dtype=int)
        place: wp.array2d(dtype=int)
        queue: wp.array2d(dtype=int)
        tree_mark: wp.array2d(dtype=int)
        first: wp.array2d(dtype=int)
        row_start: wp.array2d(dtype=int)
        is_packed: wp.array(dtype=int)
        lower: wp.array2d(dtype=scalar)
        upper: wp.array2d(dtype=scalar)

    return SimpleNamespace(Problem=Problem, Iterate=Iterate, State=State, Islands=Islands, System=System)
