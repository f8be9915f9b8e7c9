"""Pages and public docstrings keep to the words of tests/prose.toml."""

import ast

import pytest

from tests import prose


def test_rewritten_folders_stay_so():
    unfinished = set(prose.RULES["unfinished"])
    assert [str(one) for one in prose.findings() if prose.folder_of(one.path) not in unfinished] == []


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
