"""Shared by the examples that learn with PyTorch optimisers: the robot, its motions, the training loop."""

import argparse
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

import sim.torch
from scenes.manipulator import MANIPULATOR_URDF
from sim.learn.learner import stored
from sim.output import write_file
from sim.progress import Progress

HARMONICS = 20
SLOWEST = 0.05  # lowest frequency of a motion [Hz]


@dataclass(frozen=True)
class Learning:
    """Result of learning.

    Attributes:
        names: names of the figures.
        figures: figures before the first iteration and after each [iterations + 1, names].
        seconds: time taken.
    """

    names: tuple[str, ...]
    figures: np.ndarray
    seconds: float

    def __getitem__(self, name: str) -> np.ndarray:
        """Return one figure over the iterations."""
        return self.figures[:, self.names.index(name)]


def learn(
    module: torch.nn.Module,
    optimiser: Optimizer,
    loss: Callable[[int], torch.Tensor],
    measure: Callable[[], dict[str, float]],
    iterations: int,
    kept: Progress | None = None,
    *,
    scheduler: LRScheduler | None = None,
    steps: int = 1,
    enough: float = 0.0,
) -> Learning:
    """Run an optimiser until the loss barely decreases.

    Args:
        module: the module to train.
        optimiser: optimiser of its parameters.
        loss: computes the loss from the number of the step, which may seed random samples.
        measure: computes figures of progress.
        iterations: maximum number of iterations, including those of an interrupted run.
        kept: saves the progress; None saves nothing.
        scheduler: schedule of the learning rate, updated at every step.
        steps: optimiser steps per iteration.
        enough: stop when an iteration reduces the loss by less than this; 0 runs all iterations.
    """
    kept = Progress(None, {}) if kept is None else kept
    parts = [part for part in (module, optimiser, scheduler) if part is not None]
    before, start = kept.load(), time.perf_counter()
    if before is None:
        first = measure()
        names, figures, losses = tuple(first), [list(first.values())], list[float]()
    else:
        names, figures, losses = tuple(before["names"].tolist()), before["figures"].tolist(), before["losses"].tolist()
        start -= float(before["seconds"])
        states = torch.load(io.BytesIO(before["state"].tobytes()), weights_only=True)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    with tqdm(total=iterations, initial=len(losses), desc="learning", unit="iteration") as progress:
        progress.set_postfix_str("compiling kernels, unless they are cached")
        for iteration in range(len(losses), iterations):
            if enough and len(losses) > 1 and losses[-2] - losses[-1] < enough:
                break
            for number in range(iteration * steps, (iteration + 1) * steps):
                value = step(optimiser, loss, number)
                if scheduler is not None:
                    scheduler.step()
            losses.append(value)
            figures.append(list(measure().values()))
            progress.set_postfix_str(", ".join(f"{n} {x:.3g}" for n, x in zip(names, figures[-1], strict=True)))
            progress.update()
            kept.save(
                names=names, figures=figures, losses=losses, seconds=time.perf_counter() - start,
                state=np.frombuffer(stored([part.state_dict() for part in parts]), dtype=np.uint8),
            )  # fmt: skip
        progress.total = progress.n
    kept.done()
    return Learning(names, np.array(figures), time.perf_counter() - start)


def step(optimiser: Optimizer, loss: Callable[[int], torch.Tensor], iteration: int) -> float:
    """Take one optimiser step, which may evaluate the loss several times. Returns the loss before the step."""

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss(iteration)
        value.backward()
        return value

    return torch.as_tensor(optimiser.step(closure)).item()  # type: ignore[arg-type]


def write_network(path: Path, network: torch.nn.Module) -> None:
    """Write the state_dict of a network to a .pt file."""
    write_file(path, (".pt",), lambda name: Path(name).write_bytes(stored(network.state_dict())))


