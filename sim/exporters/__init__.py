"""Models as robot files. :mod:`sim.usd` writes USD."""

from sim.exporters.mjcf import write_mjcf
from sim.exporters.urdf import write_urdf

__all__ = ["write_mjcf", "write_urdf"]
