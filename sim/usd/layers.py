"""Errors while the layers of a stage are written."""

import contextlib
import re
from collections.abc import Iterator

from pxr import Tf


@contextlib.contextmanager
def layer_errors() -> Iterator[None]:
    """Context that turns errors of USD into OSErrors.

    Raises:
        OSError: if a file cannot be written, for example because the disk is full.
    """
    try:
        yield
    except Tf.ErrorException as error:
        # The quoted text of the first message, such as 'Error occurred writing file: No space left on device'.
        quoted = re.search(r": '([^'\n]*)'\s*$", str(error), re.MULTILINE)
        raise OSError(quoted[1] if quoted else str(error)) from None
