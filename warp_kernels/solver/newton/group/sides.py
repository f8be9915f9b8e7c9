"""What the rows of constraints are made of, for the worlds of a lane group: arguments of their native functions."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import solver_structs
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
