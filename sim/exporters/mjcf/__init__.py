"""MJCF files."""

from sim.exporters.mjcf.exporter import write_mjcf

__all__ = ["write_mjcf"]
