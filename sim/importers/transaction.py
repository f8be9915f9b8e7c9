"""All or nothing: an import that fails leaves the builder as it was, and says which file it was."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sim.errors import ImportFileError, ModelError
from sim.model.builder import WorldBuilder

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
        subject: what the builder's messages begin with, which is left out: the element says it.
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
