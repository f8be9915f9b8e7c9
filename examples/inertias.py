"""Identifies an arm's masses, centres of mass and inertias from noisy joint torques.

The arm differs from its drawing, the URDF file: each mass by 30 %, each coordinate of a centre of mass by 0.5 mm, each
shape by a strain of 5 %. It is mounted on a wall, so that gravity also acts on its first joint, and moves for 100 s.
The joint torques are recorded with noise of 5 % of the standard deviation of each. Ten numbers per link are learnt in a
parametrisation of physically consistent bodies (log-Cholesky of the pseudo-inertia). L-BFGS minimises the squared
torque residuals and the squared deviations from the drawing, each divided by its standard deviation. Damping is known.

    python -m examples.inertias
    python -m examples.inertias --com-error 0.01 --shape-error 0.1
    python -m examples.inertias --robot panda

Torques do not determine all numbers. Mass on a joint's axis may belong to the link before or after it, and no torque of
any motion distinguishes the two. Of the 70 numbers of seven links, torques determine 45 combinations, and single masses
are not among them. Those follow from the drawing, if it is precise about where a link has its mass. With --com-error
0.01 (1 cm) the combinations are identified, and torques of other motions predicted, almost as well as before, but the
masses are not.

It ends when an iteration barely reduces the loss. The goal is a mean error of the masses, |learnt - true| / true over
all moving links, below 1.24 %. That is what BARD reports at this noise for a seven-joint arm (Wang, *Batched
Differentiable Rigid Body Dynamics in PyTorch for GPU-Accelerated Robot Learning*, 2026).

Files: loss.png, the error over the iterations; masses.png; inertias.npz with mass [links], com [links, 3] and inertia
[links, 3, 3] as drawn, true and learnt, and the figures of every iteration; inertias.gif and inertias.usda, which show
the benefit. There, two arms follow another motion with torques from inverse dynamics and a soft controller. The left
arm (grey) uses the bodies as drawn, the right one (blue) those learnt. Balls mark where the rods should point.
"""

import argparse
import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import sim.torch
from examples.arms import ON_A_WALL, Arm, pointer, write_arms
from examples.bodies import Bodies, Drawing, moving_links, torque_columns
from examples.learning import Learning, add_robot_option, draw, learn, load_robot, moving, verdict
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, draw_curve, plot, write_arrays
from sim.progress import Progress

GOAL = 0.0124  # mean error of the masses
MASS_ERROR = 0.3  # standard deviation of the logarithm of true mass / drawn mass
WALL = (9.81, 0.0, 0.0)  # gravity for an arm mounted on a wall, in its base frame [m/s^2]
STEPS = 20  # L-BFGS steps per iteration
RANK_TOLERANCE = 1e-7  # for singular values, with columns scaled to unit length
NEW_SECONDS = 20.0  # duration of another motion, whose torques are predicted
SHOWN_SECONDS, SHOWN_DT = 6.0, 0.002  # duration and time step of the motion shown [s]
STIFFNESS, DAMPING = 25.0, 10.0  # gains of the controller that follows it [1/s^2, 1/s]
NUMBERS = ("seconds", "noise", "com_error", "shape_error")
ENOUGH = 0.1  # stop when an iteration reduces the loss, half a chi square, by less than this


@dataclass(frozen=True)
class Record:
    """Recorded motion.

    Attributes:
        q, qd, qdd: motion at each sample [samples, nv].
        tau: joint torques [samples, nv].
        noise: standard deviation of their noise [nv].
    """

    q: torch.Tensor
    qd: torch.Tensor
    qdd: torch.Tensor
    tau: torch.Tensor
    noise: torch.Tensor

    @classmethod
    def of(cls, robot: sim.torch.Robot, seconds: float, seed: int, noise: float) -> "Record":
        """Record a moving robot, with noise relative to the torques' standard deviation."""
        motion = moving(robot, seconds, seed)
        with torch.no_grad():
            tau = robot.inverse_dynamics(*motion)
        deviation = noise * tau.std(0)
        return cls(*motion, tau + deviation * draw(seed + 1, *tau.shape, like=tau), deviation)

    def residual(self, robot: sim.torch.Robot) -> torch.Tensor:
        """Compute torque residuals of a robot [samples, nv]."""
        return robot.inverse_dynamics(self.q, self.qd, self.qdd) - self.tau


