"""The mode of PyTorch in which derivatives are recorded, for functions that take them themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def with_gradients() -> Iterator[None]:
    """Record derivatives, also inside ``torch.no_grad()`` and ``torch.inference_mode()``; also a decorator.

    A search or a controller that runs in such a mode, as a robot's loop may, needs its own derivatives none the less.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield
