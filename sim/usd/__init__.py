"""Motions as USD files that other tools open without surprises."""

from sim.usd.stage import write_usd

__all__ = ["write_usd"]
