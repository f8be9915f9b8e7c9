"""Where actuators on frames and on contacts act."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def transmission_structs(scalar: Any) -> SimpleNamespace:
    """The struct of one precision."""
    transform = warp_types(scalar).transform

    @wp.struct
    class Lines:
        """Actuators that act neither on a joint nor on a tendon, by number; see :mod:`sim.model.topology`.

        Attributes:
            actuator: index of each one [num_lines].
            link: of its frame, -1 for the world, -2 where it acts on contacts [num_lines].
            placement: of the frame in that link [num_lines].
            reference_link: of the frame that it counts from, -1 for the world, -2 for none [num_lines].
            reference_placement: of that frame [num_lines].
            adheres: 1 for a geometry at whose contacts it pulls [num_lines, num_geometries].
            pair_reach: distance below which contacts of a pair count for that [num_pairs], m.
            moved: 1 where a degree of freedom moves a link [num_links, nv].
        """

        actuator: wp.array(dtype=int)
        link: wp.array(dtype=int)
        placement: wp.array(dtype=transform)
        reference_link: wp.array(dtype=int)
        reference_placement: wp.array(dtype=transform)
        adheres: wp.array2d(dtype=int)
        pair_reach: wp.array(dtype=scalar)
        moved: wp.array2d(dtype=int)

    return SimpleNamespace(Lines=Lines)
