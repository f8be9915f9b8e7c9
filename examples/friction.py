"""Estimates the friction of the ground from where a braking racecar stops.

The car starts at 1 m/s with its wheels locked and should come to rest 0.8 m ahead. The unknown is the sliding friction
of the ground, initially close to zero. Each iteration simulates the slide, computes the derivative of the final
position with respect to the friction in a backward pass, and takes a Newton step. It ends when the car stops within 1
mm of the mark.

    python -m examples.friction
    python -m examples.friction --distance 0.5

Files: loss.png, the distance over the iterations; friction.gif; friction.usda; and friction.npz with the friction of
every iteration and the last slide's q [steps + 1, nq] and qd [steps + 1, nv].
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

import sim
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from scenes import racecar
from sim.progress import Progress
from sim.render import Marker

GOAL = 0.001  # distance from the mark at which the search has converged [m]
START = 0.002
GRAVITY = 9.81
MARK_COLOR = (0.10, 0.62, 0.28)


@dataclass(frozen=True)
class Result:
    """A finished estimation.

    Attributes:
        frictions: friction of the ground at every iteration.
        distances: final distance of the car from the mark at every iteration [m].
        q: coordinates of the last slide [steps + 1, nq].
        qd: velocities of the last slide [steps + 1, nv].
        seconds: time taken.
    """

    frictions: list[float]
    distances: list[float]
    q: np.ndarray
    qd: np.ndarray
    seconds: float


def estimate(
    scene: racecar.RacecarScene, distance: float, iterations: int, device: str | None, kept: Progress | None = None
) -> Result:
    """Estimate the friction with which the car stops ``distance`` [m] ahead.

    Args:
        scene: the scene.
        distance: target of the car [m].
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress; None saves nothing.
    """
    kept = Progress(None, {}) if kept is None else kept
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=1, device=device)
    state = simulator.state(scene.q0, scene.qd0)
    forward = np.zeros((1, scene.model.nq))
    forward[0, scene.model.q_slice(scene.car).start] = 1.0
    all_frictions = scene.model.parameters["friction"].copy()

    frictions, distances, start = [START], list[float](), time.perf_counter()
    before = kept.load()
    if before is not None:
        frictions, distances = list(before["frictions"]), list(before["distances"])
        start -= float(before["seconds"])
    with tqdm(total=iterations, initial=len(distances), desc="estimating", unit="iteration") as progress:
        # Runs at least once, even if a resumed run has made more iterations: its last friction is untested.
        for iteration in range(len(distances), max(iterations, len(distances)) + 1):
            all_frictions[scene.ground] = frictions[-1]
            simulator.parameters["friction"] = all_frictions
            trajectory = simulator.rollout(state, steps=scene.steps)
            q, qd = trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0]
            miss = float(forward[0] @ q[-1]) - distance
            distances.append(abs(miss))
            progress.set_postfix_str(f"friction {frictions[-1]:.4f}, {100.0 * abs(miss):.1f} cm off")
            if abs(miss) < GOAL or iteration >= iterations:
                kept.done()
                break
            gradient = trajectory.backward(forward, parameters=["friction"]).parameters["friction"]
            step = -miss / float(gradient[scene.ground])
            # Friction stays positive: no step removes more than three quarters of it.
            frictions.append(max(frictions[-1] + step, frictions[-1] / 4.0))
            kept.save(frictions=frictions, distances=distances, seconds=time.perf_counter() - start)
            progress.update()
        progress.total = progress.n
    return Result(frictions, distances, q, qd, time.perf_counter() - start)


@command
def main() -> None:
    options = parse()
    scene = racecar.build()
    print(f"the car should stop at x = {options.distance:g} m, {scene.steps} steps of {1000.0 * scene.dt:.3g} ms")
    with Progress(options.out / "interrupted.npz", {"distance": options.distance}, options.restart) as kept:
        result = estimate(scene, options.distance, options.iterations, options.device, kept)
        verdict = "found" if result.distances[-1] < GOAL else "not found"
        closed = racecar.SPEED**2 / (2.0 * GRAVITY * options.distance)
        print(
            f"{verdict}: friction {result.frictions[-1]:.4f} after {len(result.distances) - 1} iterations, "
            f"{result.seconds:.1f} s, {1000.0 * result.distances[-1]:.2f} mm from the mark; "
            f"v^2 / (2 g x) is {closed:.4f}"
        )
        numbers = dict(frictions=result.frictions, distances=result.distances, q=result.q, qd=result.qd, dt=scene.dt)
        # On both sides of the track, where the middle of the car should stop.
        markers = [
            Marker(side, (options.distance, y, 0.02), 0.02, MARK_COLOR)
            for side, y in (("left", 0.25), ("right", -0.25))
        ]
        write_result(
            options, "friction", "Where a sliding car stops", scene.model, numbers, goal=GOAL, markers=markers,
            azimuth=-50.0, elevation=22.0,
        )  # fmt: skip


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/friction", iterations=20)
    parser.add_argument("--distance", type=float, default=0.8, help="where the car should stop [m] (0.8)")
    options = parse_example(parser, finite=["distance"])
    longest = racecar.SPEED * racecar.STEPS * racecar.DT
    if not 0.0 < options.distance < longest:
        parser.error(f"--distance {options.distance:g}: the car can stop between 0 and {longest:g} m ahead")
    make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
