"""SDF files, as Gazebo reads them."""

from sim.importers.sdf.importer import add_sdf

__all__ = ["add_sdf"]
