"""A network learns the friction in an arm's joints from how the arm moves.

The arm is known but for its friction: dry friction that grows towards standstill (Stribeck) and viscous friction, other
in each joint. Recorded torques move the joints through their range; positions and velocities are observed with noise
every 2 ms. The model is hybrid: forward dynamics of the robot with a small network for each joint, which takes the
joint's velocity and gives a torque. From observed states it foretells the next 50 ms under the recorded torques; the
networks are trained on what it misses of the observed velocities, backwards through all steps.

    python -m examples.joint_friction
    python -m examples.joint_friction --iterations 600
    python -m examples.joint_friction --robot panda

The goal is to foretell velocities over 0.2 s of other motions with less than a tenth of the error that the arm without
friction makes.

Files: loss.png, the error over the iterations; curves.png, the friction that was learnt over the true one at velocities
that came up; joint_friction.npz with these velocities [points, nv], true and learnt friction at them and the figures of
every iteration; networks.pt, the state_dict of the networks; joint_friction.gif and joint_friction.usda: what is
foretold of other motions, each from an observed state on for a second under the recorded torques, without friction for
the left arm (grey), with the networks for the right one (blue). Balls are where the rods of the arm itself were.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import sim.torch
from examples.arms import Arm, pointer, write_arms
from examples.learning import Learning, add_robot_option, draw, learn, load_robot, moving, verdict
from examples.options import example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, draw_curve, plot
from examples.resume import Progress

GOAL = 0.1  # error in foretelling, relative to that of the arm without friction
DT = 0.002  # between observations, and of the model's steps [s]
SUBSTEPS = 4  # of the arm itself, in DT
STEPS = 25  # that the model foretells in training
NEW_STEPS = 100  # and afterwards
SHOWN, SHOWN_STEPS = 3, 500  # motions that are shown, and the steps of each
WINDOWS = 128  # of observations in an iteration
MOTIONS, SECONDS = 16, 4.0  # that are observed
NEW_MOTIONS, NEW_WINDOWS = 8, 64
WEAKNESS = 50.0  # strongest torque of a joint over its dry friction
ARMATURE = 0.2  # inertia of each joint's drive, seen from the joint [kg m^2]
NOISE_Q, NOISE_QD = 1e-4, 2e-3  # standard deviations of what is observed [rad, rad/s]
SLOW = 0.1  # above this velocity the networks see ever less of a difference between velocities [rad/s]
HIDDEN = 16
POINTS = 401  # of the curves
RATE = 0.03  # of learning, at first


class TrueFriction(torch.nn.Module):
    """Dry friction with its Stribeck peak, and viscous friction: torques against velocities [..., nv].

    Args:
        strength: dry friction of each joint in fast motion [nv].
    """

    def __init__(self, strength: torch.Tensor):
        super().__init__()
        self.strength = strength

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """The torque against a velocity."""
        peak = 1.0 + 0.6 * torch.exp(-((qd / 0.3) ** 2))
        return self.strength * (peak * torch.tanh(qd / 0.05) + 0.4 * qd)


class LearntFriction(torch.nn.Module):
    """A network with two hidden layers for each joint: torques against velocities [..., nv].

    Args:
        scale: a torque of each joint, with which its network's output is multiplied [nv].
        seed: of the weights at the start.
    """

    def __init__(self, scale: torch.Tensor, seed: int):
        super().__init__()
        self.scale, joints = scale, len(scale)
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for number, (inputs, outputs) in enumerate([(1, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]):
            first = number == 0  # whose bends are sharp and spread over the velocities
            weight = draw(seed + number, joints, inputs, outputs, like=scale) * (2.0 if first else inputs**-0.5)
            bias = draw(seed + number + 3, joints, 1, outputs, like=scale) * (4.0 if first else 0.0)
            self.weights.append(weight)
            self.biases.append(bias)

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """The torque against a velocity."""
        x = torch.asinh(qd / SLOW).reshape(-1, len(self.scale)).T.unsqueeze(-1)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x if number == 0 else torch.tanh(x), weight)
        return self.scale * x.squeeze(-1).T.reshape(qd.shape)


class NoFriction(torch.nn.Module):
    """None."""

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """Zero."""
        return torch.zeros_like(qd)


@dataclass(frozen=True)
class Observations:
    """What was seen of motions.

    Attributes:
        q: coordinates [steps + 1, motions, nq].
        qd: velocities [steps + 1, motions, nv].
        tau: torques of the drives in each step [steps, motions, nv].
    """

    q: torch.Tensor
    qd: torch.Tensor
    tau: torch.Tensor

    def windows(self, steps: int, count: int, seed: int) -> "Observations":
        """So many pieces of motions, at random."""
        generator = torch.Generator().manual_seed(seed)
        start = torch.randint(len(self.tau) - steps + 1, (count,), generator=generator)
        motion = torch.randint(self.tau.shape[1], (count,), generator=generator)
        time = start + torch.arange(steps + 1)[:, None]
        return Observations(self.q[time, motion], self.qd[time, motion], self.tau[time[:-1], motion])


def step(
    robot: sim.torch.Robot, friction: torch.nn.Module, q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor, dt: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A step in time of the arm with friction: q and qd after it."""
    new = qd + dt * robot.forward_dynamics(q, qd, tau - friction(qd))
    return q + 0.5 * dt * (qd + new), new


