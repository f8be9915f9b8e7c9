"""Records of a rollout: slots and addresses of the pointer table."""

import numpy as np
import pytest
import warp as wp

from sim.arrays.host_memory import HostNumbers, new_rows
from warp_kernels.rollout.records import BETWEEN, SLOTS, STATE, TABLE_SIZE, Records, addresses


def test_every_array_has_a_slot():
    assert sorted(SLOTS.values()) == list(range(TABLE_SIZE))
    assert {SLOTS[f"{name}_between"] - SLOTS[name] for name in STATE} == {BETWEEN}


def test_addresses_of_the_arrays_that_are_given():
    cpu = wp.get_device("cpu")
    q, qd, tau, empty = (new_rows((2, 1, size), wp.float32, cpu) for size in (7, 6, 6, 0))
    records = Records(q, qd)
    records.tau, records.control, records.norms = tau, empty, None
    assert addresses(records) == {SLOTS["q"]: q.ptr, SLOTS["qd"]: qd.ptr, SLOTS["tau"]: tau.ptr}


@pytest.mark.parametrize("in_memory", [True, False])
def test_numbers_written_by_index(in_memory, monkeypatch):
    numbers = HostNumbers(wp.array(np.arange(4), dtype=wp.uint64, device="cpu"))
    if not in_memory:  # as on CUDA
        monkeypatch.setattr(numbers, "_view", None)
    numbers.write_only({2: 2**63 + 1})
    assert list(numbers.array.numpy()) == [0, 0, 2**63 + 1, 0]
