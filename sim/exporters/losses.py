"""Features that a file format lacks: one error for those that change the motion, warnings for the rest."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from sim.errors import ModelError
from sim.model.checks import require_flags, some


class Losses:
    """Collection of what a file can't represent; :meth:`report` reports all of it at once.

    Args:
        path: the file to write.
        format: name of the format in messages.
        category: class of the warnings.
        lossy: only warn of what would change the motion, instead of raising an error.
    """

    def __init__(self, path: str | os.PathLike[str], format: str, category: type[Warning], lossy: bool):
        require_flags(f"{path}", lossy=lossy)
        self.path = Path(path)
        self._format, self._category, self._lossy = format, category, lossy
        self._grave: list[str] = []
        self._notes: list[str] = []

    def changes_motion(self, what: str, names: Sequence[str]) -> None:
        """Note a feature of the named elements whose loss changes the motion."""
        if names:
            self._grave.append(f"{what} ({some(names)})")

    def leaves_out(self, what: str, names: Sequence[str], advice: str = "") -> None:
        """Note a feature of the named elements whose loss doesn't change the motion by itself."""
        if names:
            self._notes.append(f"not written: {what} ({some(names)})" + (f"; {advice}" if advice else ""))

    def remarks(self, note: str) -> None:
        """Note something that whoever reads the file must know."""
        self._notes.append(note)

    def refuse(self) -> None:
        """Raise ModelError if something would change the motion, unless ``lossy``."""
        if self._grave and not self._lossy:
            raise ModelError(
                f"{self.path}: {self._format} can't represent {'; '.join(self._grave)}, which changes the "
                "motion; write USD, change the model, or drop it with lossy=True (--lossy)"
            )

    def report(self) -> None:
        """Raise as :meth:`refuse`, or warn."""
        self.refuse()
        for note in [*(f"not written: {what}, which changes the motion" for what in self._grave), *self._notes]:
            warnings.warn(f"{self.path}: {note}", self._category, stacklevel=3)
