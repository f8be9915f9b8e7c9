"""What the kernels of the grid share."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def grid_structs(scalar: Any) -> SimpleNamespace:
    """The structs of one precision. A *member* is a geometry that some pair may have, by its place in ``colliding``."""
    vec3 = warp_types(scalar).vec3

    @wp.struct
    class Grid:
        """What decides which members may touch, and where each one's near pairs stand.

        Attributes:
            width: of a cell [m].
            words: words of near bits that each member has for each family: room for 32 pairs each.
            in_cells: 1 for members that stand in the cells; others are partners of those [member].
            is_static: 1 for members that no force moves [member].
            group: collision group bits [member].
            mask: the groups that it collides with [member].
            priority: contact priority [member].
            takes_larger: 1 where the larger friction of two is the pair's, if both have it so [member].
            partner_start: where the partners of each member begin in ``partner``, and their end [member + 1].
            partner: geometries that a member is always compared with [partner].
            partner_rule: how their friction combines, a code of :mod:`warp_kernels.collision.materials` [partner].
            partner_friction: sliding, torsional and rolling friction where they are stated for the two [partner].
            excluded_start: where the excluded members of each member begin in ``excluded``, and their end [member + 1].
            excluded: members that a member in the cells is never compared with [excluded].
            family: place of the family of two types among those that there are, at 16 type + other type [16 * 16].
        """

        width: scalar
        words: int
        in_cells: wp.array(dtype=int)
        is_static: wp.array(dtype=int)
        group: wp.array(dtype=wp.uint32)
        mask: wp.array(dtype=wp.uint32)
        priority: wp.array(dtype=int)
        takes_larger: wp.array(dtype=int)
        partner_start: wp.array(dtype=int)
        partner: wp.array(dtype=int)
        partner_rule: wp.array(dtype=int)
        partner_friction: wp.array(dtype=vec3)
        excluded_start: wp.array(dtype=int)
        excluded: wp.array(dtype=int)
        family: wp.array(dtype=int)

    @wp.struct
    class Cells:
        """Which members are in which cell, as lists by the hash of the cell.

        Attributes:
            head: first member of each list, -1 for none [bucket, world].
            following: the member after each one in its list, -1 for none [member, world].
            cell: of each member, in whole widths along x, y and z [member, world].
        """

        head: wp.array2d(dtype=int)
        following: wp.array2d(dtype=int)
        cell: wp.array2d(dtype=wp.vec3i)

    @wp.struct
    class NearPairs:
        """The near pairs of each world.

        Those of member m of a world w and the family at place f are the first of the ``32 words`` from
        ``((f num_worlds + w) num_members + m) 32 words`` on, in order of their geometries.

        Attributes:
            a: first geometry of each pair.
            b: second geometry of each pair.
            rule: how their friction combines.
            friction: sliding, torsional and rolling friction where they are stated for the pair.
            near: a bit for each pair that there is [(f num_members + m) words, world].
        """

        a: wp.array(dtype=wp.int32)
        b: wp.array(dtype=wp.int32)
        rule: wp.array(dtype=wp.int32)
        friction: wp.array(dtype=vec3)
        near: wp.array2d(dtype=wp.uint32)

    return SimpleNamespace(Grid=Grid, Cells=Cells, NearPairs=NearPairs)
