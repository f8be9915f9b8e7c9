"""Linear algebra for the worlds of a lane group: products with rows, a Newton step's system, and the transposed one of
the adjoint.

The same as :mod:`warp_kernels.solver.newton.system`, :mod:`warp_kernels.constraints.products`,
:mod:`warp_kernels.solver.newton.adjoint.adjoint` and :mod:`warp_kernels.solver.newton.adjoint.regularisation` for one world.
All worlds of a group share one sparsity pattern: a constraint's rows are zero where only another world's constraint in
the same slot acts. Zeros change no sum, so that a world's results don't depend on the others of its group.

Degree of freedom k has the index nv - 1 - k: leaves come before roots.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.structs import group_structs
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Paths
from warp_kernels.types import warp_types


@functools.cache
def group_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for one precision and number of lanes. Each reads and writes only the arrays of a struct
    that it is about.
    """
    ints, of_worlds = wp.array(dtype=int), wp.array2d(dtype=scalar)
    vectors = wp.array2d(dtype=warp_types(scalar).vec3)
    Group, System = group_structs(scalar).Group, newton_structs(scalar).System
    native = Native(scalar, lanes, "newton")

    @native.func_native()
    def gather_rows(
        constraint: int, group: int, nv: int, paths: Paths, tail: wp.array2d(dtype=int), row: vectors, shared: Group
    ):
        """Interleave the rows of all worlds."""

    @native.func_native()
    def find_values(constraint: int, group: int, nv: int, z: of_worlds, shared: Group):
        """Multiply the rows of a constraint by z: ``three``."""

    @native.func_native()
    def take_push(constraint: int, group: int, nv: int, shared: Group, residual: of_worlds):
        """Subtract the momenta of the impulses ``three`` from the residual."""

    @native.func_native()
    def begin_residual(
        group: int, nv: int, z: of_worlds, z_before: of_worlds, inverse_mass: of_worlds, residual: of_worlds
    ):
        """Set the residual to D (z + z_before)."""

    @native.func_native()
    def find_square(group: int, nv: int, inverse_mass: of_worlds, residual: of_worlds, shared: Group):
        """Compute twice the kinetic energy of the residual's momenta: ``square``."""

    @native.func_native()
    def begin_system(group: int, count: int, nv: int, inverse_mass: of_worlds, shared: Group):
        """Find the start of each row of the system, and set the system to D."""

    @native.func_native()
    def add_constraint(constraint: int, nv: int, any_coupled: bool, shared: Group):
        """Subtract ``row' slope row`` from the system; entries above the diagonal only if ``any_coupled``."""

    @native.func_native()
    def factorise(nv: int, any_coupled: bool, shared: Group):
        """Factorise the system as L U without pivoting, L with a unit diagonal; ``least``: the smallest pivot."""

    @native.func_native()
    def solve_systems(group: int, nv: int, residual: of_worlds, shared: Group, step: of_worlds):
        """Solve the systems for the step."""

    @native.func_native()
    def start_at(
        group: int,
        nv: int,
        least_inverse: scalar,
        moves: ints,
        inverse_mass: of_worlds,
        z_before: of_worlds,
        z: of_worlds,
    ):
        """Set z to zero in worlds that move, to the z without impulses in others and for prescribed joints."""

    @native.func_native()
    def move_by(group: int, nv: int, step: of_worlds, shared: Group, z: of_worlds):
        """Move z along the step in worlds that move, by the ``lengths`` of each."""

    @native.func_native()
    def find_energies(
        group: int,
        nv: int,
        inverse_mass: of_worlds,
        z: of_worlds,
        z_before: of_worlds,
        step: of_worlds,
        shared: Group,
    ):
        """Compute the slope of kinetic energy along the step at its beginning, and its change over the whole step:
        ``along``.
        """

    @native.func_native()
    def velocities_left(group: int, nv: int, residual: of_worlds, shared: Group):
        """Compute the largest velocity that the pivots make of the residual: ``left_now``."""

    @native.func_native()
    def keep_system(group: int, nv: int, with_upper: bool, shared: Group, system: System):
        """Write the factors of worlds that move, L and D and perhaps U, for the backward pass."""

    @native.func_native()
    def initial_guesses(
        group: int,
        nv: int,
        dt: scalar,
        least_inverse: scalar,
        paths: Paths,
        qd: of_worlds,
        qdd: of_worlds,
        factor_l: of_worlds,
        inverse_mass: of_worlds,
        shared: Group,
        z_before: of_worlds,
    ):
        """Compute :func:`warp_kernels.solver.newton.descent.initial_guess` for all worlds."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})


# As in ``adjoint_system.h``. Fields of :class:`Group` that the backward pass keeps of a constraint: s, the adjoints of
# row values, the adjoint of the impulses except that from the next velocity, and the adjoint of the effective inverse
# masses of its rows (xx, yy, zz, xy, xz, yz).
S, RHS_BAR, FURTHER, BLOCK_BAR = 0, 3, 6, 9


@functools.cache
def adjoint_system_functions(scalar: Any, lanes: int, symmetric: bool) -> SimpleNamespace:
    """Return the functions for one precision, number of lanes and kind of systems. Arguments are as those of
    :func:`group_functions`.

    Systems that are always ``symmetric`` don't store U, which follows from D^-1 and L.
    """
    ints, of_worlds = wp.array(dtype=int), wp.array2d(dtype=scalar)
    Group, System = group_structs(scalar).Group, newton_structs(scalar).System
    native = Native(scalar, lanes, "newton::adjoint_system")

    @native.func_native()
    def begin_step(group: int, nv: int, moves: ints, step: of_worlds):
        """Set the step to zero in worlds that move."""

    @native.func_native()
    def solve_transposed(group: int, nv: int, residual: of_worlds, shared: Group, step: of_worlds):
        """Solve the transposed systems for the residual, and add the solution to the step of worlds that move."""

    @native.func_native(symmetric)
    def solve_kept(group: int, nv: int, system: System, residual: of_worlds, shared: Group, step: of_worlds):
        """Solve the transposed systems with the factors of the last Newton step."""

    @native.func_native()
    def find_adjoint_residual(
        group: int,
        count: int,
        nv: int,
        has_further: bool,
        weight: of_worlds,
        inverse_mass: of_worlds,
        step: of_worlds,
        shared: Group,
        residual: of_worlds,
    ):
        """Compute, for x in the step: s, the adjoints of the row values, and the residual of the right-hand side."""

    @native.func_native()
    def push_weights(
        group: int,
        nv: int,
        moves: ints,
        inverse_mass: of_worlds,
        step: of_worlds,
        residual: of_worlds,
        weight: of_worlds,
    ):
        """Add D^-1 row' rhs_bar in worlds that move."""

    @native.func_native()
    def finish_weights(group: int, nv: int, paths: Paths, factor_l: of_worlds, weight: of_worlds):
        """Multiply the weights by L^-1."""

    @native.func_native()
    def clear_mass_bars(group: int, solver_mass_bar: of_worlds, solver_mass_bar_diagonal: of_worlds):
        """Set to zero the arrays that contributions are added to."""

    @native.func_native()
    def find_own_response(
        constraint: int,
        group: int,
        nv: int,
        paths: Paths,
        factor_l: of_worlds,
        inverse_mass: of_worlds,
        shared: Group,
        solver_mass_bar: of_worlds,
        solver_mass_bar_diagonal: of_worlds,
    ):
        """Compute G of a constraint, ``response``, and add its part of the adjoints of L and D."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
