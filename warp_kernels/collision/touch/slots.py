"""Choice of the contacts that are kept where there are more than slots."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp


@functools.cache
def slot_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""

    @wp.func
    def nearest_first(k: int, nearest: int):
        """The k-th of a pair's features, the nearest before the others."""
        which = k
        if k == 0:
            which = nearest
        elif k <= nearest:
            which = k - 1
        return which

    @wp.func
    def farthest(slot_gap: wp.array2d(dtype=scalar), slot_lead: wp.array2d(dtype=wp.int32), gap: scalar, world: int):
        """The slot of the largest gap that is larger than ``gap``, -1 for none.

        Of equal gaps, which all contacts of a pair have, the last slot whose contact isn't its pair's nearest.
        """
        largest = gap
        chosen = wp.int32(-1)
        leads = bool(False)
        slot = slot_gap.shape[0] - 1
        while slot >= 0:
            other = slot_gap[slot, world]
            is_lead = bool(False)
            if slot_lead.shape[0] > 0:
                is_lead = slot_lead[slot, world] == slot
            if other > largest or (other == largest and chosen >= 0 and leads and not is_lead):
                largest = other
                chosen = slot
                leads = is_lead
            slot -= 1
        return chosen

    return SimpleNamespace(nearest_first=nearest_first, farthest=farthest)
