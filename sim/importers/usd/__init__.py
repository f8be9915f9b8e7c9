"""USD files, by UsdPhysics."""

from sim.importers.usd.importer import add_usd, read_gravity
from sim.importers.usd.motion import read_motion

__all__ = ["add_usd", "read_gravity", "read_motion"]