def foretell(
    robot: sim.torch.Robot, friction: torch.nn.Module, seen: Observations
) -> tuple[torch.Tensor, torch.Tensor]:
    """Motions under the recorded torques from the first observation on: q [steps, motions, nq] and qd."""
    q, qd, result = seen.q[0], seen.qd[0], []
    for tau in seen.tau:
        q, qd = step(robot, friction, q, qd, tau, DT)
        result.append((q, qd))
    all_q, all_qd = (torch.stack(each) for each in zip(*result, strict=True))
    return all_q, all_qd


@torch.no_grad()
def observe(robot: sim.torch.Robot, friction: torch.nn.Module, motions: int, seconds: float, seed: int) -> Observations:
    """Move an arm with friction, each motion along sums of sines by a controller that knows no friction, and watch."""
    wanted = [moving(robot, seconds, seed + k, DT) for k in range(motions)]
    q_wanted, qd_wanted, qdd_wanted = (torch.stack(each, dim=1) for each in zip(*wanted, strict=True))
    q, qd = q_wanted[0], qd_wanted[0]
    seen: list[tuple[torch.Tensor, ...]] = []
    for number in range(len(q_wanted)):
        correction = 100.0 * (q_wanted[number] - q) + 20.0 * (qd_wanted[number] - qd)
        tau = robot.inverse_dynamics(q, qd, qdd_wanted[number] + correction)
        seen.append((q, qd, tau))
        for _ in range(SUBSTEPS):
            q, qd = step(robot, friction, q, qd, tau, DT / SUBSTEPS)
    all_q, all_qd, all_tau = (torch.stack(each) for each in zip(*seen, strict=True))
    all_q = all_q + NOISE_Q * draw(seed + motions, *all_q.shape, like=all_q)
    all_qd = all_qd + NOISE_QD * draw(seed + motions + 1, *all_qd.shape, like=all_qd)
    return Observations(all_q, all_qd, all_tau[:-1])


def train(
    robot: sim.torch.Robot, friction: LearntFriction, seen: Observations, new: Observations, windows: int, seed: int,
    iterations: int, kept: Progress | None = None,
) -> Learning:  # fmt: skip
    """Train the networks of all joints.

    Args:
        robot: the arm without friction.
        friction: the networks; they are trained afterwards.
        seen: what is learnt from.
        new: pieces of other motions, for the error.
        windows: how many pieces of motions an iteration looks at.
        seed: of the choice of these.
        iterations: how many.
        kept: where the learning keeps how far it is.
    """
    spread = (seen.qd[STEPS:] - seen.qd[:-STEPS]).std(dim=(0, 1))

    def missed(model: torch.nn.Module, piece: Observations) -> torch.Tensor:
        return ((foretell(robot, model, piece)[1] - piece.qd[1:]) / spread).square().mean()

    with torch.no_grad():
        without = missed(NoFriction(), new)

    def loss(iteration: int) -> torch.Tensor:
        return missed(friction, seen.windows(STEPS, windows, seed + iteration))

    @torch.no_grad()
    def measure() -> dict[str, float]:
        return {"error": float((missed(friction, new) / without).sqrt())}

    optimiser = torch.optim.Adam(friction.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(iterations, 1))
    return learn(friction, optimiser, loss, measure, iterations, kept, scheduler=scheduler)


