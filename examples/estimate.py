"""Estimates friction, restitution and masses of a box from its motion, with their uncertainty.

The box bounces, tumbles and slides while a known force pushes it. Without the force, the motion would only determine
the ratio of the masses. The box is observed 20 times a second, with noise of 1 % of the distance it travels and of the
angle it turns.

Random guesses, which all boxes share, are simulated in one batch. Gauss-Newton steps improve the best of them, also in
one batch. The derivatives of all residuals follow from those of the intervals between observations, each of which is a
separate world (sim.identify.trajectories.sensitivity); most steps correct the last ones instead. Contact causes several
minima; the lowest is the best fit.

If the motion were linear near the fit, the covariance of the estimates would be (J^T J)^-1, where J is the derivative
of all residuals in the unknowns. But an impact on the wall or a landing may move from one time step to the next, and
minima with similar fits lie close together. That covariance, at each of the minima, therefore only selects the first of
144 more motions, which are simulated without gradients. Their residuals are interpolated, and the posterior is sampled
from the interpolant, including its interpolation error (sim.identify.surrogate). The estimate is the posterior's mean,
and its interval contains 95 % of the posterior.

    python -m examples.estimate
    python -m examples.estimate --worlds 256
    python -m examples.estimate --worlds 200 --same-box

With --worlds this many boxes are estimated together, each with different friction, restitution, masses and noise. With
--same-box they are the same box, observed repeatedly. The files describe the first box. Several processes divide the
boxes, with `torchrun --nproc-per-node 2 -m examples.estimate --worlds 256` (sim.learn.processes).

Files: loss.png, the mean square residual over the iterations; estimates.png; estimate.gif; estimate.usda; and
estimate.npz with unknowns, estimates, covariances of their logarithms, the best fits, and the motion fitted to the
first box.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from scipy.stats import chi2, norm
from tqdm import tqdm

import sim
from examples.box_motion import EVERY, Motion, Motions, Observation, Sensitivity, deviations, observe
from examples.fitting import Search, at_work, begin, iterate
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, draw_curve, plot, write_arrays, write_motion
from scenes import box
from sim.identify.posterior import Posterior
from sim.identify.surrogate import sample_surrogate
from sim.learn import processes
from sim.progress import Progress
from sim.render import Marker

GUESSES, MOST_GUESSES = 32, 512  # number of random guesses for each box, and maximum of all, which the boxes share
ITERATIONS = 25
GREEN = "#2c8c57"
STARTS = 4  # number of guesses per box that are improved
LONGEST_STEP = 0.5  # of a logarithm
SETTLED = 2e-3  # decrease of the loss, half a chi square, below which a search ends
MARGIN = 0.5  # margin of the logarithms around the range from which boxes are drawn
CONFIDENCE = 0.95  # probability of the intervals
UNLIKELY = 1e-3  # probability below which a fit counts as bad
MOTIONS, ROUNDS = 16, 9  # motions for the posterior per round, and rounds, for each box
REACH = 0.04  # of a logarithm, within which other minima may exist
AZIMUTH, ELEVATION = -100.0, 25.0  # of the camera, which looks along the wall [degrees]


@dataclass(frozen=True)
class Estimate:
    """Estimates for n boxes.

    Attributes:
        unknowns: the estimates [n, 4], see :data:`scenes.box.UNKNOWNS`.
        covariance: covariance of their logarithms [n, 4, 4].
        fitted: the unknowns that fit best [n, 4].
        interval: 95 % intervals of the unknowns, their lower and their upper ends [2, n, 4].
        chi_square: sum of squared residuals of the best fit, in units of the noise [n].
        degrees: degrees of freedom: observed numbers minus unknowns.
        curve: mean square residual of the best start over the iterations, averaged over the boxes.
        motions: number of motions of each box, on average, that the search and the intervals took.
        seconds: time taken.
    """

    unknowns: np.ndarray
    covariance: np.ndarray
    fitted: np.ndarray
    interval: np.ndarray
    chi_square: np.ndarray
    degrees: int
    curve: list[float]
    motions: tuple[float, int]
    seconds: float

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation of each logarithm: the relative standard deviation of the estimate [n, 4]."""
        return np.sqrt(np.einsum("nii->ni", self.covariance))

    @property
    def good(self) -> np.ndarray:
        """Mask of the boxes whose residuals are no larger than the noise explains [n]."""
        return self.chi_square < chi2.isf(UNLIKELY, self.degrees)

    def holds(self, truth: np.ndarray) -> np.ndarray:
        """Return a mask of the 95 % intervals that contain the truth [n, 4]."""
        return (self.interval[0] <= truth) & (truth <= self.interval[1])


