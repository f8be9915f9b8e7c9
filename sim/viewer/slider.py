"""A slider that both the user and the program move."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Slider:
    """A slider on the page, whose user has the last word.

    The page sends every value while the user types or drags, and each waits for its turn in a thread.
    What the program shows meanwhile must not replace a value that still waits, or it would be lost.

    Args:
        handle: the slider of viser.
        lock: held while ``moved`` runs. Also hold it to call ``show``.
        moved: called with the value after the user has moved the slider.
    """

    def __init__(self, handle: Any, lock: threading.RLock, moved: Callable[[float], None]):
        self.handle = handle
        self._lock, self._moved = lock, moved
        self._known = handle.value  # the last value that was shown or acted on
        handle.on_update(self._update)

    @property
    def value(self) -> float:
        """Value on the page."""
        return self.handle.value

    def show(self, value: float) -> None:
        """Move the slider, unless the user has just done so."""
        if self.handle.value == self._known:
            self.handle.value = value
            self._known = self.handle.value

    def _update(self, event: Any) -> None:
        if event.client_id is None:  # the program itself has set the value
            return
        with self._lock:
            value = self.handle.value
            if value != self._known:  # else it was acted on together with one before it
                self._known = value
                self._moved(value)
