"""Simulation of a file's model, for the commands that need its motion."""

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from tqdm import tqdm

from sim.cli.files import UsageError, refuse_unused, say
from sim.errors import ModelError, NotFiniteWarning
from sim.model.checks import counted
from sim.model.model import Keyframe, Model, Part
from sim.simulation.contacts import overlaps_of
from sim.simulation.engine.memory import host_memory, require_memory
from sim.simulation.mujoco_settings import mujoco_settings
from sim.simulation.options import HardContact, ModelContact, MujocoContact
from sim.simulation.simulator import Simulator
from sim.simulation.state import State

DEFAULT_STEP = 1.0 / 240.0
LAWS = {None: ModelContact, "hard": HardContact, "mujoco": MujocoContact}
# Options of :func:`add_motion` that only a simulation uses
SIMULATION = ("dt", "law", "noise", "seed", "threads_per_world")
STEPS_AT_ONCE = 120
MOST_OVERLAPS = 10  # maximum number named individually


def add_motion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the length of the simulation and its initial state."""
    parser.add_argument("--steps", type=int, help="number of simulation steps; give --steps or --seconds")
    parser.add_argument("--seconds", type=float, help="simulated time [s]")
    parser.add_argument("--dt", type=float, help="time step [s] (default: that of the file, or 1/240)")
    parser.add_argument(
        "--law", choices=("hard", "mujoco"),
        help="contact law (default: mujoco for MJCF files, otherwise hard); mujoco moves a file as MuJoCo does, "
        "with its integrator, friction cone and impratio",
    )  # fmt: skip
    parser.add_argument(
        "--keyframe",
        metavar="NAME",
        help="keyframe of the file to start from, with constant controls (default: the file's initial state)",
    )
    parser.add_argument(
        "--worlds", type=int, default=1, help="number of worlds, whose initial velocities differ by --noise (default 1)"
    )
    parser.add_argument(
        "--noise", type=float, default=0.0, help="standard deviation of initial velocities [m/s, rad/s] (default 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default 0)")
    parser.add_argument("--device", default="cpu", help="Warp device: cpu (default), or a GPU such as cuda:0")
    parser.add_argument(
        "--threads-per-world", type=int, default=1, metavar="N",
        help="threads of a GPU that share out the work of one world: 1 (default), 8, 16 or 32",
    )  # fmt: skip


def time_step(model: Model, given: argparse.Namespace) -> float:
    """Return the given time step, or that of the file [s]."""
    if given.dt is not None:
        if not (np.isfinite(given.dt) and given.dt > 0.0):
            raise UsageError(f"--dt {given.dt} must be positive")
        return float(given.dt)
    return next((part.timestep for part in model.parts if part.timestep), DEFAULT_STEP)


def number_of_steps(given: argparse.Namespace, dt: float) -> int:
    """Return the number of steps, from --steps or --seconds."""
    if (given.steps is None) == (given.seconds is None):
        raise UsageError("give exactly one of --steps and --seconds")
    if given.seconds is not None and not np.isfinite(given.seconds):
        raise UsageError(f"--seconds {given.seconds} must be finite")
    steps = given.steps if given.steps is not None else round(given.seconds / dt)
    if steps < 1:
        raise UsageError(f"the simulation has {steps} steps; it needs at least one")
    return int(steps)


def begin(model: Model, given: argparse.Namespace, dt: float) -> tuple[Simulator, State, np.ndarray | None]:
    """Return the simulator, its initial state, and the constant inputs of the actuators [nu] (None: all zero)."""
    check_worlds(given)
    q, qd, control = start(model, given.keyframe)
    act = start_act(model, given.keyframe)
    velocities = np.tile(qd, (given.worlds, 1))
    velocities += given.noise * np.random.default_rng(given.seed).normal(size=velocities.shape)
    simulator = simulator_of(model, given, dt)
    state = simulator.state(np.tile(q, (given.worlds, 1)), velocities, act)
    say(overlap_notes(simulator, state))
    return simulator, state, control


def overlap_notes(simulator: Simulator, state: State) -> list[str]:
    """Return descriptions of penetrations in the first world, the deepest first."""
    if not simulator.engine.shards[0].step.max_contacts:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a step whose result is discarded
        found = overlaps_of(simulator.contacts(state).of_world(0))
    notes = [
        f"{overlap.text(simulator.model)} at the start and may stay stuck; move one of them, or exclude the pair from "
        "collision"
        for overlap in found[:MOST_OVERLAPS]
    ]
    more = len(found) - MOST_OVERLAPS
    return notes + [f"{counted(more, 'more pair')} of geometries overlap at the start"] * (more > 0)


def check_worlds(given: argparse.Namespace) -> None:
    """Raise UsageError for invalid numbers of worlds, noise or seed."""
    if given.worlds < 1:
        raise UsageError(f"--worlds {given.worlds} must be at least 1")
    if not (np.isfinite(given.noise) and given.noise >= 0.0):
        raise UsageError(f"--noise {given.noise} must be finite and not negative")
    if given.seed < 0:
        raise UsageError(f"--seed {given.seed} must not be negative")
    if given.device.startswith("cpu"):
        refuse_unused(given, ["threads_per_world"], "a CPU has one thread per world; remove it or choose a GPU")


def check_seed(given: argparse.Namespace) -> None:
    """Raise UsageError for a seed without noise."""
    if given.noise == 0.0:
        refuse_unused(given, ["seed"], "there is no noise; add --noise")


def _check_memory(model: Model, worlds: int, steps: int) -> None:
    """Raise UsageError for motions whose states don't fit into memory."""
    wanted = 2 * (steps + 1) * worlds * (model.nq + model.nv) * np.dtype(model.dtype).itemsize
    what = f"{counted(steps, 'step')} of {counted(worlds, 'world')}"
    require_memory(what, wanted, "this machine", host_memory(), "take fewer")