def add_robot_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--robot``."""
    parser.add_argument(
        "--robot",
        type=robot_file,
        default=MANIPULATOR_URDF,
        help='URDF file of a fixed arm, or "panda" (seven joints)',
    )


def robot_file(name: str) -> Path:
    """Return the file of a robot. "panda" is in the package example-robot-data."""
    if name != "panda":
        return Path(name)
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        raise argparse.ArgumentTypeError(
            "the Panda file comes with example-robot-data; install backswing[peers], or give a file"
        ) from None
    return next(Path(str(file.locate())) for file in files if file.match("panda_description/urdf/panda.urdf"))


def load_robot(
    parser: argparse.ArgumentParser, options: argparse.Namespace, *, merge: bool = True, masses: bool = False
) -> sim.torch.Robot:
    """Load the robot of ``--robot`` in float64, or exit with an error of the command line if it is unsuitable.

    Args:
        parser: parser of the command line.
        options: the parsed options.
        merge: merge links that are fixed to each other.
        masses: require a mass of all moving links.
    """
    file = f"--robot {options.robot}"
    try:
        device = torch_device(options.device)
        robot = sim.torch.Robot(options.robot, dtype=torch.float64, device=device, collapse_fixed=merge)
    except (OSError, sim.ModelError) as error:
        parser.error(f"{file}: {error}")
    if not 0 < robot.nq == robot.nv == len(robot.joint_names):
        parser.error(f"{file}: it needs at least one joint, and each joint must have one degree of freedom")
    if masses and robot.model.massless_links:
        parser.error(f"{file}: moving links without mass: {', '.join(robot.model.massless_links)}")
    return robot


def torch_device(device: str | None) -> str:
    """Return the torch device for the ``--device`` of the command line."""
    return device or ("cuda:0" if torch.cuda.is_available() else "cpu")


def draw(seed: int, *shape: int, like: torch.Tensor) -> torch.Tensor:
    """Draw standard normal numbers, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)


def reach(robot: sim.torch.Robot) -> tuple[torch.Tensor, torch.Tensor]:
    """Return middle and half width of each joint's range [nq]; half a turn without limits."""
    low, high = robot.lower_limit, robot.upper_limit
    free = ~(low.isfinite() & high.isfinite())
    return torch.where(free, 0.0, 0.5 * (low + high)), torch.where(free, torch.pi, 0.5 * (high - low))


def moving(
    robot: sim.torch.Robot, seconds: float, seed: int, dt: float = 0.01
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Generate an exciting motion of all joints: sums of sines, as large as position and velocity limits allow.

    Args:
        robot: the robot.
        seconds: duration [s].
        seed: seed of amplitudes and phases.
        dt: time between samples [s].

    Returns:
        q, qd and qdd [seconds / dt, nv].
    """
    middle, half = reach(robot)
    t = torch.arange(round(seconds / dt), dtype=half.dtype, device=half.device)[:, None] * dt
    number = torch.arange(1, HARMONICS + 1, dtype=half.dtype, device=half.device)
    w = 2.0 * torch.pi * SLOWEST * number
    a, b = draw(seed, 2, HARMONICS, robot.nv, like=half) / number[:, None].sqrt()
    sine, cosine = torch.sin(w * t), torch.cos(w * t)
    q, qd = sine @ a + cosine @ b, (w * cosine) @ a - (w * sine) @ b
    fastest = torch.where(robot.velocity_limit > 0.0, robot.velocity_limit, torch.inf)
    scale = torch.minimum(0.95 * half / q.abs().amax(0), fastest / qd.abs().amax(0))
    return middle + scale * q, scale * qd, -scale * ((w**2 * sine) @ a + (w**2 * cosine) @ b)


def verdict(reached: bool, learning: Learning) -> str:
    """Format the start of a line about the outcome."""
    outcome = "reached" if reached else "not reached"
    return f"{outcome} after {len(learning.figures) - 1} iterations, {learning.seconds:.1f} s"
