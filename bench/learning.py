"""Time of a step of the learning environments, compared with the same robot in gymnasium, MuJoCo alone, and MJX.

    python -m bench.learning --json bench/results/learning_cpu.json
    python -m bench.learning --mjx-python jax/bin/python      # MJX may be in a separate environment

Everything runs on one core, in turns, with the same random actions. Times are those of the processor, per environment
and step of the environment [µs], with a batch of 64 environments here and one there. "Gradient" is a step with its
share of the backward pass through eight steps. "Kernels" is the time of the simulator's rollout alone, "torch" that of
PyTorch's operations, for observation, reward and resets, by its profiler; the rest is Python. MuJoCo alone takes its
``frame_skip`` steps with the integrator of the file, and in its own solver; gymnasium adds its observation and reward;
MJX takes them for 64 ants, see :mod:`bench.learning_mjx`. PandaReach, without a peer, runs in 4,096 environments;
"control" is its operational-space control. Ant also runs with each contact solver.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
import warp as wp
from gymnasium.envs.mujoco import MujocoEnv
from torch.profiler import ProfilerActivity, profile

import sim
import sim.torch
from bench.report import write_json
from bench.timing import machine, pinned, time_call
from sim.envs import Task, VectorEnv, make_task

TASKS = ("Ant", "Hopper", "HalfCheetah", "Humanoid")
ENVS = 64
ARMS = 4096
HORIZON = 8  # steps of the environment in a gradient
SOLVERS = {
    "Newton's method": sim.HardContact(),
    "50 sweeps, unrolled": sim.PgsContact(),
    "50 sweeps, adjoint of the solution": sim.PgsContact(adjoint="implicit"),
    "at most 20 sweeps, to 1e-4 m/s": sim.PgsContact(sweeps=20, tolerance=1e-4),
}
LAWS = {
    "MuJoCo's law, Euler": {"law": "mujoco"},
    "MuJoCo's law, RK4": {"law": "mujoco", "integrator": "rk4"},
}
PROFILED = 20  # steps for PyTorch's share of the time
WARM = 30  # steps before the measurement, after which the robots touch the ground


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/learning.json"), help="write the records there")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure (2)")
    parser.add_argument("--device", default="cpu", help='"cpu" (default), or such as "cuda:0"; MuJoCo has the CPU')
    parser.add_argument("--envs", type=int, default=ENVS, help=f"environments at a time ({ENVS})")
    parser.add_argument("--mjx-python", help="a Python with mujoco-mjx; without it MJX isn't measured")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    before = machine()
    records = []
    with pinned(1):
        for task in TASKS:
            own = ours(make_task(task), options.seconds, options.envs, options.device)
            record = {"task": task, "envs": options.envs, **own, **theirs(task, options.seconds)}
            if task == "Ant" and options.mjx_python:
                record |= in_mjx(options.mjx_python, task, options.seconds, options.envs)
            records.append({**record, "machine": before})
            print(
                ", ".join(
                    f"{key} {value:.1f}" if isinstance(value, float) else str(value) for key, value in record.items()
                )
            )
        arm = ours(make_task("PandaReach"), options.seconds, ARMS, options.device)
        records.append({"task": "PandaReach", "envs": ARMS, **arm, "machine": before})
        records.append({"task": "one link", **one_link(options.seconds), "machine": before})
        ants = {name: with_contact("Ant", contact) for name, contact in SOLVERS.items()}
        ants |= {name: make_task("Ant", **law) for name, law in LAWS.items()}
        for name, ant in ants.items():
            found = ours(ant, options.seconds, options.envs, options.device)
            records.append({"task": "Ant", "solver": name, "envs": options.envs, **found, "machine": before})
        for record in records[-2 - len(ants) :]:
            print({name: value for name, value in record.items() if name != "machine"})
    write_json(options.json, records)


def one_link(seconds: float) -> dict[str, float]:
    """Measure a call of ``sim.torch.step`` for one world with one link, which is nearly all Python and PyTorch [µs].

    "Gradient" is a call, a loss of the state after it, and the gradient in state and force.
    """
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0.0, 1.0, 0.0))
    simulator = sim.Simulator(builder.finalize(), 1 / 240, 1, "cpu", threads=1)
    state = [torch.full((1, 1), value) for value in (0.3, -0.2, 0.1)]
    given = [value.clone().requires_grad_() for value in state]

    def gradient() -> None:
        q, qd = sim.torch.step(simulator, *given)
        torch.autograd.grad(q.sum() + qd.sum(), given)

    works = {"forward_us": lambda: sim.torch.step(simulator, *state), "gradient_us": gradient}
    found = {
        name: time_call(work, seconds=0.5 * seconds, clock=time.process_time).median for name, work in works.items()
    }
    return {name: 1e6 * value for name, value in found.items()}


def with_contact(name: str, contact: sim.ContactMethod) -> Task:
    """Return a task with other options of contact."""
    task = make_task(name)
    task.contact = lambda: contact  # type: ignore[method-assign]
    return task


def ours(task: Task, seconds: float, envs: int, device: str) -> dict[str, float]:
    """Measure a step forward, with gradient, the part that converts actions to inputs, and the kernels alone [µs]."""
    env = VectorEnv(task, envs, device=device, seed=0, differentiable=True, threads=1)
    env.reset()
    generator = torch.Generator(env.device).manual_seed(0)

    def action() -> torch.Tensor:
        share = torch.rand(envs, env.num_actions, generator=generator, device=env.device)
        return env.action_low + share * (env.action_high - env.action_low)

    def median(work: Callable[[], object]) -> float:
        def done() -> None:
            work()
            wp.synchronize_device(device)

        # Kernels on a GPU take no time of the processor.
        clock = time.process_time if env.device.type == "cpu" else time.perf_counter
        return time_call(done, seconds=seconds, clock=clock).median

    with torch.no_grad():
        for _ in range(WARM):
            env.step(action())
        forward = median(lambda: env.step(action()))
        own = torch_time(lambda: env.step(action()))

    def gradient() -> None:
        env.detach()
        given = [action().requires_grad_() for _ in range(HORIZON)]
        torch.stack([env.step(each)[1] for each in given]).sum().backward()

    whole = median(gradient) / HORIZON
    env.detach()
    simulator = env.simulator
    state = simulator.state(env.state.q.cpu().numpy(), env.state.qd.cpu().numpy())
    with torch.no_grad():
        given = env.task.inputs(env.state, action())
        law = median(lambda: env.task.inputs(env.state, action()))
    inputs: dict[str, Any] = {
        name: wp.array(value.repeat(env.frame_skip, 1, 1).cpu().numpy(), dtype=simulator.model.scalar, device=device)
        for name, value in given.items()
    }
    kernels = median(lambda: simulator.rollout(state, **inputs))
    names = {"forward_us": forward, "gradient_us": whole, "control_us": law, "kernels_us": kernels}
    names["torch_us"] = own
    return {name: 1e6 * value / envs for name, value in names.items()}


def torch_time(work: Callable[[], object]) -> float:
    """Measure the time of PyTorch's operations in a call [s]: the count of each, times its median time."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(PROFILED):
            work()
    times: dict[str, list[float]] = {}
    for event in profiled.events():
        if event.name.startswith("aten::"):
            times.setdefault(event.name, []).append(event.self_cpu_time_total)
    return 1e-6 * sum(len(own) * statistics.median(own) for own in times.values()) / PROFILED


