"""Import of URDF files."""

from sim.importers.urdf.importer import add_urdf

__all__ = ["add_urdf"]