@dataclass(frozen=True)
class Fit:
    """Results of the searches for the best fits of n boxes.

    Attributes:
        search: final state of the searches of all boxes, grouped by box.
        curve: mean square residual of the best start over the iterations, averaged over the boxes.
        motions: number of motions of all boxes together up to each entry of ``curve``; a motion with derivatives counts
            three times: the motion, again, and its intervals.
        seconds: time taken up to each entry.
    """

    search: Search
    curve: list[float]
    motions: list[int]
    seconds: list[float]

    @property
    def best(self) -> np.ndarray:
        """Indices of the best searches [n]."""
        loss = self.search.loss.reshape(-1, STARTS)
        return np.arange(len(loss)) * STARTS + loss.argmin(axis=1)


def guesses_of(boxes: int) -> int:
    """Return the number of random guesses for that many boxes together."""
    return min(GUESSES * boxes, MOST_GUESSES)


def guess(scene: box.BoxScene, seen: Observation, seed: int, device: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Select the best of many random guesses. All boxes start in the same state, so a guess has the same motion for
    all.

    Returns:
        logarithms [n * STARTS, 4], grouped by box, and their residuals [n * STARTS, observed numbers].
    """
    rng = np.random.default_rng([seed, 2])
    count = guesses_of(len(seen.position_noise))
    guesses = np.log(rng.uniform(box.LEAST, box.MOST, (count, len(box.UNKNOWNS))))
    with torch.no_grad():
        q = Motion(scene, count, device).states(torch.tensor(guesses))[0]
        found = deviations(q[:, :, None], seen)
        best = found.square().sum(dim=-1).topk(STARTS, dim=0, largest=False).indices
        found = found[best, torch.arange(best.shape[1])].transpose(0, 1).flatten(0, 1)
    return guesses[best.T.flatten().cpu().numpy()], found.cpu().numpy()


def estimate(
    scene: box.BoxScene,
    seen: Observation,
    seed: int,
    iterations: int,
    device: str | None,
    kept: Progress | None = None,
    bar: bool = True,
) -> Estimate:
    """Estimate the unknowns of all boxes in one batch, with their uncertainty.

    Args:
        scene: the scene.
        seen: the observations.
        seed: seed of the guesses.
        iterations: maximum number of iterations, including those of an interrupted run.
        device: Warp device.
        kept: saves the progress; None saves nothing.
        bar: show a progress bar.
    """
    kept = Progress(None, {}) if kept is None else kept
    found = fit(scene, seen, seed, iterations, device, kept, bar)
    boxes, begun = len(found.best), time.perf_counter()
    posterior = sample_posterior(scene, seen, found.search, seed, device, bar)
    kept.done()
    outside = 0.5 * (1.0 - CONFIDENCE)
    interval = np.exp([posterior.quantile(outside), posterior.quantile(1.0 - outside)])
    return Estimate(
        np.exp(posterior.mean), posterior.covariance, np.exp(found.search.x[found.best]), interval,
        2.0 * found.search.loss[found.best], 6 * len(seen.position) - len(box.UNKNOWNS), found.curve,
        (float(found.motions[-1]) / boxes, MOTIONS * ROUNDS), found.seconds[-1] + time.perf_counter() - begun,
    )  # fmt: skip


def fit(
    scene: box.BoxScene,
    seen: Observation,
    seed: int,
    iterations: int,
    device: str | None,
    kept: Progress,
    bar: bool = True,
) -> Fit:
    """Search for the best fit from several starts. Arguments as for :func:`estimate`."""
    boxes, begun = len(seen.position_noise), time.perf_counter()
    motion, sensitivity = Motions(scene, device), Sensitivity(scene, seen.every, device)
    repeated = seen.of(np.repeat(np.arange(boxes), STARTS))
    lower, upper = np.log(box.LEAST) - MARGIN, np.log(box.MOST) + MARGIN
    simulated = guesses_of(boxes)

    def residuals(x: np.ndarray, which: np.ndarray) -> np.ndarray:
        nonlocal simulated
        simulated += len(which)
        own = which[processes.own_rows(len(which))]
        return processes.of_all_rows(motion.residuals(x[own], repeated.of(own)))

    def jacobian(x: np.ndarray, which: np.ndarray) -> np.ndarray:
        nonlocal simulated
        simulated += 2 * len(which)
        own = which[processes.own_rows(len(which))]
        return processes.of_all_rows(sensitivity.jacobian(x[own], repeated.of(own)))

    before = processes.from_first(kept.load())
    if before is None:
        x, found = guess(scene, seen, seed, device)
        search = begin(found, jacobian, x)
        curve, motions, seconds = list[float](), list[int](), list[float]()
    else:
        curve, motions, seconds = (list(before.pop(name)) for name in ("curve", "motions", "seconds"))
        simulated, begun = motions[-1], begun - seconds[-1]
        search = Search(**before)
    with tqdm(total=iterations, initial=len(curve), desc="estimating", unit="iteration", disable=not bar) as progress:
        while True:
            least = search.loss.reshape(boxes, STARTS).min(axis=1)
            curve.append(2.0 * float(least.mean()) / (6 * len(seen.position)))
            motions.append(simulated)
            seconds.append(time.perf_counter() - begun)
            working = at_work(search, lower, upper, SETTLED)
            progress.set_postfix_str(f"mean square {curve[-1]:.3f}, {working.mean():.0%} active")
            if len(curve) > iterations or not working.any():
                break
            iterate(search, residuals, jacobian, lower, upper, LONGEST_STEP, SETTLED)
            kept.save(curve=curve, motions=motions, seconds=seconds, **vars(search))
            progress.update()
        progress.total = progress.n
    return Fit(search, curve, motions, seconds)


def sample_posterior(
    scene: box.BoxScene, seen: Observation, search: Search, seed: int, device: str | None, bar: bool = True
) -> Posterior:
    """Sample the posterior of the logarithms, from motions around the minima that the searches found."""
    boxes, unknowns = len(seen.position_noise), search.x.shape[1]
    own, motion = np.arange(boxes)[processes.own_rows(boxes)], Motions(scene, device)

    def residuals(x: np.ndarray) -> np.ndarray:
        found = motion.residuals(x[own].reshape(-1, unknowns), seen.of(np.repeat(own, x.shape[1])))
        return processes.of_all_rows(found.reshape(len(own), x.shape[1], -1))

    def by_box(value: np.ndarray) -> np.ndarray:
        return value.reshape(boxes, STARTS, *value.shape[1:])

    peaks, covariance, at_peaks = (by_box(x) for x in (search.x, np.linalg.inv(search.curvature), search.residuals))
    return sample_surrogate(residuals, peaks, covariance, at_peaks, MOTIONS, ROUNDS, REACH, seed, bar)


def report(truth: np.ndarray, found: Estimate) -> str:
    """Format a table of one box, or a summary of many."""
    many = len(truth) > 1
    held = found.holds(truth)
    lines = []
    for k, (name, unit) in enumerate(zip(box.UNKNOWNS, box.UNITS, strict=True)):
        if many:
            lines.append(
                f"  {name:12s} {held[:, k].mean():6.1%} of the 95 % intervals contain the truth; "
                f"median standard deviation {np.median(found.deviation[:, k]):.1%}"
            )
        else:
            value = found.unknowns[0, k]
            lines.append(
                f"  {name:12s} {value:.3f} +- {value * found.deviation[0, k]:.3f} {unit:2s}  (true: {truth[0, k]:.3f})"
            )
    lines.append(
        f"{found.good.sum()} of {len(truth)} fits are consistent with the noise; {len(found.curve) - 1} iterations, "
        f"{found.seconds:.1f} s"
    )
    return "\n".join(lines)


def write_plot(
    path: Path, scene: box.BoxScene, seen: Observation, q: np.ndarray, truth: np.ndarray, found: Estimate
) -> None:
    """Plot the first box as observed and fitted (left), and the estimates with 95 % intervals and the truth (right).

    Args:
        path: the file.
        scene: the scene.
        seen: the observations.
        q: motion fitted to the first box [steps + 1, nq].
        truth: true unknowns of all boxes [n, 4].
        found: the estimates.
    """
    fine, coarse = scene.dt * np.arange(len(q)), scene.dt * seen.every * np.arange(1, len(seen.position) + 1)
    start = Rotation.from_quat(q[0, 3:])
    turned, seen_turned = (
        (Rotation.from_quat(value) * start.inv()).as_matrix()[:, :, 0] for value in (q[:, 3:], seen.orientation[:, 0])
    )
    with plot(path, columns=3) as (position, axis, estimates):
        bound = norm.isf(0.5 * (1.0 - CONFIDENCE))
        for ax, label, fitted, observed, noise in (
            (position, "position of the centre [m]", q[:, :3], seen.position[:, 0], seen.position_noise[0]),
            (axis, "direction of the axis initially along x [-]", turned, seen_turned, seen.orientation_noise[0]),
        ):
            for k, color in enumerate((BLUE, RED, GREEN)):
                ax.plot(fine, fitted[:, k], color=color, label="xyz"[k])
                ax.errorbar(coarse, observed[:, k], bound * noise, fmt=".", color=color, linewidth=0.8)
            ax.set_xlabel("time [s]")
            ax.set_ylabel(label)
            ax.set_title("first box: observed (95 %) and fitted")
            ax.legend()
        if len(truth) == 1:
            draw_intervals(estimates, truth[0], found)
        else:
            draw_errors(estimates, truth, found)


def draw_intervals(ax: Any, truth: np.ndarray, found: Estimate) -> None:
    """Plot the estimates of one box relative to the truth."""
    relative = 100.0 * (found.unknowns[0] / truth - 1.0)
    width = 100.0 * np.abs(found.interval[:, 0] - found.unknowns[0]) / truth
    ax.errorbar(range(len(truth)), relative, width, fmt="o", color=BLUE, capsize=4)
    ax.axhline(0.0, color=RED, linewidth=1.0, linestyle="--")
    ax.set_xticks(range(len(truth)), box.UNKNOWNS)
    ax.set_xlim(-0.5, len(truth) - 0.5)
    ax.set_ylabel("error [%]")
    ax.set_title("estimates with 95 % intervals")


def draw_errors(ax: Any, truth: np.ndarray, found: Estimate) -> None:
    """Plot the errors of many boxes in units of the stated standard deviations, with the normal distribution."""
    errors = np.log(found.unknowns / truth) / found.deviation
    edges = np.linspace(-4.0, 4.0, 33)
    for k, name in enumerate(box.UNKNOWNS):
        ax.hist(np.clip(errors[:, k], -4.0, 4.0), edges, density=True, histtype="step", label=name)
    ax.plot(edges, norm.pdf(edges), color=GREY, linewidth=1.0, linestyle="--", label="normal distribution")
    ax.set_xlabel("error / stated standard deviation (outliers in the outermost bins)")
    ax.set_ylabel("density")
    ax.set_title(f"{len(truth)} boxes")
    ax.legend(fontsize=8)


@command
def main() -> None:
    options = parse()
    options.device = processes.join(options.device)
    first = processes.number() == 0
    scene = box.build()
    count = options.worlds
    if processes.count() > count * STARTS:
        raise sim.ModelError(
            f"{processes.count()} processes can't divide {count * STARTS} searches; start fewer processes, or estimate "
            "more boxes with --worlds"
        )
    truth = (
        np.tile(box.TYPICAL, (count, 1)) if options.same_box or count == 1 else box.random_boxes(options.seed, count)
    )
    seen = observe(scene, truth, options.seed, options.device, EVERY)
    if first:
        print(
            f"{count} box{'es' if count > 1 else ''}, {len(seen.position)} observations each over "
            f"{scene.steps * scene.dt:g} s, noise {100.0 * seen.position_noise.mean():.1f} cm and "
            f"{np.degrees(seen.orientation_noise.mean()):.1f} degrees"
        )
    problem = {"truth": truth, "seed": options.seed}
    file = options.out / "interrupted.npz" if first else None
    with Progress(file, problem, options.restart) as kept:
        found = estimate(scene, seen, options.seed, options.iterations, options.device, kept, bar=first)
        if first:
            print(report(truth, found))
            write_files(options, scene, seen, truth, found)


def write_files(
    options: argparse.Namespace, scene: box.BoxScene, seen: Observation, truth: np.ndarray, found: Estimate
) -> None:
    """Write curve, plot, numbers and motion, see the module docstring."""
    with torch.no_grad():
        states = Motion(scene, 1, options.device).states(torch.tensor(np.log(found.fitted[:1])))
    q, qd = (value[:, 0].cpu().numpy() for value in states)
    files = [options.out / name for name in ("loss.png", "estimates.png", "estimate.npz")]
    with plot(files[0]) as (axes,):
        draw_curve(axes, found.curve, 1.0, "noise alone")
        axes.set_ylabel("mean square residual, in units of the noise")
        axes.set_title("Fit of the observed motion")
    write_plot(files[1], scene, seen, q, truth, found)
    write_arrays(
        files[2], truth=truth, unknowns=found.unknowns, covariance=found.covariance, fitted=found.fitted,
        chi_square=found.chi_square, curve=found.curve, position=seen.position, orientation=seen.orientation, q=q,
        qd=qd, dt=scene.dt,
    )  # fmt: skip
    markers = [Marker(f"seen_{k}", tuple(at), radius=0.012) for k, at in enumerate(seen.position[:, 0])]
    files += write_motion(
        options, "estimate", scene.model, q, scene.dt, markers=markers, azimuth=AZIMUTH, elevation=ELEVATION
    )
    print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


def parse() -> argparse.Namespace:
    parser = example_parser(__doc__, out="out/estimate", iterations=ITERATIONS)
    parser.add_argument(
        "--worlds", type=int, default=1, metavar="COUNT", help="number of boxes estimated in one batch (1)"
    )
    parser.add_argument(
        "--same-box", action="store_true", help="use the same box in all worlds, each with different noise"
    )
    options = parse_example(parser, counts=["worlds"])
    if options.worlds == 0:
        parser.error("--worlds must be at least 1")
    make_folder(options.out)
    return options


if __name__ == "__main__":
    main()
