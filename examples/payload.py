"""Identifies an arm's payload from a noisy log of its joints.

The arm makes an exciting motion: a Fourier series within its limits, optimised for a small condition number of the
    torque regressor. It holds a payload of random mass, shape and position that isn't in its URDF file, and its joints
    have other damping and dry friction than there. The log, a CSV file, has the angles of the
joints with noise of 0.1 mrad and their torques with noise of 2 % of each one's standard deviation and an offset, 200
times a second.

sim.identify reads the log, differentiates it, and identifies mass, centre of mass and inertia of the hand with its
payload, a physical body, together with damping, dry friction and offset of each joint, and the uncertainty of each
value. The number of iterations is the number of payloads, each identified from a separate log. If the deviations are
right, 95 % of the 95 % intervals contain the truth.

    python -m examples.payload
    python -m examples.payload --robot panda --link panda_hand
    python -m examples.payload --noise 0.1 --iterations 20

Files: loss.png, the error of each payload's mass with its 95 % interval; payload.npz with true and found values and
their deviations; log.csv and report.html of the last payload; payload.urdf, the arm with what was found; payload.gif
and payload.usda, in which two arms follow another motion with torques from inverse dynamics and a soft controller. The
left arm (grey) ignores its payload, the right one (blue) uses the identified values. Balls mark where their rods should
point.
"""

import argparse
import copy
import tempfile
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import sim
import sim.torch
from examples.arms import Arm, Load, pointer, write_arms
from examples.inertias import follow
from examples.learning import add_robot_option, load_robot, moving
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, plot, write_arrays
from sim.identify import Excitation, Log, Normal, TorqueFit, excite, fit_torques, read_csv, save_html
from sim.identify.estimate import CONFIDENCE
from sim.identify.regressor import COLUMNS, ROWS, from_linear, to_linear
from sim.output import write_text
from sim.progress import Progress

RATE, SECONDS = 200.0, 10.0  # of the log [Hz, s]
ANGLE_NOISE, OFFSET = 1e-4, 0.1  # of the joints [rad], and of the torque sensors, relative to a torque's deviation
WINDOW = 0.15  # of the polynomials that differentiate the log [s]
ACCELERATION = 8.0  # maximum acceleration of a joint [rad/s^2]
STARTS, STEPS = 20, 30  # of the search for a motion
MASS, SIZE, DISTANCE = (0.5, 3.0), (0.02, 0.08), 0.1  # of a payload: range [kg], half extents [m], distance [m]
SHOWN_SECONDS, SHOWN_DT = 6.0, 0.002  # duration and time step of the motion shown [s]
NUMBERS = ("noise",)


def loaded(robot: sim.torch.Robot, link: str, seed: int, number: int) -> tuple[sim.torch.Robot, Load]:
    """Make the arm with a payload, a box in any orientation, and with other friction in its joints."""
    rng = np.random.default_rng([seed, number])
    mass, half = rng.uniform(*MASS), rng.uniform(*SIZE, 3)
    axes, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    axes *= np.linalg.det(axes)  # a rotation
    box = axes @ np.diag(mass / 3.0 * (half @ half - half**2)) @ axes.T
    centre = DISTANCE * rng.uniform(-1.0, 1.0, 3)
    true, k = copy.deepcopy(robot), robot.model.link(link)
    payload = to_linear(*(torch.as_tensor(each).to(robot.mass) for each in (np.array(mass), centre, box)))
    hand = to_linear(true.mass[k], true.com[k], true.inertia[k])
    true.mass[k], true.com[k], true.inertia[k] = from_linear(hand + payload)
    for value, least, most in ((true.damping, 0.2, 1.0), (true.friction_loss, 0.1, 0.5)):
        value.copy_(torch.as_tensor(rng.uniform(least, most, robot.nv)))
    return true, Load(link, half, centre, axes)


def write_log(
    path: Path, true: sim.torch.Robot, motion: Excitation, noise: float, seed: int, number: int
) -> np.ndarray:
    """Write a log of the arm in motion. Returns the offsets of its torque sensors [nv]."""
    rng = np.random.default_rng([seed, number, 1])
    ideal = motion.log(RATE)
    assert ideal.qd is not None
    assert ideal.qdd is not None
    q, qd, qdd = (torch.as_tensor(value).to(true.mass) for value in (ideal.q, ideal.qd, ideal.qdd))
    with torch.no_grad():
        tau = true.inverse_dynamics(q, qd, qdd).cpu().numpy()
    scale = tau.std(axis=0)
    offset = OFFSET * scale * rng.uniform(-1.0, 1.0, true.nv)
    tau = tau + offset + noise * scale * rng.standard_normal(tau.shape)
    angles = ideal.q + ANGLE_NOISE * rng.standard_normal(ideal.q.shape)
    names = [f"{channel}_{joint}" for channel in ("q", "tau") for joint in true.joint_names]
    rows = [",".join(["time", *names])]
    rows += [",".join(f"{x:.10g}" for x in row) for row in np.column_stack([ideal.time, angles, tau])]
    write_text(path, "\n".join(rows) + "\n")
    return offset


def identify(robot: sim.torch.Robot, link: str, path: Path) -> TorqueFit:
    """Identify the hand and the joints from the log of an arm."""
    log = prepared(read_csv(path, robot.model))
    unknowns = {
        f"inertial of {link}": None, "damping of *": Normal(0.3, 1.0), "friction_loss of *": Normal(0.2, 1.0),
        "torque_offset of *": None,
    }  # fmt: skip
    return fit_torques(robot, log, unknowns)


