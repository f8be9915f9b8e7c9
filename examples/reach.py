"""A network learns inverse kinematics, with the pose error of forward kinematics as its loss.

The network takes the desired pose of a frame of the robot and proposes joint coordinates. It makes several proposals,
because many coordinates have the same pose, and those between two of them do not. Then it refines them in a few passes.
Each pass gets the frame's remaining error and moves the joints. The closest result is the answer. The network never
sees a solution or a Jacobian.

Each training step draws coordinates within the limits and uses their poses as targets. The loss is the pose error of
the best proposal, in units of 5 mm and 1 degree, plus its error after each of two passes. The gradient thus passes
through forward kinematics, the network, and forward kinematics again.

The goal is a mean error below 5 mm and 1 degree on unseen targets: poses of other random coordinates within the limits,
all over the workspace. The table at the end shows the errors of the proposals and after each pass. For comparison it
has the same number of steps with the Jacobian (damped least squares, Robot.inverse_kinematics), from the same proposals
and from random coordinates, and inverse kinematics without a network.

    python -m examples.reach
    python -m examples.reach --robot panda
    python -m examples.reach --robot robot.urdf --frame tool

The Panda's file comes with example-robot-data, which the extra "peers" installs.

Files: loss.png, the mean errors over the iterations; reach.npz with these, and the errors on all targets of each method
in the table; network.pt, the network's parameters; reach.gif and reach.usda. In the animation two robots move to unseen
targets with the network's answers: the left one (grey) before training, the right one (blue) after it. A rod on the
frame should point at the ball, and does so if position and orientation are right.
"""

import argparse
import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import sim
from examples.arms import Arm, pointer, write_arms
from examples.learning import Learning, add_robot_option, learn, load_robot, verdict, write_network
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, plot, write_arrays
from examples.pose_network import PoseNetwork, Reachable
from sim.progress import Progress

GOAL = (0.005, math.radians(1.0))  # mean distance [m] and angle [rad]
STEPS = 100  # optimiser steps per iteration
BATCH = 128  # targets per step
RATE = 1e-3  # highest learning rate
WARM_UP = 0.02  # fraction of the training in which the rate rises; then it falls along a cosine
CHECKED, HELD_OUT = 256, 4096  # targets for evaluation after every iteration, and at the end
TRAINED, PASSES = 2, 4  # passes in the loss, and for the answers
SHOWN, SHOWN_FROM, LOWEST = 5, 64, 0.1  # targets shown, candidates, and their minimum height [m]
SHOWN_DT, GO_FRAMES, STAY_FRAMES = 0.04, 20, 10  # time between frames [s], frames to move and to stay
FRAMES = {"manipulator": "link7", "panda": "panda_hand"}


@dataclass(frozen=True)
class Errors:
    """Errors of one method.

    Attributes:
        way: name of the method.
        distance: distance from the target [targets] [m].
        angle: angle from the target [targets] [rad].
        seconds: time per target, with all targets in one batch.
    """

    method: str
    distance: np.ndarray
    angle: np.ndarray
    seconds: float

    @property
    def means(self) -> tuple[float, float]:
        """Return mean distance [m] and angle [rad]."""
        return float(self.distance.mean()), float(self.angle.mean())

    @property
    def close(self) -> float:
        """Fraction of the answers that individually meet the goal."""
        return float(((self.distance < GOAL[0]) & (self.angle < GOAL[1])).mean())

    @property
    def row(self) -> str:
        """Format a row of the table."""
        figures = [
            f"{np.mean(x):10.2f}{np.median(x):8.2f}{np.quantile(x, 0.95):8.2f}"
            for x in (1e3 * self.distance, np.degrees(self.angle))
        ]
        return f"{self.method:46}{''.join(figures)}{100.0 * self.close:10.1f} %{1e6 * self.seconds:9.0f}"


HEADER = f"""{"":46}{"distance [mm]":>26}{"angle [degrees]":>26}{"within":>12}{"time":>9}
{"":46}{2 * f"{'mean':>10}{'median':>8}{'95 %':>8}"}{"the goal":>12}{"[µs]":>9}"""


# ---- training ----------------------------------------------------------------------------------------------------


def train(network: PoseNetwork, iterations: int, seed: int, kept: Progress | None = None) -> Learning:
    """Train a network on the errors of its proposals.

    Args:
        network: the network.
        iterations: number of iterations, of ``STEPS`` steps each, including those of an interrupted run.
        seed: seed of the targets.
        kept: saves the progress; None saves nothing.

    Returns:
        the training, with the figures of :func:`measure`.
    """
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    total = max(1, STEPS * iterations)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / (WARM_UP * total), 0.5 * (1.0 + math.cos(math.pi * step / total)))
    )
    unseen = draw_targets(network.reachable, CHECKED, seed, -1)

    def loss_of(step: int) -> torch.Tensor:
        return loss(network, *draw_targets(network.reachable, BATCH, seed, step))

    return learn(
        network,
        optimiser,
        loss_of,
        lambda: measure(network, *unseen),
        iterations,
        kept,
        scheduler=scheduler,
        steps=STEPS,
    )


