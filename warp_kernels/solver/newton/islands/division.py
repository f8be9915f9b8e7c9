"""Division of a world's trees into islands that interact, each with its constraints."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, is_one_sided
from warp_kernels.constraints.listing import tree_of
from warp_kernels.solver.newton.constants import LARGE
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.parts import (
    CONSTRAINTS,
    DOFS,
    FACTORED,
    NUM_TREES,
    ROOM,
    ROOM_END,
    TREES,
)
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import warp_types


@functools.cache
def division_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model."""
    vec3 = warp_types(scalar).vec3
    f = residual_functions(scalar, friction, divided=True)
    laws = law_functions(scalar, friction)
    structs = newton_structs(scalar)
    Problem, Iterate, Islands, System = structs.Problem, structs.Iterate, structs.Islands, structs.System
    zero = scalar(0.0)

    @wp.func
    def may_connect(kind: int, impulse: vec3):
        """Return whether a constraint may connect its trees. A unilateral one does if it has an impulse."""
        return wp.dot(impulse, impulse) > zero or not (is_one_sided(kind) or follows_contact(kind))

    @wp.func
    def connect(world: int, count: int, constraints: Constraints, iterate: Iterate, islands: Islands, system: System):
        """Mark the constraints that connect, by the impulses of the iterate; nothing is solved yet."""
        for i in range(count):
            # A constraint between islands is in no system.
            system.active[i, world] = 0
            islands.connects[i, world] = int(may_connect(constraints.kind[i, world], iterate.impulse[i, world]))
        for tree in range(islands.changed.shape[0]):
            islands.changed[tree, world] = 1
            islands.island[tree, world] = -1
            islands.left[tree, world] = zero

    @wp.func
    def other_tree(constraint: int, tree: int, world: int, trees: TreeDofs, constraints: Constraints):
        """Return the other tree of a constraint, -1 if there is none."""
        a = tree_of(constraints.tail[2 * constraint, world], trees.dof_tree)
        b = tree_of(constraints.tail[2 * constraint + 1, world], trees.dof_tree)
        if a == tree:
            return b
        return a

    @wp.func
    def set_start(number: int, world: int, listed: int, dofs: int, queued: int, islands: Islands):
        islands.start[3 * number + CONSTRAINTS, world] = listed
        islands.start[3 * number + DOFS, world] = dofs
        islands.start[3 * number + TREES, world] = queued

    @wp.func
    def list_constraints_of(
        number: int,
        first: int,
        end: int,
        listed: int,
        world: int,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        iterate: Iterate,
        islands: Islands,
    ):
        """List the constraints of an island's trees, those at ``first`` up to ``end``. Return the length of the list.

        A constraint between two islands is in neither list. A large island's are in their own order, in which sweeps
        converge faster: contacts with the ground come first.
        """
        if wp.static(LARGE) * (end - first) > islands.island.shape[0]:
            for constraint in range(constraints.count[world]):
                a = tree_of(constraints.tail[2 * constraint, world], trees.dof_tree)
                b = tree_of(constraints.tail[2 * constraint + 1, world], trees.dof_tree)
                if a < 0:
                    a = b
                if b < 0:
                    b = a
                if a >= 0 and islands.island[a, world] == number and islands.island[b, world] == number:
                    iterate.part_constraint[listed, world] = constraint
                    listed += 1
            return listed
        for at in range(first, end):
            tree = iterate.part_tree[at, world]
            for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                constraint = couplings.incidence_constraint[incidence, world]
                other = other_tree(constraint, tree, world, trees, constraints)
                # A constraint of two trees is listed with the lower one.
                if other < 0 or other == tree or (other > tree and islands.island[other, world] == number):
                    iterate.part_constraint[listed, world] = constraint
                    listed += 1
        return listed

    @wp.func
    def divide(
        world: int,
        before: int,
        every: bool,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        iterate: Iterate,
        islands: Islands,
    ):
        """List the trees, degrees of freedom and constraints of each island that has changed, numbered from ``before``
        on.

        every: whether all constraints connect. Return the number after the last.
        """
        number = int(before)
        queued = int(0)
        dofs = int(0)
        listed = int(0)
        for seed in range(islands.island.shape[0]):
            if islands.changed[seed, world] == 0 or islands.island[seed, world] >= before:
                continue
            set_start(number - before, world, listed, dofs, queued, islands)
            islands.island[seed, world] = number
            iterate.part_tree[queued, world] = seed
            first = queued
            at = queued
            queued += 1
            while at < queued:
                tree = iterate.part_tree[at, world]
                at += 1
                for k in range(trees.tree_dof_start[tree], trees.tree_dof_start[tree + 1]):
                    iterate.part_dof[dofs, world] = k
                    dofs += 1
                for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                    constraint = couplings.incidence_constraint[incidence, world]
                    if every:
                        islands.connects[constraint, world] = 1
                    if islands.connects[constraint, world] == 0:
                        continue
                    other = other_tree(constraint, tree, world, trees, constraints)
                    if other >= 0 and islands.island[other, world] < before:
                        islands.island[other, world] = number
                        iterate.part_tree[queued, world] = other
                        queued += 1
            listed = list_constraints_of(
                number, first, queued, listed, world, trees, constraints, couplings, iterate, islands
            )
            number += 1
        set_start(number - before, world, listed, dofs, queued, islands)
        return number

    @wp.func
    def go_to(number: int, world: int, iterate: Iterate, islands: Islands):
        """Make an island the current part. Return its numbers of constraints and degrees of freedom."""
        iterate.part[ROOM, world] = iterate.part[ROOM_END, world]
        for row in range(3):
            iterate.part[row, world] = islands.start[3 * number + row, world]
        following = 3 * (number + 1)
        iterate.part[NUM_TREES, world] = islands.start[following + TREES, world] - iterate.part[TREES, world]
        count = islands.start[following + CONSTRAINTS, world] - iterate.part[CONSTRAINTS, world]
        return count, islands.start[following + DOFS, world] - iterate.part[DOFS, world]

    @wp.func
    def island_scale(world: int, iterate: Iterate, islands: Islands):
        """Return the scale of rounding in the current island."""
        total = zero
        for n in range(iterate.part[NUM_TREES, world]):
            total += islands.scale[f.parts.tree_of(n, world, iterate), world]
        return total

    @wp.func
    def pushes_between(
        constraint: int, world: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Return whether a constraint between two islands has an impulse at z."""
        kind = constraints.kind[constraint, world]
        value = problem.value_before[constraint, world]
        value += f.products.row_product(constraint, world, paths, constraints, problem.row, iterate.z)
        bounds = f.impulse_bounds(
            constraint, kind, constraints.item[constraint, world], world, COUPLED, problem, iterate
        )
        impulse = laws.impulse_at(kind, value, problem.row_stiffness[constraint, world], bounds)
        iterate.value[constraint, world] = value
        iterate.impulse[constraint, world] = impulse
        return may_connect(kind, impulse)

    @wp.func
    def join_islands(
        world: int,
        before: int,
        number: int,
        trees: TreeDofs,
        paths: Paths,
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        iterate: Iterate,
        islands: Islands,
    ):
        """Merge islands that interact at z, at least one of which was solved just now: those from ``before`` on.

        Return whether there are any.
        """
        found = bool(False)
        for at in range(islands.start[3 * (number - before) + TREES, world]):
            tree = iterate.part_tree[at, world]
            for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                constraint = couplings.incidence_constraint[incidence, world]
                other = other_tree(constraint, tree, world, trees, constraints)
                if other < 0 or islands.island[other, world] == islands.island[tree, world]:
                    continue
                if islands.connects[constraint, world] == 1:
                    continue  # found from the other side
                # Of two that were solved just now, one checks.
                if islands.island[other, world] < before or other > tree:
                    if pushes_between(constraint, world, paths, constraints, problem, iterate):
                        islands.connects[constraint, world] = 1
                        islands.changed[tree, world] = 1
                        islands.changed[other, world] = 1
                        found = True
        return found

    @wp.func
    def begin_turn(world: int, turn: int, iterate: Iterate):
        """Start rows at the first entry: a later turn overwrites those of islands that are solved already."""
        iterate.part[ROOM_END, world] = 0
        iterate.part[FACTORED, world] = int(turn == 0)

    @wp.func
    def note(world: int, left: scalar, iterate: Iterate, islands: Islands):
        """Mark the current island as solved and store its residual."""
        for n in range(iterate.part[NUM_TREES, world]):
            tree = f.parts.tree_of(n, world, iterate)
            islands.changed[tree, world] = 0
            islands.left[tree, world] = left

    return SimpleNamespace(
        connect=connect,
        divide=divide,
        go_to=go_to,
        island_scale=island_scale,
        join_islands=join_islands,
        begin_turn=begin_turn,
        note=note,
    )
