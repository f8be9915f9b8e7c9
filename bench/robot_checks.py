"""Whether a library's values are those of Pinocchio, and its gradients those of central differences."""

from textwrap import shorten
from typing import Any

import numpy as np

from bench.robot_libraries.base import Call, Library, State

# Of values, relative to the largest, and of gradients: what float32 leaves of accelerations of a light limb. Those of
# float64 are wide because pytorch_kinematics keeps the numbers of the file in float32.
BOUNDS = {"float32": (1e-3, 1e-2), "float64": (1e-6, 1e-4)}
CHECKED = 16  # states whose values are compared before any time is taken


def difference(calls: Library, case: str, known: Any, dtype: str) -> tuple[str | None, str | None]:
    """What is wrong with the values of a case, None if they are those of Pinocchio; the same for the gradient."""
    try:
        call = calls.call(case, State.load(known, CHECKED))
        if call is None:
            return "the library has no such function", None
        value = call.value()
    except Exception as error:  # whatever another library says of a robot
        return f"{type(error).__name__}: {error}".splitlines()[0], None
    expected = known[calls.expects.get(case, case)][:CHECKED]
    if value.shape != expected.shape:
        return f"values have shape {value.shape} and not {expected.shape}", None
    off = float(np.abs(value - expected).max() / np.abs(expected).max())
    if not off <= BOUNDS[dtype][0]:
        return f"values differ from Pinocchio's by {off:.1e} of the largest", None
    return None, gradient_difference(call, dtype)


def gradient_difference(call: Call, dtype: str) -> str | None:
    """What is wrong with the gradient of a case, None if nothing is or it isn't checked; empty if there is none."""
    if call.backward is None:
        return ""
    if call.gradient_error is None:
        return None
    try:
        slope = call.gradient_error()
    except Exception as error:  # as above; PyTorch's go on with shapes and versions of tensors
        return shorten(f"no gradient: {type(error).__name__}: {error}", 124, placeholder=" ...")
    return None if slope <= BOUNDS[dtype][1] else f"the gradient differs from central differences by {slope:.1e}"
