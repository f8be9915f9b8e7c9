"""Progress of an interrupted optimisation or training, to resume it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.output import system_errors, write_file

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows doesn't have these locks
    LOCKS = False

RUNNING = ".running"  # lock file next to the progress, with the number of the process that uses the folder


class Progress:
    """The file that stores the progress of an optimisation, and the folder that it belongs to.

    Used as a context around the optimisation and the writing of its results::

        with Progress(out / "interrupted.npz", {"target": target}) as kept:
            result = optimise(..., kept)  # calls kept.load, kept.save and, at its end, kept.done
            write_result(...)

    Within the context no other process can use the folder. The file is removed at its end, after the results are
    written: a process that is killed while it writes them resumes where it was.

    Args:
        path: the file; None stores nothing.
        problem: identifies the problem, such as its target; a file of another problem is ignored.
        restart: ignore an existing file.

    Raises:
        ModelError: on entering, if another process uses the folder, or if it isn't writable.
    """

    def __init__(self, path: Path | None, problem: Mapping[str, object], restart: bool = False):
        self.path = path
        self.problem = {f"problem_{name}": np.asarray(value) for name, value in problem.items()}
        self._restart = restart
        self._done = False
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Progress:
        if self.path is not None:
            self._held.enter_context(_hold(self.path.with_name(RUNNING)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            if self.path is not None and self._done and kind is None:
                self.path.unlink(missing_ok=True)
            elif self.path is not None and kind is KeyboardInterrupt and self.path.is_file():
                print(f"\nrepeat the command to resume from {self.path}")

    def load(self) -> dict[str, np.ndarray] | None:
        """Return the arrays saved last, or None if there is nothing to resume."""
        if self.path is None or self._restart or not self.path.is_file():
            return None
        try:
            with self.path.open("rb") as source, np.load(source) as file:
                kept = dict(file)
        except Exception as error:  # NumPy's reader raises errors of many types for a damaged file
            print(f"cannot read {self.path} ({type(error).__name__}: {error}); starting from the beginning")
            return None
        if any(name not in kept or not np.array_equal(kept[name], value) for name, value in self.problem.items()):
            print(f"{self.path} belongs to another problem; starting from the beginning")
            return None
        print(f"resuming from {self.path}; remove it to start from the beginning")
        return {name: value for name, value in kept.items() if name not in self.problem}

    def save(self, **arrays: object) -> None:
        """Save these arrays, replacing earlier ones. The file is replaced atomically."""
        if self.path is None:
            return
        everything: dict[str, Any] = {**self.problem, **arrays}
        write_file(self.path, (".npz",), lambda name: np.savez(name, **everything))

    def done(self) -> None:
        """Mark the optimisation as complete: the file is removed at the end of the context."""
        self._done = True


@contextlib.contextmanager
def _hold(path: Path) -> Iterator[None]:
    """Hold a lock on a file with the number of this process, and remove the file at the end.

    The system releases the lock when the process dies, so a stale file doesn't block others.
    """
    with system_errors(path):
        descriptor = _open_locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if LOCKS:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace") or "unknown"
            os.close(descriptor)
            raise ModelError(
                f"{path.parent}: process {holder} is writing its results there; wait for it, or choose another folder"
            ) from None
        # Its holder may have removed the file since it was opened; then another process can lock a new one.
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            return descriptor
        os.close(descriptor)
