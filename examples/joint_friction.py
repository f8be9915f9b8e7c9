"""Learns the friction in an arm's joints with networks, from observed motion.

Everything about the arm is known except its friction: dry friction that increases towards standstill (Stribeck) and
viscous friction, different in each joint. Recorded torques move the joints through their range. Positions and
velocities are observed with noise every 2 ms. The model is hybrid: the robot's forward dynamics with a small network
per joint that maps the joint's velocity to a torque. From observed states it predicts the next 50 ms under the recorded
torques. The networks are trained on the error of the predicted velocities, with gradients through all steps.

    python -m examples.joint_friction
    python -m examples.joint_friction --iterations 600
    python -m examples.joint_friction --robot panda

The goal is to predict velocities over 0.2 s of other motions with less than a tenth of the error without friction.

Files: loss.png, the error over the iterations; curves.png, learnt and true friction over the observed velocities;
joint_friction.npz with these velocities [points, nv], true and learnt friction, and the figures of every iteration;
networks.pt, the state_dict of the networks; joint_friction.gif and joint_friction.usda with predictions of other
motions. Each prediction starts from an observed state and covers a second under the recorded torques, without friction
for the left arm (grey), with the networks for the right one (blue). Balls mark where the rods of the actual arm were.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import sim.torch
from examples.arms import Arm, pointer, write_arms
from examples.learning import Learning, add_robot_option, draw, learn, load_robot, moving, verdict, write_network
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, RED, draw_curve, plot, write_arrays
from sim.progress import Progress

GOAL = 0.1  # prediction error relative to that without friction
DT = 0.002  # between observations, and time step of the model [s]
SUBSTEPS = 4  # steps of the actual arm in DT
STEPS = 25  # predicted steps in training
NEW_STEPS = 100  # predicted steps in the evaluation
SHOWN, SHOWN_STEPS = 3, 500  # number of motions shown, and steps of each
MOTIONS, SECONDS = 16, 4.0  # number and duration of the observed motions
NEW_MOTIONS, NEW_WINDOWS = 8, 64  # motions and windows of the evaluation
WEAKNESS = 50.0  # a joint's effort limit over its dry friction
ARMATURE = 0.2  # rotor inertia of each joint's drive, reflected to the joint [kg m^2]
NOISE_Q, NOISE_QD = 1e-4, 2e-3  # standard deviations of the observations [rad, rad/s]
SLOW = 0.1  # velocity above which the networks' input is compressed [rad/s]
HIDDEN = 16
POINTS = 401  # points of the curves
RATE = 0.03  # initial learning rate


class TrueFriction(torch.nn.Module):
    """Dry friction with its Stribeck peak, and viscous friction: torques against velocities [..., nv].

    Args:
        strength: dry friction of each joint at high velocity [nv].
    """

    def __init__(self, strength: torch.Tensor):
        super().__init__()
        self.strength = strength

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """Return the torque against a velocity."""
        peak = 1.0 + 0.6 * torch.exp(-((qd / 0.3) ** 2))
        return self.strength * (peak * torch.tanh(qd / 0.05) + 0.4 * qd)


class LearntFriction(torch.nn.Module):
    """A network with two hidden layers per joint: torques against velocities [..., nv].

    Args:
        scale: torque by which the output of each joint's network is multiplied [nv].
        seed: seed of the initial weights.
    """

    def __init__(self, scale: torch.Tensor, seed: int):
        super().__init__()
        self.scale, joints = scale, len(scale)
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for number, (inputs, outputs) in enumerate([(1, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]):
            first = number == 0  # its activations have kinks, at points spread over the velocities
            weight = draw(seed + number, joints, inputs, outputs, like=scale) * (2.0 if first else inputs**-0.5)
            bias = draw(seed + number + 3, joints, 1, outputs, like=scale) * (4.0 if first else 0.0)
            self.weights.append(weight)
            self.biases.append(bias)

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """Return the torque against a velocity."""
        x = torch.asinh(qd / SLOW).reshape(-1, len(self.scale)).T.unsqueeze(-1)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x if number == 0 else torch.tanh(x), weight)
        return self.scale * x.squeeze(-1).T.reshape(qd.shape)


class NoFriction(torch.nn.Module):
    """No friction."""

    def forward(self, qd: torch.Tensor) -> torch.Tensor:
        """Return zero."""
        return torch.zeros_like(qd)


@dataclass(frozen=True)
class Observations:
    """Observed motions.

    Attributes:
        q: coordinates [steps + 1, motions, nq].
        qd: velocities [steps + 1, motions, nv].
        tau: drive torques in each step [steps, motions, nv].
    """

    q: torch.Tensor
    qd: torch.Tensor
    tau: torch.Tensor

    def windows(self, steps: int, count: int, seed: int) -> "Observations":
        """Select random windows of the motions."""
        generator = torch.Generator().manual_seed(seed)
        start = torch.randint(len(self.tau) - steps + 1, (count,), generator=generator)
        motion = torch.randint(self.tau.shape[1], (count,), generator=generator)
        time = start + torch.arange(steps + 1)[:, None]
        return Observations(self.q[time, motion], self.qd[time, motion], self.tau[time[:-1], motion])


def step(
    robot: sim.torch.Robot, friction: torch.nn.Module, q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor, dt: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take a time step of the arm with friction. Returns the next q and qd."""
    new = qd + dt * robot.forward_dynamics(q, qd, tau - friction(qd))
    return q + 0.5 * dt * (qd + new), new


