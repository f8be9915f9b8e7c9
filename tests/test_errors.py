"""The pattern of tests.errors: items in any order, names and numbers as whole words."""

import re

import pytest

import sim
from tests.errors import naming, raises_naming

SAID = "arm.urdf: joint 'elbow' (line 4):\ndamping is -1.5; expected 2 numbers."


@pytest.mark.parametrize("items", [("arm.urdf", "'elbow'", -1.5), (2, "damping", "line 4"), ("joint",), ("(line 4)",)])
def test_found_in_any_order(items):
    assert re.search(naming(*items), SAID)


@pytest.mark.parametrize("items", [("damp",), (5,), (1,), ("elbow", "wrist"), ("line 4)", "amping"), ("xarm.urdf",)])
def test_parts_of_words_do_not_count(items):
    assert not re.search(naming(*items), SAID)


def test_errors_of_other_types_pass_through():
    with pytest.raises(ZeroDivisionError), raises_naming("zero"):
        _ = 1 / 0
    with raises_naming("'q'", 3):
        raise sim.ModelError("'q' has 3 rows")
