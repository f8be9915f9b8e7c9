"""Kernels that an example will need, compiled while it imports and computes other things."""

import contextlib

import warp as wp

from sim.arrays.kernels import compile_ahead, start_warp
from sim.errors import ModelError
from warp_kernels.render.trace import render_kernels
from warp_kernels.trajectory import trajectory_kernels


def compile_shared() -> None:
    """Begin with a short module, and so with what all modules share; does nothing where kernels are cached."""
    if wp.config.log_level == wp.LOG_INFO:
        wp.config.log_level = wp.LOG_WARNING
    with contextlib.suppress(ModelError):  # which the example will raise again
        start_warp()
        compile_ahead([trajectory_kernels(wp.float32).fingerprint], wp.get_device("cpu"))


def compile_pictures(device: str | None) -> None:
    """Begin with the kernels that draw animations on a device."""
    compile_ahead([render_kernels().shade_pixels], wp.get_device(device))
