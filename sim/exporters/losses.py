"""Collects what a file format cannot represent: one error for what changes the motion, warnings for the rest."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from sim.errors import ModelError
from sim.model.names import some


class Losses:
    """Collects everything that a file cannot represent while it is built. :meth:`report` reports all of it at once.

    Args:
        path: the file to write.
        format: name of the format in messages.
        category: class of the warnings.
        lossy: warn instead of raising an error about what changes the motion.
    """

    def __init__(self, path: str | os.PathLike[str], format: str, category: type[Warning], lossy: bool):
        self.path = Path(path)
        self._format, self._category, self._lossy = format, category, lossy
        self._fatal: list[str] = []
        self._notes: list[str] = []

    def changes_motion(self, what: str, names: Sequence[str]) -> None:
        """Note something that the file lacks and that changes the motion, for the elements with these names."""
        if names:
            self._fatal.append(f"{what} ({some(names)})")

    def omits(self, what: str, names: Sequence[str], advice: str = "") -> None:
        """Note something that the file lacks and that its reader sets or that does not affect the motion."""
        if names:
            self._notes.append(f"not written: {what} ({some(names)})" + (f"; {advice}" if advice else ""))

    def remarks(self, note: str) -> None:
        """Note something that a reader of the file must know."""
        self._notes.append(note)

    def refuse(self) -> None:
        """Raise ModelError if something changes the motion, unless ``lossy``."""
        if self._fatal and not self._lossy:
            raise ModelError(
                f"{self.path}: {self._format} cannot represent {'; '.join(self._fatal)}. The file would move "
                "differently from the model: write USD, change the model, or omit it with lossy=True (--lossy)"
            )

    def report(self) -> None:
        """Raise like :meth:`refuse`, or issue the warnings."""
        self.refuse()
        for note in [*(f"not written: {what}, which changes the motion" for what in self._fatal), *self._notes]:
            warnings.warn(f"{self.path}: {note}", self._category, stacklevel=3)
