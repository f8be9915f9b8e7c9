"""Variants of one source keep the arguments that they read, and do the same whether they loop over slots or not."""

import functools

import numpy as np
import pytest
import warp as wp

from sim.arrays.launch import launch
from warp_kernels.variants import looped_over_slots, used_arguments_only


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


@functools.cache
def make_over_slots(looping: bool, power: int) -> wp.Kernel:
    module = wp.get_module(f"tests.slots.{looping}.{power}")

    @wp.func
    def raised(x: float):
        if wp.static(power == 3):
            return x * x * x
        return x * x

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    @used_arguments_only
    def raise_to_power(
        # Model
        factor: wp.array(dtype=float),
        shift: float,
        # Data in
        x: wp.array2d(dtype=float),
        contact_count: wp.array(dtype=int),
        # Data out
        y: wp.array2d(dtype=float),
    ):
        """Slots past the count and with a negative x are left alone."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        if x[slot, world] < 0.0:
            return
        value = factor[slot] * raised(x[slot, world])
        if wp.static(power == 3):
            value += shift
        y[slot, world] = value

    return raise_to_power


@pytest.mark.parametrize("power", [2, 3])
def test_loop_over_slots_does_the_same(power: int) -> None:
    counts = np.array([0, 2, 5], np.int32)
    rng = np.random.default_rng(0)
    values, bars = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)
    found = []
    for looping in (False, True):
        x, factor, count = (wp.array(a, device="cpu") for a in (values, 1.0 + np.arange(5, dtype=np.float32), counts))
        y = wp.full((5, 3), 7.0, dtype=float, device="cpu", requires_grad=True)
        x.requires_grad = factor.requires_grad = True
        with wp.Tape() as tape:
            kernel = make_over_slots(looping, power)
            further = {"shift": 0.5} if power == 3 else {}
            named = {"x": x, "factor": factor, "contact_count": count, "y": y, **further}
            launch(kernel, 3 if looping else (5, 3), named, device="cpu")
        tape.backward(grads={y: wp.array(bars, device="cpu")})
        found.append((y.numpy(), x.grad.numpy(), factor.grad.numpy()))
    there = (np.arange(5)[:, None] < counts) & (values >= 0.0)
    factors = 1.0 + np.arange(5)[:, None]
    expected = np.where(there, factors * values**power + (0.5 if power == 3 else 0.0), 7.0)
    slopes = np.where(there, bars * factors * power * values ** (power - 1), 0.0)
    for y, x_bar, factor_bar in found:
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        np.testing.assert_allclose(x_bar, slopes, rtol=1e-6)
        np.testing.assert_allclose(factor_bar, np.where(there, bars * values**power, 0.0).sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_a_kernel_that_begins_otherwise_is_refused() -> None:
    def otherwise(contact_count: wp.array(dtype=int)):
        slot = wp.tid()
        contact_count[slot] = 0

    with pytest.raises(ValueError, match="otherwise does not begin"):
        looped_over_slots(True)(otherwise)