def simulator_of(model: Model, given: argparse.Namespace, dt: float) -> Simulator:
    """Create the simulator with the chosen contact law, or that of the model."""
    settings: dict[str, Any] = {"contact": LAWS[given.law]()}
    if given.law == "mujoco" and any(part.mujoco is not None for part in model.parts):
        settings = mujoco_settings(model)
    return Simulator(
        model, **{**settings, "dt": dt}, num_worlds=given.worlds, device=given.device,
        threads_per_world=given.threads_per_world,
    )  # fmt: skip


def simulate(model: Model, given: argparse.Namespace, dt: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return q [steps + 1, worlds, nq] and qd [steps + 1, worlds, nv]."""
    _check_memory(model, given.worlds, steps)
    simulator, state, control = begin(model, given, dt)
    found: tuple[list[np.ndarray], list[np.ndarray]] = ([state.q.numpy()[None]], [state.qd.numpy()[None]])
    with progress(steps) as bar:
        for first in range(0, steps, STEPS_AT_ONCE):
            count = min(STEPS_AT_ONCE, steps - first)
            inputs = None if control is None else np.tile(control, (count, given.worlds, 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotFiniteWarning)  # reported as an error at the end
                trajectory = simulator.rollout(state, steps=count, control=inputs)
            state = trajectory.final_state
            for parts, array in zip(found, (trajectory.q, trajectory.qd), strict=True):
                parts.append(array.numpy()[1:])
            bar.update(count)
    q, qd = (np.concatenate(parts) for parts in found)
    check_finite(q, qd)
    return q, qd


def progress(steps: int) -> "tqdm[Any]":
    """Return the progress bar of a simulation, which is shown only on a terminal."""
    label = "simulating (the first run compiles kernels)"
    return tqdm(total=steps, unit="step", desc=label, disable=not sys.stderr.isatty())


def check_finite(q: np.ndarray, qd: np.ndarray) -> None:
    """Raise ModelError for a motion that isn't finite, naming the first step and world."""
    bad = ~(np.isfinite(q).all(axis=2) & np.isfinite(qd).all(axis=2))
    if bad.any():
        step, world = np.argwhere(bad)[0]
        raise ModelError(f"the motion isn't finite from step {step} on, in world {world}; use a smaller --dt")


def start(model: Model, name: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return initial q, qd and inputs of the actuators (None: all zero).

    Raises:
        UsageError: for an unknown keyframe.
    """
    q, qd = model.q0.copy(), np.zeros(model.nv)
    if name is None:
        return q, qd, None
    part, key = _keyframe(model, name)
    q[model.q_slice(part)], qd[model.qd_slice(part)] = key.q, key.qd
    control = np.array([key.control.get(actuator, 0.0) for actuator in model.actuator_names])
    return q, qd, control if model.nu else None


def start_act(model: Model, name: str | None) -> np.ndarray | None:
    """Return initial activations of actuators [na], None if no actuator has one. Raise as :func:`start`."""
    if not model.na:
        return None
    given = {} if name is None else _keyframe(model, name)[1].act
    return np.array([given.get(name, 0.0) for name in model.act_names])


def _keyframe(model: Model, name: str) -> tuple[Part, Keyframe]:
    known: list[str] = []
    for part in model.parts:
        if name in part.keyframes:
            return part, part.keyframes[name]
        known += part.keyframes
    raise UsageError(f"no keyframe '{name}'; {'choose from: ' + ', '.join(known) if known else 'the file has none'}")
