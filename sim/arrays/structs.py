"""Structs of arrays, which kernels take where they would have many arguments.

A struct keeps the address of each array, and that of its gradient, from when it was filled.
"""

from typing import Any


def fill(struct: Any, **fields: Any) -> Any:
    """A struct of arrays for a kernel."""
    filled = struct()
    for name, value in fields.items():
        setattr(filled, name, value)
    return filled


def gradients_of(filled: Any) -> Any:
    """A struct with the gradients of the arrays of another; arrays without rows have none."""
    struct = filled._cls
    return fill(struct, **{name: getattr(filled, name).grad for name in struct.vars})
