"""Pages, public docstrings and identifiers keep to the words of tests/prose.toml."""

import ast

import pytest

from tests import prose


def test_rewritten_folders_stay_so():
    unfinished = set(prose.RULES["unfinished"])
    assert [str(one) for one in prose.findings() if prose.folder_of(one.path) not in unfinished] == []


def test_retired_names_stay_away():
    assert [str(one) for one in prose.names()] == []


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("a.py", "point = in_place(position)  # in its place", []),
        ("a.py", "def f(place): return place", ["'place': use"]),
        ("a.py", "MOST_PLACES = x.near_pairs", ["'MOST_PLACES': use", "'near_pairs': use"]),
        ("a.h", "int slot = 0;  // a place", []),
        ("a.h", "int end_place = reached;", ["'end_place': use"]),
    ],
)
def test_names(path, text, said):
    assert [one.said.partition(" use ")[0] + " use" for one in prose.names_in(path, text)] == said


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('"""Poses of links."""', []),
        ('"""How poses are found."""', ["noun"]),
        ('def f():\n    """Return it."""', []),
        ('def f():\n    """Poses of links."""', ["function"]),
        ('def f():\n    """What comes on the way\n    back."""', ["function", "term"]),
        ('def _f():\n    """What is inside."""', []),
        ('class A:\n    """A pose."""\n    @property\n    def f(self):\n        """Poses of links."""', []),
        ('class A:\n    """A pose."""\n    @property\n    def f(self):\n        """Whether it moves."""', ["noun"]),
        ('class A:\n    """A pose."""\n    def f(self):\n        """Where it is."""', ["function"]),
    ],
)
def test_findings(source, rules):
    assert [one.rule for one in prose.findings_in("file.py", ast.parse(source))] == rules
