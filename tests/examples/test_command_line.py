"""What all examples share: the list, the options, going on after an interruption."""

import numpy as np
import pytest

from examples import __main__ as command
from examples.resume import Progress


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["examples", *arguments])
    command.main()


def test_lists_the_examples(monkeypatch, capsys):
    run(monkeypatch)
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert set(listed) == {"estimate", "friction", "golf", "inertias", "joint_friction", "origins", "reach", "throw"}
    assert listed["throw"] == "A robot arm learns to throw a ball at a target."


def test_runs_one(monkeypatch, capsys):
    with pytest.raises(SystemExit) as exit_:
        run(monkeypatch, "throw", "--help")
    assert exit_.value.code == 0
    assert "usage: python -m examples throw" in capsys.readouterr().out


def test_names_those_there_are(monkeypatch):
    with pytest.raises(SystemExit, match="there is no example 'thrown'; there is .*throw"):
        run(monkeypatch, "thrown")


def test_goes_on_with_what_was_kept(tmp_path, capsys):
    kept = Progress(tmp_path / "interrupted.npz", {"target": [1.0, 2.0]})
    assert kept.load() is None
    kept.save(tau=np.arange(3.0), iteration=1)
    kept.save(tau=np.arange(4.0), iteration=2)
    again = Progress(tmp_path / "interrupted.npz", {"target": [1.0, 2.0]}).load()
    assert set(again) == {"tau", "iteration"}
    np.testing.assert_array_equal(again["tau"], np.arange(4.0))
    assert [path.name for path in tmp_path.iterdir()] == ["interrupted.npz"]
    assert Progress(tmp_path / "interrupted.npz", {"target": [1.0, 2.0]}, restart=True).load() is None
    assert Progress(tmp_path / "interrupted.npz", {"target": [1.0, 3.0]}).load() is None
    assert "belongs to another problem" in capsys.readouterr().out
    kept.done()
    assert kept.load() is None


def test_a_broken_file_is_no_obstacle(tmp_path, capsys):
    (tmp_path / "interrupted.npz").write_bytes(b"PK\x03\x04 half a file")
    assert Progress(tmp_path / "interrupted.npz", {}).load() is None
    assert "can't be read" in capsys.readouterr().out
