"""Each option of each command changes what is written, shown or printed, or the command refuses it."""

import argparse
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
from sim.cli import warmup
from sim.cli.main import COMMANDS, main, make_parser, stated
from sim.usd import write_usd
from sim.viewer import Viewer
from tests.cli.test_command_line import ARM, HOPPER
from tests.viewer.worlds import arrows

# A value of each option, which differs from its default and from that of the commands below
VALUES = {
    "azimuth": ["200"], "base_height": ["0.7"], "camera": ["eye"], "device": ["gpu"], "dt": ["0.004"],
    "dtype": ["float64"], "elevation": ["70"], "end": ["0.05"],
    "floating_base": [], "fps": ["20"], "gradients": [], "ground": ["0.9"],
    "height": ["18"], "json": [], "keyframe": ["high"], "law": ["hard"], "lossy": [],
    "noise": ["0.3"], "occlusion": [],
    "package_dir": ["."],
    "policy": ["policy.pt"], "seconds": ["0.06"], "seed": ["5"], "start": ["0.05"], "steps": ["9"], "stored": [],
    "strict": [], "target": ["rod", "0", "0", "1"], "threads_per_world": ["8"],
    "trajectory": ["full.npz"], "untrusted": [], "width": ["24"], "worlds": ["3"],
}  # fmt: skip
# Where output is written and who may connect, and what is printed of errors.
ELSEWHERE = {"help", "verbose", "out", "host", "port"}
SMALL = ["--width", "48", "--height", "36"]
SIMULATE = ["simulate", "hopper.xml", "--steps", "40", "--out"]
MODES = {
    "info": ["info", "hopper.xml"],
    "info of a URDF file": ["info", "arm.urdf", "--floating-base"],
    "check": ["check", "hopper.xml"],
    "convert to USD": ["convert", "hopper.xml", "out.usda"],
    "convert URDF": ["convert", "arm.urdf", "out.urdf", "--floating-base"],
    "convert with losses": ["convert", "spring.xml", "out.urdf"],
    "states": [*SIMULATE, "out.npz"],
    "states with noise": [*SIMULATE, "out.npz", "--noise", "0.1"],
    "states with pictures": [*SIMULATE, "out.npz", *SMALL, "--camera", "up"],
    "a stage": [*SIMULATE, "out.usda"],
    "the end": [*SIMULATE, "out.png", *SMALL],
    "an animation": [*SIMULATE, "out.gif", *SMALL],
    "states of a URDF file": ["simulate", "arm.urdf", "--floating-base", "--steps", "5", "--out", "out.npz"],
    "states of a policy": ["simulate", "--policy", "policy.pt", "--steps", "4", "--out", "out.npz"],
    "the start, drawn": ["render", "hopper.xml", "--out", "out.png", *SMALL],
    "a simulation, drawn": ["render", "hopper.xml", "--steps", "40", "--out", "out.gif", *SMALL],
    "its end, drawn": ["render", "hopper.xml", "--steps", "40", "--out", "out.png", *SMALL],
    "a stored motion, drawn": ["render", "motion.usda", "--out", "out.gif", *SMALL],
    "a stored time, drawn": ["render", "motion.usda", "--out", "out.png", *SMALL],
    "the start, viewed": ["view", "hopper.xml"],
    "a simulation, viewed": ["view", "hopper.xml", "--steps", "6"],
    "states, viewed": ["view", "hopper.xml", "--trajectory", "full.npz"],
    "coordinates, viewed": ["view", "hopper.xml", "--trajectory", "bare.npz"],
    "a stored motion, viewed": ["view", "motion.usda", "--stored"],
    "all kernels": ["warmup"],
}
# They act through what a file refers to, what is lost, how a file is read, how a task begins, or with another value.
ACTING = {
    *((mode, "package_dir") for mode in MODES if "URDF" in mode), ("convert URDF", "lossy"), ("check", "untrusted"),
    ("states of a policy", "seed"), ("states of a URDF file", "law"),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model that has cameras and a keyframe, states, a stored motion and a policy."""
    folder = tmp_path_factory.mktemp("files")
    cameras = '<camera name="up" pos="0 -2 1" xyaxes="1 0 0 0 0 1"/><camera name="eye" pos="0 0 3"/></worldbody>'
    step = '<geom type="box" size="0.3 0.3 0.1" pos="0.4 0 0.1"/>'
    text = HOPPER.replace("</worldbody>", step + cameras)
    (folder / "hopper.xml").write_text(text)
    (folder / "spring.xml").write_text(text.replace('name="turn"', 'name="turn" stiffness="3"'))
    shutil.copy(ARM, folder / "arm.urdf")
    q = np.tile([0.1, 0.3], (5, 1, 1)) + 0.05 * np.arange(5)[:, None, None]
    np.savez(folder / "bare.npz", q=q)
    np.savez(folder / "full.npz", q=q, qd=np.zeros((5, 1, 2)), control=np.zeros(1), dt=0.005)
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, name="rod")
    model = builder.finalize()
    poses = np.tile([0, 0, 0, 0, 0, 0, 1.0], (9, 1, 1))
    poses[:, 0, 2] = np.linspace(0, 1, 9)
    write_usd(folder / "motion.usda", model, poses, fps=40)
    torch.manual_seed(0)
    env = sim.envs.VectorEnv(sim.envs.make_task("Pendulum-1", substeps=1), 1, device="cpu")
    policy = sim.learn.Policy(env.num_observations, env.action_low, env.action_high)
    sim.learn.save_policy(folder / "policy.pt", policy, "Pendulum-1", {"substeps": 1})
    return folder


@pytest.fixture
def outcome(monkeypatch, files, tmp_path, capsys):
    """A function that runs a command and returns its status, its error and all that it has written and shown."""
    shown = []

    def look(viewer):
        viewer._player.seek(2)
        motion = viewer._player._motion
        shown.append([len(viewer.model.geometries), viewer.q.copy(), motion and (len(motion), motion.dt)])
        shown.append([arrows(viewer, name).copy() for name in ("/contacts", "/gradients")])

    def offer(viewer, simulator, qd=None, control=None):
        shown.append([simulator.dt, str(simulator.device), str(simulator.contact), qd, control])

    monkeypatch.setattr(Viewer, "wait", look)
    monkeypatch.setattr(Viewer, "offer_simulation", offer)
    monkeypatch.setattr(warmup, "all_modules", lambda *arguments, **options: [arguments, options])
    monkeypatch.setattr(warmup, "load_modules", lambda *arguments: shown.append(repr(arguments)))

    def run(words):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(files, folder)
        before = {path.name for path in folder.iterdir()}
        monkeypatch.chdir(folder)
        shown.clear()
        status = main([*words, "--port", "0"] if words[0] == "view" else words)
        said = capsys.readouterr()
        new = sorted(path for path in folder.iterdir() if path.name not in before)
        out = [line for line in said.out.splitlines() if "ready after" not in line and "http" not in line]
        return status, said.err, repr([out, said.err, [(path.name, content(path)) for path in new], shown])

    return run


def content(path: Path) -> object:
    """Return what a file has, without the time at which it was written."""
    if path.suffix != ".npz":
        return path.read_bytes()
    with np.load(path) as arrays:
        return {name: arrays[name].tolist() for name in arrays}


def options_of(command: str) -> list[argparse.Action]:
    parser = make_parser([command])
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [action for action in commands.choices[command]._actions if action.option_strings]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_option_acts_or_is_refused(outcome, mode):
    words = MODES[mode]
    status, _, plain = outcome(words)
    assert status == (1 if mode == "convert with losses" else 0)
    silent = []
    for action in options_of(words[0]):
        option, name = action.option_strings[-1], action.dest
        if name in ELSEWHERE or option in words or (mode, name) in ACTING:
            continue
        status, error, found = outcome([*words, option, *VALUES[name]])
        if status == 2:
            message = error.splitlines()[-1]
            assert any(each in message for each in (name.replace("_", "-"), "--steps"))
            assert len(message) < 250
        elif status == 0 and found == plain:
            silent.append(option)
    assert silent == []


def test_all_options_have_values_here():
    """A new option needs one."""
    known = {action.dest for command in set(COMMANDS) - {"train", "completion"} for action in options_of(command)}
    assert known == set(VALUES) | ELSEWHERE


def test_options_that_are_stated_with_their_defaults():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--ground", type=float, nargs="?", const=0.0)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    assert stated(parser, []) == set()
    assert stated(parser, ["--wid", "640", "--ground"]) == {"width", "ground"}
    assert stated(parser, ["a", "--strict", "--set", "b=1"]) == {"file", "strict", "set"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "x.xml", "--steps", "1", "--width", "9", "--fps", "5", "--out", "x.npz"], "--width, --fps: "),
        (["simulate", "x.xml", "--steps", "1", "--height", "480", "--out", "x.usda"], "--height: x.usda would have no"),
        (["simulate", "x.xml", "--steps", "1", "--fps", "5", "--out", "x.png"], "--fps: x.png is a single picture"),
        (["simulate", "x.xml", "--steps", "1", "--seed", "1", "--out", "x.npz"], "--seed: there is no noise"),
        (["simulate", "--policy", "x.pt", "--steps", "1", "--noise", "0", "--out", "x.npz"], "--noise: the task of"),
        (["simulate", "x.xml", "--steps", "1", "--threads-per-world", "8", "--out", "x.npz"], "-world: a CPU has one"),
        (["render", "x.usda", "--law", "hard", "--seed", "0", "--out", "x.gif"], "--law, --seed: x.usda plays its"),
        (["render", "x.usda", "--end", "1", "--out", "x.png"], "--end: x.png shows the time --start"),
        (["view", "x.xml", "--trajectory", "x.npz", "--noise", "1"], "--noise: --trajectory contains"),
        (["view", "x.usda", "--stored", "--device", "cpu"], "--device: --stored shows the file's motion"),
        (["convert", "x.xml", "x.usda", "--lossy"], "--lossy: nothing that x.usda lacks"),
        (["warmup", "x.urdf", "--base-height", "1"], "--base-height: kernels don't depend on it"),
        (["warmup", "--ground", "1"], "--ground: there is no FILE"),
        (["train", "Ant", "--envs", "4", "--set", "envs=8"], "--envs and --set envs"),
        (["train", "Ant", "--set", "horizon=8", "--set", "horizon=9"], "--set horizon=9: horizon is given twice"),
        (["train", "Ant", "--option", "law='hard'", "--option", "law=1"], "--option law=1: law is given twice"),
    ],
)  # fmt: skip
def test_options_without_effect_are_refused_before_files_are_read(capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err