def estimate(
    robot: sim.torch.Robot, drawing: Drawing, record: Record, true: Bodies, new: Record, iterations: int,
    kept: Progress | None = None,
) -> Learning:  # fmt: skip
    """Learn the bodies of a robot from a record.

    Args:
        robot: the robot as drawn; it is updated in place.
        drawing: prior knowledge.
        record: the recorded motion to learn from.
        true: the true bodies, to compute errors.
        new: another motion, without noise, whose torques are predicted.
        iterations: maximum number of iterations.
        kept: saves the progress; None saves nothing.
    """
    links = moving_links(robot)
    for link in links:
        robot.learn_quantity(robot.link_names[link], "inertial")

    def loss(_: int) -> torch.Tensor:
        deviations = drawing.deviations(Bodies.of(robot, links))
        residual = record.residual(robot) / record.noise
        return 0.5 * residual.square().sum() + 0.5 * deviations.square().sum()

    @torch.no_grad()
    def measure() -> dict[str, float]:
        mass = Bodies.of(robot, links).mass
        residual = new.residual(robot) / new.tau.std(0)
        return {
            "mass error": float((mass / true.mass - 1.0).abs().mean()),
            "torque error": float(residual.square().mean().sqrt()),
        }

    optimiser = torch.optim.LBFGS(
        robot.parameters(), max_iter=STEPS, history_size=100, line_search_fn="strong_wolfe", tolerance_change=0.0
    )
    return learn(robot, optimiser, loss, measure, iterations, kept, enough=ENOUGH)


@dataclass(frozen=True)
class LeastSquares:
    """Linear least squares for the bodies, without a prior and without physical consistency.

    Attributes:
        shown: number of combinations that torques determine.
        residual: root mean square residual of the recorded torques, in standard deviations of the noise.
        torque_error: relative error of the torques of another motion.
        directions: the combinations, one per row [shown, 10 * links].
    """

    shown: int
    residual: float
    torque_error: float
    directions: torch.Tensor

    @classmethod
    def of(cls, robot: sim.torch.Robot, record: Record, new: Record) -> "LeastSquares":
        """Solve for the numbers in which torques are linear."""
        links = moving_links(robot)
        columns, rest = torque_columns(robot, links, record.q, record.qd, record.qdd)
        matrix = (columns / record.noise[:, None]).flatten(0, 1)
        wanted = ((record.tau - rest) / record.noise).flatten()
        scale = matrix.norm(dim=0)
        scale = scale.clamp_min(RANK_TOLERANCE * scale.max())
        basis, triangle = torch.linalg.qr(matrix / scale)
        u, singular, v = torch.linalg.svd(triangle)
        shown = int((singular > RANK_TOLERANCE * singular[0]).sum())
        numbers = v[:shown].mT @ ((basis @ u[:, :shown]).mT @ wanted / singular[:shown]) / scale
        residual = float((matrix @ numbers - wanted).square().mean().sqrt())
        again, rest = torque_columns(robot, links, new.q, new.qd, new.qdd)
        residuals = (again @ numbers + rest - new.tau) / new.tau.std(0)
        return cls(shown, residual, float(residuals.square().mean().sqrt()), v[:shown] * scale)

    def error(self, learnt: Bodies, true: Bodies) -> float:
        """Compute the relative error of the combinations that torques determine."""
        a, b = (self.directions @ bodies.linear.flatten() for bodies in (learnt, true))
        return float((a - b).norm() / b.norm())


@command
def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options, masses=True)
    robot.gravity.copy_(robot.gravity.new_tensor(WALL))
    links = moving_links(robot)
    drawing = Drawing(Bodies.of(robot, links), MASS_ERROR, options.com_error, options.shape_error)
    true = drawing.differing(options.seed)
    drawn, actual = copy.deepcopy(robot), copy.deepcopy(robot)
    actual.mass[links], actual.com[links], actual.inertia[links] = true.mass, true.com, true.inertia
    record = Record.of(actual, options.seconds, options.seed + 1, options.noise)
    new = Record.of(actual, NEW_SECONDS, options.seed + 3, 0.0)
    linear = LeastSquares.of(robot, record, new)
    numbers = 10 * len(links)
    print(
        f"{robot.nv} joints, {len(record.q)} samples; "
        f"torques determine {linear.shown} combinations of {numbers} numbers"
    )

    problem = {name: str(getattr(options, name)) for name in ("robot", "seed", *NUMBERS)}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        learning = estimate(robot, drawing, record, true, new, options.iterations, kept)
        with torch.no_grad():
            learnt = Bodies.of(robot, links)
            residual = float((record.residual(robot) / record.noise).square().mean().sqrt())
        report(robot, links, drawing, true, learnt)
        mass_error, torque_error = learning.figures[-1]
        print(f"{verdict(mass_error < GOAL, learning)}: mean error of the masses {mass_error:.2%}")
        print(f"error of the {linear.shown} combinations: {linear.error(learnt, true):.2%}")
        print(f"residual of the recorded torques / noise: {residual:.4f}, with least squares {linear.residual:.4f}")
        print(
            f"error of the torques of another motion: {torque_error:.2%}, with least squares {linear.torque_error:.2%}"
        )
        files = write(options, learning, robot, links, drawing.bodies, true, learnt)
        files += show(options, actual, {GREY: drawn, BLUE: robot})
        print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


