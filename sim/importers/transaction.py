"""All or nothing: an import that fails leaves the builder as it was."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from sim.model.builder import ModelBuilder


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
