"""Libraries with the kinematics and dynamics of robots, all called alike: see :mod:`bench.robot`."""

from importlib import import_module
from importlib.util import find_spec

from bench.robot_libraries.base import Library

# Each by the module with its calls, the package that it needs, and the extra of pyproject.toml that installs it.
LIBRARIES = {
    "Backswing": ("backswing", "sim", ""),
    "Pinocchio": ("pin", "pinocchio", "peers"),
    "ADAM": ("adam_torch", "adam", "bench"),
    "DRM": ("drm", "differentiable_robot_model", "peers"),
    "pytorch_kinematics": ("pk", "pytorch_kinematics", "bench"),
}


def is_installed(name: str) -> bool:
    """Whether a library can be imported."""
    return find_spec(LIBRARIES[name][1]) is not None


def library(name: str) -> type[Library]:
    """The calls of a library, which is imported."""
    found: type[Library] = import_module(f"bench.robot_libraries.{LIBRARIES[name][0]}").Calls
    return found