def theirs(task: str, seconds: float) -> dict[str, float]:
    """Measure gymnasium's environment, and MuJoCo's steps in it."""
    env = gymnasium.make(f"{task}-v5").unwrapped
    assert isinstance(env, MujocoEnv)
    env.reset(seed=0)
    env.action_space.seed(0)
    rng = np.random.default_rng(0)

    def step() -> None:
        if env.step(env.action_space.sample())[2]:
            env.reset()

    for _ in range(WARM):
        step()
    whole = time_call(step, seconds=seconds, clock=time.process_time).median

    def alone() -> None:
        env.data.ctrl[:] = rng.uniform(-1.0, 1.0, env.model.nu)
        mujoco.mj_step(env.model, env.data, nstep=env.frame_skip)

    alone_us = time_call(alone, seconds=seconds, clock=time.process_time).median
    return {"gymnasium_us": 1e6 * whole, "mujoco_us": 1e6 * alone_us}


def in_mjx(python: str, task: str, seconds: float, envs: int) -> dict[str, Any]:
    """Measure MuJoCo's steps in MJX, in a process with another Python."""
    env = gymnasium.make(f"{task}-v5").unwrapped
    assert isinstance(env, MujocoEnv)
    given = {"file": env.fullpath, "frame_skip": env.frame_skip, "envs": envs, "horizon": HORIZON, "seconds": seconds}
    command = [python, "-m", "bench.learning_mjx", json.dumps(given)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
