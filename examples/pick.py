"""An arm learns to carry a box to a target, held by friction.

The unknowns are the angles of four joints and the positions of two fingers at eleven times within two seconds, with
straight lines between them. The first guess closes the fingers, lifts the box, and sets it down where it was. Gradients
pass through grip, carry and release. The search ends when the box lies within 5 mm of the target, flat and at rest, and
the fingers are off it. Ctrl-C ends the search sooner and keeps the best so far; the same command then resumes it. With
--cmaes 20 random targets are searched for by CMA-ES too, with 20 times as many rollouts.

    python -m examples.pick
    python -m examples.pick --target 0.2 0.3 --out out/mine
    python -m examples.pick --random-targets 10 --cmaes 1

Files: loss.png, the distance over the iterations; pick.gif; pick.usda; and pick.npz with the best controls
[steps, 6], q [steps + 1, nq], qd [steps + 1, nv], all distances, target and dt.
"""

import argparse

import numpy as np
import torch

import sim
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.search import resumed_gradient
from scenes import pick
from sim import optimise
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.005  # distance at which the box counts as at the target; tilts and speeds are weighted as below [m]
TILT = 0.1  # of a tilt of the box of 1 rad [m]
REST = 0.1  # weight of the last velocity, as distance [s]
LIFTED = 0.2  # of the missing height below LIFT half-way
RELEASED = 0.002  # gap between fingers and box at which the fingers count as released [m]
LONGEST_STEP = 0.1  # maximum intended motion of the box per iteration
SCALES = (0.3, 0.2, 0.2, 0.2, 0.01, 0.01)  # typical change of angles [rad] and finger positions [m]
TARGET_COLOR = (0.10, 0.62, 0.28)


def pick_problem(scene: pick.PickScene, device: str | None) -> optimise.Problem:
    """Make the optimisation problem."""

    def miss(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        return distances(scene, q, qd)[None]

    return optimise.Problem(
        sim.Simulator(scene.model, scene.dt, device=device), scene.steps,
        [optimise.LeastSquares(miss, longest=LONGEST_STEP)], controls=optimise.Knots(len(scene.guess), "linear"),
        q0=scene.q0, scale=SCALES,
    )  # fmt: skip


def optimise_pick(
    scene: pick.PickScene, iterations: int, device: str | None, kept: Progress, *, bar: bool = True
) -> optimise.Result:
    """Find servo commands that bring the box to the target.

    Args:
        scene: the scene.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress.
        bar: show a progress bar.
    """
    return resumed_gradient(
        pick_problem(scene, device), kept, scene.guess, iterations=iterations, patience=6, goal=GOAL, progress=bar,
        score=lambda motion: torch.linalg.norm(distances(scene, motion.q, motion.qd), dim=1),
    )  # fmt: skip


def without_gradients(scene: pick.PickScene, rollouts: int, device: str | None, seed: int) -> optimise.Result:
    """Solve by CMA-ES instead, with at most this many rollouts; its history is of distances too [m]."""
    problem = pick_problem(scene, device)
    population = 4 + int(3 * np.log(problem.size))
    found = optimise.cmaes(
        problem, scene.guess, iterations=max(rollouts // population, 1), population=population, seed=seed,
        goal=0.5 * GOAL**2,
    )  # fmt: skip
    found.history[:] = [float(np.sqrt(2.0 * cost)) for cost in found.history]
    return found


def distances(scene: pick.PickScene, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Compute the box's deviations from the target and from rest at the end, and from its height half-way [worlds, 9],
    m.

    Args:
        scene: the scene.
        q: coordinates of motions [steps + 1, worlds, nq].
        qd: velocities of the motions [steps + 1, worlds, nv].
    """
    first, rates = scene.model.q_slice(scene.box).start, scene.model.qd_slice(scene.box).start
    end = q[-1, :, first : first + 7]
    tilt = 2.0 * TILT * end[:, 3:5] * torch.sign(end[:, 6:])
    lacking = LIFTED * (pick.LIFT - q[len(q) // 2, :, first + 2 : first + 3]).clamp(min=0.0)
    return torch.cat(
        [end[:, :3] - torch.as_tensor(scene.target).to(q), tilt, REST * qd[-1, :, rates : rates + 3], lacking], dim=1
    )


def is_placed(scene: pick.PickScene, found: optimise.Result) -> bool:
    """Return True if the box lies at the target at the end, with the fingers released."""
    fingers = [found.q[-1, scene.model.q_slice(joint)][0] for joint in ("left", "right")]
    return found.history[-1] < GOAL and sum(fingers) > 2.0 * pick.HALF + RELEASED


@command
def main() -> None:
    options = parse()
    if options.random_targets:
        try_each(options)
        return
    target = options.target if options.target is not None else pick.random_targets(options.seed, 1)[0]
    scene = pick.build((target[0], target[1]))
    print(f"target: {np.round(scene.target[:2], 3)} m")
    with Progress(options.out / "interrupted.npz", {"target": scene.target}, options.restart) as kept:
        found = optimise_pick(scene, options.iterations, options.device, kept)
        print(in_words(scene, found))
        numbers = {"controls": found.controls, "q": found.q, "qd": found.qd, "distances": found.history,
                   "target": scene.target, "dt": scene.dt}  # fmt: skip
        x, y = (float(value) for value in scene.target[:2])
        first = scene.model.q_slice(scene.box).start
        write_result(
            options, "pick", "A box carried to a place", scene.model, numbers, goal=GOAL,
            markers=[Marker("target", (x, y, 0.0), radius=0.012, color=TARGET_COLOR)],
            trails=[Trail("path", found.q[:, first : first + 3])], azimuth=-35.0,
        )  # fmt: skip


def try_each(options: argparse.Namespace) -> None:
    """Solve for each of the random targets, and print the number of successes."""
    hits = 0
    for number, target in enumerate(pick.random_targets(options.seed, options.random_targets)):
        scene = pick.build((target[0], target[1]))
        found = optimise_pick(scene, options.iterations, options.device, Progress(None, {}), bar=False)
        hits += is_placed(scene, found)
        print(f"{number + 1:3d}  target {np.round(target, 2)}  {in_words(scene, found)}", flush=True)
        if options.cmaes:
            other = without_gradients(scene, options.cmaes * found.rollouts, options.device, options.seed)
            print(f"     CMA-ES: {1000.0 * other.history[-1]:.1f} mm off after {other.rollouts} rollouts", flush=True)
    print(f"{hits} of {options.random_targets} targets reached")


def in_words(scene: pick.PickScene, found: optimise.Result) -> str:
    """Describe the outcome of a search."""
    verdict = "reached" if is_placed(scene, found) else "missed"
    return (
        f"{verdict}: {1000.0 * found.history[-1]:.1f} mm off after {len(found.history) - 1} iterations, "
        f"{found.rollouts} rollouts, {found.seconds:.1f} s"
    )


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/pick", iterations=60)
    parser.add_argument(
        "--target", type=float, nargs=2, metavar=("X", "Y"),
        help="where the box should lie at the end [m] (default: random, from --seed)",
    )  # fmt: skip
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try this many random targets, write no files"
    )
    parser.add_argument(
        "--cmaes", type=int, default=0, metavar="TIMES",
        help="with --random-targets: compare with CMA-ES, with this many times as many rollouts",
    )  # fmt: skip
    options = parse_example(parser, counts=["random_targets", "cmaes"], finite=["target"])
    if not options.random_targets:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
