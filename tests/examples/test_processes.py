"""Two processes with half of the worlds each find what one finds with all of them."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
import sim.torch
from examples import box_motion, estimate
from examples.rl import shac
from scenes import box
from sim.envs import TaskState, VectorEnv
from sim.envs.tasks.pendulum import Pendulum
from sim.learn import Apg, ApgSettings, Shac, make_learner, processes, training

ROOT = Path(__file__).parents[2]
UPDATES = 20


class FixedStarts(Pendulum):
    """Half of four given states in each of two processes, all of them in one."""

    max_episode_length = 12

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        first = processes.number() * n
        states = torch.linspace(-0.4, 0.5, 4)[:, None]
        q = states[first : first + n]
        return self.episodes(q, 0.3 * q)


def trained(worlds: int) -> dict[str, torch.Tensor]:
    """The policy after some updates, with next to no noise in its actions."""
    env = VectorEnv(FixedStarts(1, substeps=1), worlds, device="cpu", differentiable=True, threads=1)
    learner = Apg(env, ApgSettings(5e-3, 1e-9), UPDATES)
    for _ in range(UPDATES):
        learner.iterate()
    return learner.policy.state_dict()


def trained_together(algorithm: str) -> dict[str, torch.Tensor]:
    """The policy after some iterations of an algorithm whose noise differs between processes."""
    chosen = {"ppo": {"horizon": 8}, "sac": {"steps": 8, "random_steps": 16, "batch": 8, "updates": 1}}[algorithm]
    task = FixedStarts(1, substeps=1)
    learner = make_learner(task, algorithm, iterations=2, device="cpu", threads=1, envs=2, **chosen)
    for _ in range(2):
        learner.iterate()
    return learner.policy.state_dict()


def gradient_of_shared_friction() -> torch.Tensor:
    """Of the mean way of four boxes that slide, three to a stop, in the friction of all. Each process has its share."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1), name="box")
    model = scene.finalize("float64")
    speeds = torch.tensor([0.5, 1.0, 1.5, 2.0], dtype=torch.float64)[processes.own_rows(4)]
    simulator = sim.Simulator(model, dt=1 / 240, num_worlds=len(speeds), device="cpu", threads=1)
    qd = torch.zeros(len(speeds), model.nv, dtype=torch.float64)
    qd[:, 0] = speeds
    friction = torch.nn.Parameter(torch.tensor(0.8, dtype=torch.float64))
    start = torch.as_tensor(model.q0).expand(len(speeds), -1)
    q, _ = sim.torch.rollout(simulator, start, qd, steps=60, friction=friction)
    q[-1, :, 0].mean().backward()
    processes.average_gradients([friction])
    return friction.grad


OF_A_TRAINING = ["CartpoleSwingup", "--envs", "3", "--horizon", "4", "--no-render", "--device", "cpu"]


def train_until_the_second_dies(out: str) -> None:
    """What a process does of five iterations, of which the second process lives for three."""
    whole = Shac.iterate

    def iterate(learner: Shac) -> dict[str, float]:
        if learner.iteration == 3:
            torch.distributed.barrier()  # the first process has saved the third iteration
            if processes.number() == 1:
                os._exit(7)
        return whole(learner)

    Shac.iterate = iterate  # type: ignore[method-assign]
    training.SAVE_EVERY = 0.0
    sys.argv = ["shac", *OF_A_TRAINING, "--iterations", "5", "--out", out]
    shac.main()


def main() -> None:
    """One of the processes."""
    if sys.argv[1] == "dies":
        train_until_the_second_dies(sys.argv[2])
        return
    processes.join()
    stem = Path(sys.argv[1]) / str(processes.number())
    torch.save(trained(2), stem.with_suffix(".pt"))
    np.savez(stem.with_suffix(".npz"), **estimated())
    for algorithm in ("ppo", "sac"):
        torch.save(trained_together(algorithm), stem.with_suffix(f".{algorithm}"))
    torch.save(gradient_of_shared_friction(), stem.with_suffix(".friction"))


