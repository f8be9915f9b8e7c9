"""Import of SDF files, as Gazebo reads them."""

from sim.importers.sdf.importer import add_sdf, read_gravity

__all__ = ["add_sdf", "read_gravity"]