def loss(network: PoseNetwork, position: torch.Tensor, quaternion: torch.Tensor) -> torch.Tensor:
    """Compute pose errors of the best proposals, plus those after each pass, in units of the goal."""
    reachable = network.reachable
    q = network(position, quaternion)
    missing = reachable.missing(q, position[:, None], quaternion[:, None])
    total, best = badness(*lengths(missing)).min(1)
    q, missing = (x.take_along_dim(best[:, None, None], 1)[:, 0] for x in (q, missing))
    for _ in range(TRAINED):
        q = network.improve(q, missing)
        missing = reachable.missing(q, position, quaternion)
        total = total + badness(*lengths(missing))
    return total.mean()


def draw_targets(reachable: Reachable, count: int, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw targets of a training step. Step -1 gives targets that no training step uses."""
    return reachable.poses(reachable.draw(count, torch.Generator().manual_seed(1_000_000 * seed + step + 1)))


def badness(distance: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Combine distance and angle into one number, in units of the goal."""
    return distance / GOAL[0] + angle / GOAL[1]


def lengths(missing: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distance [...] [m] and angle [...] [rad] of pose errors [..., 6]."""
    return missing[..., 3:].norm(dim=-1), missing[..., :3].norm(dim=-1)


def measure(network: PoseNetwork, position: torch.Tensor, quaternion: torch.Tensor) -> dict[str, float]:
    """Measure mean distance [mm] and angle [degrees] of the best proposals, and of the answers."""
    figures = {}
    for name, passes in (("proposed ", 0), ("", PASSES)):
        _, distance, angle = answer(network, position, quaternion, passes)
        figures[f"{name}mm"] = 1e3 * float(distance.mean())
        figures[f"{name}degrees"] = math.degrees(float(angle.mean()))
    return figures


# ---- evaluation -------------------------------------------------------------------------------------------------

Answers = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@torch.no_grad()
def answer(network: PoseNetwork, position: torch.Tensor, quaternion: torch.Tensor, passes: int = PASSES) -> Answers:
    """Return the network's answers for targets.

    Args:
        network: the network.
        position: positions of the targets [targets, 3] [m].
        quaternion: quaternions xyzw of the targets [targets, 4].
        passes: number of passes that refine each proposal.

    Returns:
        coordinates [targets, nq], distances [targets] [m] and angles [targets] [rad] of the best results.
    """
    target = position[:, None], quaternion[:, None]
    q = network(position, quaternion)
    missing = network.reachable.missing(q, *target)
    for _ in range(passes):
        q = network.improve(q, missing)
        missing = network.reachable.missing(q, *target)
    return nearest(q, *lengths(missing))


def nearest(q: torch.Tensor, distance: torch.Tensor, angle: torch.Tensor) -> Answers:
    """Choose the best of several coordinates for each target [targets, number, ...]."""
    best = badness(distance, angle).argmin(1, keepdim=True)
    distance, angle = (x.take_along_dim(best, 1)[:, 0] for x in (distance, angle))
    return q.take_along_dim(best[..., None], 1)[:, 0], distance, angle


def by_jacobian(
    reachable: Reachable, starts: torch.Tensor, position: torch.Tensor, quaternion: torch.Tensor, steps: int
) -> Answers:
    """Return answers by steps of damped least squares from coordinates [targets, number, nq]."""
    found = reachable.robot.inverse_kinematics(
        reachable.frame, position[:, None], quaternion[:, None], start=starts, restarts=1, iterations=steps
    )
    return nearest(found.q, found.position_error, found.rotation_error)


@torch.no_grad()
def compare(network: PoseNetwork, count: int, seed: int) -> list[Errors]:
    """Compare errors of the network after each number of passes, and of other methods, on unseen targets."""
    reachable = network.reachable
    target = draw_targets(reachable, count, seed, -1)
    guesses = reachable.draw(count * network.proposals, torch.Generator().manual_seed(seed))
    guesses = guesses.unflatten(0, (count, network.proposals))

    def without_network() -> Answers:
        found = reachable.robot.inverse_kinematics(reachable.frame, *target)
        return found.q, found.position_error, found.rotation_error

    def ask(passes: int) -> Callable[[], Answers]:
        return lambda: answer(network, *target, passes)

    return [
        *(timed(method_name(passes), ask(passes)) for passes in range(PASSES + 1)),
        timed(
            f"proposals and {PASSES} Jacobian steps",
            lambda: by_jacobian(reachable, network(*target), *target, PASSES),
        ),
        timed(
            f"random coordinates and {PASSES} Jacobian steps", lambda: by_jacobian(reachable, guesses, *target, PASSES)
        ),
        timed("inverse kinematics, 8 starts, up to 100 steps", without_network),
    ]


def method_name(passes: int) -> str:
    """Return the name of the network's answers after a number of passes."""
    return f"network, {passes} pass{'' if passes == 1 else 'es'}" if passes else "network, proposals"


def timed(method: str, call: Callable[[], Answers]) -> Errors:
    """Return errors and time of a method. A first call, which may compile kernels, is not timed."""
    call()
    start = time.perf_counter()
    _, distance, angle = (x.cpu().numpy() for x in call())
    return Errors(method, distance, angle, (time.perf_counter() - start) / len(distance))


# ---- the command line --------------------------------------------------------------------------------------------


@command
def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options).float()
    frame = options.frame or FRAMES.get(options.robot.stem)
    if frame is None:
        parser.error(f"--frame is required; the frames of {options.robot} are {', '.join(robot.frame_names)}")
    try:
        reachable = Reachable(robot, frame)
    except sim.ModelError as error:
        parser.error(f"--frame {frame}: {error}")
    torch.manual_seed(options.seed)
    network = PoseNetwork(reachable, options.proposals)
    untrained = copy.deepcopy(network)
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{len(reachable.moving)} joints move '{frame}'; {options.proposals} proposals, {size} parameters to learn")
    problem = {name: str(getattr(options, name)) for name in ("robot", "iterations", "proposals", "seed")}
    with Progress(options.out / "interrupted.npz", problem | {"frame": frame}, options.restart) as kept:
        learning = train(network, options.iterations, options.seed, kept)
        methods = compare(network, HELD_OUT, options.seed)
        print(f"{HELD_OUT} unseen targets\n{HEADER}\n" + "\n".join(method.row for method in methods))
        best = methods[PASSES]
        distance, angle = best.means
        print(
            f"{verdict(distance < GOAL[0] and angle < GOAL[1], learning)}: {best.method}, {1e3 * distance:.2f} mm and "
            f"{math.degrees(angle):.2f} degrees mean error"
        )
        files = write(options.out, network, learning, methods)
        files += show(options, {GREY: untrained, BLUE: network})
        print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


def write(out: Path, network: PoseNetwork, learning: Learning, methods: Sequence[Errors]) -> list[Path]:
    """Write the curves, the errors and the network's parameters."""
    files = [out / name for name in ("loss.png", "reach.npz", "network.pt")]
    with plot(files[0], columns=2) as panels:
        goals = (("distance", "mm", 1e3 * GOAL[0], " mm"), ("angle", "degrees", math.degrees(GOAL[1]), "°"))
        for axes, (name, unit, goal, sign) in zip(panels, goals, strict=True):
            axes.semilogy(learning[f"proposed {unit}"], color=GREY, label="proposals")
            axes.semilogy(learning[unit], color=BLUE, label=f"after {PASSES} passes")
            axes.axhline(goal, color=RED, linewidth=1.0, linestyle="--", label=f"goal: {goal:g}{sign}")
            axes.set_xlabel(f"iteration, each {STEPS} steps of {BATCH} targets")
            axes.set_ylabel(f"mean {name} from unseen targets [{unit}]")
            axes.legend()
    errors = {
        f"{kind}_{k}": getattr(method, kind) for k, method in enumerate(methods) for kind in ("distance", "angle")
    }
    write_arrays(
        files[1],
        names=learning.names,
        figures=learning.figures,
        methods=[method.method for method in methods],
        **errors,
    )
    write_network(files[2], network)
    return files


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/reach", iterations=60)
    add_robot_option(parser)
    parser.add_argument("--frame", help="frame to move to the targets (default: the hand, for the two known robots)")
    parser.add_argument("--proposals", type=int, default=8, help="number of proposals per target (8)")
    options = parse_example(parser, counts=["proposals"])
    if not options.proposals:
        parser.error("--proposals must be at least 1")
    make_folder(options.out)
    return parser, options


# ---- animation --------------------------------------------------------------------------------------------------


@torch.no_grad()
def show(options: argparse.Namespace, networks: dict[str, PoseNetwork]) -> list[Path]:
    """Write an animation in which robots move from target to target with the answers of networks, by colour."""
    reachable = next(iter(networks.values())).reachable
    robot, frame = reachable.robot, reachable.frame
    goals = reachable.draw(SHOWN_FROM, torch.Generator().manual_seed(options.seed))
    ends = pointer(robot, goals, frame)
    chosen = (ends[:, 2] > LOWEST).nonzero()[:SHOWN, 0]
    position, quaternion = (x[chosen] for x in reachable.poses(goals))
    ball = ends[chosen].repeat_interleave(GO_FRAMES + STAY_FRAMES, 0)
    arms = []
    for color, network in networks.items():
        q, _, _ = answer(network, position, quaternion)
        arms.append(Arm(color, robot, visit(torch.cat([robot.initial_coordinates()[None], q])), ball))
    return write_arms(options, "reach", arms, frame, SHOWN_DT)


def visit(stops: torch.Tensor) -> torch.Tensor:
    """Generate a motion from the first to all other coordinates [places, nq], with a stop at each: [frames, nq].

    Between stops the coordinates are minimum-jerk polynomials of time (Flash and Hogan 1985).
    """
    time = torch.linspace(0.0, 1.0, GO_FRAMES + 1).to(stops)[1:, None]
    done = torch.cat([time**3 * (10.0 - 15.0 * time + 6.0 * time**2), time.new_ones(STAY_FRAMES, 1)])
    return (stops[:-1, None] + done * stops.diff(dim=0)[:, None]).flatten(0, 1)


if __name__ == "__main__":
    main()