def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options, masses=True)
    robot.armature.fill_(ARMATURE)
    robot.friction_loss.zero_()  # what a file gives: the true friction stands for all there is
    limited = (robot.effort_limit > 0.0) & robot.effort_limit.isfinite()
    strength = torch.where(limited, robot.effort_limit, 50.0) / WEAKNESS
    true, friction = TrueFriction(strength), LearntFriction(strength, options.seed)
    print(f"{robot.nv} joints, {MOTIONS} motions of {SECONDS:g} s are observed")
    seen = observe(robot, true, MOTIONS, SECONDS, options.seed + 100)
    new = observe(robot, true, NEW_MOTIONS, SECONDS, options.seed + 200).windows(NEW_STEPS, NEW_WINDOWS, options.seed)

    # How far it is depends on how many iterations there are to be, since the rate of learning falls to zero.
    problem = {name: str(getattr(options, name)) for name in ("robot", "seed", "windows", "iterations")}
    kept = Progress(options.out / "interrupted.npz", problem, options.restart)
    learning = train(robot, friction, seen, new, options.windows, options.seed + 300, options.iterations, kept)
    with torch.no_grad():
        low, high = (seen.qd.flatten(0, 1).quantile(share, dim=0) for share in (0.01, 0.99))
        qd = low + torch.linspace(0.0, 1.0, POINTS).to(low)[:, None] * (high - low)
        wanted, learnt = true(qd), friction(qd)
    off = ((learnt - wanted).square().mean(0) / wanted.square().mean(0)).sqrt()
    for joint, strong, error in zip(robot.joint_names, strength.tolist(), off.tolist(), strict=True):
        print(f"{joint:>20}  dry friction {strong:6.3f}, the learnt curve is {error:.1%} off")
    error = learning["error"][-1]
    print(f"{verdict(error < GOAL, learning)}: velocities foretold with {error:.1%} of the error without friction")
    files = write(options, learning, friction, robot.joint_names, qd, wanted, learnt)
    another = observe(robot, true, SHOWN, (SHOWN_STEPS + 1) * DT, options.seed + 400)
    files += show(options, robot, {GREY: NoFriction(), BLUE: friction}, another)
    print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


@torch.no_grad()
def show(
    options: argparse.Namespace, robot: sim.torch.Robot, known: dict[str, torch.nn.Module], seen: Observations
) -> list[Path]:
    """Write what is foretold of motions, one after the other, with friction known so or so, by colour."""
    tip = robot.link_names[-1]
    ball = pointer(robot, seen.q[1:], tip).transpose(0, 1).flatten(0, 1)
    arms = [
        Arm(color, robot, foretell(robot, friction, seen)[0].transpose(0, 1).flatten(0, 1), ball)
        for color, friction in known.items()
    ]
    return write_arms(options, "joint_friction", arms, tip, DT, speed=0.5)


def write(
    options: argparse.Namespace, learning: Learning, friction: LearntFriction, joints: tuple[str, ...],
    qd: torch.Tensor, true: torch.Tensor, learnt: torch.Tensor,
) -> list[Path]:  # fmt: skip
    """Write plots, numbers and networks; the friction is [points, nv] at velocities qd."""
    files = [options.out / name for name in ("loss.png", "curves.png", "joint_friction.npz", "networks.pt")]
    curve, curves, file, networks = files
    arrays = {name: x.cpu().numpy() for name, x in (("qd", qd), ("true", true), ("learnt", learnt))}
    np.savez(file, **{"names": np.array(learning.names), "figures": learning.figures, **arrays}, allow_pickle=False)
    torch.save(friction.state_dict(), networks)
    with plot(curve) as (axes,):
        draw_curve(axes, learning["error"], GOAL, f"{GOAL:.0%}", marker=None)
        axes.set_ylabel("error in foretelling velocities")
    with plot(curves, columns=4, rows=-(-len(joints) // 4)) as panels:
        for panel in panels[len(joints) :]:
            panel.axis("off")
        for number, (panel, joint) in enumerate(zip(panels, joints, strict=False)):
            panel.plot(arrays["qd"][:, number], arrays["true"][:, number], color=RED, linewidth=3.0, label="true")
            panel.plot(arrays["qd"][:, number], arrays["learnt"][:, number], color=BLUE, linewidth=1.5, label="learnt")
            panel.set_title(joint)
            panel.set_xlabel("velocity")
        panels[0].set_ylabel("friction [N m]")
        panels[0].legend()
    return files


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/joint_friction", iterations=300)
    add_robot_option(parser)
    parser.add_argument("--windows", type=int, default=128, help="of 50 ms, that an iteration looks at (128)")
    options = parse_example(parser)
    if options.windows < 1:
        parser.error("--windows must be positive")
    make_folder(parser, options.out)
    return parser, options


if __name__ == "__main__":
    main()
