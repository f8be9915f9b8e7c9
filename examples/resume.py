"""An optimisation that was interrupted goes on where it was."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Progress:
    """The file in which an optimisation keeps where it is.

    Args:
        path: the file; None keeps nothing.
        problem: what is being solved, such as the target; a file of another problem is not gone on with.
        restart: whether to ignore a file that is there.
    """

    def __init__(self, path: Path | None, problem: Mapping[str, object], restart: bool = False):
        self.path = path
        self.problem = {f"problem_{name}": np.asarray(value) for name, value in problem.items()}
        self._restart = restart

    def load(self) -> dict[str, np.ndarray] | None:
        """What was kept last, or None where there is nothing to go on with."""
        if self.path is None or self._restart or not self.path.is_file():
            return None
        try:
            with self.path.open("rb") as source, np.load(source) as file:
                kept = dict(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            print(f"{self.path} can't be read ({error}); the optimisation starts anew")
            return None
        if any(name not in kept or not np.array_equal(kept[name], value) for name, value in self.problem.items()):
            print(f"{self.path} belongs to another problem; the optimisation starts anew")
            return None
        print(f"going on with {self.path}; --restart starts anew")
        return {name: value for name, value in kept.items() if name not in self.problem}

    def save(self, **arrays: object) -> None:
        """Keep these, in place of what was kept before. The file is never half written."""
        if self.path is None:
            return
        new = self.path.with_suffix(".new.npz")
        everything: dict[str, Any] = {**self.problem, **arrays}
        np.savez(new, **everything)
        os.replace(new, self.path)

    def done(self) -> None:
        """Nothing is left to go on with."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