def run_two(arguments: list[str]) -> subprocess.CompletedProcess:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    options = ["--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The folder in which both have written what they have found."""
    folder = tmp_path_factory.mktemp("processes")
    done = run_two(["-m", "tests.examples.test_processes", str(folder)])
    assert done.returncode == 0, done.stderr
    return folder


def test_two_processes_learn_what_one_does(two_processes):
    expected = trained(4)
    first, second = (torch.load(two_processes / f"{number}.pt", weights_only=True) for number in (0, 1))
    begun = Apg(VectorEnv(FixedStarts(), 4, device="cpu"), ApgSettings(5e-3, 1e-9), 1).policy.state_dict()
    for name, value in expected.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], value, rtol=1e-5, atol=1e-5)
    assert (expected["mean.0.weight"] - begun["mean.0.weight"]).abs().max() > 1e-3


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_processes_train_one_policy(two_processes, algorithm):
    """From different experience: it is the same in both, and another one than a single process finds."""
    first, second = (torch.load(two_processes / f"{number}.{algorithm}", weights_only=True) for number in (0, 1))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    alone = trained_together(algorithm)
    assert not torch.equal(alone["mean.0.weight"], first["mean.0.weight"])
    assert first["normaliser.count"] > 1.9 * alone["normaliser.count"]


def test_the_gradient_of_a_parameter_that_all_worlds_share_is_that_of_one_process(two_processes):
    expected = gradient_of_shared_friction()
    assert expected < -0.1  # [m]
    for number in range(2):
        found = torch.load(two_processes / f"{number}.friction", weights_only=True)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)


def test_the_example_runs_in_two_processes(tmp_path):
    """The first process writes, and says how many steps both have taken."""
    options = ["--envs", "3", "--horizon", "4", "--out", str(tmp_path), "--no-render", "--device", "cpu"]
    done = run_two(["-m", "examples.rl.shac", "CartpoleSwingup", *options, "--iterations", "3"])
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"tensorboard"} == {"curve.png", "policy.pt", "training.npz"}
    assert done.stdout.count("environment steps in") == 1
    assert f"after {3 * 4 * 6} environment steps" in done.stdout


def test_a_job_ends_with_a_process_and_goes_on_in_another_number(tmp_path, monkeypatch, capsys):
    """Three iterations of two processes with three environments each, and two more of a single one."""
    done = run_two(["-m", "tests.examples.test_processes", "dies", str(tmp_path)])
    assert done.returncode != 0
    assert re.search(r"exitcode *: 7", done.stderr), "it says which process ended, and how"
    assert (tmp_path / "interrupted.npz").is_file()
    monkeypatch.setattr(sys, "argv", ["shac", *OF_A_TRAINING, "--iterations", "5", "--out", str(tmp_path)])
    shac.main()
    assert f"after {4 * (3 * 6 + 2 * 3)} environment steps" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load(tmp_path / "training.npz")["steps"], [24, 48, 72, 84, 96])
    assert not (tmp_path / "interrupted.npz").exists()


class EndedError(BaseException):
    """Stands for a signal that nothing catches."""


