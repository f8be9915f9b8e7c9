"""The adjoint of inverse dynamics, see :mod:`warp_kernels.dynamics.newton_euler`."""

import functools
from types import SimpleNamespace
from typing import Any

from warp_kernels.dynamics.newton_euler import newton_euler
from warp_kernels.types import kernel_module


@functools.cache
def rnea_adjoint_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The adjoint of the kernel ``rnea`` for one precision and a number of worlds in a lane group."""
    module = kernel_module("rnea_adjoint", scalar, lanes)
    return SimpleNamespace(module=module, rnea_adjoint=newton_euler(module, scalar, lanes, adjoint=True))
