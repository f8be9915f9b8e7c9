"""Indices that an array doesn't have are noted by kernels compiled with checks, wherever they are used."""

from pathlib import Path

import numpy as np
import pytest
import warp as wp

import warp_kernels.types
from tests.index_checks import CHECKED, faults
from warp_kernels.types import kernel_module

NAME = "backswing.tests.index_checks"
module = wp.get_module(NAME)
wp.set_module_options({"extra_build_options": CHECKED}, module)

SHAPE = (2, 3, 4, 5)


@wp.kernel(module=module)
def read(
    at: wp.array2d(dtype=int),
    a: wp.array(dtype=float),
    b: wp.array2d(dtype=wp.vec3),
    c: wp.array3d(dtype=float),
    d: wp.array4d(dtype=float),
    total: wp.array(dtype=float),
):
    wp.atomic_add(total, 0, a[at[0, 0]])
    wp.atomic_add(total, 0, b[at[1, 0], at[1, 1]][0])
    wp.atomic_add(total, 0, c[at[2, 0], at[2, 1], at[2, 2]])
    wp.atomic_add(total, 0, d[at[3, 0], at[3, 1], at[3, 2], at[3, 3]])


@wp.kernel(module=module, enable_backward=False)
def write(at: wp.array2d(dtype=int), a: wp.array(dtype=float), b: wp.array2d(dtype=wp.vec3)):
    a[at[0, 0]] = 5.0
    wp.atomic_add(b, at[1, 0], at[1, 1], wp.vec3(5.0))


def arrays() -> list[wp.array]:
    """Of one to four dimensions, full of ones."""
    types = (float, wp.vec3, float, float)
    return [wp.ones(SHAPE[: n + 1], dtype=kind, device="cpu", requires_grad=True) for n, kind in enumerate(types)]


def indices(dimensions: int = 1, dimension: int = 0, index: int = 0) -> wp.array:
    """Those of the last entry of each array, but for one index."""
    values = np.tile(np.array(SHAPE) - 1, (4, 1))
    values[dimensions - 1, dimension] = index
    return wp.array(values, dtype=int, device="cpu")


EVERY_INDEX = [(n, d) for n in range(1, 5) for d in range(n)]


@pytest.mark.parametrize(("dimensions", "dimension"), EVERY_INDEX)
@pytest.mark.parametrize("index", ["-1", "beyond"])
def test_reading(dimensions, dimension, index):
    wrong = -1 if index == "-1" else SHAPE[dimension]
    total = wp.zeros(1, dtype=float, device="cpu")
    wp.launch(read, 1, [indices(dimensions, dimension, wrong), *arrays(), total], device="cpu")
    text = (
        f"{NAME}: index {wrong} of dimension {dimension} of {dimensions}, which has {SHAPE[dimension]} entries; 1 such"
    )
    (found,) = faults()
    assert found.startswith(text)
    assert faults() == []


def test_what_is_there_is_read_without_a_remark():
    total = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
    given = arrays()
    with wp.Tape() as tape:
        wp.launch(read, 1, [indices(), *given, total], device="cpu")
    tape.backward(grads={total: wp.ones(1, dtype=float, device="cpu")})
    assert faults() == []
    assert total.numpy() == 4.0
    assert [array.grad.numpy().sum() for array in given] == [1.0] * 4


@pytest.mark.parametrize(("dimensions", "dimension"), EVERY_INDEX)
def test_the_way_back(dimensions, dimension):
    """Its own accesses are noted, and those of the kernel that it runs again."""
    total = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
    given = arrays()
    counts = []
    for adjoint in (False, True):
        wp.launch(
            read, 1, [indices(dimensions, dimension, -1), *given, total],
            adj_inputs=[None] * 6, adjoint=adjoint, device="cpu",
        )  # fmt: skip
        (found,) = faults()
        counts.append(int(found.split()[-3]))
    assert counts[0] < counts[1]


def test_writing_leaves_the_arrays_alone():
    a, b, *_ = arrays()
    wp.launch(write, 1, [indices(1, 0, -1), a, b], device="cpu")
    wp.launch(write, 1, [indices(2, 1, 7), a, b], device="cpu")
    (found,) = faults()
    assert found.endswith("; 2 such accesses")
    assert a.numpy().tolist() == [1.0, 5.0]  # by the second launch
    assert b.numpy()[-1, -1].tolist() == [6.0] * 3  # by the first
    assert b.numpy().sum() == 3.0 * 6.0 + 15.0


def test_every_module_of_kernels_has_these_functions():
    """One function makes them all. Without these functions, or those with checks, a module would look at signs."""
    made = {path.name for path in Path(warp_kernels.__path__[0]).rglob("*.py") if "get_module(" in path.read_text()}
    assert made == {"types.py"}
    for lanes, options in ((1, warp_kernels.types.BUILD_OPTIONS), (8, warp_kernels.types.LANE_BUILD_OPTIONS)):
        assert kernel_module("tests.options", wp.float32, lanes).options["extra_build_options"] is options
