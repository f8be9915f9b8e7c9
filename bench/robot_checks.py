"""Checks of a library's values against Pinocchio, and of its gradients against central differences."""

from textwrap import shorten
from typing import Any

import numpy as np

from bench.robot_libraries.base import Call, Library, State

# Bounds of values and of gradients, relative to the largest. Those for float32 allow for the accelerations of a light
# limb. Those for float64 are wide because pytorch_kinematics stores the numbers of the file in float32.
BOUNDS = {"float32": (1e-3, 1e-2), "float64": (1e-6, 1e-4)}
CHECKED = 16  # number of states whose values are compared before anything is timed


def difference(calls: Library, case: str, known: Any, dtype: str) -> tuple[str | None, str | None]:
    """Describe the errors in values and gradient of a case. None if they agree with the reference."""
    try:
        call = calls.call(case, State.load(known, CHECKED))
        if call is None:
            return "the library has no such function", None
        value = call.value()
    except Exception as error:  # other libraries may raise anything
        return f"{type(error).__name__}: {error}".splitlines()[0], None
    expected = known[calls.expects.get(case, case)][:CHECKED]
    if value.shape != expected.shape:
        return f"values have shape {value.shape}, not {expected.shape}", None
    off = float(np.abs(value - expected).max() / np.abs(expected).max())
    if not off <= BOUNDS[dtype][0]:
        return f"values differ from Pinocchio's by {off:.1e} of the largest", None
    return None, gradient_difference(call, dtype)


def gradient_difference(call: Call, dtype: str) -> str | None:
    """Compute the error in the gradient of a case: None if right or not checked, empty if there is no gradient."""
    if call.backward is None:
        return ""
    if call.gradient_error is None:
        return None
    try:
        slope = call.gradient_error()
    except Exception as error:  # as above; PyTorch's messages are long
        return shorten(f"no gradient: {type(error).__name__}: {error}", 124, placeholder=" ...")
    return None if slope <= BOUNDS[dtype][1] else f"the gradient differs from central differences by {slope:.1e}"
