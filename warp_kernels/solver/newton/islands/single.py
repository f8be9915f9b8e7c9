"""Newton's method on an island with a single constraint, such as a ball on the ground.

Its impulse is all there is to find: three numbers, to which z = D^-1 row' impulse and the row values r = r* + G impulse answer, with
G = row D^-1 row'. Where p is what the constraint answers to r and P the slope of that, a step ends at

    (1 - P G) impulse = p + P (r* - r).

That is a step of the whole system (:mod:`warp_kernels.solver.newton.system`), without its order, its outline and its factors, and no large
numbers cancel: p is homogeneous in r where a contact holds or slides, so that p - P r is rounding there.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.constants import SINGLE_STEPS
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.one_world import work_struct
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@functools.cache
def single_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Warp functions for one precision and friction model."""
    mat33 = warp_types(scalar).mat33
    f = residual_functions(scalar, friction, divided=True)
    descent = descent_functions(scalar, friction, divided=True)
    parts, products = f.parts, f.products
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Work = work_struct(scalar)
    zero, singular = scalar(0.0), descent.singular
    identity = wp.constant(mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0))

    @wp.func
    def inverse_of(matrix: mat33):
        """The inverse by Cramer's rule, and whether the determinant is above rounding."""
        a, b, c = matrix[0], matrix[1], matrix[2]
        bc, ca, ab = wp.cross(b, c), wp.cross(c, a), wp.cross(a, b)
        determinant = wp.dot(a, bc)
        if not determinant > singular * wp.max(wp.abs(a)) * wp.max(wp.abs(b)) * wp.max(wp.abs(c)):
            return mat33(), False
        return wp.matrix_from_cols(bc, ca, ab) / determinant, True

    @wp.func
    def answer_of(i: int, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """What the constraint answers to the row values of ``iterate``."""
        kind, item = constraints.kind[i, world], constraints.item[i, world]
        bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
        return f.laws.answer(kind, iterate.value[i, world], problem.grip[i, world], bounds)

    @wp.func
    def find_motion(
        i: int, world: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Set z to what the impulse does."""
        for n in range(nv):
            iterate.z[parts.dof_of(n, world, iterate), world] = zero
        products.add_scaled_push(
            i, iterate.impulse[i, world], world, paths, constraints, problem.row, problem.inverse_mass, iterate.z
        )

    @wp.func
    def solve(work: Work, iterations: int):
        """Solve the island from the row values and impulses of ``iterate``, as ``solve`` of one_world does.

        Returns the largest velocity of a row that a further step with the last slope would add [m/s or rad/s], and how many steps there
        were: none where they didn't lead to the solution. Then row values, impulses and the residual have to be found anew; z is as it was.
        """
        world = work.world
        i = parts.constraint_of(0, world, work.iterate)
        kind, item = work.constraints.kind[i, world], work.constraints.item[i, world]
        mobility = products.own_mobility(
            i, world, work.paths, work.constraints, work.problem.row, work.problem.inverse_mass
        )
        for step in range(wp.min(iterations, SINGLE_STEPS)):
            slope, _follows = f.slopes(i, kind, item, world, COUPLED, work.problem, work.iterate)
            inverse, found = inverse_of(identity - slope * mobility)
            if not found:
                return zero, int(0)
            free = work.problem.rhs[i, world]
            impulse = inverse * (work.iterate.impulse[i, world] + slope * (free - work.iterate.value[i, world]))
            work.iterate.value[i, world] = free + mobility * impulse
            answer = answer_of(i, world, work.constraints, work.problem, work.iterate)
            work.iterate.impulse[i, world] = answer
            miss = answer - impulse
            at_hand = descent.square_at_hand(world, 1, work.epsilon, work.constraints, work.problem, work.iterate)
            if wp.dot(miss, mobility * miss) <= descent.goal(at_hand, work.scale, work.epsilon, work.tolerance):
                work.iterate.impulse[i, world] = impulse
                find_motion(i, world, work.nv, work.paths, work.constraints, work.problem, work.iterate)
                return wp.max(wp.abs(mobility * (inverse * miss))), step + 1
        return zero, int(0)

    return SimpleNamespace(solve=solve)
