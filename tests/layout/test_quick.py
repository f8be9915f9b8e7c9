"""make quick touches every folder, and its list names tests that exist; how --quick selects and records."""

import ast
from pathlib import Path

import pytest

from tests import quick
from tests.layout.imports import ROOT, python_files


def functions_in(path: Path) -> list[str]:
    """The test functions of a file as they are listed."""
    prefix = path.relative_to(ROOT).as_posix()
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names += [f"{node.name}::{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)]
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    return [f"{prefix}::{name}" for name in names if name.split("::")[-1].startswith("test_")]


FUNCTIONS = {path: functions_in(path) for path in python_files("tests") if path.name.startswith("test_")}


def test_listed_tests_exist() -> None:
    gone = quick.long_tests() - {name for names in FUNCTIONS.values() for name in names}
    assert not gone, f"take these out of tests/long_tests.txt: {', '.join(sorted(gone))}"


def test_every_folder_is_touched() -> None:
    long = quick.long_tests()
    touched = {path.parent for path, names in FUNCTIONS.items() if set(names) - long}
    assert {path.parent for path in FUNCTIONS} == touched


FILE = """
import pytest

def test_one():
    pass

@pytest.mark.parametrize("x", [1, 2, 3])
def test_cases(x):
    assert x < 3

@pytest.mark.parametrize("n", [10**7, 0])
def test_long(n):
    sum(range(n))

@pytest.mark.slow
def test_slow():
    assert False
"""


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest("pytest_plugins = ['tests.quick']")
    pytester.makepyfile(test_file=FILE)
    pytester.makeini("[pytest]\nmarkers = slow")
    monkeypatch.setattr(quick, "LIST", pytester.path / "long_tests.txt")
    quick.LIST.write_text("# A list.\ntest_file.py::test_long\n")
    return pytester


def test_first_cases_of_what_is_not_listed(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--quick").assert_outcomes(passed=2, deselected=5)
    pytester.runpytest().assert_outcomes(passed=5, failed=2)


def test_what_takes_long_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    quick.LIST.write_text("")
    monkeypatch.setattr(quick, "FAR_TOO_LONG", 0.05)
    result = pytester.runpytest("--quick")
    result.assert_outcomes(passed=3, deselected=4)
    result.stdout.fnmatch_lines(["*--record-long lists these as long:", "* s test_file.py::test_long"])
    result.stdout.no_fnmatch_line("* s test_file.py::test_one")


def test_the_list_grows(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "LIMIT", 0.05)
    quick.LIST.write_text("test_file.py::test_one\n")
    pytester.runpytest("--quick", "--record-long").assert_outcomes(passed=2, deselected=5)
    assert quick.long_tests() == {"test_file.py::test_long", "test_file.py::test_one"}
