"""Resumes an interrupted optimisation."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Progress:
    """The file that stores the progress of an optimisation.

    Args:
        path: the file; None stores nothing.
        problem: identifies the problem, such as its target; a file of another problem is ignored.
        restart: whether to ignore an existing file.
    """

    def __init__(self, path: Path | None, problem: Mapping[str, object], restart: bool = False):
        self.path = path
        self.problem = {f"problem_{name}": np.asarray(value) for name, value in problem.items()}
        self._restart = restart

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays saved last, or None if there is nothing to resume."""
        if self.path is None or self._restart or not self.path.is_file():
            return None
        try:
            with self.path.open("rb") as source, np.load(source) as file:
                kept = dict(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            print(f"cannot read {self.path} ({error}); starting from the beginning")
            return None
        if any(name not in kept or not np.array_equal(kept[name], value) for name, value in self.problem.items()):
            print(f"{self.path} belongs to another problem; starting from the beginning")
            return None
        print(f"resuming from {self.path}; --restart starts from the beginning")
        return {name: value for name, value in kept.items() if name not in self.problem}

    def save(self, **arrays: object) -> None:
        """Save these arrays, replacing earlier ones. The file is replaced atomically."""
        if self.path is None:
            return
        new = self.path.with_suffix(".new.npz")
        everything: dict[str, Any] = {**self.problem, **arrays}
        np.savez(new, **everything)
        os.replace(new, self.path)

    def done(self) -> None:
        """Remove the file, since there is nothing left to resume."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
