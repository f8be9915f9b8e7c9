"""The folder of an example: killed at any moment, held by another process, full, read-only, or with damaged files."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import sim
from examples import golf
from sim.progress import RUNNING, Progress

ROOT = Path(__file__).parents[2]
# Kills in all, between two that end, constants, and options; tests/examples/killed.py does it as often as wanted.
KILLED = {
    "throw": (6, 3, {}, ["--iterations", "3"]),
    "golf": (4, 2, {}, ["--iterations", "3"]),
    "estimate": (4, 2, {"GUESSES": 16, "MOTIONS": 8, "ROUNDS": 1, "EVERY": 50}, ["--iterations", "3"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_killed_at_random_moments_ends_bit_for_bit_the_same(name, tmp_path):
    kills, per_run, constants, options = KILLED[name]
    command = [sys.executable, "tests/examples/killed.py", str(tmp_path), str(kills), str(per_run), "0"]
    arguments = [json.dumps(constants), name, "--device", "cpu", "--no-render", *options]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{name}: {kills} killed at work" in done.stdout


def test_killed_while_results_are_written_still_has_its_progress(tmp_path):
    kept = Progress(tmp_path / "interrupted.npz", {})

    def interrupted():
        with kept:
            kept.save(x=1.0)
            kept.done()
            raise KeyboardInterrupt  # in place of the writing of results

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Progress(tmp_path / "interrupted.npz", {}).load() is not None
    with kept:
        kept.done()
        assert (tmp_path / "interrupted.npz").is_file(), "the results are written within the context"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_holds(monkeypatch, tmp_path, capsys):
    hold = f"""if True:
        import sys, pathlib
        sys.path.insert(0, {str(ROOT)!r})
        from sim.progress import Progress
        with Progress(pathlib.Path({str(tmp_path / "interrupted.npz")!r}), {{}}):
            print("held", flush=True)
            sys.stdin.read()"""
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        monkeypatch.setattr("sys.argv", ["golf", "--device", "cpu", "--no-render", "--out", str(tmp_path)])
        with pytest.raises(SystemExit) as exit_:
            golf.main()
        message = f"error: {tmp_path}: process {other.pid} is writing"
        assert str(exit_.value.code).startswith(message)
        other.send_signal(signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == [RUNNING], "what the killed process left"
    another = Progress(tmp_path / "another.npz", {})
    with Progress(tmp_path / "interrupted.npz", {}):
        assert (tmp_path / RUNNING).read_text() == str(os.getpid())
        with pytest.raises(sim.ModelError, match=f"process {os.getpid()} is writing"):
            another.__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_ends_at_once(monkeypatch, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / RUNNING).mkdir()  # opening it fails, for root as well
    monkeypatch.setattr("sys.argv", ["golf", "--device", "cpu", "--no-render", "--out", str(out)])
    with pytest.raises(SystemExit) as exit_:
        golf.main()
    assert re.fullmatch(rf"error: {out}/\.running: cannot be written: [^\n]*", str(exit_.value.code))


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def corrupted(content):
    whole = archive(x=content)
    start = whole.index(b"x.npy") + 5
    return whole[:start] + b"\xff" * 40 + whole[start + 40 :]


DAMAGED = {
    "empty": b"",
    "cut": b"PK\x03\x04 half a file",
    "no archive": np.arange(3.0).tobytes(),
    "one array": npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\n") + bytes(8),
    "deflated badly": corrupted(os.urandom(20) * 50),
    "tokens": archive(x=npy(b"{'descr': ('<f8', 'fortran_order': False\n")),
    "type": archive(x=npy(b"{'descr': [1, 2], 'fortran_order': False, 'shape': (1,)}\n")),
    "objects": archive(x=npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n")),
    "huge": archive(x=npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,)}\n" % 10**17)),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_progress_is_named_and_no_obstacle(damage, tmp_path, capsys):
    path = tmp_path / "interrupted.npz"
    path.write_bytes(DAMAGED[damage])
    assert Progress(path, {}).load() is None
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"cannot read {path} \(.+\); starting from the beginning", line)


@pytest.mark.parametrize("error", [TypeError, zlib.error, tokenize.TokenError, MemoryError])
def test_any_error_of_the_reader_is_one_message(error, monkeypatch, tmp_path, capsys):
    path = tmp_path / "interrupted.npz"
    Progress(path, {}).save(x=1.0)

    def broken(*_):
        raise error("broken")

    monkeypatch.setattr(np, "load", broken)
    assert Progress(path, {}).load() is None
    assert f"cannot read {path} ({error.__name__}: broken)" in capsys.readouterr().out
