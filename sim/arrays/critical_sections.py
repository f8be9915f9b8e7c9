"""Critical sections: one thread at a time works with Warp, and signals are deferred.

Warp's recording belongs to the process, not to a thread. While one thread captures a graph or records on a tape,
launches and copies of every other thread would be recorded instead of carried out. Therefore all code of this package
that launches kernels holds one lock; the threads of a simulator's pool, which only replay captured graphs, work under
the lock of the thread that waits for them.

Python runs signal handlers between any two instructions of the main thread. Ctrl-C could therefore leave a parameter
set on some of the shards, Warp's tape paused, or threads at work on arrays that were freed. Inside :func:`deferred`,
and while the main thread holds the lock, handlers wait: until the end, or until :func:`check` or :func:`interruptible`
marks a point where nothing is half done.
"""

import _signal  # type: ignore[import-not-found]
import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

# Like the module signal, without converting numbers to enumerations, which is 20 times slower.

# Signals whose handlers often raise an exception; many programs use SIGALRM as a time limit.
NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))

_MAIN = threading.main_thread().ident
_depth = 0
_wait = True
_handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
_waiting: list[tuple[int, FrameType | None]] = []


class deferred:
    """Context that defers signals until the end of the outermost one. Only the main thread handles signals.

    A class because each call of PyTorch enters it twice, and a generator would be slower.
    """

    __slots__ = ("_here",)

    def __enter__(self) -> None:
        global _depth, _wait
        self._here = threading.get_ident() == _MAIN
        if self._here:
            if _depth == 0:
                _wait = True  # still false if a signal came as interruptible() ended
                _take_over()
            _depth += 1

    def __exit__(self, *_: object) -> None:
        global _depth
        if self._here:
            _depth -= 1
            if _depth == 0:
                _give_back()
                check()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Run handlers at once inside of :func:`deferred` again; a handler may raise."""
    global _wait
    if threading.get_ident() != _MAIN or _depth == 0:
        yield
        return
    before = _wait
    try:
        _wait = False
        check()
        yield
    finally:
        _wait = before


def check() -> None:
    """Run the handlers of pending signals, in the main thread; one may raise, as Ctrl-C's does."""
    while _waiting and threading.get_ident() == _MAIN:
        number, frame = _waiting.pop(0)
        _handlers[number](number, frame)


def _take_over() -> None:
    for number in SIGNALS:
        handler = _signal.getsignal(number)
        if callable(handler) and handler is not _handle:
            _handlers[number] = handler
            _signal.signal(number, _handle)


def _give_back() -> None:
    for number in list(_handlers):
        # Unless a handler that ran in between has set another one.
        if _signal.getsignal(number) is _handle:
            _signal.signal(number, _handlers[number])


def _handle(number: int, frame: FrameType | None) -> None:
    if _depth > 0 and _wait:
        _waiting.append((number, frame))
    else:
        _handlers[number](number, frame)


P = ParamSpec("P")
R = TypeVar("R")

warp_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread is at work: the new process would inherit half-done work, but not the thread.
    os.register_at_fork(before=warp_lock.acquire, after_in_parent=warp_lock.release, after_in_child=warp_lock.release)


@contextmanager
def sole_use() -> Iterator[None]:
    """Hold the lock in a context; signals are deferred."""
    # In this order, so that waiting for the lock can be interrupted.
    with warp_lock, deferred():
        yield


def serialized(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run in one thread at a time, together with all others decorated so; signals are deferred."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with warp_lock, deferred():
            return function(*args, **kwargs)

    return wrapper
