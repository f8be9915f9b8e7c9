"""Questions that kernels ask about kinds of constraint, compared with the table of kinds."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import warp as wp

from warp_kernels.constraints import kinds
from warp_kernels.constraints.kinds import KINDS, Bound, Family, Kind
from warp_kernels.cpu.native import header_source


@wp.kernel(enable_backward=False, module="unique")
def ask(one_sided: wp.array(dtype=bool), in_interval: wp.array(dtype=bool), in_cone: wp.array(dtype=bool),
        of_contact: wp.array(dtype=bool), own_kernels: wp.array(dtype=bool), dof_limit: wp.array(dtype=bool),
        tendon_limit: wp.array(dtype=bool), spins: wp.array(dtype=bool), index: wp.array(dtype=int)):  # fmt: skip
    kind = wp.tid()
    one_sided[kind] = kinds.is_one_sided(kind)
    in_interval[kind] = kinds.is_in_interval(kind)
    in_cone[kind] = kinds.is_in_cone(kind)
    of_contact[kind] = kinds.is_of_contact(kind)
    own_kernels[kind] = kinds.has_own_kernels(kind)
    dof_limit[kind] = kinds.is_dof_limit(kind)
    tendon_limit[kind] = kinds.is_tendon_limit(kind)
    spins[kind] = kinds.spins(kind)
    index[kind] = kinds.pair_index(kind, 5)


# In the order of the kernel's arguments.
EXPECTED: list[Callable[[Kind], bool]] = [
    lambda kind: kind.bound in (Bound.CONE, Bound.ONE_SIDED),
    lambda kind: kind.bound is Bound.INTERVAL,
    lambda kind: kind.bound in (Bound.CONE, Bound.PYRAMID),
    lambda kind: kind.family in (Family.CONTACT, Family.PYRAMID),
    lambda kind: kind.family in (Family.TENDON, Family.PYRAMID),
    lambda kind: kind in (KINDS[kinds.LOWER_LIMIT], KINDS[kinds.UPPER_LIMIT]),
    lambda kind: kind is KINDS[kinds.TENDON_LIMIT],
    lambda kind: kind is KINDS[kinds.SPIN],
]
SECOND = (kinds.UPPER_LIMIT, kinds.ORIENTATION, kinds.ROLL)


def test_kernels_know_the_table():
    answers = [wp.zeros(len(KINDS), dtype=bool, device="cpu") for _ in EXPECTED]
    index = wp.zeros(len(KINDS), dtype=int, device="cpu")
    wp.launch(ask, len(KINDS), [*answers, index], device="cpu")
    for answer, holds in zip(answers, EXPECTED, strict=True):
        np.testing.assert_array_equal(answer.numpy(), list(map(holds, KINDS)))
    np.testing.assert_array_equal(index.numpy(), [10 + (number in SECOND) for number in range(len(KINDS))])


@pytest.mark.parametrize("name", ["CONTACT", "UPPER_LIMIT", "TENDON", "ORIENTATION", "ROLL"])
def test_names_are_numbers_in_the_table(name: str):
    expected = {
        "CONTACT": Kind(Family.CONTACT, Bound.CONE, rows=3),
        "UPPER_LIMIT": Kind(Family.JOINT, Bound.ONE_SIDED, second=True),
        "TENDON": Kind(Family.TENDON, Bound.INTERVAL, varying_row=True, damps=True),
        "ORIENTATION": Kind(Family.ANCHOR, Bound.UNBOUNDED, rows=3, turns=True, second=True),
        "ROLL": Kind(Family.PYRAMID, Bound.PYRAMID, rows=3, second=True),
    }
    assert KINDS[getattr(kinds, name)] == expected[name]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("is_geometric", lambda kind: kind.family in (Family.CONTACT, Family.ANCHOR)),
        ("is_angular", lambda kind: kind in (KINDS[kinds.ORIENTATION], KINDS[kinds.TORSION])),
        ("is_second", lambda kind: KINDS.index(kind) in SECOND),
    ],
)
def test_cpp_knows_the_table(name: str, holds: Callable[[Kind], bool]):
    source = header_source(("kinds.h",))
    assert f"constexpr int COUPLING = {kinds.COUPLING};" in source
    (body,) = re.findall(rf"bool {name}\(int kind\) {{ return (.*); }}", source)
    condition = body.replace("||", "or").replace("&&", "and")
    assert [bool(eval(condition, {"kind": number})) for number in range(len(KINDS))] == list(map(holds, KINDS))
