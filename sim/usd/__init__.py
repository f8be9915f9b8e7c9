"""Motions as USD files that other tools open without surprises."""

from sim.usd.write import UsdRecorder, write_usd

__all__ = ["UsdRecorder", "write_usd"]