def predict(robot: sim.torch.Robot, friction: torch.nn.Module, seen: Observations) -> tuple[torch.Tensor, torch.Tensor]:
    """Predict motions under the recorded torques from the first observation. Returns q [steps, motions, nq] and qd."""
    q, qd, result = seen.q[0], seen.qd[0], []
    for tau in seen.tau:
        q, qd = step(robot, friction, q, qd, tau, DT)
        result.append((q, qd))
    all_q, all_qd = (torch.stack(each) for each in zip(*result, strict=True))
    return all_q, all_qd


@torch.no_grad()
def observe(robot: sim.torch.Robot, friction: torch.nn.Module, motions: int, seconds: float, seed: int) -> Observations:
    """Observe an arm with friction. A controller without friction model follows sums of sines in each motion."""
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
        friction: the networks; they are trained in place.
        seen: the observations to learn from.
        new: windows of other motions, to measure the error.
        windows: number of windows per iteration.
        seed: seed of the choice of windows.
        iterations: number of iterations.
        kept: saves the progress; None saves nothing.
    """
    spread = (seen.qd[STEPS:] - seen.qd[:-STEPS]).std(dim=(0, 1))

    def error(model: torch.nn.Module, window: Observations) -> torch.Tensor:
        return ((predict(robot, model, window)[1] - window.qd[1:]) / spread).square().mean()

    with torch.no_grad():
        without = error(NoFriction(), new)

    def loss(iteration: int) -> torch.Tensor:
        return error(friction, seen.windows(STEPS, windows, seed + iteration))

    @torch.no_grad()
    def measure() -> dict[str, float]:
        return {"error": float((error(friction, new) / without).sqrt())}

    optimiser = torch.optim.Adam(friction.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(iterations, 1))
    return learn(friction, optimiser, loss, measure, iterations, kept, scheduler=scheduler)


@command
def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options, masses=True)
    robot.armature.fill_(ARMATURE)
    robot.friction_loss.zero_()  # replaced by the true friction below
    limited = (robot.effort_limit > 0.0) & robot.effort_limit.isfinite()
    strength = torch.where(limited, robot.effort_limit, 50.0) / WEAKNESS
    true, friction = TrueFriction(strength), LearntFriction(strength, options.seed)
    print(f"{robot.nv} joints, {MOTIONS} motions of {SECONDS:g} s are observed")
    seen = observe(robot, true, MOTIONS, SECONDS, options.seed + 100)
    new = observe(robot, true, NEW_MOTIONS, SECONDS, options.seed + 200).windows(NEW_STEPS, NEW_WINDOWS, options.seed)

    # The number of iterations is part of the problem, since the learning rate falls to zero over them.
    problem = {name: str(getattr(options, name)) for name in ("robot", "seed", "windows", "iterations")}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        learning = train(robot, friction, seen, new, options.windows, options.seed + 300, options.iterations, kept)
        with torch.no_grad():
            low, high = (seen.qd.flatten(0, 1).quantile(share, dim=0) for share in (0.01, 0.99))
            qd = low + torch.linspace(0.0, 1.0, POINTS).to(low)[:, None] * (high - low)
            wanted, learnt = true(qd), friction(qd)
        off = ((learnt - wanted).square().mean(0) / wanted.square().mean(0)).sqrt()
        for joint, strong, error in zip(robot.joint_names, strength.tolist(), off.tolist(), strict=True):
            print(f"{joint:>20}  dry friction {strong:6.3f}, error of the learnt curve {error:.1%}")
        error = learning["error"][-1]
        print(f"{verdict(error < GOAL, learning)}: velocities predicted with {error:.1%} of the error without friction")
        files = write(options, learning, friction, robot.joint_names, qd, wanted, learnt)
        another = observe(robot, true, SHOWN, (SHOWN_STEPS + 1) * DT, options.seed + 400)
        files += show(options, robot, {GREY: NoFriction(), BLUE: friction}, another)
        print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


@torch.no_grad()
def show(
    options: argparse.Namespace, robot: sim.torch.Robot, known: dict[str, torch.nn.Module], seen: Observations
) -> list[Path]:
    """Write an animation of predicted motions, one after the other, with different friction models, by colour."""
    tip = robot.link_names[-1]
    ball = pointer(robot, seen.q[1:], tip).transpose(0, 1).flatten(0, 1)
    arms = [
        Arm(color, robot, predict(robot, friction, seen)[0].transpose(0, 1).flatten(0, 1), ball)
        for color, friction in known.items()
    ]
    return write_arms(options, "joint_friction", arms, tip, DT, speed=0.5)


def write(
    options: argparse.Namespace, learning: Learning, friction: LearntFriction, joints: tuple[str, ...],
    qd: torch.Tensor, true: torch.Tensor, learnt: torch.Tensor,
) -> list[Path]:  # fmt: skip
    """Write plots, numbers and networks. True and learnt friction are [points, nv] at velocities qd."""
    files = [options.out / name for name in ("loss.png", "curves.png", "joint_friction.npz", "networks.pt")]
    curve, curves, file, networks = files
    arrays = {name: x.cpu().numpy() for name, x in (("qd", qd), ("true", true), ("learnt", learnt))}
    write_arrays(file, names=np.array(learning.names), figures=learning.figures, **arrays)
    write_network(networks, friction)
    with plot(curve) as (axes,):
        draw_curve(axes, learning["error"], GOAL, f"{GOAL:.0%}", marker=None)
        axes.set_ylabel("error of predicted velocities")
    with plot(curves, columns=4, rows=-(-len(joints) // 4)) as panels:
        for panel in panels[len(joints) :]:
            panel.axis("off")
        for number, (panel, joint) in enumerate(zip(panels, joints, strict=False)):
            panel.plot(arrays["qd"][:, number], arrays["true"][:, number], color=RED, linewidth=3.0, label="true")
            panel.plot(arrays["qd"][:, number], arrays["learnt"][:, number], color=BLUE, linewidth=1.5, label="learnt")
            panel.set_title(joint)
            panel.set_xlabel("velocity [rad/s]")
        panels[0].set_ylabel("friction [N m]")
        panels[0].legend()
    return files


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/joint_friction", iterations=300)
    add_robot_option(parser)
    parser.add_argument("--windows", type=int, default=128, help="number of windows of 50 ms per iteration (128)")
    options = parse_example(parser)
    if options.windows < 1:
        parser.error("--windows must be positive")
    make_folder(options.out)
    return parser, options


if __name__ == "__main__":
    main()
