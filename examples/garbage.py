"""Less frequent garbage collection: imports and generated code make many objects, and hardly any garbage."""

import atexit
import contextlib
import gc
from collections.abc import Iterator

SELDOM = 1_000_000  # new objects between garbage collections; Python's default is 700


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Collect garbage rarely during imports, and exclude the objects that exist at the end from later collections."""
    before = gc.get_threshold()
    gc.set_threshold(SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


def begin_script() -> None:
    """Collect garbage rarely, and not at the end of the process, which takes a third of a second."""
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
