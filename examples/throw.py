"""A robot arm learns to throw a ball at a target.

The unknowns are the torques of nine motors at each of a thousand steps. The initial torques hold the arm still for half
a second, then bend the wrist, and the ball drops. Each iteration simulates the throw, computes the derivative of the
ball's final position with respect to all torques in a backward pass, and takes a damped Gauss-Newton step. A ball that
lands too early lies on the ground, and its position carries no information about the missing height. Its flight is then
extrapolated through the ground. The optimisation ends when the ball comes within 1 cm of the target. Ctrl-C ends it
sooner and keeps the best throw so far; the same command then resumes it.

    python -m examples.throw
    python -m examples.throw --target 1.4 0.2 0.5 --out out/mine
    python -m examples.throw --random-targets 10
    python -m examples.throw --settle --target 1.5 0.2 0

With --settle the ball should come to rest at a target on the ground, after rolling out.

Files: loss.png, the distance over the iterations; throw.gif, at half speed; throw.usda, for any USD viewer; and
throw.npz with the best throw's tau [steps, nv], q [steps + 1, nq], qd [steps + 1, nv], all distances, target and dt.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from examples import torques
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.torques import Result, Task
from scenes import throw
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.01  # distance at which the throw counts as a hit [m]
LONGEST_STEP = 0.4  # maximum intended motion of the ball's final position per iteration [m]
LONGEST_SETTLING_STEP = 0.8  # the same for its rest position [m]
ON_THE_GROUND = 0.002  # height above the ground below which the ball counts as landed [m]
TARGET_COLOR = (0.10, 0.62, 0.28)


def optimise(
    scene: throw.ThrowScene, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the ball to the target; see :func:`examples.torques.reach`."""
    return torques.reach(
        task_of(scene, LONGEST_STEP), lambda q, qd: flight(scene, q, qd), iterations, device, kept, bar
    )


def settle(
    scene: throw.ThrowScene, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the ball to rest at the target on the ground."""
    position = slice(scene.ball_position.start, scene.ball_position.start + 2)
    return torques.reach(
        task_of(scene, LONGEST_SETTLING_STEP), lambda q, qd: q[-1, :, position], iterations, device, kept, bar
    )


def task_of(scene: throw.ThrowScene, longest_step: float) -> Task:
    """Return the task, starting from torques that let the ball drop."""
    return Task(
        scene.model, scene.dt, scene.q0, scene.qd0, scene.drop, scene.arm, scene.ball_position, scene.target, GOAL,
        longest_step,
    )  # fmt: skip


def flight(scene: throw.ThrowScene, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Compute the ball's final position without ground [worlds, 3], extrapolated from the last step before it lands.

    Args:
        scene: the scene.
        q: coordinates of throws [steps + 1, worlds, nq].
        qd: velocities of the throws [steps + 1, worlds, nv].
    """
    model, ball = scene.model, scene.ball_position
    velocity = slice(model.qd_slice(scene.ball).start, model.qd_slice(scene.ball).start + 3)
    down = q[:, :, ball.stop - 1] < throw.BALL_RADIUS + ON_THE_GROUND
    last = torch.where(down.any(0), down.byte().argmax(0) - 1, scene.steps).clamp(min=0)
    worlds, more = torch.arange(len(last), device=q.device), (scene.steps - last)[:, None].to(q)
    fall = 0.5 * more * (more + 1) * scene.dt**2 * torch.as_tensor(model.parameters["gravity"]).to(q)
    return q[last, worlds, ball] + more * scene.dt * qd[last, worlds, velocity] + fall


@command
def main() -> None:
    options = parse()
    draw = throw.random_positions if options.settle else throw.random_targets
    solve = settle if options.settle else optimise
    if options.random_targets:
        targets = draw(options.seed, options.random_targets)
        torques.try_each(targets, lambda at: solve(build(options, at), options.iterations, options.device, bar=False))
        return
    target = options.target if options.target is not None else draw(options.seed, 1)[0]
    scene = build(options, target)
    print(f"target: {np.round(scene.target, 3)} m, {scene.steps} steps of {1000.0 * scene.dt:g} ms, 9 motors")
    problem = {"target": scene.target, "steps": scene.steps, "dt": scene.dt}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        result = solve(scene, options.iterations, options.device, kept)
        print(result)
        if not result.hit:
            print("more --iterations may help, if a ball thrown by the arm can reach the target in time")
        # Slightly smaller than the ball, which hides it on a hit.
        marker = Marker("target", tuple(scene.target), radius=0.9 * throw.BALL_RADIUS, color=TARGET_COLOR)
        write_result(
            options, "throw", "Throwing a ball at a target", scene.model, result.numbers(scene.target, scene.dt),
            goal=GOAL, markers=[marker], trails=[Trail("path", result.q[:, scene.ball_position])],
        )  # fmt: skip


def build(options: argparse.Namespace, target: Sequence[float] | np.ndarray) -> throw.ThrowScene:
    """Build the scene of the command line, for a target [m] in the air, or on the ground at its x and y."""
    if options.settle:
        return throw.build_settling((target[0], target[1]))
    return throw.build((target[0], target[1], target[2]))


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/throw", iterations=50)
    parser.add_argument(
        "--target", type=float, nargs=3, metavar=("X", "Y", "Z"),
        help="where the ball should be at the end [m] (default: random, from --seed)",
    )  # fmt: skip
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try this many random targets, write no files"
    )
    parser.add_argument(
        "--settle", action="store_true", help="bring the ball to rest on the ground, at x and y of the target"
    )
    options = parse_example(parser, counts=["random_targets"], finite=["target"])
    if not options.random_targets:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