def test_what_one_process_has_saved_two_go_on_with(tmp_path, monkeypatch):
    """Three iterations of a single process with three environments, and two more of two."""
    whole = Shac.iterate

    def iterate(learner: Shac) -> dict[str, float]:
        if learner.iteration == 3:
            raise EndedError
        return whole(learner)

    command = [*OF_A_TRAINING, "--iterations", "5", "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(Shac, "iterate", iterate)
        patch.setattr(training, "SAVE_EVERY", 0.0)
        patch.setattr(sys, "argv", ["shac", *command])
        with pytest.raises(EndedError):
            shac.main()
    done = run_two(["-m", "examples.rl.shac", *command])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("resuming from") == 1
    np.testing.assert_array_equal(np.load(tmp_path / "training.npz")["steps"], [12, 24, 36, 60, 84])
    assert not (tmp_path / "interrupted.npz").exists()


def estimated() -> dict[str, np.ndarray]:
    """What becomes of three boxes, of which not every process has as many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"GUESSES": 16, "MOTIONS": 8, "ROUNDS": 1}.items():
            patch.setattr(estimate, name, value)
        scene = box.build()
        seen = box_motion.observe(scene, box.random_boxes(0, 3), 0, "cpu", every=100)
        found = estimate.estimate(scene, seen, 0, 3, "cpu", bar=False)
    return {name: getattr(found, name) for name in ("unknowns", "covariance", "fitted", "chi_square", "curve")}


def test_two_processes_estimate_what_one_does(two_processes):
    for name, expected in estimated().items():
        for number in range(2):
            found = np.load(two_processes / f"{number}.npz")[name]
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


def test_more_processes_than_searches(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "count", lambda: 5)
    monkeypatch.setattr(sys, "argv", ["estimate", "--out", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit, match="5 processes .* 4 searches; .*--worlds"):
        estimate.main()


@pytest.fixture
def cores(monkeypatch):
    """The cores that this process is bound to, of those from 4 to 15."""
    bound = []
    monkeypatch.setattr(processes, "usable_cores", lambda: list(range(4, 16)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: bound.append(cores), raising=False)
    processes.own_cores.cache_clear()
    yield bound
    processes.own_cores.cache_clear()


@pytest.mark.parametrize(
    ("here", "local_rank", "expected"),
    [(1, 0, range(4, 16)), (3, 1, range(8, 12)), (5, 4, range(12, 14)), (20, 11, [15]), (20, 12, [4])],
)
def test_processes_of_a_machine_share_its_cores(here, local_rank, expected, cores, monkeypatch):
    for name, value in {"RANK": "0", "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(here)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert processes.join("cpu") == "cpu"
    assert cores == [list(expected)]
    assert processes.threads() == len(expected)


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    for gpus in (2, 3):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        for number in ("0", "1"):
            monkeypatch.setenv("LOCAL_RANK", number)
            assert processes.own_device(None) == processes.own_device("cuda") == f"cuda:{number}"
            assert processes.own_device("cpu") == "cpu"
            assert processes.own_device("cuda:2") == "cuda:2"


@pytest.mark.parametrize(("gpus", "asked"), [(1, None), (1, "cuda"), (0, "cuda")])
def test_too_few_gpus(gpus, asked, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(sim.ModelError, match=rf"2 processes on a machine with {gpus} GPUs?: .*--nproc-per-node"):
        processes.own_device(asked)


def test_without_gpus_processes_are_on_the_cpu(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert processes.own_device(None) is None
    assert processes.own_device("cpu") == "cpu"


@pytest.mark.parametrize(("asked", "chosen"), [(None, "cuda:1"), ("cuda", "cuda:1"), ("cpu", None)])
def test_the_device_becomes_that_of_warp_and_pytorch(asked, chosen, cores, monkeypatch):
    """What would be set is noted, since there may be no GPU here."""
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    noted = []
    monkeypatch.setattr(torch.cuda, "set_device", noted.append)
    monkeypatch.setattr(processes.wp, "set_device", noted.append)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert processes.join(asked) == (chosen or asked)
    assert noted == [chosen] * 2 * bool(chosen)
    assert bool(cores) == (chosen is None)


def test_alone_nothing_is_shared():
    assert processes.join() is None
    assert processes.join("cuda") == "cuda"
    assert processes.number() == 0
    assert processes.count() == 1
    assert processes.own_seed(5) == 5
    assert processes.threads() is None
    assert processes.mean_over_processes(2.5) == 2.5
    assert processes.from_first(b"x") == b"x"
    tensor = torch.arange(3.0)
    assert processes.of_all_processes(tensor) is tensor
    assert processes.own_rows(7) == slice(0, 7)
    rows = np.arange(3)
    assert processes.of_all_rows(rows) is rows


if __name__ == "__main__":
    main()
