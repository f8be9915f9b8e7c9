"""Centre of mass, its Jacobian, and the momentum about it (Orin and Goswami 2008), from composite inertias;
energies.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import PRESCRIBED_INERTIA, kernel_module, warp_types


@functools.cache
def momentum_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    module = kernel_module("momentum", scalar, inlined=True)

    @wp.func
    def add_to_parent(parent: int, link: int, world: int, composite: wp.array2d(dtype=inertia10)):
        if parent >= 0:
            composite[parent, world] += composite[link, world]

    @wp.kernel(module=module)
    def composite_inertia(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        # Data in
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        composite: wp.array2d(dtype=inertia10),
    ):
        """Compute the composite inertia of each moving link's subtree, over (tree, world)."""
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        for link in range(first, last):
            if link_tail_dof[link] >= 0:
                composite[link, world] = link_inertia[link, world]
            else:
                composite[link, world] = inertia10()
        for reverse in range(last - first):
            add_to_parent(link_parent[last - 1 - reverse], last - 1 - reverse, world, composite)

    @wp.kernel(module=module)
    def total_mass(
        # Model
        tree_link_start: wp.array(dtype=int),
        # Data in
        origin: wp.array2d(dtype=vec3),
        composite: wp.array2d(dtype=inertia10),
        # Data out
        total_mass: wp.array(dtype=scalar),
        total_moment: wp.array(dtype=vec3),
    ):
        """Compute the mass of everything that moves, and its first moment about the first tree's origin, over
        worlds.
        """
        world = wp.tid()
        total_mass[world] = scalar(0.0)
        total_moment[world] = vec3(scalar(0.0), scalar(0.0), scalar(0.0))
        for tree in range(tree_link_start.shape[0] - 1):
            whole = composite[tree_link_start[tree], world]
            total_mass[world] += whole[0]
            total_moment[world] += sp.first_moment(whole) + whole[0] * (origin[tree, world] - origin[0, world])

    @wp.kernel(module=module)
    def centre_of_mass(
        # Data in
        origin: wp.array2d(dtype=vec3),
        total_mass: wp.array(dtype=scalar),
        total_moment: wp.array(dtype=vec3),
        # Data out
        centre_of_mass: wp.array2d(dtype=scalar),
    ):
        """Compute the centre of mass in the world, over worlds."""
        world = wp.tid()
        centre = origin[0, world] + total_moment[world] / total_mass[world]
        for i in range(wp.static(3)):
            centre_of_mass[world, i] = centre[i]

    @wp.kernel(module=module)
    def centre_of_mass_jacobian(
        # Model
        dof_link: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        composite: wp.array2d(dtype=inertia10),
        total_mass: wp.array(dtype=scalar),
        # Data out
        jacobian: wp.array3d(dtype=scalar),
    ):
        """Compute the Jacobian of the centre of mass, over (dof, world)."""
        k, world = wp.tid()
        column = sp.linear(sp.apply_inertia(composite[dof_link[k], world], subspace[k, world])) / total_mass[world]
        for i in range(wp.static(3)):
            jacobian[world, i, k] = column[i]

    @wp.kernel(module=module)
    def momentum_matrix(
        # Model
        link_tree: wp.array(dtype=int),
        dof_link: wp.array(dtype=int),
        # Data in
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        composite: wp.array2d(dtype=inertia10),
        total_mass: wp.array(dtype=scalar),
        total_moment: wp.array(dtype=vec3),
        # Data out
        momentum_matrix: wp.array3d(dtype=scalar),
    ):
        """Compute the momentum about the centre of mass, along world axes, per rate of each degree of freedom, over
        (dof, world).
        """
        k, world = wp.tid()
        link = dof_link[k]
        about_origin = sp.apply_inertia(composite[link, world], subspace[k, world])
        arm = origin[link_tree[link], world] - origin[0, world] - total_moment[world] / total_mass[world]
        linear = sp.linear(about_origin)
        angular = sp.angular(about_origin) + wp.cross(arm, linear)
        for i in range(wp.static(3)):
            momentum_matrix[world, i, k] = angular[i]
            momentum_matrix[world, 3 + i, k] = linear[i]

    @wp.kernel(module=module)
    def momentum(
        # Data in
        momentum_matrix: wp.array3d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        # Data out
        momentum: wp.array2d(dtype=scalar),
    ):
        """Add the product to an array of zeros, over (row, world)."""
        i, world = wp.tid()
        for k in range(qd.shape[1]):
            momentum[world, i] += momentum_matrix[world, i, k] * qd[world, k]

    @wp.kernel(module=module)
    def kinetic_energy(
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        velocity: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        energy: wp.array(dtype=scalar),
    ):
        """Add the energy of links and rotors to an array of zeros, over worlds. Prescribed joints have no rotors."""
        world = wp.tid()
        half = scalar(0.5)
        for link in range(link_inertia.shape[0]):
            v = velocity[link, world]
            energy[world] += half * wp.dot(v, sp.apply_inertia(link_inertia[link, world], v))
        for k in range(qd.shape[1]):
            rotor = armature[wp.min(world, armature.shape[0] - 1), k]
            if rotor < scalar(PRESCRIBED_INERTIA):
                energy[world] += half * rotor * qd[world, k] * qd[world, k]

    @wp.kernel(module=module)
    def potential_energy(
        # Model
        link_tree: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        # Parameters
        gravity: wp.array2d(dtype=vec3),
        gravity_compensation: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        origin: wp.array2d(dtype=vec3),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        energy: wp.array(dtype=scalar),
    ):
        """Add the energy of gravity and springs to an array of zeros, over worlds."""
        world = wp.tid()
        g = gravity[wp.min(world, gravity.shape[0] - 1), 0]
        for link in range(link_inertia.shape[0]):
            if link_tail_dof[link] >= 0:
                rigid = link_inertia[link, world]
                fall = wp.dot(g, sp.first_moment(rigid) + rigid[0] * origin[link_tree[link], world])
                energy[world] -= fall
                if gravity_compensation.shape[0] > 0:
                    row = wp.min(world, gravity_compensation.shape[0] - 1)
                    energy[world] += gravity_compensation[row, link] * fall
        for k in range(dof_q.shape[0]):
            if dof_q[k] >= 0:
                stretch = q[world, dof_q[k]] - rest_position[wp.min(world, rest_position.shape[0] - 1), k]
                spring = stiffness[wp.min(world, stiffness.shape[0] - 1), k]
                energy[world] += scalar(0.5) * spring * stretch * stretch

    return SimpleNamespace(
        module=module,
        composite_inertia=composite_inertia,
        total_mass=total_mass,
        centre_of_mass=centre_of_mass,
        centre_of_mass_jacobian=centre_of_mass_jacobian,
        momentum_matrix=momentum_matrix,
        momentum=momentum,
        kinetic_energy=kinetic_energy,
        potential_energy=potential_energy,
    )
