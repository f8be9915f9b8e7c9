"""Linear system of a Newton step by a team of threads, each of which has rows of the matrix.

The matrix is dense, in the team's memory, leaves before roots: row ``nv - 1 - k`` belongs to degree of freedom k. Two
more columns hold the right-hand side and the diagonal before the factorisation. A row has an odd number of entries, so
that threads with different rows use different banks of shared memory.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact
from warp_kernels.solver.newton.residual import residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.team.products import team_product_functions
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.team import fits_shared_memory, team_functions
from warp_kernels.types import warp_types

# Degrees of freedom for which a module's shared memory suffices are multiples of this.
DOFS_STEP = 8


def room_of(nv: int) -> int:
    """Return the numbers that a system of nv degrees of freedom takes."""
    return nv * row_length(nv)


def row_length(nv: int) -> int:
    """Return the length of a row, see :mod:`warp_kernels.solver.newton.team.system`."""
    return (nv + 2) | 1


def shared_dofs(scalar: Any, width: int, nv: int) -> int:
    """Return the degrees of freedom for which shared memory is reserved: no fewer than nv, or 0 if they don't fit."""
    dofs = -(-nv // DOFS_STEP) * DOFS_STEP
    return dofs if fits_shared_memory(scalar, width, room_of(dofs)) else 0


@functools.cache
def team_work_struct(scalar: Any) -> Any:
    """Return the struct for one precision."""
    t, structs = warp_types(scalar), newton_structs(scalar)

    @wp.struct
    class TeamWork:
        """World of a team, and its arrays.

        Attributes:
            world: its index.
            count, nv: its numbers of constraints and degrees of freedom.
            recalled: 1 if the iterate starts with the impulses of the previous time step.
            scale: of rounding, see :func:`warp_kernels.solver.newton.descent.descent_functions`.
            tolerance: of the residual, as a share of ``scale``.
            epsilon: R as a share of the effective inverse mass.
            regularisation: that share of each world, in the hard law.
            slope: derivative of each constraint's impulses with respect to its values [nc, world].
            mixed: that of the impulses of TORSION with respect to the values of its contact [nc, world]; the contact's
                depend on those of TORSION by the transpose under MuJoCo's law, and not at all under the hard law.
            scratch: memory of teams without shared memory [world, room].
        """

        world: int
        count: int
        nv: int
        recalled: int
        scale: scalar
        tolerance: scalar
        epsilon: scalar
        regularisation: wp.array2d(dtype=scalar)
        paths: Paths
        constraints: Constraints
        problem: structs.Problem
        iterate: structs.Iterate
        slope: wp.array2d(dtype=t.mat33)
        mixed: wp.array2d(dtype=t.mat33)
        scratch: wp.array2d(dtype=scalar)

    return TeamWork


@functools.cache
def team_system_functions(scalar: Any, friction: str, width: int, dofs: int) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model or cone of MuJoCo's.

    Args:
        scalar: precision.
        friction: friction model or cone.
        width: threads of a team on a GPU.
        dofs: degrees of freedom for which shared memory is reserved, see :func:`shared_dofs`.
    """
    f = residual_functions(scalar, friction)
    team = team_functions(scalar, width, room_of(dofs))
    of_dof = team_product_functions(scalar)
    Work = team_work_struct(scalar)
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def matrix_of(work: Work):
        """Return the matrix of the world."""
        return wp.array(ptr=team.memory(work.scratch, work.world), shape=(work.nv, (work.nv + 2) | 1), dtype=scalar)

    @wp.func
    def entry(i: int, k: int, work: Work):
        """Return the rows' entry of constraint i at degree of freedom k."""
        return of_dof.entry(i, k, work.world, work.paths, work.constraints, work.problem.row)

    @wp.func
    def with_pushes(k: int, value: scalar, share: scalar, pushes: wp.array2d(dtype=vec3), work: Work):
        """Add a share of the transposed rows times ``pushes`` to a value of degree of freedom k."""
        return of_dof.with_pushes(
            k, value, share, pushes, work.count, work.world, work.paths, work.constraints, work.problem.row
        )

    @wp.func
    def find_slopes(mode: int, work: Work):
        """Compute ``slope`` of each constraint, and ``mixed`` of each TORSION."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            kind = work.constraints.kind[i, world]
            item = work.constraints.item[i, world]
            if wp.static(f.paired):
                if f.is_paired(kind, item, world, work.problem):
                    continue  # with its TORSION
                if follows_contact(kind):
                    first, mixed, other = f.pair_slopes(i, item, world, work.problem, work.iterate)
                    work.slope[item, world] = first
                    work.slope[i, world] = other
                    work.mixed[i, world] = wp.transpose(mixed)
                    continue
            own, follows = f.slopes(i, kind, item, world, mode, work.problem, work.iterate)
            work.slope[i, world] = own
            if follows_contact(kind):
                work.mixed[i, world] = mat33(follows[0], zero, zero, follows[1], zero, zero, follows[2], zero, zero)
        team.sync()

    @wp.func
    def subtract(p: int, push: vec3, i: int, work: Work):
        """Subtract ``push`` times the rows of constraint i from row p."""
        matrix = matrix_of(work)
        for side in range(2):
            tail = work.constraints.tail[2 * i + side, work.world]
            if tail >= 0:
                here = (2 * i + side) * work.paths.max_depth
                for d in range(work.paths.dof_depth[tail] + 1):
                    q = work.nv - 1 - of_dof.path_dof(tail, d, work.paths)
                    matrix[p, q] = matrix[p, q] - wp.dot(push, work.problem.row[here + d, work.world])

    @wp.func
    def assemble(mode: int, transposed: bool, work: Work):
        """Assemble the derivative of the residual with respect to z, or its transpose. :func:`set_side` comes next."""
        find_slopes(mode, work)
        matrix = matrix_of(work)
        world, nv = work.world, work.nv
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            p = nv - 1 - k
            for q in range(nv):
                matrix[p, q] = zero
            matrix[p, p] = one / work.problem.inverse_mass[k, world]
            for i in range(work.count):
                slope = work.slope[i, world]
                if wp.ddot(slope, slope) > zero:
                    own = entry(i, k, work)
                    if wp.dot(own, own) > zero:
                        if transposed:
                            subtract(p, slope * own, i, work)
                        else:
                            subtract(p, own * slope, i, work)
                if follows_contact(work.constraints.kind[i, world]):
                    mixed = work.mixed[i, world]
                    if wp.ddot(mixed, mixed) > zero:
                        contact = work.constraints.item[i, world]
                        if transposed or wp.static(f.paired):
                            subtract(p, mixed * entry(contact, k, work), i, work)
                        if not transposed or wp.static(f.paired):
                            subtract(p, entry(i, k, work) * mixed, contact, work)
            matrix[p, nv + 1] = matrix[p, p]

    @wp.func
    def set_side(share: scalar, values: wp.array2d(dtype=scalar), work: Work):
        """Set the right-hand side to a share of values [nv, world]."""
        matrix = matrix_of(work)
        for n in range(team.lane(), work.nv, team.size()):
            k = team.item(n, work.nv)
            matrix[work.nv - 1 - k, work.nv] = share * values[k, work.world]
        team.sync()

    @wp.func
    def factorise(work: Work):
        """Factorise as L U without pivoting, L with a unit diagonal, and multiply the right-hand side by L^-1.

        Return the smallest pivot, as a share of its diagonal entry.
        """
        matrix = matrix_of(work)
        least = scalar(wp.inf)
        for j in range(work.nv):
            pivot = matrix[j, j]
            least = wp.min(least, wp.abs(pivot / matrix[j, work.nv + 1]))
            inverse = one / pivot
            below = work.nv - 1 - j
            for n in range(team.lane(), below, team.size()):
                r = j + 1 + team.item(n, below)
                value = matrix[r, j] * inverse
                if value != zero:
                    matrix[r, j] = value
                    for c in range(j + 1, work.nv + 1):
                        matrix[r, c] = matrix[r, c] - value * matrix[j, c]
            team.sync()
        return least

    @wp.func
    def solve_lower(work: Work):
        """Multiply the right-hand side by L^-1."""
        matrix = matrix_of(work)
        for j in range(work.nv):
            value = matrix[j, work.nv]
            below = work.nv - 1 - j
            for n in range(team.lane(), below, team.size()):
                r = j + 1 + team.item(n, below)
                matrix[r, work.nv] = matrix[r, work.nv] - matrix[r, j] * value
            team.sync()

    @wp.func
    def solve_upper(x: wp.array2d(dtype=scalar), work: Work):
        """Set x [nv, world] to U^-1 times the right-hand side."""
        matrix = matrix_of(work)
        nv = work.nv
        for back in range(nv):
            j = nv - 1 - back
            value = matrix[j, nv] / matrix[j, j]
            for n in range(team.lane(), j, team.size()):
                r = team.item(n, j)
                matrix[r, nv] = matrix[r, nv] - matrix[r, j] * value
            team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            p = nv - 1 - k
            x[k, work.world] = matrix[p, nv] / matrix[p, p]
        team.sync()

    @wp.func
    def velocity_left(work: Work):
        """Return the largest velocity that the pivots make of the residual."""
        matrix = matrix_of(work)
        largest = zero
        for k in range(work.nv):
            pivot = matrix[work.nv - 1 - k, work.nv - 1 - k]
            largest = wp.max(largest, wp.abs(work.iterate.residual[k, work.world] / pivot))
        return largest

    return SimpleNamespace(
        residual=f,
        team=team,
        with_pushes=with_pushes,
        assemble=assemble,
        set_side=set_side,
        factorise=factorise,
        solve_lower=solve_lower,
        solve_upper=solve_upper,
        velocity_left=velocity_left,
    )
