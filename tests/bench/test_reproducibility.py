"""Hashes of states and gradients: the same in every run and, for a world, whatever the number of worlds."""

import json
import sys

import numpy as np
import pytest

from bench import reproducibility
from bench.traffic import as_on_a_gpu


def records(threads: int, worlds: list[int]) -> list[reproducibility.Record]:
    return [
        each
        for law in reproducibility.LAWS
        for each in reproducibility.compared(law, "float32", threads, "cpu", 60, worlds)
    ]


@pytest.mark.parametrize("threads", [1, 16])
def test_launch_shapes_of_a_gpu(threads):
    """A thread or a team per world; quadrupeds have landed by then."""
    with as_on_a_gpu():
        found = records(threads, [3, 20])
    assert len(found) == 4
    for each in found:
        assert each.in_every_run, each
        assert each.for_every_number, each
        assert each.hashes[0] != each.hashes[1]


def test_lane_groups():
    for each in records(1, [16, 40]):
        assert each.in_every_run, each
        assert each.for_every_number, each


def test_worlds_differ():
    states = reproducibility.thrown("hard", "float32", 1, "cpu", 2, 3)["states"]
    assert states.shape[:2] == (3, 3)
    assert len({reproducibility.hash_of(each) for each in states}) == 3


@pytest.mark.parametrize("quantity", ["states", "gradients"])
def test_differences_are_found(quantity, monkeypatch, tmp_path, capsys):
    """Of worlds when there are more of them, and of every run."""
    calls = []

    def thrown(law, dtype, threads, device, steps, worlds):
        calls.append(worlds)
        made = {name: np.ones((worlds, 2)) for name in ("states", "gradients")}
        made[quantity][0, 0] += len(calls)
        return made

    monkeypatch.setattr(reproducibility, "thrown", thrown)
    out = tmp_path / "hashes.json"
    options = ["--worlds", "2", "3", "--laws", "hard", "--dtypes", "float64", "--threads-per-world", "1", "--json"]
    monkeypatch.setattr(sys, "argv", ["reproducibility", *options, str(out)])
    if quantity == "states":
        with pytest.raises(SystemExit, match="states differ"):
            reproducibility.main()
    else:
        reproducibility.main()
    rows = {row["quantity"]: row for row in json.loads(out.read_text())}
    assert not rows[quantity]["in_every_run"]
    assert not rows[quantity]["for_every_number"]
    (other,) = rows.keys() - {quantity}
    assert rows[other]["in_every_run"]
    assert rows[other]["for_every_number"]
    assert "states: every run" in capsys.readouterr().out
