"""What is wanted of a GPU is done piece by piece, over as many calls as it takes."""

import json
import sys

import pytest

from bench import gpu

PIECES = [gpu.Piece(name, ()) for name in ("a", "b", "c")]


def calls(outcomes):
    """A function that runs pieces in name only: each has the next of its outcomes, and is noted."""
    ran = []

    def run(piece, log, seconds):
        ran.append(piece.name)
        return outcomes[piece.name].pop(0)

    return ran, run


def test_goes_on_where_it_stopped(tmp_path, monkeypatch):
    clock = iter([0.0, 0.0, 70.0, 100.0, 100.0, 100.0])
    monkeypatch.setattr(gpu.time, "monotonic", lambda: next(clock))
    ran, run = calls({"a": [0], "b": [None, 0], "c": [3]})
    assert gpu.run_pieces(PIECES, tmp_path, 100.0, run, False) == {"a": "done"}  # b was cut off
    assert json.loads((tmp_path / "pieces.json").read_text()) == {"a": "done"}
    expected = {"a": "done", "b": "done", "c": "failed, exit status 3"}
    assert gpu.run_pieces(PIECES, tmp_path, 1e9, run, False) == expected
    assert ran == ["a", "b", "b", "c"]


def test_failures_are_run_again_on_request(tmp_path):
    ran, run = calls({"a": [1, 0], "b": [None], "c": [0]})
    first = gpu.run_pieces(PIECES, tmp_path, 1e9, run, False)
    assert first == {"a": "failed, exit status 1", "b": "took too long", "c": "done"}
    assert gpu.run_pieces(PIECES, tmp_path, 1e9, run, False) == first
    assert gpu.run_pieces(PIECES[:1], tmp_path, 1e9, run, True)["a"] == "done"
    assert ran == ["a", "b", "c", "a"]


def test_a_piece_is_a_command_with_a_log(tmp_path):
    log = tmp_path / "log"
    assert gpu.run_piece(gpu.Piece("fails", ("-c", "print('hello'); raise SystemExit(4)")), log, 60.0) == 4
    assert log.read_text() == "hello\n"
    assert gpu.run_piece(gpu.Piece("hangs", ("-c", "import time; time.sleep(60)")), log, 0.3) is None


def test_commands_exist(monkeypatch, capsys):
    """Every module and folder that a piece names is there."""
    monkeypatch.setattr(sys, "argv", ["gpu", "--list"])
    gpu.main()
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(gpu.pieces("cuda:0", 4))
    for piece in gpu.pieces("cuda:0", 4):
        module, target = piece.arguments[1:3]
        if module == "pytest":
            assert (gpu.ROOT / target).is_dir()
        elif module != "sim":
            assert (gpu.ROOT / f"{module.replace('.', '/')}.py").is_file()
            assert piece.arguments[-1].startswith("bench/results/")


def test_says_what_is_left(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu, "pieces", lambda device, workers: PIECES)
    monkeypatch.setattr(gpu, "run_piece", lambda piece, log, seconds: 0 if piece.name == "a" else 1)
    monkeypatch.setattr(sys, "argv", ["gpu", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="not all pieces are done"):
        gpu.main()
    assert capsys.readouterr().out.splitlines() == ["a: done", "b: failed, exit status 1", "c: failed, exit status 1"]
