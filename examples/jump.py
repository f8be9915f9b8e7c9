"""A quadruped learns to jump onto a step.

The unknowns are the angles for its twelve servos at eleven times within a second, with straight lines between them. The
first guess is a crouch, a stretch of all legs and a landing in four poses: with it the robot jumps up and falls.
Gradients through take-off, flight and landing tell how to jump forward, how far and how to arrive upright. The search
ends when the robot stands within 2 cm of the target, at rest and with its legs below it. Then it continues to stand,
which isn't part of the search. Ctrl-C ends it sooner and keeps the best jump so far; the same command then resumes it.

    python -m examples.jump
    python -m examples.jump --height 0.2 --out out/higher
    python -m examples.jump --random-steps 10

Files: loss.png, the distance over the iterations; jump.gif; jump.usda; and jump.npz with the best jump's controls
[steps, 12], q [steps + standing + 1, nq], qd [steps + standing + 1, nv], all distances, height and dt.
"""

import argparse

import numpy as np
import torch

import sim
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.search import resumed_gradient
from scenes import jump
from sim import optimise
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.02  # distance at which the robot counts as at the target; turns, angles and speeds are weighted as below [m]
TURN = 0.3  # of a turn of the base of 1 rad [m]
LEG = 0.1  # of an angle of the legs of 1 rad [m]
REST, TURNING = 0.05, 0.02  # of speeds of the base of 1 m/s and 1 rad/s [m]
LONGEST_STEP = 0.2  # maximum intended change of any of these per iteration [m]
SCALE = 0.3  # typical change of the servos' angles [rad]
TARGET_COLOR = (0.10, 0.62, 0.28)


def optimise_jump(
    scene: jump.JumpScene, iterations: int, device: str | None, kept: Progress, *, bar: bool = True
) -> optimise.Result:
    """Find angles for the servos with which the robot lands on the step.

    Args:
        scene: the scene.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress.
        bar: show a progress bar.
    """

    def miss(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        return distances(scene, q, qd)[None]

    problem = optimise.Problem(
        sim.Simulator(scene.model, scene.dt, device=device), scene.steps,
        [optimise.LeastSquares(miss, longest=LONGEST_STEP)], controls=optimise.Knots(jump.KNOTS, "linear"),
        q0=scene.q0, limits=(jump.LOWEST, jump.HIGHEST), scale=SCALE,
    )  # fmt: skip
    return resumed_gradient(
        problem, kept, scene.guess, iterations=iterations, patience=6, goal=GOAL, progress=bar,
        score=lambda motion: torch.linalg.norm(distances(scene, motion.q, motion.qd), dim=1),
    )  # fmt: skip


def distances(scene: jump.JumpScene, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Compute the robot's deviations from standing at rest at the target at the end [worlds, 24], m.

    Args:
        scene: the scene.
        q: coordinates of jumps [steps + 1, worlds, nq].
        qd: velocities of the jumps [steps + 1, worlds, nv].
    """
    position, turn, legs = q[-1, :, :3], q[-1, :, 3:7], q[-1, :, 7:]
    upright = 2.0 * TURN * turn[:, :3] * torch.sign(turn[:, 3:])
    away, bent = (torch.as_tensor(value).to(q) for value in (scene.target, scene.standing))
    moving = [REST * qd[-1, :, :3], TURNING * qd[-1, :, 3:6]]
    return torch.cat([position - away, upright, *moving, LEG * (legs - bent)], dim=1)


def stand_on(scene: jump.JumpScene, found: optimise.Result, device: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the jump and then all servos holding the stance: q [steps + standing + 1, nq] and qd [..., nv]."""
    simulator = sim.Simulator(scene.model, scene.dt, device=device)
    still = np.tile(scene.standing, (jump.STANDING, 1, 1))
    after = simulator.rollout(simulator.state(found.q[-1], found.qd[-1]), control=still)
    q, qd = after.q.numpy()[1:, 0], after.qd.numpy()[1:, 0]
    return np.concatenate([found.q, q]), np.concatenate([found.qd, qd])


def stands(scene: jump.JumpScene, q: np.ndarray) -> bool:
    """Return True if the robot with coordinates [nq] stands on the step: at its height, within 3 cm, and upright."""
    return bool(abs(q[2] - scene.target[2]) < 0.03 and np.linalg.norm(q[3:6]) < 0.1)


@command
def main() -> None:
    options = parse()
    if options.random_steps:
        try_each(options)
        return
    scene = jump.build(options.height)
    print(f"a step of {100.0 * scene.height:.0f} cm, {100.0 * jump.GAP:.0f} cm ahead")
    with Progress(options.out / "interrupted.npz", {"height": scene.height}, options.restart) as kept:
        found = optimise_jump(scene, options.iterations, options.device, kept)
        q, qd = stand_on(scene, found, options.device)
        print(in_words(scene, found, q))
        numbers = {"controls": found.controls, "q": q, "qd": qd, "distances": found.history, "height": scene.height,
                   "dt": scene.dt}  # fmt: skip
        x, y, z = (float(value) for value in scene.target)
        write_result(
            options, "jump", "A jump onto a step", scene.model, numbers, goal=GOAL,
            markers=[Marker("target", (x, y, z), radius=0.03, color=TARGET_COLOR)],
            trails=[Trail("path", q[:, :3])], azimuth=-75.0,
        )  # fmt: skip


def try_each(options: argparse.Namespace) -> None:
    """Jump onto each of the random steps, and print the number of successes."""
    hits = 0
    for number, height in enumerate(jump.random_heights(options.seed, options.random_steps)):
        scene = jump.build(float(height))
        found = optimise_jump(scene, options.iterations, options.device, Progress(None, {}), bar=False)
        q, _ = stand_on(scene, found, options.device)
        hits += found.history[-1] < GOAL and stands(scene, q[-1])
        print(f"{number + 1:3d}  step of {100.0 * height:4.1f} cm  {in_words(scene, found, q)}", flush=True)
    print(f"{hits} of {options.random_steps} steps reached")


def in_words(scene: jump.JumpScene, found: optimise.Result, q: np.ndarray) -> str:
    """Describe the outcome of a search, and of the robot at the end of q [steps + 1, nq]."""
    verdict = "reached" if found.history[-1] < GOAL else "missed"
    later = "it stands there" if stands(scene, q[-1]) else "it falls"
    return (
        f"{verdict}: {100.0 * found.history[-1]:.1f} cm off after {len(found.history) - 1} iterations, "
        f"{found.seconds:.1f} s; half a second later {later}"
    )


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/jump", iterations=80)
    parser.add_argument("--height", type=float, default=jump.HEIGHT, help=f"of the step [m] ({jump.HEIGHT})")
    parser.add_argument(
        "--random-steps", type=int, default=0, metavar="COUNT", help="try this many random steps, write no files"
    )
    options = parse_example(parser, counts=["random_steps"], finite=["height"])
    if options.height <= 0.0:
        parser.error("--height must be positive")
    if not options.random_steps:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
