"""Readers of robot files: URDF, MJCF, SDF and USD. ``sim.importers.usd`` is imported when it is first used."""

import importlib
from types import ModuleType

_FORMATS = ("mjcf", "sdf", "urdf", "usd")


def __getattr__(name: str) -> ModuleType:
    """Import the reader of a format when it is first asked for: USD's libraries take long to load."""
    if name in _FORMATS:
        return importlib.import_module(f"sim.importers.{name}")
    raise AttributeError(f"module 'sim.importers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FORMATS})
