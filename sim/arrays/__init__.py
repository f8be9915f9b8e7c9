"""Warp arrays: model arrays on a device, scratch memory, precision, and the lock around Warp's recording."""