@torch.no_grad()
def show(options: argparse.Namespace, actual: sim.torch.Robot, known: dict[str, sim.torch.Robot]) -> list[Path]:
    """Write an animation in which the arm follows a motion, with different knowledge of its bodies, by colour."""
    wanted, tip = moving(actual, SHOWN_SECONDS, options.seed + 4, SHOWN_DT), actual.link_names[-1]
    ball = pointer(actual, wanted[0], tip)
    arms = [Arm(color, actual, follow(actual, robot, *wanted), ball) for color, robot in known.items()]
    return write_arms(options, "inertias", arms, tip, SHOWN_DT, base=ON_A_WALL)


def follow(
    actual: sim.torch.Robot, known: sim.torch.Robot, q: torch.Tensor, qd: torch.Tensor, qdd: torch.Tensor
) -> torch.Tensor:
    """Simulate the actual arm with a controller that uses the known one. Returns coordinates [samples, nq].

    Friction is compensated at the desired speeds: at the actual ones a joint with overestimated damping would
        accelerate.
    """
    smooth = copy.deepcopy(known)
    smooth.damping.zero_()
    smooth.friction_loss.zero_()
    friction = known.inverse_dynamics(q, qd, qdd) - smooth.inverse_dynamics(q, qd, qdd)
    at, speed, result = q[0], qd[0], []
    for wanted, fast, faster, lost in zip(q, qd, qdd, friction, strict=True):
        result.append(at)
        tau = smooth.inverse_dynamics(at, speed, faster + STIFFNESS * (wanted - at) + DAMPING * (fast - speed))
        speed = speed + SHOWN_DT * actual.forward_dynamics(at, speed, tau + lost)
        at = at + SHOWN_DT * speed
    return torch.stack(result)


def report(robot: sim.torch.Robot, links: list[int], drawing: Drawing, true: Bodies, learnt: Bodies) -> None:
    """Print a table of the links."""
    print(f"{'link':>20}  mass drawn    true  learnt   error   com error, before and after   inertia error")
    before, after = ((bodies.com - true.com).norm(dim=1) for bodies in (drawing.bodies, learnt))
    inertia = (learnt.inertia - true.inertia).norm(dim=(1, 2)) / true.inertia.norm(dim=(1, 2))
    for k, link in enumerate(links):
        error = learnt.mass[k] / true.mass[k] - 1.0
        print(
            f"{robot.link_names[link]:>20}  {drawing.bodies.mass[k]:7.3f} kg {true.mass[k]:7.3f} {learnt.mass[k]:7.3f} "
            f"{error:7.2%} {1e3 * before[k]:11.2f} mm {1e3 * after[k]:8.2f} mm {inertia[k]:13.1%}"
        )


def write(
    options: argparse.Namespace, learning: Learning, robot: sim.torch.Robot, links: list[int], drawn: Bodies,
    true: Bodies, learnt: Bodies,
) -> list[Path]:  # fmt: skip
    """Write plots and numbers."""
    curve, masses, file = (options.out / name for name in ("loss.png", "masses.png", "inertias.npz"))
    numbers = {
        f"{name}_{kind}": getattr(bodies, name).cpu().numpy()
        for kind, bodies in (("drawn", drawn), ("true", true), ("learnt", learnt))
        for name in ("mass", "com", "inertia")
    }
    write_arrays(file, names=learning.names, figures=learning.figures, **numbers)
    with plot(curve) as (axes,):
        draw_curve(axes, learning["mass error"], GOAL, f"{GOAL:.2%} of the masses")
        axes.set_ylabel("mean error of the masses")
    with plot(masses) as (axes,):
        x = np.arange(len(links))
        for shift, kind, color in ((-0.25, "drawn", GREY), (0.0, "true", RED), (0.25, "learnt", BLUE)):
            axes.bar(x + shift, numbers[f"mass_{kind}"], 0.25, label=kind, color=color)
        axes.set_xticks(x, [robot.link_names[link] for link in links], rotation=45, ha="right")
        axes.set_ylabel("mass [kg]")
        axes.legend()
    return [curve, masses, file]


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/inertias", iterations=40)
    add_robot_option(parser)
    parser.add_argument("--seconds", type=float, default=100.0, help="duration of the motion [s] (100)")
    parser.add_argument("--noise", type=float, default=0.05, help="relative noise of the torques (0.05)")
    parser.add_argument(
        "--com-error",
        type=float,
        default=5e-4,
        help="error of each coordinate of the drawn centres of mass [m] (0.0005)",
    )
    parser.add_argument("--shape-error", type=float, default=0.05, help="error of the drawn shapes, a strain (0.05)")
    options = parse_example(parser, finite=NUMBERS)
    for name in NUMBERS:
        if getattr(options, name) <= 0.0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    make_folder(options.out)
    return parser, options


if __name__ == "__main__":
    main()
