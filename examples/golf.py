"""A golfer's linkage learns to hit a ball so that it comes to rest at a target.

The unknowns are the torques of three motors at each of two thousand steps. They are initially zero, so that gravity
swings the club. Each iteration simulates the shot: swing, flight, and the ball rolling out in the grass. A backward
pass gives the derivative of the ball's final position with respect to all torques, for a damped Gauss-Newton step. The
optimisation ends when the ball lies within 1 cm of the target. Ctrl-C ends it sooner and keeps the best shot so far;
the same command then resumes it.

    python -m examples.golf
    python -m examples.golf --target 4 -0.5 --out out/mine
    python -m examples.golf --random-targets 10

Files: loss.png, the distance over the iterations; golf.gif; golf.usda; and golf.npz with the best shot's tau [steps,
nv], q [steps + 1, nq], qd [steps + 1, nv], all distances, target and dt.
"""

import argparse

import numpy as np

from examples import torques
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.torques import Result, Task
from scenes import golf
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.01  # distance at which the shot counts as a hit [m]
LONGEST_STEP = 1.0  # maximum intended motion of the ball's final position per iteration [m]
TARGET_COLOR = (0.80, 0.20, 0.16)


def optimise(
    scene: golf.GolfScene, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the ball to rest at the target; see :func:`examples.torques.reach`."""
    model, ball = scene.model, scene.ball_position
    task = Task(
        model, scene.dt, scene.q0, scene.qd0, np.zeros((scene.steps, model.nv)), scene.golfer, ball, scene.target, GOAL,
        LONGEST_STEP,
    )  # fmt: skip
    return torques.reach(task, lambda q, qd: q[-1, :, ball.start : ball.start + 2], iterations, device, kept, bar)


@command
def main() -> None:
    options = parse()
    if options.random_targets:
        targets = golf.random_targets(options.seed, options.random_targets)
        torques.try_each(
            targets, lambda at: optimise(golf.build(tuple(at)), options.iterations, options.device, bar=False)
        )
        return
    target = options.target if options.target is not None else golf.random_targets(options.seed, 1)[0]
    scene = golf.build(tuple(target))
    print(f"target: {np.round(scene.target[:2], 3)} m, {scene.steps} steps of {1000.0 * scene.dt:g} ms, 3 motors")
    problem = {"target": scene.target, "steps": scene.steps, "dt": scene.dt}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        result = optimise(scene, options.iterations, options.device, kept)
        speed = float(np.linalg.norm(result.qd[-1, scene.model.qd_slice(scene.ball)][:3]))
        print(f"{result}; final speed of the ball {100.0 * speed:.2f} cm/s")
        marker = Marker("target", tuple(scene.target), radius=0.9 * golf.BALL_RADIUS, color=TARGET_COLOR)
        write_result(
            options, "golf", "A ball hit to rest at a target", scene.model, result.numbers(scene.target, scene.dt),
            goal=GOAL, markers=[marker], trails=[Trail("path", result.q[:, scene.ball_position])],
            azimuth=-140.0, elevation=18.0,
        )  # fmt: skip


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/golf", iterations=50)
    parser.add_argument(
        "--target", type=float, nargs=2, metavar=("X", "Y"),
        help="where the ball should lie at the end [m] (default: random, from --seed)",
    )  # fmt: skip
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try this many random targets, write no files"
    )
    options = parse_example(parser, counts=["random_targets"], finite=["target"])
    if not options.random_targets:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
