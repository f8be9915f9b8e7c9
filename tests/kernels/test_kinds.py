"""Questions that kernels ask about kinds of constraint, compared with the table of kinds."""

from collections.abc import Callable

import numpy as np
import pytest
import warp as wp

from warp_kernels.constraints import kinds
from warp_kernels.constraints.kinds import KINDS, Bound, Family, Kind


@wp.kernel(enable_backward=False, module="unique")
def ask(one_sided: wp.array(dtype=bool), in_interval: wp.array(dtype=bool), in_cone: wp.array(dtype=bool),
        of_contact: wp.array(dtype=bool), own_kernels: wp.array(dtype=bool), dof_limit: wp.array(dtype=bool),
        tendon_limit: wp.array(dtype=bool)):  # fmt: skip
    kind = wp.tid()
    one_sided[kind] = kinds.is_one_sided(kind)
    in_interval[kind] = kinds.is_in_interval(kind)
    in_cone[kind] = kinds.is_in_cone(kind)
    of_contact[kind] = kinds.is_of_contact(kind)
    own_kernels[kind] = kinds.has_own_kernels(kind)
    dof_limit[kind] = kinds.is_dof_limit(kind)
    tendon_limit[kind] = kinds.is_tendon_limit(kind)


# In the order of the kernel's arguments.
EXPECTED: list[Callable[[Kind], bool]] = [
    lambda kind: kind.bound in (Bound.CONE, Bound.ONE_SIDED),
    lambda kind: kind.bound is Bound.INTERVAL,
    lambda kind: kind.bound in (Bound.CONE, Bound.PYRAMID),
    lambda kind: kind.family in (Family.CONTACT, Family.PYRAMID),
    lambda kind: kind.family in (Family.TENDON, Family.PYRAMID),
    lambda kind: kind in (KINDS[kinds.LOWER_LIMIT], KINDS[kinds.UPPER_LIMIT]),
    lambda kind: kind is KINDS[kinds.TENDON_LIMIT],
]


def test_kernels_know_the_table():
    answers = [wp.zeros(len(KINDS), dtype=bool, device="cpu") for _ in EXPECTED]
    wp.launch(ask, len(KINDS), answers, device="cpu")
    for answer, holds in zip(answers, EXPECTED, strict=True):
        np.testing.assert_array_equal(answer.numpy(), list(map(holds, KINDS)))


@pytest.mark.parametrize("name", ["CONTACT", "UPPER_LIMIT", "TENDON", "ORIENTATION", "ROLL"])
def test_names_are_numbers_in_the_table(name: str):
    expected = {
        "CONTACT": Kind(Family.CONTACT, Bound.CONE, rows=3),
        "UPPER_LIMIT": Kind(Family.JOINT, Bound.ONE_SIDED),
        "TENDON": Kind(Family.TENDON, Bound.INTERVAL, varying_row=True),
        "ORIENTATION": Kind(Family.ANCHOR, Bound.UNBOUNDED, rows=3, turns=True),
        "ROLL": Kind(Family.PYRAMID, Bound.PYRAMID, rows=3),
    }
    assert KINDS[getattr(kinds, name)] == expected[name]
