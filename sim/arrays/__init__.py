"""Warp arrays: those of a model on a device, scratch memory, precision, and the lock around Warp's recording."""
