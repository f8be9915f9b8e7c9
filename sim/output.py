"""Writing files. Every write is atomic: the file is complete or not there at all."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sim.errors import ModelError


def write_file(path: str | os.PathLike[str], suffixes: Sequence[str], write: Callable[[str], object]) -> Path:
    """Let ``write`` fill a new file beside the target, then move it there.

    Raises:
        ModelError: if the suffix is not among ``suffixes``, the folder does not exist or the path is a folder.
    """
    target = check_target(path, suffixes)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=target.parent) as folder:
        new = Path(folder) / f"new{target.suffix.lower()}"
        write(str(new))
        new.replace(target)
    return target


def check_target(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """The path of a file that can be written; raises as :func:`write_file` does."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise ModelError(f"{target}: the name must end in {' or '.join(suffixes)}")
    if not target.parent.is_dir():
        raise ModelError(f"{target}: there is no folder '{target.parent}'; make it first")
    if target.is_dir():
        raise ModelError(f"{target}: is a folder; give the name of a file")
    return target
