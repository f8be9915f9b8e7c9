"""The way back from rows that are made of velocities to where they act and to the motions of the joints, for the worlds of a lane group.

What :mod:`warp_kernels.constraints.row_adjoint` does for the geometric rows of one world. By MuJoCo's law rows hold a share of the velocity
before the step, which has an adjoint as well; by the other one they hold all of it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.sides import side_structs
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.structs import Constraints, TreeDofs
from warp_kernels.types import warp_types


@functools.cache
def group_geometry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes."""
    of_worlds, vectors = wp.array2d(dtype=scalar), wp.array2d(dtype=warp_types(scalar).vec3)
    Group, Geometry = group_structs(scalar).Group, side_structs(scalar, lanes).Geometry
    native = Native(scalar, lanes, "newton::geometry")

    @native.func_native()
    def begin_rows(group: int, nv: int, qd: of_worlds, qd_solved: of_worlds, shared: Group):
        """Put v+ and qd of all worlds side by side, with zeros for the adjoint of qd between them: ``velocity``."""

    @native.func_native()
    def rows_adjoint(
        place: int,
        group: int,
        nv: int,
        trees: TreeDofs,
        constraints: Constraints,
        geometry: Geometry,
        impulse: vectors,
        weight: of_worlds,
        shared: Group,
        geometry_bar: Geometry,
    ):
        """From the adjoint of the rows of the constraints in one place to those of what they are made of."""

    @native.func_native()
    def end_rows(group: int, nv: int, shared: Group, qd_bar: of_worlds):
        """Add the adjoint of qd."""

    return SimpleNamespace(begin_rows=begin_rows, rows_adjoint=rows_adjoint, end_rows=end_rows)
