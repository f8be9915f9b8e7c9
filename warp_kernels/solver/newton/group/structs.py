"""Scratch memory of one lane group, which a CPU's thread reuses for one after the other, and arguments of native
functions.

Constraints with the same index in different worlds may act on different degrees of freedom, while a slot shared by all
lanes has the degrees of freedom of all. With the feet of a humanoid mixed, a system takes twice as long. So the
constraints of each world are ordered by the degrees of freedom that they act on, and aligned with those of other worlds
that act on the same, or nearly the same. Their order depends on no other world, nor do sums over them, to which empty
slots add zeros.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import lane_types, warp_types


@functools.cache
def side_structs(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the structs for one precision and number of lanes."""
    vectors, columns = wp.array2d(dtype=warp_types(scalar).vec3), wp.array2d(dtype=lane_types(scalar, lanes).spatial)
    structs = solver_structs(scalar)
    Contacts, Equalities, References = structs.Contacts, structs.Equalities, structs.References
    Cones = structs.Cones

    @wp.struct
    class Geometry:
        """Contact points, anchors and motions of joints, or their adjoints.

        Attributes:
            contacts: of each world.
            equalities: anchors of each world.
            references: of MuJoCo's law; read by the backward pass only.
            origin: of each tree [num_trees, world], m.
            subspace: motion of each degree of freedom [nv, group].
        """

        contacts: Contacts
        equalities: Equalities
        references: References
        origin: vectors
        subspace: columns

    @wp.struct
    class Joints:
        """Inputs of rows on single degrees of freedom.

        Attributes:
            cones: limits of spherical joints.
            coupling_ratio: of coupled joints [1 or world, coupling].
        """

        cones: Cones
        coupling_ratio: wp.array2d(dtype=scalar)

    return SimpleNamespace(Geometry=Geometry, Joints=Joints)


# Capacity for constraints of a world; worlds with more are solved one by one.
MOST_CONSTRAINTS = 64
# Capacity for constraints with which the backward pass takes the worlds of a group together.
MOST_BACK = 128
# Degrees of freedom of a world, one for each bit of an integer.
MOST_DOFS = 64

# State of a world: solved, or left to the solver for one.
SOLVED, UNSOLVED = 0, 1
# Systems that the adjoint reads: without U, which it doesn't need if MuJoCo's law takes the worlds of a group together,
# or with it.
KEEPS_HALF, KEEPS_ALL = 1, 2
# C++ headers of the kernels of rows, of the solver and of its backward pass, see :mod:`warp_kernels.cpu.native`.
GROUP_ROW_HEADERS = ("newton/slots.h", "newton/rows.h")
GROUP_HEADERS = ("newton/slots.h", "newton/system.h", "newton/sweeps.h")
GROUP_ADJOINT_HEADERS = ("newton/slots.h", "newton/system.h", "newton/adjoint_system.h", "newton/geometry.h")
MUJOCO_GROUP_HEADERS = ("newton/slots.h", "newton/system.h", "mujoco/laws.h")
MUJOCO_ADJOINT_HEADERS = (*GROUP_ADJOINT_HEADERS, "mujoco/laws.h")


