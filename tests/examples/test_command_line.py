"""What all examples share: the list, the options, the files, going on after an interruption."""

import importlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from examples import __main__ as command
from examples import options as example_options
from sim.progress import RUNNING, Progress

# Options and constants with which each is done soon. examples.estimate is longer, and has a test of its own.
SMALL: dict[str, tuple[list[str], dict[str, float]]] = {
    "friction": ([], {}),
    "golf": ([], {}),
    "inertias": (["--seconds", "2"], {"NEW_SECONDS": 1.0, "STEPS": 2, "SHOWN_SECONDS": 0.1}),
    "joint_friction": (["--windows", "8"], {"MOTIONS": 2, "SECONDS": 0.4, "NEW_MOTIONS": 1, "SHOWN_STEPS": 20}),
    "payload": ([], {"SECONDS": 4.0, "STARTS": 1, "STEPS": 1, "SHOWN_SECONDS": 0.1}),
    "parking": ([], {}),
    "origins": (["--poses", "50"], {"STEPS": 2, "RANK_POSES": 12, "NEW_POSES": 20}),
    "jump": ([], {}),
    "pick": ([], {}),
    "push": ([], {}),
    "reach": (["--proposals", "2"], {"STEPS": 2, "CHECKED": 16, "HELD_OUT": 16}),
    "throw": ([], {}),
}


class KilledError(BaseException):
    """Stands for a signal that nothing catches."""


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["examples", *arguments])
    command.main()


def test_lists_the_examples(monkeypatch, capsys):
    run(monkeypatch)
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert set(listed) == {
        "devices", "estimate", "friction", "golf", "inertias", "joint_friction", "jump", "origins", "parking",
        "payload", "pick", "push", "reach", "throw",
    }  # fmt: skip
    assert listed["throw"] == "A robot arm learns to throw a ball at a target."


def test_runs_one(monkeypatch, capsys):
    with pytest.raises(SystemExit) as exit_:
        run(monkeypatch, "throw", "--help")
    assert exit_.value.code == 0
    assert "usage: python -m examples throw" in capsys.readouterr().out


def test_names_those_there_are(monkeypatch):
    with pytest.raises(SystemExit, match="example 'thrown'; the examples are .*throw"):
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
    with kept:
        kept.done()
    assert kept.load() is None


def test_ctrl_c_ends_without_a_traceback(tmp_path, capsys):
    """And says how to go on, where something was kept."""
    path = tmp_path / "interrupted.npz"

    @example_options.command
    def stopped() -> None:
        with Progress(path, {}) as kept:
            if kept.load() is None:
                kept.save(x=1.0)
                raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        stopped()
    assert ended.value.code == 130
    said = capsys.readouterr()
    assert re.fullmatch(rf"\n.* from {re.escape(str(path))}\n", said.out)
    assert said.err == "stopped\n"
    stopped()
    assert "resuming" in capsys.readouterr().out


def test_a_broken_file_is_no_obstacle(tmp_path, capsys):
    (tmp_path / "interrupted.npz").write_bytes(b"PK\x03\x04 half a file")
    assert Progress(tmp_path / "interrupted.npz", {}).load() is None
    assert "cannot read" in capsys.readouterr().out


@pytest.mark.parametrize("name", SMALL)
def test_goes_on_after_being_killed_as_if_it_had_not_been(name, monkeypatch, tmp_path, capsys):
    module, (given, constants) = importlib.import_module(f"examples.{name}"), SMALL[name]
    for constant, value in constants.items():
        monkeypatch.setattr(module, constant, value)
    save, saved = Progress.save, []

    def killed(self, **arrays):
        save(self, **arrays)
        saved.append(1)
        if len(saved) == 2:
            raise KilledError

    def start(folder, *more):
        run(
            monkeypatch,
            name,
            "--device",
            "cpu",
            "--no-render",
            "--iterations",
            "3",
            *given,
            *more,
            "--out",
            str(folder),
        )

    start(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "save", killed)
        with pytest.raises(KilledError):
            start(tmp_path / "parts")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["interrupted.npz"]
    capsys.readouterr()
    start(tmp_path / "parts")
    assert "resuming from" in capsys.readouterr().out
    files = {path.name for path in (tmp_path / "parts").iterdir()}
    assert files == {path.name for path in (tmp_path / "whole").iterdir()}
    assert files >= {"loss.png", f"{name}.npz", f"{name}.usda"}
    with np.load(tmp_path / "whole" / f"{name}.npz") as whole, np.load(tmp_path / "parts" / f"{name}.npz") as parts:
        assert whole.files == parts.files
        for array in whole.files:
            np.testing.assert_array_equal(whole[array], parts[array], err_msg=array)


