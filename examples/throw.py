"""A robot arm learns to throw a ball at a target.

The unknowns are the torques of nine motors at each of a thousand steps, at first those that hold the arm still. Each
iteration
simulates the throw, walks back through it for the derivative of the ball's last position in all torques, and takes a
damped Gauss-Newton step.

python -m examples.throw
python -m examples.throw --target 1.4 0.2 0.5 --out out/mine
python -m examples.throw --random-targets 10 --no-render
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp as wp
from tqdm import tqdm

import sim
from examples.outputs import write_curve, write_motion
from scenes import throw
from sim.render import Marker

GOAL = 0.01  # distance at which the throw counts as a hit [m]
LONGEST_STEP = 0.4  # how far one iteration tries to move the ball's last position [m]
DAMPING = 1e-6  # of the Gauss-Newton step, relative to the size of its matrix


@dataclass(frozen=True)
class Result:
    """A finished optimisation: best torques [steps, nv], their coordinates [steps + 1, nq] and velocities, and the
    distance at every iteration.
    """

    tau: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    distances: list[float]
    seconds: float


def optimise(scene: throw.ThrowScene, iterations: int, device: str | None, progress: bool = True) -> Result:
    """Find torques that bring the ball to the target.

    Three worlds make the same throw, so that one backward pass gives the derivatives of all three coordinates of the
    ball.
    """
    model, ball, motors = scene.model, scene.ball_position, scene.model.qd_slice(scene.arm)
    simulator = sim.Simulator(model, scene.dt, num_worlds=3, device=device)
    state = simulator.state(scene.q0, scene.qd0)
    seed = np.zeros((3, model.nq))
    seed[range(3), range(ball.start, ball.stop)] = 1.0
    # Motors share the work in proportion to their strength.
    strength = model.effort_limit[motors] ** 2

    tau = np.tile(scene.hold, (scene.steps, 1))
    distances: list[float] = []
    start = time.perf_counter()
    with tqdm(total=iterations, desc="optimising", unit="iteration", disable=not progress) as bar:
        for iteration in range(iterations + 1):
            trajectory = simulator.rollout(state, tau)
            q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
            miss = scene.target - q[-1, ball]
            distances.append(float(np.linalg.norm(miss)))
            if distances[-1] == min(distances):
                best = (tau.copy(), q, qd)
            bar.set_postfix_str(f"distance {100.0 * distances[-1]:.1f} cm")
            if distances[-1] < GOAL or iteration == iterations:
                break
            tau_gradient = trajectory.backward(seed).tau
            assert tau_gradient is not None, "the rollout has torques"
            jacobian = tau_gradient.numpy()[:, :, motors].astype(np.float64)
            tau[:, motors] += gauss_newton_step(jacobian, strength, miss)
            bar.update()
    return Result(*best, distances, time.perf_counter() - start)


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
    wp.config.log_level = wp.LOG_WARNING
    if options.random_targets:
        many(options)
        return
    target = options.target if options.target is not None else throw.random_targets(options.seed, 1)[0]
    scene = throw.build(tuple(target))
    print(f"target: {np.round(scene.target, 3)} m, {scene.steps} steps of {1000.0 * scene.dt:g} ms, 9 motors")
    result = optimise(scene, options.iterations, options.device)
    report(result)
    write(options, scene, result)


def report(result: Result) -> None:
    best = min(result.distances)
    verdict = "hit" if best < GOAL else "missed"
    count = len(result.distances) - 1
    print(f"{verdict}: {100.0 * best:.2f} cm from the target after {count} iterations, {result.seconds:.1f} s")


def write(options: argparse.Namespace, scene: throw.ThrowScene, result: Result) -> None:
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    np.savez(
        out / "throw.npz", tau=result.tau, q=result.q, qd=result.qd, distances=result.distances, target=scene.target,
        dt=scene.dt,
    )  # fmt: skip
    write_curve(out / "loss.png", result.distances, GOAL, "Throwing a ball at a target")
    marker = Marker("target", tuple(scene.target), radius=0.035)
    write_motion(
        out, "throw", scene.model, result.q, scene.dt, markers=[marker], trail_of=scene.ball_link,
        animation=not options.no_render, device=options.device,
    )  # fmt: skip
    print(f"wrote {', '.join(sorted(path.name for path in out.iterdir()))} to {out}")


def many(options: argparse.Namespace) -> None:
    """Throw at random targets and say how many were hit."""
    hits = 0
    targets = throw.random_targets(options.seed, options.random_targets)
    for number, target in enumerate(targets):
        result = optimise(throw.build(tuple(target)), options.iterations, options.device, progress=False)
        hits += min(result.distances) < GOAL
        print(f"{number + 1:3d}  target {np.round(target, 2)}  ", end="", flush=True)
        report(result)
    print(f"{hits} of {len(targets)} targets hit within {options.iterations} iterations")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--target", type=float, nargs=3, metavar=("X", "Y", "Z"), help="where the ball should be at the end [m]"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the target where --target is not given (0)")
    parser.add_argument("--iterations", type=int, default=50, help="at most so many (50)")
    parser.add_argument(
        "--random-targets", type=int, default=0, metavar="COUNT", help="try so many random targets, write nothing"
    )
    parser.add_argument("--device", default=None, help='"cpu" or "cuda:0"; Warp\'s default if left out')
    parser.add_argument("--out", type=Path, default=Path("out/throw"), help="folder for the results (out/throw)")
    parser.add_argument("--no-render", action="store_true", help="skip the animation")
    return parser.parse_args()


if __name__ == "__main__":
    main()
