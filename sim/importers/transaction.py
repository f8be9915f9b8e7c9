"""An import as a transaction: one that fails leaves the builder as it was, and names the file."""

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


# What libraries raise for numbers and text that they can't work with; NumPy's and qhull's errors are among them. Not
# TypeError, which an argument of the caller causes.
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
    """Turn what the builder or a library raises in the ``with`` block into an ImportFileError.

    Args:
        at: makes it from a message, with the file and the element.
        subject: what the builder's messages begin with, which is ignored: the element says it.
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
    """Turn what a library raises in the ``with`` block into an ImportFileError that names the file.

    A ModelError that doesn't name it, since the fault shows only when the model is put together, becomes one too.
    """
    return located(lambda message: ImportFileError(path, message))


def in_words(error: BaseException) -> str:
    """An error of a library in one line, with its type."""
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}".split("\n")[0]
