"""Motions as USD files that other tools can open."""

from sim.usd.write import UsdRecorder, write_usd

__all__ = ["UsdRecorder", "write_usd"]