def prepared(log: Log) -> Log:
    """Return a log with velocities and accelerations, without its ends, where polynomials are fitted one-sided."""
    return log.differentiated(WINDOW).between(WINDOW, log.time[-1] - WINDOW)


def truth(true: sim.torch.Robot, link: str, offset: np.ndarray) -> np.ndarray:
    """Return the true values in the order of an estimate."""
    k = true.model.link(link)
    body = [true.mass[k : k + 1], true.com[k], true.inertia[k][..., ROWS, COLUMNS]]
    return np.concatenate([*(each.cpu().numpy() for each in (*body, true.damping, true.friction_loss)), offset])


@command
def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options, merge=False, masses=True)
    link = options.link or robot.link_names[-1]
    if link not in robot.link_names:
        parser.error(f"--link {link}: the robot has {', '.join(robot.link_names)}")
    motion = excite(
        robot, period=SECONDS, acceleration=ACCELERATION, starts=STARTS, iterations=STEPS, seed=options.seed
    )
    print(
        f"{robot.nv} joints; condition number of the motion {motion.condition:.1f}, of the best of {STARTS} random "
        f"ones {motion.condition_before:.1f}"
    )
    problem = {name: str(getattr(options, name)) for name in ("robot", "link", "seed", *NUMBERS)}
    log = options.out / "log.csv"
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        before = kept.load()
        rows = [] if before is None else list(before["rows"])
        with tqdm(total=options.iterations, initial=len(rows), desc="identifying", unit="payload") as bar:
            for number in range(len(rows), options.iterations):
                true, _ = loaded(robot, link, options.seed, number)
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / log.name
                    offset = write_log(file, true, motion, options.noise, options.seed, number)
                    estimate = identify(robot, link, file).estimate
                rows.append(np.stack([truth(true, link, offset), estimate.values, estimate.deviations]))
                kept.save(rows=np.array(rows))
                bar.update()
        kept.done()
        # Repeated if no iteration was left: files of the last payload.
        true, load = loaded(robot, link, options.seed, options.iterations - 1)
        write_log(log, true, motion, options.noise, options.seed, options.iterations - 1)
        fit = identify(robot, link, log)
        report(fit, np.array(rows))
        files = [log, *write(options, fit, np.array(rows)), *show(options, true, load, {GREY: robot, BLUE: fit.robot})]
        print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


def report(fit: TorqueFit, rows: np.ndarray) -> None:
    """Print the errors of all payloads [payloads, (true, found, deviation), values]."""
    true, found, deviation = rows.swapaxes(0, 1)
    held = np.abs(found - true) < CONFIDENCE * deviation
    for k, (name, unit) in enumerate(zip(fit.estimate.names[:4], fit.estimate.units, strict=False)):
        error = np.abs(found - true)[:, k]
        print(
            f"  {name:24s} error {np.sqrt(np.mean(error**2)):.2g} {unit}, stated deviation "
            f"{np.mean(deviation[:, k]):.2g} {unit}; {held[:, k].sum()} of {len(rows)} intervals hold the truth"
        )
    print(f"{held.mean():.1%} of all {held.size} 95 % intervals hold the truth")


def write(options: argparse.Namespace, fit: TorqueFit, rows: np.ndarray) -> list[Path]:
    """Write numbers, plot, report and robot."""
    files = [options.out / name for name in ("loss.png", "payload.npz", "report.html", "payload.urdf")]
    true, found, deviation = rows.swapaxes(0, 1)
    with plot(files[0]) as (axes,):
        payload, relative = np.arange(1, len(rows) + 1), 100.0 * (found[:, 0] / true[:, 0] - 1.0)
        width = 100.0 * CONFIDENCE * deviation[:, 0] / true[:, 0]
        axes.errorbar(payload, relative, width, fmt="o", color=BLUE, capsize=4)
        axes.axhline(0.0, color=RED, linewidth=1.0, linestyle="--")
        axes.set_xlabel("payload")
        axes.set_ylabel("error of the mass with its 95 % interval [%]")
    write_arrays(files[1], names=fit.estimate.names, true=true, found=found, deviation=deviation, noise=options.noise)
    save_html(fit, files[2], f"{Path(options.robot).stem} with a payload")
    fit.robot.save_urdf(files[3])
    return files


@torch.no_grad()
def show(
    options: argparse.Namespace, actual: sim.torch.Robot, load: Load, known: dict[str, sim.torch.Robot]
) -> list[Path]:
    """Write an animation in which the arm follows a motion, with different knowledge of its payload, by colour."""
    wanted, tip = moving(actual, SHOWN_SECONDS, options.seed + 4, SHOWN_DT), actual.link_names[-1]
    ball = pointer(actual, wanted[0], tip)
    arms = [Arm(color, actual, follow(actual, robot, *wanted), ball, load) for color, robot in known.items()]
    return write_arms(options, "payload", arms, tip, SHOWN_DT)


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/payload", iterations=10)
    add_robot_option(parser)
    parser.add_argument("--link", default=None, help="the link that holds the payload (the last one)")
    parser.add_argument("--noise", type=float, default=0.02, help="relative noise of the torques (0.02)")
    options = parse_example(parser, finite=NUMBERS)
    if options.noise <= 0.0:
        parser.error("--noise must be positive")
    if options.iterations < 1:
        parser.error("--iterations must be at least 1, the number of payloads")
    make_folder(options.out)
    return parser, options


if __name__ == "__main__":
    main()