@functools.cache
def group_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision. L is the number of lanes; each entry has one number for each of them."""
    structs = newton_structs(scalar)

    @wp.struct
    class Group:
        """Interleaved data of a lane group.

        Attributes:
            path: degrees of freedom of the path to each one, itself included, as bits [nv].
            slot_constraint: index of the constraint that each world has in a slot, -1 for none
                (:mod:`warp_kernels.solver.newton.group.structs`) [slot, L]. Below, a constraint means a slot.
            dofs: degrees of freedom that a constraint of any of the worlds acts on, ascending [constraint, nv].
            length: number of these [constraint].
            rows: a constraint's three rows at each of these, zero for a world whose constraint doesn't act on it
                [constraint, nv, 3, L].
            first: index of the first entry of each row of the system [nv].
            lower: of the system, as :class:`System` has it [nv (nv + 1) / 2, L].
            upper: likewise.
            velocity: qd and qdd, then the unknowns of the system in elimination order, or z in sweeps, or v+, the
                adjoint of qd and qd [3 nv, L].
            three: row values or impulses of one constraint [3, L].
            slope: derivatives of each constraint's impulses with respect to its values [constraint, 9, L].
            active: 1 for active constraints: any world's impulses change with their values [constraint].
            scale: momenta that rounding scales with, see :func:`initial_guess` [L].
            square: of the residual [L].
            least: smallest pivot, as a share of its diagonal entry [L].
            magnitude: squares of the terms of row values, see :func:`magnitudes` [2, L].
            left: the square of the other initial guess, or before a step of the adjoint [L].
            left_now: residual as the largest velocity, after it [L].
            recalled: 1 for the worlds that start with the impulses of the previous time step [L].
            coupled: 1 for the worlds whose system isn't symmetric [L].
            moves: 1 for the worlds that move along their step [L].
            waits: 1 for the worlds that have converged, and are left unchanged [L].
            along: initial slope of kinetic energy along a step, and its growth [2, L].
            lengths: step length of each world [L].
            state: iteration state of each world [L].
            number: remaining sweeps [L].
            response: of one constraint in the backward pass, G at each degree of freedom [nv, 3, L].
            fields: per-constraint data of sweeps, see :mod:`warp_kernels.solver.newton.group.sweeps`, or of the
                backward pass, :mod:`warp_kernels.solver.newton.group.system` [constraint, fields, L].
        """

        path: wp.array(dtype=wp.uint64)
        slot_constraint: wp.array(dtype=int)
        dofs: wp.array(dtype=int)
        length: wp.array(dtype=int)
        rows: wp.array(dtype=scalar)
        first: wp.array(dtype=int)
        lower: wp.array(dtype=scalar)
        upper: wp.array(dtype=scalar)
        velocity: wp.array(dtype=scalar)
        three: wp.array(dtype=scalar)
        slope: wp.array(dtype=scalar)
        active: wp.array(dtype=int)
        scale: wp.array(dtype=scalar)
        square: wp.array(dtype=scalar)
        least: wp.array(dtype=scalar)
        magnitude: wp.array(dtype=scalar)
        left: wp.array(dtype=scalar)
        left_now: wp.array(dtype=scalar)
        recalled: wp.array(dtype=int)
        coupled: wp.array(dtype=int)
        moves: wp.array(dtype=int)
        waits: wp.array(dtype=int)
        along: wp.array(dtype=scalar)
        lengths: wp.array(dtype=scalar)
        state: wp.array(dtype=structs.State)
        number: wp.array(dtype=int)
        response: wp.array(dtype=scalar)
        fields: wp.array(dtype=scalar)

    @wp.struct
    class Work:
        """Worlds of a lane group, and their arrays.

        Attributes:
            group: its index.
            worlds: number of its worlds.
            most: number of constraint slots that they share.
            nv: degrees of freedom of a world.
            tolerance: of the residual, as a share of its scale.
            keeps: KEEPS_HALF or KEEPS_ALL if the adjoint reads systems, else zero.
            regularisation: the parameter, for laws that have it.
            residual: as the largest velocity, by the pivots of the last system [world], m/s or rad/s.
            solver_iterations: systems solved [world].
            stage: SOLVED or UNSOLVED [world].
        """

        group: int
        worlds: int
        most: int
        nv: int
        tolerance: scalar
        keeps: int
        regularisation: wp.array2d(dtype=scalar)
        constraints: Constraints
        problem: structs.Problem
        shared: Group
        system: structs.System
        iterate: structs.Iterate
        residual: wp.array(dtype=scalar)
        solver_iterations: wp.array(dtype=int)
        stage: wp.array(dtype=int)

    return SimpleNamespace(Group=Group, Work=Work)


@functools.cache
def group_slot_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for one precision and number of lanes, which write ``slot_constraint``."""
    Group = group_structs(scalar).Group
    native = Native(scalar, lanes, "newton::slots")

    @native.func_native()
    def assign_in_order(group: int, most: int, constraints: Constraints, shared: Group):
        """Put constraints with the same index into the same slot."""

    @native.func_native()
    def align(group: int, constraints: Constraints, shared: Group) -> int:
        """Put constraints that act on the same degrees of freedom into the same slot. Return the number of slots; zero
        beyond the capacity.
        """

    @wp.func
    def assign(group: int, most: int, constraints: Constraints, shared: Group):
        """Call :func:`align` within the capacity, else :func:`assign_in_order`. Return the number of slots."""
        slots = int(0)
        if most <= MOST_CONSTRAINTS:
            slots = align(group, constraints, shared)
        if slots == 0:
            assign_in_order(group, most, constraints, shared)
            slots = most
        return slots

    return SimpleNamespace(assign_in_order=assign_in_order, align=align, assign=assign)
