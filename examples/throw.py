"""A robot arm learns to throw a ball at a target.

The unknowns are the torques of nine motors at each of a thousand steps, at first those that hold the arm still. Each
iteration simulates the throw, walks back through it for the derivative of the ball's last position in all torques, and
takes a damped Gauss-Newton step. A ball that comes down too early lies on the ground and tells nothing of the height
that it lacks: there its flight is continued through the ground. It ends when the ball comes within 1 cm of the target;
Ctrl-C ends it sooner and keeps the best throw so far; the same command then goes on from there.

    python -m examples.throw
    python -m examples.throw --target 1.4 0.2 0.5 --out out/mine
    python -m examples.throw --random-targets 10

Files: loss.png, the distance over the iterations; throw.gif, half as fast as life; throw.usda, for any USD viewer; and
throw.npz with the best throw's tau [steps, nv], q [steps + 1, nq], qd [steps + 1, nv], all distances, target and dt.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

import sim
from examples.options import example_parser, make_folder, parse_example
from examples.outputs import write_curve, write_motion
from examples.resume import Progress
from scenes import throw
from sim.render import Marker

GOAL = 0.01  # distance at which the throw counts as a hit [m]
LONGEST_STEP = 0.4  # how far one iteration tries to move the ball's last position [m]
ON_THE_GROUND = 0.002  # height of the ball above the ground below which it has come down [m]
DAMPING = 1e-6  # of the Gauss-Newton step, relative to the size of its matrix
TARGET_COLOR = (0.10, 0.62, 0.28)


@dataclass(frozen=True)
class Result:
    """A finished optimisation.

    Attributes:
        tau: torques of the best throw [steps, nv]; those of the ball are zero.
        q: its coordinates [steps + 1, nq].
        qd: its velocities [steps + 1, nv].
        distances: of the ball from the target, at every iteration [m].
        seconds: time taken.
    """

    tau: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    distances: list[float]
    seconds: float

    @property
    def hit(self) -> bool:
        """Whether the best throw reached the target."""
        return min(self.distances) < GOAL

    def __str__(self) -> str:
        verdict = "hit" if self.hit else "missed"
        iterations = len(self.distances) - 1
        return (
            f"{verdict}: {100.0 * min(self.distances):.2f} cm off after {iterations} iterations, {self.seconds:.1f} s"
        )


def optimise(
    scene: throw.ThrowScene, iterations: int, device: str | None, kept: Progress | None = None, bar: bool = True
) -> Result:
    """Find torques that bring the ball to the target.

    Three worlds make the same throw, so that one backward pass gives the derivatives of all three coordinates of the
    ball.

    Args:
        scene: the scene.
        iterations: at most so many, those of an interrupted run included.
        device: Warp device.
        kept: where the optimisation keeps how far it is; None keeps nothing.
        bar: whether to show a progress bar.
    """
    kept = Progress(None, {}) if kept is None else kept
    model, ball, motors = scene.model, scene.ball_position, scene.model.qd_slice(scene.arm)
    simulator = sim.Simulator(model, scene.dt, num_worlds=3, device=device)
    state = simulator.state(scene.q0, scene.qd0)
    # Motors share the work in proportion to their strength.
    strength = model.effort_limit[motors] ** 2

    tau = np.tile(scene.hold, (scene.steps, 1))
    distances: list[float] = []
    start = time.perf_counter()
    before = kept.load()
    if before is not None:
        tau, distances, best = before["tau"], list(before["distances"]), (before["best"], before["q"], before["qd"])
        start -= float(before["seconds"])
    with tqdm(
        total=iterations, initial=len(distances), desc="optimising", unit="iteration", disable=not bar
    ) as progress:
        progress.set_postfix_str("compiling kernels, unless that was done before")
        try:
            for iteration in range(len(distances), iterations + 1):
                trajectory = simulator.rollout(state, tau)
                q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
                distance = float(np.linalg.norm(scene.target - q[-1, ball]))
                if not np.isfinite(distance):
                    break  # torques that no arm survives; the best throw stands
                distances.append(distance)
                if distance == min(distances):
                    best = (tau.copy(), q, qd)
                progress.set_postfix_str(f"distance {100.0 * distance:.1f} cm")
                if distance < GOAL or iteration == iterations:
                    kept.done()
                    break
                end, *seeds = flight(scene, q, qd)
                tau_gradient = trajectory.backward(*seeds).tau
                assert tau_gradient is not None, "the rollout has torques"
                jacobian = tau_gradient.numpy()[:, :, motors].astype(np.float64)
                tau[:, motors] += gauss_newton_step(jacobian, strength, scene.target - end)
                kept.save(
                    tau=tau, distances=distances, best=best[0], q=best[1], qd=best[2],
                    seconds=time.perf_counter() - start,
                )  # fmt: skip
                progress.update()
        except KeyboardInterrupt:
            if not distances:
                raise
        progress.total = progress.n  # a hit ends the bar
    return Result(*best, distances, time.perf_counter() - start)


def flight(scene: throw.ThrowScene, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the ball would be at the end without the ground, and the derivatives of that in the states.

    Args:
        scene: the scene.
        q: coordinates of a throw [steps + 1, nq].
        qd: its velocities [steps + 1, nv].

    Returns:
        the position [3], and its derivatives in q [steps + 1, 3, nq] and qd [steps + 1, 3, nv], one row per coordinate.
    """
    model, ball = scene.model, scene.ball_position
    velocity = slice(model.qd_slice(scene.ball).start, model.qd_slice(scene.ball).start + 3)
    down = np.flatnonzero(q[:, ball.stop - 1] < throw.BALL_RADIUS + ON_THE_GROUND)
    last = max(down[0] - 1, 0) if down.size else scene.steps
    more = scene.steps - last
    fall = 0.5 * more * (more + 1) * scene.dt**2 * model.parameters["gravity"]
    end = q[last, ball] + more * scene.dt * qd[last, velocity] + fall
    q_seed, qd_seed = np.zeros((len(q), 3, model.nq)), np.zeros((len(q), 3, model.nv))
    q_seed[last, range(3), range(ball.start, ball.stop)] = 1.0
    qd_seed[last, range(3), range(velocity.start, velocity.stop)] = more * scene.dt
    return end, q_seed, qd_seed


