"""When Python looks for garbage: imports and generated code make many objects, and hardly any garbage."""

import atexit
import contextlib
import gc
from collections.abc import Iterator

SELDOM = 1_000_000  # new objects, after which Python looks for garbage in place of its 700


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Context for imports: Python hardly looks for garbage, and never again at what is there at the end."""
    before = gc.get_threshold()
    gc.set_threshold(SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


def begin_script() -> None:
    """Let Python seldom look for garbage, and not at the end of the process: that takes a third of a second."""
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
