"""The fuzzer itself: its cases come again, and what fails is kept."""

import sys
import time

import pytest

from sim.errors import ImportFileError
from tests.fuzz import __main__ as fuzzer
from tests.fuzz.mutations import make_case, seeds


def test_cases_come_again(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    for number in range(40):
        made = [make_case(7, number, tmp_path / folder)[1] for folder in ("a", "b")]
        assert made[0].read_bytes() == made[1].read_bytes()
    assert {seed.suffix for seed in seeds()} == {
        ".urdf",
        ".xml",
        ".sdf",
        ".usda",
        ".usdc",
        ".stl",
        ".obj",
        ".ply",
        ".dae",
        ".glb",
        ".hdr",
    }


class Reader:
    """In place of the process: raises what it is given."""

    def __init__(self, error):
        self.error = error

    def __call__(self, limits):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def load(self, path, options):
        if isinstance(self.error, type):
            raise self.error(path, "broken")
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [(ImportFileError, 0), (KeyError("x"), 1), (ImportFileError("other.urdf", "broken"), 1)],
)
def test_failures_are_kept(tmp_path, monkeypatch, capsys, error, status):
    monkeypatch.setattr(fuzzer, "ReadingProcess", Reader(error))
    monkeypatch.setattr(sys, "argv", ["fuzz", "--seed", "3", "--case", "5", "--out", str(tmp_path / "out")])
    assert fuzzer.main() == status
    assert "seed 3: 1 files: 1 " in capsys.readouterr().out
    kept = sorted(path.suffix for path in tmp_path.glob("out/*"))
    assert len(kept) == 2 * status
    if status:
        assert "--seed 3 --case 5" in next(tmp_path.glob("out/*.txt")).read_text()


def test_some_cases(tmp_path):
    """A few seconds of what .ci/run does for two minutes."""
    assert fuzzer.fuzz(1, range(60), time.monotonic() + 60.0, tmp_path / "out")["failure"] == 0
