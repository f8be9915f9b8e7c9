"""Golden cases: the same bits in every run, the stored replay tables, and sums of arrays within their tolerances."""

import functools
import subprocess
import sys

import numpy as np
import pytest
import warp as wp

from sim.arrays.graphs import is_listed
from tests.golden.__main__ import ROOT
from tests.golden.cases import CASES
from tests.golden.compare import describe, differences, same, ulps
from tests.golden.record import TABLE, Arrays, record
from tests.golden.stored import FILE, as_ranges, deviation, of_ranges, read, tables

stored = functools.cache(read)


@pytest.fixture(scope="module", params=CASES)
def golden(request: pytest.FixtureRequest) -> tuple[str, Arrays]:
    """The name of a case and its first run."""
    return request.param, record(CASES[request.param]())


def test_the_stored_file_has_all_cases_and_is_small():
    """Where cases were added or removed: ``python -m tests.golden store``."""
    assert sorted(stored()) == sorted(CASES)
    assert FILE.stat().st_size < 250_000


@pytest.mark.cpu_shapes
class TestCases:
    def test_every_run_has_the_same_bits(self, golden):
        """In a second simulator, and in one that has been used before, whose launches are captured already."""
        name, found = golden
        case = CASES[name]()
        simulator = case.simulator()
        again = dict(differences(found, record(case, simulator)))
        assert not again, again
        values = {key: value for key, value in found.items() if not key.startswith(TABLE)}
        reused = dict(differences(values, record(case, simulator)))
        assert not reused, reused

    def test_launches_are_the_stored_ones(self, golden):
        """Where other launches are meant: ``python -m tests.golden store``."""
        if not is_listed(wp.get_device("cpu")):  # with other versions of Warp there are no tables
            return
        expected, found = stored()[golden[0]]["launches"], tables(golden[1])
        assert expected.keys() == found.keys()
        for key, rows in expected.items():
            assert rows == found[key], f"{key}: {describe(key, np.array(rows), np.array(found[key]))}"

    def test_sums_are_near_the_stored_ones(self, golden):
        """Where other results are meant: ``python -m tests.golden store``."""
        expected = stored()[golden[0]]
        bounds = expected["tolerances"]
        far = {key: far for key, far in deviation(expected["sums"], golden[1]).items() if not far <= bounds[key]}
        assert not far, f"{far} with tolerances {bounds}"


def test_every_bit_counts():
    values = np.array([1.0, 0.0, np.nan])
    assert same(values, values.copy())
    assert not same(values, np.array([1.0, -0.0, np.nan]))
    assert not same(values, values.astype(np.float32))
    assert not same(values, values[None])
    found = dict(differences({"a": values, "b": values}, {"a": np.array([1.0 + 2**-52, 0.0, np.nan]), "c": values}))
    assert found.keys() == {"a", "b", "c"}
    assert "1 of 3 differ" in found["a"]
    assert "(2.2e-16 of the largest number, 1 ulps) at [0]" in found["a"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ulps(dtype):
    ones = np.array([1.0, -1.0, 0.0, 0.0], dtype=dtype)
    others = [np.nextafter(ones[0], dtype(2)), np.nextafter(ones[1], dtype(1)), -0.0, np.nextafter(ones[2], dtype(1))]
    np.testing.assert_array_equal(ulps(ones, np.array(others, dtype=dtype)), [1, 1, 0, 1])


def test_tables_show_what_moved():
    old = np.array(["graph", "load 1", "solve 4", "store 1"])
    text = describe(f"{TABLE}forward", old, old[[0, 2, 1, 3]])
    assert "-solve 4" in text
    assert "+solve 4" in text


def test_ranges():
    numbers = [0, 1, 2, 2, 7, 5, 6]
    assert as_ranges(numbers) == "0-2 2 7 5-6"
    assert list(of_ranges(as_ranges(numbers))) == numbers


@pytest.mark.slow
def test_the_command_compares(tmp_path):
    """What was recorded is the same, and another number is found."""

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "tests.golden", *arguments, "--cases", "arm_1"]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)

    assert command("record", str(tmp_path)).returncode == 0
    result = command("compare", str(tmp_path))
    assert result.returncode == 0, result.stderr
    with np.load(tmp_path / "arm_1.npz") as arrays:
        kept = dict(arrays)
    kept["gradient.mass"][2] = np.nextafter(kept["gradient.mass"][2], np.inf)
    np.savez(tmp_path / "arm_1.npz", **kept)
    result = command("compare", str(tmp_path))
    assert result.returncode == 1
    assert "gradient.mass: 1 of" in result.stdout
