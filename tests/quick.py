"""A pytest plugin: ``--quick`` runs the first case of every test function that isn't known to take long.

``tests/long_tests.txt`` lists those that do. A new test is quick, and is named at the end if it isn't;
``--record-long`` adds it to the list. What it shares with those after it, such as a fixture of the file, counts for the
first one that runs: recorded twice, the list is complete.
"""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("long_tests.txt")
HEADER = """\
# What `make quick` leaves out: tests whose first case takes more than {limit} s of CPU time with compiled kernels.
# `make quick ARGS=--record-long` adds to it.
"""
LIMIT = 0.15
# What takes longer than this is named; other machines may be slower, and the first test of a kind loads its kernels.
FAR_TOO_LONG = 5 * LIMIT


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="the first case of every test that doesn't take long")
    parser.addoption("--record-long", action="store_true", help="with --quick: add to the list what takes long")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick(config.getoption("--record-long")), "quick")


def long_tests() -> set[str]:
    """The test functions that are known to take long."""
    return {line for line in LIST.read_text().splitlines() if not line.startswith("#")}


def function_of(item: pytest.Item) -> str:
    """The test function of one of its cases, such as "tests/model/test_names.py::test_order"."""
    return item.nodeid.partition("[")[0]


class Quick:
    """Selects the tests and measures them."""

    def __init__(self, record: bool):
        self.record = record
        self.seconds: dict[str, float] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        seen = long_tests()
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            slow = function_of(item) in seen or item.get_closest_marker("slow")
            (left_out if slow else kept).append(item)
            seen.add(function_of(item))
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_seconds()
        result = yield
        self.seconds[function_of(item)] = _cpu_seconds() - before
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        bound = LIMIT if self.record else FAR_TOO_LONG
        long = {name for name, seconds in self.seconds.items() if seconds > bound}
        if self.record:
            names = sorted(long_tests() | long)
            LIST.write_text(HEADER.format(limit=LIMIT) + "".join(f"{name}\n" for name in names))
        if long:
            terminalreporter.section("not quick")
            terminalreporter.write_line(
                f"now in {LIST}:" if self.record else "If no kernel was compiled, --record-long lists these as long:"
            )
            for name in sorted(long):
                terminalreporter.write_line(f"{self.seconds[name]:.1f} s {name}")


def _cpu_seconds() -> float:
    """User and system time of this process and of those that it started, so that other work doesn't count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
