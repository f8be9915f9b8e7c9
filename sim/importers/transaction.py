"""Imports as transactions: a failed one leaves the builder unchanged, and names the file."""

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sim.errors import ImportFileError, ModelError
from sim.model.builder import WorldBuilder
from sim.model.checks import number, require_flags, require_path


def check_arguments(
    where: str, path: object, name: object, friction: object, restitution: object, **flags: object
) -> None:
    """Raise ModelError for invalid arguments, before the file is read.

    Args:
        where: name of the reader in messages.
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
        raise ModelError(f"{where}: name is empty; omit it to use the names of the file")
    if friction is not None:
        number(where, "friction", friction)
    number(where, "restitution", restitution)
    require_flags(where, **flags)


def folders_in(given: object) -> list[Path]:
    """Return the folders that an argument names, one or several. Raise ModelError for other types."""
    listed = [given] if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable) else list(given)
    folders = [Path(each) for each in listed if isinstance(each, str | os.PathLike)]
    if len(folders) < len(listed):
        raise ModelError(f"package_dirs is {given!r}; it must be a folder, or a list of folders")
    return folders


# Errors that libraries raise for invalid numbers and text, including those of NumPy and qhull. TypeError is not among
# them, since it comes from an argument of the caller.
LIBRARY_ERRORS = (ArithmeticError, LookupError, ValueError, RuntimeError, MemoryError, OSError, AssertionError)


@contextmanager
def all_or_nothing(builder: WorldBuilder) -> Iterator[None]:
    """Undo everything that was added to the builder inside the ``with`` block if the block raises."""
    before = {name: copy.copy(value) for name, value in vars(builder).items()}
    try:
        yield
    except BaseException:
        for name, value in before.items():
            setattr(builder, name, value)
        raise


@contextmanager
def located(at: Callable[[str], ImportFileError], subject: str | None = None) -> Iterator[None]:
    """Turn errors of the builder or a library in the ``with`` block into an ImportFileError.

    Args:
        at: function that makes it from a message, with file and element.
        subject: beginning of the builder's messages that is removed, since the element says it.
    """
    try:
        yield
    except ImportFileError:
        raise
    except ModelError as error:
        raise at(str(error) if subject is None else str(error).removeprefix(f"{subject}: ")) from None
    except LIBRARY_ERRORS as error:
        raise at(f"can't be read: {in_words(error)}") from error


def named_file(path: object) -> AbstractContextManager[None]:
    """Turn errors of a library in the ``with`` block into an ImportFileError that names the file.

    A ModelError without the file's name, from building the model, is turned into one, too.
    """
    return located(lambda message: ImportFileError(path, message))


def in_words(error: BaseException) -> str:
    """Return an error of a library in one line, with its type."""
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}".split("\n")[0]
