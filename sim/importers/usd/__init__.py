"""Import of USD files with UsdPhysics."""

from sim.importers.usd.importer import add_usd, read_gravity

__all__ = ["add_usd", "read_gravity"]
