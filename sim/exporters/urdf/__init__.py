"""URDF files."""

from sim.exporters.urdf.exporter import write_urdf

__all__ = ["write_urdf"]
