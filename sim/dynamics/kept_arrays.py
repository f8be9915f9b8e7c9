"""Arrays that belong to a model and to what an operation is asked of it, kept for calls that come again."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from sim.arrays.device_model import DeviceModel
from sim.model.model import Model

Arrays = TypeVar("Arrays")


class KeptArrays(Generic[Arrays]):
    """Keeps the arrays of the latest questions, at most ``most``, and drops the oldest ones."""

    def __init__(self, most: int):
        self._most = most
        self._kept: dict[Hashable, tuple[Model, Arrays]] = {}

    def get(self, m: DeviceModel, question: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """Those of a model on a device, made where they aren't there."""
        key = (id(m.model), question, str(m.device), m.model.dtype)
        if key not in self._kept:
            # The entry keeps the model alive, so that its id stays its own.
            self._kept[key] = m.model, make()
            if len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))
        return self._kept[key][1]