def gauss_newton_step(jacobian: np.ndarray, strength: np.ndarray, miss: np.ndarray) -> np.ndarray:
    """Smallest change of torques [steps, motors], weighted by strength, that moves the ball along ``miss`` to first
    order.

    Args:
        jacobian: derivative of the ball's last position in the torques [steps, 3, motors].
        strength: weight of each motor.
        miss: from the ball to the target [3], shortened to what a linear model can be trusted with.
    """
    step = miss * min(1.0, LONGEST_STEP / float(np.linalg.norm(miss)))
    matrix = np.einsum("tim,tjm,m->ij", jacobian, jacobian, strength)
    multipliers = np.linalg.solve(matrix + DAMPING * np.trace(matrix) * np.eye(3), step)
    return np.einsum("i,tim,m->tm", multipliers, jacobian, strength)


def main() -> None:
    options = parse()
    if options.random_targets:
        throw_at_random(options)
        return
    target = options.target if options.target is not None else throw.random_targets(options.seed, 1)[0]
    scene = throw.build(tuple(target))
    print(f"target: {np.round(scene.target, 3)} m, {scene.steps} steps of {1000.0 * scene.dt:g} ms, 9 motors")
    problem = {"target": scene.target, "steps": scene.steps, "dt": scene.dt}
    kept = Progress(options.out / "interrupted.npz", problem, options.restart)
    result = optimise(scene, options.iterations, options.device, kept)
    print(result)
    if not result.hit:
        print("more --iterations may help, if a ball thrown from the arm can be there after a second")
    write(options, scene, result)


def write(options: argparse.Namespace, scene: throw.ThrowScene, result: Result) -> None:
    out: Path = options.out
    numbers, curve = out / "throw.npz", out / "loss.png"
    np.savez(
        numbers, tau=result.tau, q=result.q, qd=result.qd, distances=result.distances, target=scene.target, dt=scene.dt
    )
    write_curve(curve, result.distances, GOAL, "Throwing a ball at a target")
    # A little smaller than the ball, which hides it when it hits.
    marker = Marker("target", tuple(scene.target), radius=0.9 * throw.BALL_RADIUS, color=TARGET_COLOR)
    motion = write_motion(
        out, "throw", scene.model, result.q, scene.dt, markers=[marker], trail_of=scene.ball_link,
        animation=not options.no_render, device=options.device,
    )  # fmt: skip
    print(f"wrote {', '.join(path.name for path in (curve, numbers, *motion))} to {out}")


def throw_at_random(options: argparse.Namespace) -> None:
    """Throw at random targets and say how many were hit."""
    hits = 0
    targets = throw.random_targets(options.seed, options.random_targets)
    for number, target in enumerate(targets):
        result = optimise(throw.build(tuple(target)), options.iterations, options.device, bar=False)
        hits += result.hit
        print(f"{number + 1:3d}  target {np.round(target, 2)}  {result}", flush=True)
    print(f"{hits} of {len(targets)} targets hit within {options.iterations} iterations")


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/throw", iterations=50)
    parser.add_argument(
        "--target", type=float, nargs=3, metavar=("X", "Y", "Z"),
        help="where the ball should be at the end [m]; drawn with --seed where it is not given",
    )  # fmt: skip
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try so many random targets, write nothing"
    )
    options = parse_example(parser, counts=["random_targets"], finite=["target"])
    if not options.random_targets:
        make_folder(parser, options.out)
    return options


if __name__ == "__main__":
    main()
