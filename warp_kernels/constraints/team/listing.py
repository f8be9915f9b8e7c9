"""List of active constraints by a team of threads per world: see :mod:`warp_kernels.constraints.listing`.

Items are candidates: joints, actuators and all else that may have constraints. Each counts those of the candidates
before it, which gives its own place in the list. A tree then lists its incidences.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.structs import collision_structs
from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    CONTACT,
    COUPLING,
    FRICTION_LOSS,
    LOWER_LIMIT,
    POINT,
)
from warp_kernels.constraints.listing import listing_functions, tree_of
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, TreeDofs, solver_structs
from warp_kernels.team import WIDTHS, team_functions, team_module
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels: threads of a team.
VARIANTS = {"team_constraint_kernels": [(width,) for width in WIDTHS]}


@functools.cache
def team_constraint_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t, f, team = warp_types(scalar), listing_functions(scalar), team_functions(scalar, width)
    module = team_module("team_constraint", scalar, width)
    wp.set_module_options({"max_unroll": 1}, module)
    RowInputs, Geometries = solver_structs(scalar).RowInputs, collision_structs(scalar).Geometries

    @wp.func
    def list_incidences(
        tree: int, count: int, world: int, dof_tree: wp.array(dtype=int), constraints: Constraints, c: Couplings
    ):
        """Write the incidences of a tree, which come after those of the trees before it."""
        at = int(0)
        if tree > 0:
            for i in range(count):
                a = tree_of(constraints.tail[2 * i, world], dof_tree)
                b = tree_of(constraints.tail[2 * i + 1, world], dof_tree)
                if a >= 0 and a < tree:
                    at += 1
                if b >= 0 and b < tree and b != a:
                    at += 1
        c.tree_start[tree, world] = at
        for i in range(count):
            a = tree_of(constraints.tail[2 * i, world], dof_tree)
            b = tree_of(constraints.tail[2 * i + 1, world], dof_tree)
            if a == tree:
                c.constraint_incidence[2 * i, world] = at
            elif a < 0 and tree == 0:
                c.constraint_incidence[2 * i, world] = -1
            if b == tree:
                c.constraint_incidence[2 * i + 1, world] = at
            elif b < 0 and tree == 0:
                c.constraint_incidence[2 * i + 1, world] = -1
            if a == tree or b == tree:
                c.incidence_constraint[at, world] = i
                at += 1
        if tree + 2 == c.tree_start.shape[0]:
            c.tree_start[tree + 1, world] = at

    @wp.kernel(module=module, enable_backward=False)
    def team_list_constraints(
        # Model
        constrained: Constrained,
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        geometries: Geometries,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        trees: TreeDofs,
        pyramids_resist: int,
        # Data in
        switch_on: wp.array2d(dtype=int),
        inputs: RowInputs,
        qdd: wp.array2d(dtype=scalar),
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contact_resistance: wp.array2d(dtype=t.vec2),
        tendon_active: wp.array2d(dtype=int),
        tendon_switch: wp.array(dtype=int),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        constraint_bits: wp.array2d(dtype=int),
        constraints: Constraints,
        couplings: Couplings,
    ):
        """List the active constraints of each world as ``list_constraints``.

        constraint_bits: constraints of each candidate, see ``listing_functions`` [world, candidate].
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        contacts = contact_count[world]
        for n in range(team.lane(), contacts, team.size()):
            slot = team.item(n, contacts)
            f.contact_constraint(
                slot, world, CONTACT, slot, geometries, link_tail_dof, pair_a, pair_b, slot_pair, constraints
            )
        # Candidates, one kind after the other: index of the first one of each kind.
        limits = int(0)
        if contact_resistance.shape[0] > 0:
            limits = contacts
        cones = limits + constrained.limited_dof.shape[0]
        frictions = cones + constrained.cone_dof.shape[0]
        actuators = frictions + constrained.friction_dof.shape[0]
        tendons = actuators + inputs.actuator_row.shape[0]
        links = tendons + tendon_active.shape[0]
        anchors = links + constrained.coupling_dof.shape[0]
        end = anchors + constrained.anchor_link_a.shape[0]
        for n in range(team.lane(), end, team.size()):
            c = team.item(n, end)
            bits = int(1)
            if c < limits:
                bits = f.resisting_bits(contact_resistance[c, world], pyramids_resist)
            elif c < cones:
                bits = f.limit_bits(constrained.limited_dof[c - limits], world, dof_q, inputs, qdd)
            elif c < frictions:
                bits = f.cone_bits(c - cones, constrained.cone_dof[c - cones], world, inputs, qdd)
            elif c >= anchors:
                bits = f.anchor_bits(c - anchors, world, constrained, switch_on)
            elif c >= links:
                bits = f.coupling_bits(c - links, world, constrained, switch_on)
            elif c >= tendons:
                bits = f.tendon_bits(c - tendons, world, switch_on, tendon_active, tendon_switch)
            elif c >= actuators:
                bits = f.actuator_bits(c - actuators, world, inputs)
            constraint_bits[world, c] = bits
        team.sync()
        for n in range(team.lane(), end + 1, team.size()):
            c = team.item(n, end + 1)
            bits = int(0)
            if c < end:
                bits = constraint_bits[world, c]
            if bits == 0 and c < end:
                continue
            at = contacts
            for before in range(c):
                of_other = constraint_bits[world, before]
                at += (of_other & 1) + (of_other >> 1)
            if c == end:
                constraints.count[world] = at
            for part in range(2):
                if not f.has_part(bits, part):
                    continue
                if c < limits:
                    kind = f.resisting_kind(pyramids_resist) + part
                    f.contact_constraint(
                        at, world, kind, c, geometries, link_tail_dof, pair_a, pair_b, slot_pair, constraints
                    )
                elif c < cones:
                    k = constrained.limited_dof[c - limits]
                    f.path_constraint(at, world, LOWER_LIMIT + part, k, -1, k, constraints)
                elif c < frictions:
                    i = c - cones
                    f.path_constraint(at, world, CONE_LIMIT, i, -1, constrained.cone_dof[i] + 2, constraints)
                elif c < actuators:
                    k = constrained.friction_dof[c - frictions]
                    f.path_constraint(at, world, FRICTION_LOSS, k, -1, k, constraints)
                elif c < tendons:
                    i = c - actuators
                    f.path_constraint(at, world, ACTUATOR, i, -1, actuator_dof[i], constraints)
                elif c < links:
                    f.tendon_constraint(c - tendons, at, world, constrained, constraints)
                elif c < anchors:
                    i = c - links
                    tail_a = constrained.coupling_other[i]
                    f.path_constraint(at, world, COUPLING, i, tail_a, constrained.coupling_dof[i], constraints)
                else:
                    i = c - anchors
                    f.link_constraint(
                        at, world, POINT + part, i, constrained.anchor_link_a[i], constrained.anchor_link_b[i],
                        link_tail_dof, geometries.link_tree, constraints,
                    )  # fmt: skip
                at += 1
        team.sync()
        count = constraints.count[world]
        num_trees = couplings.tree_start.shape[0] - 1
        for n in range(team.lane(), num_trees, team.size()):
            list_incidences(team.item(n, num_trees), count, world, trees.dof_tree, constraints, couplings)

    return SimpleNamespace(module=module, team_list_constraints=team_list_constraints)
