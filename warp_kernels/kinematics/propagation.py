"""Links of trees; parent-to-child and child-to-parent propagation for tree recursions."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp


@wp.struct
class Links:
    """Links of a model, those of a tree together and parents first, and their joints.

    Attributes:
        tree_start: first link of each tree, and the number of links [num_trees + 1].
        parent: of each link, -1 for roots.
        forks: 1 for links to which children propagate through memory, see :func:`propagation`.
        last_slide: last of the prismatic joints that a tree begins with, or its root; the tree's origin is there
            [num_trees].
        joint_type: type code of each link's joint.
        q_start: its first coordinate.
        qd_start: its first degree of freedom, and their number [num_links + 1].
        dof_q: coordinate of each degree of freedom, -1 if the joint isn't revolute or prismatic [nv].
    """

    tree_start: wp.array(dtype=int)
    parent: wp.array(dtype=int)
    forks: wp.array(dtype=int)
    last_slide: wp.array(dtype=int)
    joint_type: wp.array(dtype=int)
    q_start: wp.array(dtype=int)
    qd_start: wp.array(dtype=int)
    dof_q: wp.array(dtype=int)


@functools.cache
def propagation(lanes: int = 1) -> SimpleNamespace:
    """Return Warp functions for a number of worlds in a lane group, and for values of any type.

    Towards the leaves ``from_parent`` returns the parent's value, or ``base`` if there is none. ``at_hand`` is the
    value of the link visited before, here as in ``from_children``; arrays hold values by link and group.

    Towards the root, from the last link of a tree to the first, ``from_children`` returns ``own``, the value of the
    link itself, with the values that its children have propagated by ``to_parent``. In registers this is the value of
    the next link; the others have added theirs to the array that ``own`` is read from. If it starts with values that
    needn't be in memory, ``keep`` writes them for the links whose children will add to them (those with ``link_forks``
    of 1), and ``kept`` reads them again, or returns ``own``.
    """
    # Whether neighbours in the order of links, where one is the other's parent, propagate to each other without memory.
    in_registers = lanes == 1

    @wp.func
    def from_parent(at_hand: Any, base: Any, parent: int, before: int, group: int, values: wp.array2d(dtype=Any)):
        if parent < 0:
            return base
        if wp.static(in_registers) and parent == before:
            return at_hand
        return values[parent, group]

    @wp.func
    def keep(value: Any, link: int, group: int, link_forks: wp.array(dtype=int), values: wp.array2d(dtype=Any)):
        if wp.static(not in_registers) or link_forks[link] == 1:
            values[link, group] = value

    @wp.func
    def kept(own: Any, link: int, group: int, link_forks: wp.array(dtype=int), values: wp.array2d(dtype=Any)):
        if wp.static(not in_registers) or link_forks[link] == 1:
            return values[link, group]
        return own

    @wp.func
    def from_children(at_hand: Any, own: Any, link: int, last: int, link_parent: wp.array(dtype=int)):
        if wp.static(in_registers) and link_parent[wp.min(link + 1, last - 1)] == link:
            return own + at_hand
        return own

    @wp.func
    def to_parent(value: Any, link: int, parent: int, group: int, values: wp.array2d(dtype=Any)):
        if parent >= 0 and (wp.static(not in_registers) or parent != link - 1):
            values[parent, group] += value

    return SimpleNamespace(
        from_parent=from_parent, keep=keep, kept=kept, from_children=from_children, to_parent=to_parent
    )
