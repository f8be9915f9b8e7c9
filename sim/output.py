"""Writing files. Every write is atomic: the file is complete or not there at all."""

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from sim.errors import ModelError

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows has no such locks
    LOCKS = False

PREFIX = ".writing-"
# Folders whose leftovers this process has removed, by device, inode and prefix.
_cleaned: set[tuple[int, int, str]] = set()


def write_file(path: str | os.PathLike[str], suffixes: Sequence[str], write: Callable[[str], object]) -> Path:
    """Let ``write`` fill a new file beside the target, then move it there.

    Args:
        path: the file.
        suffixes: those that its name may have.
        write: gets the name of the new file, and writes it.

    Returns:
        the path.

    Raises:
        ModelError: if the suffix is not among ``suffixes``, the folder does not exist, the path is a folder, or the
            system cannot write there, for example because the disk is full.
    """
    target = check_target(path, suffixes)
    with system_errors(target), WritingFolder(target.parent) as folder:
        new = folder / f"new{target.suffix.lower()}"
        write(str(new))
        new.replace(target)
    return target


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file in UTF-8. Raises as :func:`write_file` does."""
    target = Path(path)
    return write_file(target, (target.suffix.lower(),), lambda name: Path(name).write_text(text, encoding="utf-8"))


def check_target(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """Return the path of a file that can be written; raises as :func:`write_file` does."""
    if not isinstance(path, str | os.PathLike):
        raise ModelError(f"{path!r} is a {type(path).__name__}; it must be the path of the file to write")
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise ModelError(f"{target}: the name must end in {' or '.join(suffixes)}")
    if "\0" in str(target):
        raise ModelError(f"{str(target)!r}: no file can have a zero byte in its name")
    if not os.path.isdir(target.parent):  # Path.is_dir raises OSError for a name that is too long
        raise ModelError(f"{target}: there is no folder '{target.parent}'; make it first")
    if os.path.isdir(target):
        raise ModelError(f"{target}: is a folder; give the name of a file")
    return target


@contextlib.contextmanager
def system_errors(target: Path) -> Iterator[None]:
    """Turn errors of the system within a context, such as a full disk, into ModelErrors that name the file."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"{target}: cannot be written: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Return the system's message for an error, without its number and temporary file names."""
    return os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]


class WritingFolder:
    """A hidden folder for files that are not complete yet. It is removed when it is closed.

    The folder is locked as long as its process lives. What a killed process left behind is therefore known by not
    being locked, and removed by the next process that writes there.

    Args:
        parent: the folder that the files will be moved to.
        prefix: of its name.

    Raises:
        OSError: if the folder cannot be made.
    """

    def __init__(self, parent: Path, prefix: str = PREFIX):
        _clean(parent, prefix)
        lock = None
        while lock is None:  # another process may take the folder for a leftover until it is locked
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            lock = _lock(self.path)
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove the folder."""
        self._remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(folder: Path) -> int | None:
    """Lock a folder. Returns a descriptor that holds the lock, None if another process has it, -1 without locks."""
    if not LOCKS:
        return -1
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return descriptor
    except BlockingIOError:
        pass
    except FileNotFoundError:  # removed before it was locked
        pass
    except OSError:  # some network file systems cannot lock folders
        os.close(descriptor)
        return -1
    os.close(descriptor)
    return None


def _remove(folder: Path, lock: int, process: int) -> None:
    """Remove a folder and give up its lock, in the process that made it and not in one that was forked from it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _clean(parent: Path, prefix: str) -> None:
    """Remove the folders of killed processes, once in each folder."""
    status = parent.stat()
    key = (status.st_dev, status.st_ino, prefix)
    if key in _cleaned:
        return
    _cleaned.add(key)
    for folder in parent.glob(f"{prefix}*"):
        lock = _lock(folder)
        if lock is not None and lock >= 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
