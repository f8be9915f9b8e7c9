"""One lock around Warp: what Warp records belongs to the process and not to a thread.

While one thread captures a graph or records on a tape, launches and copies of every other thread would go into the same
recording instead of being carried out. So whatever of this package launches kernels holds one lock; the threads of a
simulator's own pool, which only replay what has been captured, work under the lock of the thread that waits for them.
Signals wait as long as the main thread holds it, see :mod:`sim.arrays.interrupts`.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from sim.arrays.interrupts import deferred

P = ParamSpec("P")
R = TypeVar("R")

warp_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread is at work: the new process would have what that one had half done, and not the
    # thread itself.
    os.register_at_fork(before=warp_lock.acquire, after_in_parent=warp_lock.release, after_in_child=warp_lock.release)


@contextmanager
def sole_use() -> Iterator[None]:
    """Hold the lock in this context; signals wait."""
    # In this order: who waits for the lock can be interrupted.
    with warp_lock, deferred():
        yield


def serialized(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function run in one thread at a time, together with all others so marked; signals wait."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with warp_lock, deferred():
            return function(*args, **kwargs)

    return wrapper
