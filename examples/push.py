"""A pusher that has never touched a box learns to push it to a pose.

The unknowns are two forces on the pusher, at twelve times of one and a half seconds, with straight lines between them.
At first they are zero: the pusher stands 8 cm behind the box, and how the box ends doesn't depend on them. The exact
gradient is zero and leads nowhere. Smoothed over 5 cm (docs/gradients.md) it draws the pusher closer. The search ends
when the box lies within 5 mm and about 1 degree of the target. With --exact nothing is smoothed, and the box doesn't
move. Ctrl-C ends it sooner and keeps the best push so far; the same command then resumes it.

    python -m examples.push
    python -m examples.push --target 0.4 -0.05 0.3 --out out/mine
    python -m examples.push --random-targets 10

Files: loss.png, the distance over the iterations; push.gif; push.usda; and push.npz with the best push's controls
[steps, 2], q [steps + 1, nq], qd [steps + 1, nv], all distances, target and dt.
"""

import argparse

import numpy as np
import torch

import sim
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.search import resumed_gradient
from scenes import push
from sim import optimise
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.005  # distance at which the box counts as at the target; a turn of 1 rad counts as TURN [m]
TURN = 0.2
REST = 0.1  # weight of the last velocity, as distance [s]
LONGEST_STEP = 0.15  # maximum intended motion of the box per iteration
SMOOTHING = 0.05  # distance over which gradients are smoothed [m]
# Relative changes of 1e-6 in the forces move some pushes by centimetres: single precision can't reproduce a motion.
DTYPE = "float64"
REACH = 0.3  # distance up to which contacts have a smoothed gradient [m]
KNOTS = 12
TARGET_COLOR = (0.10, 0.62, 0.28)


def optimise_push(
    scene: push.PushScene, iterations: int, device: str | None, kept: Progress, *, exact: bool = False, bar: bool = True
) -> optimise.Result:
    """Find forces that push the box to the target.

    Args:
        scene: the scene.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress.
        exact: without smoothing.
        bar: show a progress bar.
    """
    contact = sim.HardContact() if exact else sim.HardContact(gradient_smoothing=SMOOTHING, margin=REACH)
    simulator = sim.Simulator(scene.model, scene.dt, device=device, contact=contact)

    def miss(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        return distances(scene, q, qd)[None]

    problem = optimise.Problem(
        simulator, scene.steps, [optimise.LeastSquares(miss, longest=LONGEST_STEP)],
        controls=optimise.Knots(KNOTS, "linear"), q0=scene.q0, joints=scene.rails,
    )  # fmt: skip
    return resumed_gradient(
        problem, kept, iterations=iterations, patience=4, goal=GOAL, progress=bar,
        score=lambda motion: torch.linalg.norm(distances(scene, motion.q, motion.qd), dim=1),
    )  # fmt: skip


def distances(scene: push.PushScene, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Compute the box's deviations from the target and from rest at the end [worlds, 6], m.

    Args:
        scene: the scene.
        q: coordinates of pushes [steps + 1, worlds, nq].
        qd: velocities of the pushes [steps + 1, worlds, nv].
    """
    first, rates = scene.model.q_slice(scene.box).start, scene.model.qd_slice(scene.box).start
    turn = 2.0 * torch.atan2(q[-1, :, first + 5], q[-1, :, first + 6])
    pose = torch.stack([q[-1, :, first], q[-1, :, first + 1], TURN * turn], dim=1)
    unit = q.new_tensor([1.0, 1.0, TURN])
    moving = REST * unit * qd[-1][:, [rates, rates + 1, rates + 5]]
    return torch.cat([pose - unit * torch.as_tensor(scene.target).to(q), moving], dim=1)


@command
def main() -> None:
    options = parse()
    if options.random_targets:
        try_each(options)
        return
    target = options.target if options.target is not None else push.random_targets(options.seed, 1)[0]
    scene = push.build((target[0], target[1], target[2]), DTYPE)
    print(f"target: {np.round(scene.target[:2], 3)} m, turned by {np.degrees(scene.target[2]):.1f} degrees")
    problem = {"target": scene.target, "exact": options.exact}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        found = optimise_push(scene, options.iterations, options.device, kept, exact=options.exact)
        print(in_words(found))
        numbers = {"controls": found.controls, "q": found.q, "qd": found.qd, "distances": found.history,
                   "target": scene.target, "dt": scene.dt}  # fmt: skip
        mark = (float(scene.target[0]), float(scene.target[1]), 2.0 * push.HALF_EXTENTS[2])
        first = scene.model.q_slice(scene.box).start
        write_result(
            options, "push", "A box pushed to a place", scene.model, numbers, goal=GOAL,
            markers=[Marker("target", mark, radius=0.015, color=TARGET_COLOR)],
            trails=[Trail("path", found.q[:, first : first + 3])], azimuth=-125.0, elevation=38.0,
        )  # fmt: skip


def try_each(options: argparse.Namespace) -> None:
    """Solve for each of the random targets, and print the number of successes."""
    hits = 0
    for number, target in enumerate(push.random_targets(options.seed, options.random_targets)):
        scene = push.build((target[0], target[1], target[2]), DTYPE)
        found = optimise_push(
            scene, options.iterations, options.device, Progress(None, {}), exact=options.exact, bar=False
        )
        hits += found.history[-1] < GOAL
        print(f"{number + 1:3d}  target {np.round(target, 2)}  {in_words(found)}", flush=True)
    print(f"{hits} of {options.random_targets} targets reached")


def in_words(found: optimise.Result) -> str:
    """Describe the outcome of a search."""
    verdict = "reached" if found.history[-1] < GOAL else "missed"
    return (
        f"{verdict}: {1000.0 * found.history[-1]:.1f} mm off after {len(found.history) - 1} iterations, "
        f"{found.seconds:.1f} s"
    )


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/push", iterations=60)
    parser.add_argument(
        "--target", type=float, nargs=3, metavar=("X", "Y", "TURN"),
        help="where the box should lie at the end [m], and its turn [rad] (default: random, from --seed)",
    )  # fmt: skip
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try this many random targets, write no files"
    )
    parser.add_argument("--exact", action="store_true", help="without smoothing: the search doesn't move")
    options = parse_example(parser, counts=["random_targets"], finite=["target"])
    if not options.random_targets:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
