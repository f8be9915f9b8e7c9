"""Launches by name: where arguments are found, what is missing or unknown, that no kernel is launched by position."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sim.arrays.launch import bind, launch

ROOT = Path(__file__).parents[2]


@wp.kernel
def scale(
    # Data in
    factor: float,
    x: wp.array(dtype=float),
    # Data out
    y: wp.array(dtype=float),
):
    i = wp.tid()
    y[i] = factor * x[i]


@wp.kernel(enable_backward=False)
def scale_adjoint(
    # Data in
    factor: float,
    # Adjoint in
    y_bar: wp.array(dtype=float),
    # Adjoint out
    x_bar: wp.array(dtype=float),
):
    i = wp.tid()
    if x_bar.shape[0] > 0:
        x_bar[i] += factor * y_bar[i]


def numbers(values: list[float], requires_grad: bool = False) -> wp.array:
    return wp.array(values, dtype=float, device="cpu", requires_grad=requires_grad)


def test_arguments_are_found_by_name() -> None:
    work = SimpleNamespace(x=numbers([1.0, 2.0]), y=numbers([0.0, 0.0]), factor=5.0)
    launch(scale, 2, work, {"factor": 7.0}, device="cpu")
    np.testing.assert_array_equal(work.y.numpy(), [5.0, 10.0])  # the first source wins
    launch(scale, 2, {"factor": 7.0}, work, device="cpu")
    np.testing.assert_array_equal(work.y.numpy(), [7.0, 14.0])
    launch(scale, 2, work, device="cpu", factor=3.0)
    np.testing.assert_array_equal(work.y.numpy(), [3.0, 6.0])  # what is named goes before


def test_bar_is_the_gradient() -> None:
    x, y = numbers([1.0, 2.0], requires_grad=True), numbers([0.0, 0.0], requires_grad=True)
    y.grad.fill_(1.0)
    launch(scale_adjoint, 2, {"x": x, "y": y}, device="cpu", factor=3.0)
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 3.0])
    assert bind(scale_adjoint, {"x": numbers([0.0]), "y": y}, factor=3.0)[2] is None
    other = numbers([0.0, 0.0])
    assert bind(scale_adjoint, {"x": x, "y": y}, factor=3.0, x_bar=other)[2] is other


def test_another_source_of_the_same_type() -> None:
    x, y = numbers([1.0]), numbers([0.0])
    assert bind(scale, {"x": x, "factor": 2.0}, {"y": y}) == [2.0, x, y]
    assert bind(scale, {"x": x, "y": y}, {"factor": 2.0}) == [2.0, x, y]


def test_missing_and_unknown_names() -> None:
    x, y = numbers([1.0]), numbers([0.0])
    with pytest.raises(TypeError, match="kernel 'scale': .*'factor', 'y'"):
        launch(scale, 1, {"x": x}, device="cpu")
    assert bind(scale, {"x": x, "y": y}, factor=1.0)
    with pytest.raises(TypeError, match="kernel 'scale' has no argument 'z'; it takes 'factor', 'x', 'y'"):
        launch(scale, 1, {"x": x, "y": y}, device="cpu", factor=1.0, z=y)


def test_launch_is_recorded_on_a_tape() -> None:
    x, y = numbers([1.0, 2.0], requires_grad=True), numbers([0.0, 0.0], requires_grad=True)
    with wp.Tape() as tape:
        launch(scale, 2, {"x": x, "y": y}, device="cpu", factor=3.0)
        launch(scale, 2, {"x": x, "y": y}, device="cpu", record_tape=False, factor=3.0)
    tape.backward(grads={y: numbers([1.0, 1.0])})
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 3.0])
