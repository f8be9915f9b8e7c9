"""Gauss-Seidel sweeps over the constraints of a lane group's worlds, like
:mod:`warp_kernels.solver.newton.gauss_seidel` for one.

Each world has its own number of sweeps; worlds that have finished theirs keep their values.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.constants import EVERY
from warp_kernels.solver.newton.group.structs import group_structs

# As in ``sweeps.h``. Per-constraint data of the sweeps, [constraint, FIELDS, L]: impulses of the sweeps, values at z
# = 0, R of the first row and of the others, the constraint's own matrix row by row, step lengths, bound, the
# class, see CLASSES, the direction along which the impulses move between sweeps, and their change in the last one.
IMPULSE, BEFORE, COMPLIANCE, BLOCK, LENGTHS, BOUND, CLASS, DIRECTION, CHANGE, FIELDS = (
    0,
    3,
    6,
    8,
    17,
    20,
    21,
    22,
    25,
    28,
)
# A world has no constraint with this index, or an immovable one; one with friction or a unilateral one; one with a
# bound on both sides; rows without bounds.
NONE, PUSHES, BOUNDED, UNBOUNDED = 0, 1, 2, 3


@functools.cache
def group_sweep_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Return the functions for one precision, friction model and number of lanes."""
    of_worlds = wp.array2d(dtype=scalar)
    Group = group_structs(scalar).Group
    native = Native(scalar, lanes, "newton::sweeps")

    @native.func_native()
    def add_block(constraint: int, group: int, nv: int, inverse_mass: of_worlds, shared: Group):
        """Add a constraint's own matrix to ``fields``."""

    @native.func_native()
    def find_motions(
        group: int, count: int, nv: int, inverse_mass: of_worlds, z_before: of_worlds, shared: Group, z: of_worlds
    ):
        """Set z to the velocities of the impulses of the sweeps, in worlds with sweeps to come."""

    @native.func_native(friction == "cone", EVERY)
    def sweep_constraints(group: int, count: int, nv: int, inverse_mass: of_worlds, shared: Group, z: of_worlds):
        """Sweep each world ``number`` times. ``velocity``: scratch."""

    return SimpleNamespace(add_block=add_block, find_motions=find_motions, sweep_constraints=sweep_constraints)
