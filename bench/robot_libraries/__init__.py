"""Adapters that give all libraries for robot kinematics and dynamics the same interface: see :mod:`bench.robot`."""

from importlib import import_module
from importlib.util import find_spec

from bench.robot_libraries.base import Library

# Per library: the module with its calls, the module that it needs, and the argument of pip install for it. BARD is not
# on PyPI; the package of that name there is a different one, and empty.
LIBRARIES = {
    "Backswing": ("backswing", "sim", "backswing"),
    "Pinocchio": ("pin", "pinocchio", "backswing[peers]"),
    "ADAM": ("adam_torch", "adam", "backswing[bench]"),
    "BARD": ("bard", "bard.api", "git+https://github.com/YueWang996/bard-pytorch-dynamics"),
    "BARD compiled": ("bard_compiled", "bard.api", "git+https://github.com/YueWang996/bard-pytorch-dynamics"),
    "DRM": ("drm", "differentiable_robot_model", "backswing[peers]"),
    "pytorch_kinematics": ("pk", "pytorch_kinematics", "backswing[bench]"),
}

ON_REQUEST = ("BARD compiled",)  # measured only when named: compilation takes minutes


def is_installed(name: str) -> bool:
    """Return True if a library can be imported."""
    try:
        return find_spec(LIBRARIES[name][1]) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def library(name: str) -> type[Library]:
    """Import a library and return its calls."""
    found: type[Library] = import_module(f"bench.robot_libraries.{LIBRARIES[name][0]}").Calls
    return found
