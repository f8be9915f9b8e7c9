"""Arguments that the readers of all formats take."""

import os
from collections.abc import Iterable
from pathlib import Path

from sim.errors import ModelError
from sim.model.checks import number, require_flags, require_path


def check_arguments(
    where: str, path: object, name: object, friction: object, restitution: object, **flags: object
) -> None:
    """Refuse what a reader can't use, before it looks at the file.

    Args:
        where: the reader, in messages.
        path: text, or a path.
        name: text, or None for the names of the file.
        friction: a number, or None for that of the file.
        restitution: a number.
        flags: True or False.

    Raises:
        ModelError: naming the argument.
    """
    require_path(path)
    if name is not None and not isinstance(name, str):
        raise ModelError(f"{where}: name is {name!r}; it must be text")
    if name == "":
        raise ModelError(f"{where}: name is empty; leave it out to use the names of the file")
    if friction is not None:
        number(where, "friction", friction)
    number(where, "restitution", restitution)
    require_flags(where, **flags)


def folders_in(given: object) -> list[Path]:
    """The folders that an argument names, one or several. Raises ModelError for what names none."""
    listed = [given] if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable) else list(given)
    folders = [Path(each) for each in listed if isinstance(each, str | os.PathLike)]
    if len(folders) < len(listed):
        raise ModelError(f"package_dirs is {given!r}; it must be a folder, or a list of folders")
    return folders
