"""With --strict-skips a test that is skipped without being expected fails, and so does a file."""

import pytest

FILES = {
    "test_whole": "import pytest\n\npytest.importorskip('no_such_package')\n\ndef test_vanishes():\n    pass\n",
    "test_single": """
import pytest

def test_runs():
    pass

@pytest.mark.skipif(True, reason="needs a second device")
def test_expected():
    pass

@pytest.mark.skipif(True, reason="it rains")
def test_marked():
    pass

def test_inside():
    pytest.importorskip("no_such_package")

@pytest.mark.parametrize("robot", [])
def test_of_nothing(robot):
    pass

@pytest.mark.xfail
def test_known_to_fail():
    assert False
""",
}


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest("pytest_plugins = ['tests.skips']")
    pytester.makepyfile(**FILES)
    return pytester


def test_unexpected_skips_fail(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--strict-skips", "test_single.py")
    result.assert_outcomes(passed=1, skipped=1, failed=1, errors=2, xfailed=1)
    for reason in ("it rains", "could not import 'no_such_package'*", "got empty parameter set for (robot)"):
        result.stdout.fnmatch_lines([f"*tests/skips.py doesn't expect: {reason}"])


def test_a_file_that_vanishes_fails(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--strict-skips", "test_whole.py")
    result.assert_outcomes(errors=1)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*test_whole.py*doesn't expect: could not import 'no_such_package'*"])


def test_without_the_option_they_are_skipped(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, skipped=5, xfailed=1)
    assert result.ret == 0
