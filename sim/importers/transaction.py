"""All or nothing: an import that fails leaves the builder as it was, and says which file it was."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from sim.errors import ImportFileError, ModelError
from sim.model.builder import ModelBuilder

# What libraries raise for numbers and text that they can't work with; NumPy's and qhull's errors are among them. Not
# TypeError, which an argument of the caller causes.
LIBRARY_ERRORS = (ArithmeticError, LookupError, ValueError, RuntimeError, MemoryError, OSError, AssertionError)


@contextmanager
def all_or_nothing(builder: ModelBuilder) -> Iterator[None]:
    """Undo everything that was added to the builder inside the ``with`` block if the block raises."""
    before = {name: copy.copy(value) for name, value in vars(builder).items()}
    try:
        yield
    except BaseException:
        for name, value in before.items():
            setattr(builder, name, value)
        raise


@contextmanager
def named_file(path: object) -> Iterator[None]:
    """Turn what a library raises in the ``with`` block into an ImportFileError that names the file.

    A ModelError that doesn't name it, since the fault shows only when the model is put together, becomes one too.
    """
    try:
        yield
    except ImportFileError:
        raise
    except ModelError as error:
        raise ImportFileError(path, str(error)) from None
    except LIBRARY_ERRORS as error:
        raise ImportFileError(path, f"can't be read: {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """An error of a library in one line, with its type."""
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}".split("\n")[0]
