"""MuJoCo's laws for the worlds of a lane group in parallel, with masks instead of the branches of
:mod:`warp_kernels.solver.mujoco.laws`.

The inputs of a law are gathered once per constraint, zero for a world that has no constraint in this slot. Then every
constraint has the data of all kinds: a row between two bounds, rows without bounds, and a cone.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_contact, is_in_cone, is_in_interval, is_one_sided, is_unbounded
from warp_kernels.cpu.native import Native
from warp_kernels.solver.mujoco.laws import CONES, flattest_square
from warp_kernels.solver.newton.constants import SEARCHES, SLIDES_FROM
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import warp_types

# As in ``laws.h``. Per-constraint data, [constraint, FIELDS, L]: values, impulses, change of the values along a step,
# values at z = 0; the first row's 1 / R if it has no cone, and its smallest and largest impulse; 1 / R of other
# rows without a cone; the friction coefficient of a cone, zero without, and two numbers of its own; 1 / R of the other
# rows, magnitudes of the terms of the velocities without impulses, the share of the normal impulse from which friction
# slides, negative if it doesn't, and magnitudes of the terms of the velocities at z = 0.
VALUE, IMPULSE, SLIP, BEFORE, FIRST, LOW, HIGH, OTHERS, MU, CONE, STIFFNESS, SIZE, SLIDES, SIZE_BEFORE = (
    0,
    3,
    6,
    9,
    12,
    13,
    14,
    15,
    16,
    17,
    19,
    20,
    22,
    23,
)
assert SIZE_BEFORE + 1 < FIELDS


@functools.cache
def mujoco_group_law_functions(scalar: Any, cone: str, lanes: int) -> SimpleNamespace:
    """Return the functions for one precision, cone and number of lanes; empty for a cone that has no code for
    groups.
    """
    if cone not in CONES.values():
        return SimpleNamespace()
    t = warp_types(scalar)
    structs = newton_structs(scalar)
    Problem = structs.Problem
    Group = group_structs(scalar).Group
    of_worlds, vectors = wp.array2d(dtype=scalar), wp.array2d(dtype=t.vec3)
    zero, infinite = scalar(0.0), scalar(wp.inf)
    flattest = flattest_square(scalar)
    native, elliptic = Native(scalar, lanes, "mujoco"), cone == "elliptic"

    @wp.func
    def put(i: int, n: int, field: int, x: scalar, shared: Group):
        shared.fields[(i * FIELDS + field) * lanes + n] = x

    @wp.func
    def put_cone(i: int, n: int, friction: scalar, stiffness: t.vec2, shared: Group):
        """Set the parameters of a contact's cone, see :mod:`warp_kernels.solver.mujoco.laws`."""
        put(i, n, MU, friction, shared)
        if wp.static(cone == "pyramidal"):
            edge = stiffness[1] / (scalar(2.0) * friction * friction)
            put(i, n, CONE, edge, shared)
            put(i, n, STIFFNESS, wp.max(stiffness[1], scalar(2.0) * flattest * edge), shared)
        else:
            put(i, n, CONE, stiffness[0], shared)
            put(i, n, CONE + 1, friction * friction * stiffness[0] / stiffness[1], shared)

    @native.func_native()
    def clear_fields(count: int, shared: Group):
        """Set the per-constraint data to zero."""

    @wp.func
    def gather_laws(group: int, most: int, constraints: Constraints, problem: Problem, shared: Group):
        """Gather the inputs of the laws for all constraints."""
        clear_fields(most, shared)
        for n in range(lanes):
            world = group * lanes + n
            for i in range(most):
                own = shared.slot_constraint[i * lanes + n]
                if own < 0:
                    continue
                kind = constraints.kind[own, world]
                before = problem.value_before[own, world]
                for c in range(3):
                    put(i, n, BEFORE + c, before[c], shared)
                stiffness = problem.row_stiffness[own, world]
                bound = problem.bound[own, world]
                size = problem.size[own, world]
                put(i, n, STIFFNESS, stiffness[1], shared)
                size_before = problem.size_before[own, world]
                for c in range(2):
                    put(i, n, SIZE + c, size[c], shared)
                    put(i, n, SIZE_BEFORE + c, size_before[c], shared)
                put(i, n, SLIDES, scalar(-1.0), shared)
                if is_contact(kind):
                    put(i, n, SLIDES, scalar(SLIDES_FROM) * bound, shared)
                if is_in_cone(kind) and bound > zero:
                    put_cone(i, n, bound, stiffness, shared)
                else:
                    put(i, n, FIRST, stiffness[0], shared)
                    high = infinite
                    if is_in_interval(kind):
                        high = bound
                    low = -high
                    if is_one_sided(kind):
                        low = zero
                    put(i, n, LOW, low, shared)
                    put(i, n, HIGH, high, shared)
                    if is_unbounded(kind):
                        put(i, n, OTHERS, stiffness[1], shared)

    @native.func_native(elliptic)
    def find_impulses(group: int, count: int, nv: int, z: of_worlds, shared: Group, residual: of_worlds):
        """Compute values and impulses at z, and subtract their momenta from the residual; zero for waiting worlds."""

    @native.func_native(elliptic)
    def find_slopes(count: int, shared: Group):
        """Compute slopes of all constraints, like the function of that name in
        :func:`warp_kernels.solver.newton.group.steps.group_step_functions`.
        """

    @native.func_native(elliptic, SEARCHES)
    def find_lengths(group: int, count: int, nv: int, goal_share: scalar, step: of_worlds, shared: Group):
        """Compute step lengths like :func:`convex_length` of :mod:`warp_kernels.solver.newton.descent`; zero for worlds
        that don't move.
        """

    @native.func_native()
    def find_magnitudes(count: int, epsilon: scalar, sums: scalar, precision: scalar, shared: Group):
        """Compute the magnitudes like :func:`magnitudes` there. sums: roundings of a sum."""

    @native.func_native()
    def pushes(count: int, n: int, shared: Group) -> bool:
        """Return whether any constraint of world n of the group has an impulse."""

    @native.func_native()
    def keep_impulses(group: int, count: int, shared: Group, value: vectors, impulse: vectors):
        """Write values and impulses to the arrays of each world."""

    return SimpleNamespace(
        gather_laws=gather_laws,
        find_impulses=find_impulses,
        find_slopes=find_slopes,
        find_lengths=find_lengths,
        find_magnitudes=find_magnitudes,
        pushes=pushes,
        keep_impulses=keep_impulses,
    )
