"""Import of MJCF files, with MuJoCo's own parser."""

from sim.importers.mjcf.importer import add_mjcf

__all__ = ["add_mjcf"]
