"""Libraries with the kinematics and dynamics of robots, all called alike: see :mod:`bench.robot`."""

from importlib import import_module
from importlib.util import find_spec

from bench.robot_libraries.base import Library

# Each by the module with its calls, the module that it needs, and what pip is to install for that. BARD is not on PyPI,
# where another package of that name is, which is empty.
LIBRARIES = {
    "Backswing": ("backswing", "sim", "backswing"),
    "Pinocchio": ("pin", "pinocchio", "backswing[peers]"),
    "ADAM": ("adam_torch", "adam", "backswing[bench]"),
    "BARD": ("bard", "bard.api", "git+https://github.com/YueWang996/bard-pytorch-dynamics"),
    "BARD compiled": ("bard_compiled", "bard.api", "git+https://github.com/YueWang996/bard-pytorch-dynamics"),
    "DRM": ("drm", "differentiable_robot_model", "backswing[peers]"),
    "pytorch_kinematics": ("pk", "pytorch_kinematics", "backswing[bench]"),
}

ON_REQUEST = ("BARD compiled",)  # measured where it is named alone: it takes minutes to begin


def is_installed(name: str) -> bool:
    """Whether a library can be imported."""
    try:
        return find_spec(LIBRARIES[name][1]) is not None
    except ModuleNotFoundError:  # the package of which it is a part
        return False


def library(name: str) -> type[Library]:
    """The calls of a library, which is imported."""
    found: type[Library] = import_module(f"bench.robot_libraries.{LIBRARIES[name][0]}").Calls
    return found
