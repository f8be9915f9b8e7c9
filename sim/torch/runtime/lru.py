"""What is kept for calls that come again: when it was used last, and what goes where room is needed."""

import itertools
from typing import Protocol, TypeVar


class Recent(Protocol):
    """Something that notes its uses.

    Attributes:
        used: the number of its last use, see :data:`next_use`.
    """

    used: int


K = TypeVar("K")
R = TypeVar("R", bound=Recent)

# The number of a use, larger than those of all uses before. Noting it takes a call less time than keeping an order.
next_use = itertools.count().__next__


def pop_least_recent(kept: dict[K, R]) -> R:
    """Take out what was used longest ago."""
    return kept.pop(min(kept, key=lambda key: kept[key].used))