def test_every_example_is_there():
    assert {*SMALL, "estimate", "devices"} == set(command.find_examples())


@pytest.mark.parametrize("name", sorted(command.find_examples()))
def test_a_folder_that_cannot_be_made_is_one_sentence(name, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        run(monkeypatch, name, "--out", __file__)
    # Python prints a text, and ends with status 1.
    assert re.fullmatch(rf"error: --out {re.escape(__file__)}: .*File exists.*", exit_.value.code)
    assert capsys.readouterr().out == ""


def kill_after_two_saves(module, arguments, out):
    """Run a command in a process that the system kills right after its second iteration."""
    code = """if True:
        import importlib, os, signal, sys
        from sim import progress
        from sim.learn import training
        training.SAVE_EVERY = 0.0
        save, saved = progress.Progress.save, []
        def killed(self, **arrays):
            save(self, **arrays)
            saved.append(1)
            if len(saved) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        progress.Progress.save = killed
        importlib.import_module(sys.argv.pop(1)).main()"""
    first = subprocess.run([sys.executable, "-c", code, module, *arguments], check=False)
    assert first.returncode == -signal.SIGKILL
    assert {path.name for path in out.iterdir()} - {"tensorboard"} == {"interrupted.npz", RUNNING}


@pytest.mark.slow
def test_goes_on_after_a_real_kill(tmp_path):
    arguments = ["friction", "--device", "cpu", "--no-render", "--out", str(tmp_path)]
    kill_after_two_saves("examples.__main__", arguments, tmp_path)
    again = subprocess.run([sys.executable, "-m", "examples", *arguments], check=True, capture_output=True, text=True)
    assert "resuming from" in again.stdout
    assert (tmp_path / "friction.usda").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("shac", ["CartpoleSwingup", "--envs", "3", "--horizon", "4"]),
        ("apg", ["Pendulum-1", "--envs", "2", "--substeps", "1"]),
    ],
)
def test_a_training_goes_on_after_a_real_kill_as_if_it_had_not_been(name, options, tmp_path, monkeypatch, capsys):
    """The same figures, but for the seconds, and the same policy, bit for bit."""
    module = importlib.import_module(f"examples.rl.{name}")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*options, "--iterations", "4", "--device", "cpu", "--no-render", "--out"]
    kill_after_two_saves(module.__name__, [*options, str(parts)], parts)
    for folder in (parts, whole):
        monkeypatch.setattr("sys.argv", [name, *options, str(folder)])
        module.main()
        assert ("resuming from" in capsys.readouterr().out) == (folder == parts)
    with np.load(whole / "training.npz") as expected, np.load(parts / "training.npz") as found:
        assert set(found.files) == set(expected.files) > {"seconds", "steps", "evaluated"}
        for array in set(found.files) - {"seconds"}:
            np.testing.assert_array_equal(found[array], expected[array], err_msg=array)
    policies = [torch.load(folder / "policy.pt", weights_only=True)["state"] for folder in (whole, parts)]
    assert all(torch.equal(value, policies[1][part]) for part, value in policies[0].items())


@pytest.mark.parametrize("module", ["examples.throw", "examples.rl.apg", "examples.rl.transfer"])
def test_usage_is_what_was_typed(module):
    command = [sys.executable, "-m", module, "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    assert said.startswith(f"usage: python -m {module} [-h] ")
