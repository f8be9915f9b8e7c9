"""Variants of one source keep the arguments that they read."""

import functools

import numpy as np
import pytest
import warp as wp

from sim.arrays.launch import launch
from warp_kernels.variants import used_arguments_only


@functools.cache
def make(doubled: bool, shifted: bool) -> wp.Kernel:
    @wp.kernel(name=f"copy_{doubled}_{shifted}", module=wp.get_module("tests.variants"), enable_backward=False)
    @used_arguments_only
    def copy(
        # Data in
        x: wp.array(dtype=float),
        factor: float,
        shift: float,
        both: float,
        # Data out
        y: wp.array(dtype=float),
    ):
        i = wp.tid()
        value = x[i]
        if wp.static(doubled):
            value = factor * value
            if wp.static(shifted):
                value += both
        elif wp.static(shifted):
            value += shift
        y[i] = value

    return copy


@pytest.mark.parametrize(
    ("doubled", "shifted", "arguments", "expected"),
    [
        (False, False, {}, 1.0),
        (True, False, {"factor": 2.0}, 2.0),
        (False, True, {"shift": 3.0}, 4.0),
        (True, True, {"factor": 2.0, "both": 5.0}, 7.0),
    ],
)
def test_variant(doubled: bool, shifted: bool, arguments: dict[str, float], expected: float) -> None:
    kernel = make(doubled, shifted)
    assert [argument.label for argument in kernel.adj.args] == ["x", *arguments, "y"]
    x, y = wp.full(2, 1.0, dtype=float, device="cpu"), wp.zeros(2, dtype=float, device="cpu")
    launch(kernel, 2, {"x": x, "y": y}, device="cpu", **arguments)
    np.testing.assert_array_equal(y.numpy(), [expected, expected])
