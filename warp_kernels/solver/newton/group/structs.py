"""Scratch memory of one lane group, which a CPU's thread uses for one after the other, and arguments of native
functions.

Constraints of the same number need not act on the same degrees of freedom, while what stands side by side has those of
all. With the feet of a humanoid mixed, a system takes twice as long. So the constraints of each world are ordered by
what they act on, and set side by side with those that act on the same, or nearly. Their order depends on no other
world, nor then do sums over them, to which places that are empty add zeros.
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
    """The structs for one precision and number of lanes."""
    vectors, columns = wp.array2d(dtype=warp_types(scalar).vec3), wp.array2d(dtype=lane_types(scalar, lanes).spatial)
    structs = solver_structs(scalar)
    Contacts, Equalities, References = structs.Contacts, structs.Equalities, structs.References
    Cones = structs.Cones

    @wp.struct
    class Geometry:
        """Where constraints act and how joints move, or the adjoints of these.

        Attributes:
            contacts: of each world.
            equalities: anchors of each world.
            references: what MuJoCo's law asks for; read by the backward pass only.
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
        """Rows that are made of single degrees of freedom.

        Attributes:
            cones: limits of spherical joints.
            coupling_ratio: of joints that move together [1 or world, coupling].
        """

        cones: Cones
        coupling_ratio: wp.array2d(dtype=scalar)

    return SimpleNamespace(Geometry=Geometry, Joints=Joints)


# Constraints of a world for which there is room; worlds with more are solved one by one.
MOST_CONSTRAINTS = 64
# Room for constraints with which the way back takes the worlds of a group together.
MOST_BACK = 128
# Degrees of freedom of a world, one for each bit of a number.
MOST_DOFS = 64

# Whether a world has its solution, or is left to the solver for one.
SOLVED, UNSOLVED = 0, 1
# Whether the adjoint reads systems: without U, which it doesn't need where MuJoCo's law takes the worlds of a group together, or with it.
KEEPS_HALF, KEEPS_ALL = 1, 2
# C++ headers of the kernels of rows, of the solver and of its backward pass, see :mod:`warp_kernels.cpu.native`.
GROUP_ROW_HEADERS = ("newton/order.h", "newton/rows.h")
GROUP_HEADERS = ("newton/order.h", "newton/system.h", "newton/sweeps.h")
GROUP_ADJOINT_HEADERS = ("newton/order.h", "newton/system.h", "newton/adjoint_system.h", "newton/geometry.h")
MUJOCO_GROUP_HEADERS = ("newton/order.h", "newton/system.h", "mujoco/laws.h")
MUJOCO_ADJOINT_HEADERS = (*GROUP_ADJOINT_HEADERS, "mujoco/laws.h")


@functools.cache
def group_structs(scalar: Any) -> SimpleNamespace:
    """The structs of one precision. L is the number of lanes; each entry has one number for each of them."""
    structs = newton_structs(scalar)

    @wp.struct
    class Group:
        """The worlds of a group side by side.

        Attributes:
            path: degrees of freedom of the path to each one, that one included, as bits [nv].
            order: number of the constraint that each world has in a place, -1 for none
                (:mod:`warp_kernels.solver.newton.group.structs`) [place, L]. Below, the constraints of a place are one.
            dofs: those that a constraint of any of the worlds acts on, ascending [constraint, nv].
            length: how many these are [constraint].
            rows: a constraint's three rows at each of these, zero for a world whose constraint doesn't act on it
                [constraint, nv, 3, L].
            first: place of the first entry of each row of the system [nv].
            lower: of the system, as :class:`System` has it [nv (nv + 1) / 2, L].
            upper: likewise.
            velocity: qd and qdd, then the unknowns of the system by places, or what sweeps keep of z, or v+, the adjoint of qd and qd
                [3 nv, L].
            three: row values or impulses of one constraint [3, L].
            slope: derivatives of each constraint's impulses with respect to its values [constraint, 9, L].
            answers: 1 for the constraints of which any world's impulses change with their values [constraint].
            scale: momenta at hand, see :func:`look_back` [L].
            square: of the residual [L].
            least: smallest pivot, as a share of its diagonal entry [L].
            at_hand: squares at hand, see :func:`square_at_hand` [L].
            left: the square of the other start, or before a step of the adjoint [L].
            left_now: largest velocity that is still missing after it [L].
            coupled: 1 for the worlds whose system isn't symmetric [L].
            moves: 1 for the worlds that go along their step [L].
            waits: 1 for the worlds that have their solution, and are left as they are [L].
            along: what the slope of kinetic energy along a step begins with, and how fast it grows [2, L].
            lengths: how far along its step each world goes [L].
            state: where each world is in its iteration [L].
            number: of sweeps now [L].
            response: of one constraint on the way back, G at each degree of freedom [nv, 3, L].
            fields: what sweeps keep of each constraint, see :mod:`warp_kernels.solver.newton.group.sweeps`, or the way back,
                :mod:`warp_kernels.solver.newton.group.system` [constraint, fields, L].
        """

        path: wp.array(dtype=wp.uint64)
        order: wp.array(dtype=int)
        dofs: wp.array(dtype=int)
        length: wp.array(dtype=int)
        rows: wp.array(dtype=scalar)
        first: wp.array(dtype=int)
        lower: wp.array(dtype=scalar)
        upper: wp.array(dtype=scalar)
        velocity: wp.array(dtype=scalar)
        three: wp.array(dtype=scalar)
        slope: wp.array(dtype=scalar)
        answers: wp.array(dtype=int)
        scale: wp.array(dtype=scalar)
        square: wp.array(dtype=scalar)
        least: wp.array(dtype=scalar)
        at_hand: wp.array(dtype=scalar)
        left: wp.array(dtype=scalar)
        left_now: wp.array(dtype=scalar)
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
        """The worlds of a group, and their arrays.

        Attributes:
            group: its number.
            worlds: how many it has.
            most: how many places for constraints they have together.
            nv: degrees of freedom of a world.
            tolerance: of the residual, as a share of the momenta at hand.
            keeps: KEEPS_HALF or KEEPS_ALL where the adjoint reads systems, else zero.
            regularisation: the parameter, for laws that have it.
            residual: the largest velocity that is still missing, by the pivots of the last system [world], m/s or rad/s.
            sweep_count: systems solved [world].
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
        sweep_count: wp.array(dtype=int)
        stage: wp.array(dtype=int)

    return SimpleNamespace(Group=Group, Work=Work)


@functools.cache
def group_order_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes, which write ``order``."""
    Group = group_structs(scalar).Group
    native = Native(scalar, lanes, "newton::order")

    @native.func_native()
    def take_in_order(group: int, most: int, constraints: Constraints, shared: Group):
        """Set constraints of the same number side by side."""

    @native.func_native()
    def align(group: int, constraints: Constraints, shared: Group) -> int:
        """Set constraints side by side that act on the same. Returns the number of places; zero where there isn't room."""

    @wp.func
    def arrange(group: int, most: int, constraints: Constraints, shared: Group):
        """The same where there is room, else those of the same number. Returns the number of places."""
        places = int(0)
        if most <= MOST_CONSTRAINTS:
            places = align(group, constraints, shared)
        if places == 0:
            take_in_order(group, most, constraints, shared)
            places = most
        return places

    return SimpleNamespace(take_in_order=take_in_order, align=align, arrange=arrange)
