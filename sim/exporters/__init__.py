"""Export of models as robot files. :mod:`sim.usd` writes USD."""

from sim.exporters.mjcf.exporter import write_mjcf
from sim.exporters.urdf.exporter import write_urdf

__all__ = ["write_mjcf", "write_urdf"]
