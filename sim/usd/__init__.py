"""Writers of USD files with motion and physics."""

from sim.usd.write import UsdRecorder, write_usd

__all__ = ["UsdRecorder", "write_usd"]
