"""A racecar learns to park between two cars.

The unknowns are the angle of its front wheels and the torques of both rear wheels at ten times within three seconds,
with straight lines between them. The first guess drives straight back, past the gap. Gradients through the rolling and
sliding of four wheels tell when to steer and when to brake. During the search, the car may drive through the parked
ones, at a cost that grows with the overlap. The search ends when it stands within 1 cm of the target and clear of them.
Then it drives once more among solid cars. Ctrl-C ends it sooner and keeps the best so far; the same command then
resumes it.

    python -m examples.parking
    python -m examples.parking --gap 1.1 0.5 1.2 --out out/mine
    python -m examples.parking --random-gaps 10

Files: loss.png, the distance over the iterations; parking.gif; parking.usda; and parking.npz with the best controls
[steps, 3], q [steps + 1, nq], qd [steps + 1, nv], all distances, gap and dt.
"""

import argparse

import numpy as np
import torch

import sim
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import write_result
from examples.search import resumed_gradient
from scenes import parking
from scenes.racecar import WHEEL_RADIUS
from sim import optimise
from sim.progress import Progress
from sim.render import Marker, Trail

GOAL = 0.01  # distance at which the car counts as parked; turns, speeds and overlaps count as below [m]
TURN = 0.2  # of a turn of 1 rad [m]
REST = 0.1  # weight of the last velocity, as distance [s]
CLEARANCE = 0.015  # distance between cars below which they count as overlapping [m]
OVERLAP = 3.0  # weight of overlaps
LONGEST_STEP = 0.15  # maximum intended motion of the car per iteration
KNOTS = 10
SCALES = (0.3, 0.1, 0.1)  # typical change of the angle [rad] and the torques [N m]
# Points along the sides of the car, and in the middle of its front and back [points, 2], m.
OUTLINE = np.array(
    [
        (x, y)
        for x in np.linspace(-parking.HALF_LENGTH, parking.HALF_LENGTH, 5)
        for y in (-parking.HALF_WIDTH, parking.HALF_WIDTH)
    ]
    + [(-parking.HALF_LENGTH, 0.0), (parking.HALF_LENGTH, 0.0)]
)
TARGET_COLOR = (0.10, 0.62, 0.28)


