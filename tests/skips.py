"""A pytest plugin: with ``--strict-skips`` a test that is skipped for a reason not listed here fails.

Continuous integration runs with it, so that no test vanishes because a package is missing there.
"""

import re
import sys
from typing import Any

import pytest

# What a machine of continuous integration may lack, as the beginning of the reason.
EXPECTED = [
    "needs a second device",  # a GPU
    "there is no chromium with a chromedriver",  # .ci/run installs it from the system's packages, where there are such
    "this system has no huge pages on request",
]
if sys.version_info >= (3, 12):
    EXPECTED.append("missing/pybullet_data/")  # has no wheel for these


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", action="store_true", help="fail where a test is skipped without being expected")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """A skip of one test, be it by a mark, a fixture or inside the test."""
    return _checked((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """A skip of a whole file, by ``pytest.importorskip`` at its top."""
    return _checked((yield), collector.config)


def _checked(report: Any, config: pytest.Config) -> Any:
    # A test that is expected to fail counts as skipped too; it has no place and reason.
    if config.getoption("--strict-skips") and report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        path, line, text = report.longrepr
        reason = re.sub("^Skipped: ", "", text)
        if not reason.startswith(tuple(EXPECTED)):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: skipped, which tests/skips.py doesn't expect: {reason}"
    return report
