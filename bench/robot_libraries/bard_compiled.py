"""BARD with torch.compile."""

from collections.abc import Callable
from typing import Any

import torch

from bench.robot_libraries import bard
from bench.robot_libraries.base import Robot


class Calls(bard.Calls):
    """Calls of BARD, see :class:`TorchLibrary`."""

    note = "BARD compiled: as BARD, with torch.compile, recompiled for each batch"

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        self.bard.enable_compilation()

    def function(self, case: str) -> Callable[..., Any]:
        """Return the function of a case, see :class:`TorchLibrary`."""
        torch.compiler.reset()  # after some shapes it would compile for dynamic shapes, then stop compiling
        return super().function(case)