def optimise_parking(
    scene: parking.ParkingScene, iterations: int, device: str | None, kept: Progress, *, bar: bool = True
) -> optimise.Result:
    """Find steering and drive commands that park the car in the gap.

    Args:
        scene: the scene, with cars that aren't solid.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress.
        bar: show a progress bar.
    """

    def miss(q: torch.Tensor, qd: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        return distances(scene, q, qd)[None]

    problem = optimise.Problem(
        sim.Simulator(scene.model, scene.dt, device=device), scene.steps,
        [optimise.LeastSquares(miss, longest=LONGEST_STEP)], controls=optimise.Knots(KNOTS, "linear"), q0=scene.q0,
        scale=SCALES,
    )  # fmt: skip
    return resumed_gradient(
        problem, kept, straight_back(scene), iterations=iterations, patience=6, goal=GOAL, progress=bar,
        score=lambda motion: torch.linalg.norm(distances(scene, motion.q, motion.qd), dim=1),
    )  # fmt: skip


def straight_back(scene: parking.ParkingScene) -> np.ndarray:
    """Return the first guess [KNOTS, 3]: straight back, next to the gap at the end, with torques that hold this
    speed.
    """
    speed = scene.target[0] / (0.9 * scene.steps * scene.dt)
    guess = np.zeros((KNOTS, 3))
    guess[:-1, 1:] = parking.DRAG * speed / WHEEL_RADIUS
    return guess


def distances(scene: parking.ParkingScene, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Compute the car's deviations from its target and from rest at the end, and its overlaps with others [worlds, 7],
    m.

    Args:
        scene: the scene.
        q: coordinates of motions [steps + 1, worlds, nq].
        qd: velocities of the motions [steps + 1, worlds, nv].
    """
    position = q[-1, :, :2] - torch.as_tensor(scene.target).to(q)
    turn = 2.0 * TURN * torch.atan2(q[-1, :, 5], q[-1, :, 6])[:, None]
    moving = [REST * qd[-1, :, :2], REST * TURN * qd[-1, :, 5:6]]
    overlapping = overlaps(scene, q, CLEARANCE).square().sum(dim=(0, 2))
    return torch.cat([position, turn, *moving, OVERLAP * torch.sqrt(overlapping + 1e-8)[:, None]], dim=1)


def overlaps(scene: parking.ParkingScene, q: torch.Tensor, clearance: float = 0.0) -> torch.Tensor:
    """Compute penetration of the car's outline points in a parked car enlarged by the clearance [..., points], m.

    Args:
        scene: the scene.
        q: coordinates [..., nq].
        clearance: clearance around parked cars [m].
    """
    x, y = (each.to(q) for each in torch.as_tensor(OUTLINE).T)
    turn = 2.0 * torch.atan2(q[..., 5:6], q[..., 6:7])
    cos, sin = torch.cos(turn), torch.sin(turn)
    points = torch.stack([q[..., 0:1] + cos * x - sin * y, q[..., 1:2] + sin * x + cos * y], dim=-1)
    half = torch.as_tensor(np.array(parking.PARKED[:2]) + clearance).to(q)
    depth = [(half - (points - torch.as_tensor(car).to(q)).abs()).amin(dim=-1).clamp(min=0.0) for car in scene.parked]
    return depth[0] + depth[1]  # a point is in at most one of them


def drive(scene: parking.ParkingScene, controls: np.ndarray, device: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the motion among solid cars: q [steps + 1, nq] and qd [steps + 1, nv]."""
    simulator = sim.Simulator(scene.model, scene.dt, device=device)
    motion = simulator.rollout(simulator.state(scene.q0), control=controls[:, None])
    return motion.q.numpy()[:, 0], motion.qd.numpy()[:, 0]


def park(
    gap: tuple[float, float, float], iterations: int, device: str | None, kept: Progress, *, bar: bool = True
) -> tuple[optimise.Result, np.ndarray, np.ndarray, str]:
    """Optimise, and drive among solid cars: return the result, q and qd of that drive, and a description."""
    found = optimise_parking(parking.build(gap, solid=False), iterations, device, kept, bar=bar)
    scene = parking.build(gap)
    q, qd = drive(scene, found.controls, device)
    off = np.linalg.norm(q[-1, :2] - scene.target)
    verdict = "parked" if found.history[-1] < GOAL and off < GOAL else "missed"
    words = (
        f"{verdict}: {1000.0 * found.history[-1]:.1f} mm off after {len(found.history) - 1} iterations, "
        f"{found.seconds:.1f} s; among solid cars {1000.0 * off:.1f} mm from the target"
    )
    return found, q, qd, words


@command
def main() -> None:
    options = parse()
    if options.random_gaps:
        try_each(options)
        return
    gap = tuple(options.gap)
    print(f"a gap of {gap[0]:.2f} m, {gap[1]:.2f} m to the right and {gap[2]:.2f} m back")
    scene = parking.build(gap)
    with Progress(options.out / "interrupted.npz", {"gap": np.array(gap)}, options.restart) as kept:
        found, q, qd, words = park(gap, options.iterations, options.device, kept)
        print(words)
        numbers = {"controls": found.controls, "q": q, "qd": qd, "distances": found.history, "gap": np.array(gap),
                   "dt": scene.dt}  # fmt: skip
        x, y = (float(value) for value in scene.target)
        write_result(
            options, "parking", "A car parked in a gap", scene.model, numbers, goal=GOAL,
            markers=[Marker("target", (x, y, 0.0), radius=0.02, color=TARGET_COLOR)],
            trails=[Trail("path", q[:, :3])], azimuth=-70.0, elevation=34.0,
        )  # fmt: skip


def try_each(options: argparse.Namespace) -> None:
    """Park in each of the random gaps, and print the number of successes."""
    hits = 0
    for number, gap in enumerate(parking.random_gaps(options.seed, options.random_gaps)):
        words = park(tuple(gap), options.iterations, options.device, Progress(None, {}), bar=False)[-1]
        hits += words.startswith("parked")
        print(f"{number + 1:3d}  gap {np.round(gap, 2)}  {words}", flush=True)
    print(f"parked in {hits} of {options.random_gaps} gaps")


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/parking", iterations=60)
    parser.add_argument(
        "--gap", type=float, nargs=3, metavar=("LENGTH", "RIGHT", "BACK"), default=list(parking.GAP),
        help="length of the gap, and from the start to its middle, to the right and backwards [m] (1 0.45 1)",
    )  # fmt: skip
    parser.add_argument(
        "--random-gaps", type=int, default=0, metavar="COUNT", help="park in this many random gaps, write no files"
    )
    options = parse_example(parser, counts=["random_gaps"], finite=["gap"])
    if not options.random_gaps:
        make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
