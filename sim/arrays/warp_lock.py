"""One lock around Warp: what Warp records belongs to the process and not to a thread.

While one thread captures a graph or records on a tape, launches and copies of every other thread would go into the same
recording instead of being carried out. So whatever of this package launches kernels holds one lock; the threads of a
simulator's own pool, which only replay what has been captured, work under the lock of the thread that waits for them.
"""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

warp_lock = threading.RLock()


def serialized(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function run in one thread at a time, together with all others so marked."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with warp_lock:
            return function(*args, **kwargs)

    return wrapper
