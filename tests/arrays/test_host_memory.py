"""Arrays that kernels reach by their addresses, and copies and fills from the host."""

import gc

import numpy as np
import pytest
import warp as wp

from sim.arrays.host_memory import HostArray, HostNumbers, as_warp, copy_rows, new_rows


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64])
def test_rows_are_copied_to_where_they_belong(device, dtype):
    numbers = np.arange(15.0).reshape(5, 3)
    source: wp.array = wp.array(numbers, dtype=dtype, device=device)
    part: wp.array = wp.zeros((2, 3), dtype=dtype, device=device)
    copy_rows(part, source, from_row=2)
    np.testing.assert_array_equal(part.numpy(), numbers[2:4])
    whole: wp.array = wp.zeros((5, 3), dtype=dtype, device=device)
    copy_rows(whole, part, to_row=3)
    np.testing.assert_array_equal(whole.numpy(), [[0, 0, 0]] * 3 + numbers[2:4].tolist())


def test_a_first_state_fills_the_first_row(device):
    state: wp.array = wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=wp.float64, device=device)
    stored: wp.array = wp.zeros((3, 2, 2), dtype=wp.float64, device=device)
    copy_rows(stored, state)
    np.testing.assert_array_equal(stored.numpy()[0], state.numpy())
    assert (stored.numpy()[1:] == 0.0).all()


def test_nothing_is_copied_from_nothing(device):
    empty: wp.array = wp.zeros((2, 0), dtype=wp.float32, device=device)
    target: wp.array = wp.ones((3, 2, 0), dtype=wp.float32, device=device)
    copy_rows(target, empty)
    assert target.shape == (3, 2, 0)


def test_numbers_are_written(device):
    array: wp.array = wp.zeros(3, dtype=wp.int32, device=device)
    writer = HostNumbers(array)
    writer.write((4, 5, 6))
    np.testing.assert_array_equal(array.numpy(), [4, 5, 6])
    writer.write(-1)
    np.testing.assert_array_equal(array.numpy(), [-1, -1, -1])


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.int32])
def test_an_array_by_its_address(dtype, device):
    """On a CPU it has no Warp array until one is asked for; that is over the same memory and keeps it."""
    rows = new_rows((3, 2), dtype, wp.get_device(device))
    assert isinstance(rows, HostArray) == (device == "cpu")
    assert (tuple(rows.shape), rows.size, rows.dtype) == ((3, 2), 6, dtype)
    copy_rows(rows, wp.array([[1, 2], [3, 4], [5, 6]], dtype=dtype, device=device))
    array = as_warp(rows)
    assert array.ptr == rows.ptr
    assert array.device == rows.device
    del rows
    gc.collect()
    np.testing.assert_array_equal(array.numpy(), [[1, 2], [3, 4], [5, 6]])
    assert as_warp(array) is array
