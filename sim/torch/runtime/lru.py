"""Caches that drop what was used longest ago: entries note the number of their last use."""

import itertools
from typing import Protocol, TypeVar


class Recent(Protocol):
    """An entry of such a cache.

    Attributes:
        used: the number of its last use, see :data:`next_use`.
    """

    used: int


K = TypeVar("K")
R = TypeVar("R", bound=Recent)

# The number of a use, larger than those of all uses before. Noting it takes a call less time than keeping an order.
next_use = itertools.count().__next__


def pop_least_recent(cache: dict[K, R]) -> R:
    """Take out the entry that was used longest ago."""
    return cache.pop(min(cache, key=lambda key: cache[key].used))
