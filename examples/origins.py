"""Calibrates the joint origins of an arm from measured positions of its tip.

The arm is not built as drawn in the URDF file: each joint's origin is off by 5 mm along each axis and by 1 degree about
it. A marker on the last link is measured in 1000 poses to 0.3 mm. Translation and rotation of all origins are learnt
with L-BFGS, which minimises the squared position residuals and the squared deviations from the drawing, each divided by
its standard deviation.

    python -m examples.origins
    python -m examples.origins --poses 200 --noise 0.001
    python -m examples.origins --robot panda --tip panda_hand

Positions do not determine all numbers. A joint's origin may slide along its axis and turn about it, and if the next
joint's origin does the opposite, nothing else moves. Of the 42 numbers of seven joints, positions therefore determine
30 combinations; the drawing determines the rest. All these choices have the same lines of the joint axes, so the axes
are compared.

It ends when an iteration barely reduces the loss. The goal is to predict the marker in new poses to 0.1 mm (root mean
square), a third of the measurement noise.

Files: loss.png, the error over the iterations; axes.png, the error of each axis; origins.npz with the figures and, for
each joint, distances [m] and angles [rad] of the axes before and after; learnt.urdf, the arm as learnt; origins.gif and
origins.usda, which show the benefit. There, two arms should lead a rod along a circle, following the balls. Inverse
kinematics used the drawing for the left arm (grey) and the learnt arm for the right one (blue).
"""

import argparse
import copy
from pathlib import Path

import numpy as np
import torch

import sim.torch
from examples.arms import Arm, pointer, write_arms
from examples.learning import Learning, add_robot_option, draw, learn, load_robot, reach, verdict
from examples.options import command, example_parser, make_folder, parse_example
from examples.outputs import BLUE, GREY, draw_curve, plot, write_arrays
from sim.progress import Progress
from warp_kernels.types import REVOLUTE

GOAL = 1e-4  # error of the marker in new poses [m]
SHIFT = 5e-3  # standard deviation of each coordinate of an origin [m]
TURN = np.radians(1.0)  # standard deviation of its rotation about each axis
MARKER = (0.1, 0.05, 0.1)  # in the frame of the tip, off the last joint's axis [m]
NEW_POSES = 200
CIRCLE = 0.15  # radius of the circle shown, relative to the reach of the rod
TURN_SECONDS, TURN_FRAMES = 4.0, 100  # duration and frames of one revolution
EASY = 0.95  # quantile of manipulability above which a pose may be the start
CORRECTIONS, CAUTION = 3, 0.01  # steps of damped least squares per frame, and their damping [m]
RANK_POSES = 40
RANK_TOLERANCE = 1e-7  # for singular values
STEPS = 20  # L-BFGS steps per iteration
ENOUGH = 0.1  # stop when an iteration reduces the loss, half a chi square, by less than this


def chain(robot: sim.torch.Robot, tip: str) -> list[int]:
    """Return links whose joints move the tip, starting from the base."""
    model = robot.model
    dof = int(model.link_tail_dof[model.link(tip)])
    links = []
    while dof >= 0:
        links.append(int(model.dof_link[dof]))
        dof = int(model.dof_parent[dof])
    return links[::-1]


def marker(robot: sim.torch.Robot, q: torch.Tensor, tip: str) -> torch.Tensor:
    """Compute positions of the marker in the world [poses, 3] [m]."""
    pose = robot.forward_kinematics_matrix(q, tip)
    return pose[:, :3, :3] @ pose.new_tensor(MARKER) + pose[:, :3, 3]


def axes(robot: sim.torch.Robot, q: torch.Tensor, links: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute a point on each joint's axis and the axis' direction, in the world [poses, joints, 3]."""
    poses = robot.forward_kinematics_matrix(q, [robot.link_names[link] for link in links])
    direction = torch.as_tensor(robot.model.joint_axis[links]).to(q)
    return poses[..., :3, 3], (poses[..., :3, :3] @ direction[:, :, None]).squeeze(-1)


def compare(
    robot: sim.torch.Robot, built: sim.torch.Robot, q: torch.Tensor, links: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute distances [m] and angles [rad] between the axes of two arms: means over poses [joints].

    The distance is 0 for prismatic joints, whose axis has no position.
    """
    (point, direction), (true_point, true_direction) = axes(robot, q, links), axes(built, q, links)
    turns = torch.as_tensor(robot.model.joint_type[links] == REVOLUTE).to(q)
    distance = torch.linalg.cross(true_point - point, direction).norm(dim=-1).mean(0) * turns
    return distance, torch.linalg.cross(direction, true_direction).norm(dim=-1).asin().mean(0)


def make_origins_learnable(robot: sim.torch.Robot, links: list[int]) -> torch.nn.ParameterList:
    """Make the origins of joints learnable. Returns a translation [3] and a rotation vector [3] for each."""
    numbers = []
    for link in links:
        name = robot.link_names[link]
        numbers += [*robot.learn_quantity(name, "translation").parameters()]
        numbers += [*robot.learn_quantity(name, "rotation").parameters()]
    return torch.nn.ParameterList(numbers)


def scales(numbers: torch.nn.ParameterList) -> list[float]:
    """Return the standard deviation of each parameter; translations and rotations alternate."""
    return [SHIFT, TURN] * (len(numbers) // 2)


def built_otherwise(robot: sim.torch.Robot, links: list[int], seed: int) -> sim.torch.Robot:
    """Return a copy of the arm with random errors in its origins."""
    built = copy.deepcopy(robot)
    numbers = make_origins_learnable(built, links)
    z = draw(seed, len(numbers), 3, like=robot.mass)
    with torch.no_grad():
        for number, scale, change in zip(numbers, scales(numbers), z, strict=True):
            number += scale * change
    return built.requires_grad_(False)


def shown(robot: sim.torch.Robot, numbers: torch.nn.ParameterList, q: torch.Tensor, tip: str) -> int:
    """Return the number of combinations of the parameters that change the marker's positions."""
    rows = []
    for position in marker(robot, q, tip).flatten():
        gradients = torch.autograd.grad(position, list(numbers), retain_graph=True)
        rows.append(torch.cat([g * scale for g, scale in zip(gradients, scales(numbers), strict=True)]))
    singular = torch.linalg.svdvals(torch.stack(rows))
    return int((singular > RANK_TOLERANCE * singular[0]).sum())


def calibrate(
    robot: sim.torch.Robot, numbers: torch.nn.ParameterList, q: torch.Tensor, measured: torch.Tensor, noise: float,
    tip: str, built: sim.torch.Robot, new_q: torch.Tensor, iterations: int, kept: Progress | None = None,
) -> Learning:  # fmt: skip
    """Learn the origins of a robot's joints from measured positions.

    Args:
        robot: the robot as drawn; it is updated in place.
        numbers: parameters of the origins, see :func:`make_origins_learnable`.
        q: coordinates of the poses [poses, nq].
        measured: positions of the marker in them [poses, 3] [m].
        noise: standard deviation of each coordinate [m].
        tip: name of the link with the marker.
        built: the actual arm, to compute errors.
        new_q: coordinates of other poses, in which the marker is predicted [poses, nq].
        iterations: maximum number of iterations.
        kept: saves the progress; None saves nothing.
    """
    drawn = [number.detach().clone() for number in numbers]
    links = chain(robot, tip)

    def loss(_: int) -> torch.Tensor:
        residuals = (marker(robot, q, tip) - measured) / noise
        changes = [(x - x0) / s for x, x0, s in zip(numbers, drawn, scales(numbers), strict=True)]
        return 0.5 * residuals.square().sum() + 0.5 * torch.cat(changes).square().sum()

    @torch.no_grad()
    def measure() -> dict[str, float]:
        off = marker(robot, new_q, tip) - marker(built, new_q, tip)
        distance, angle = compare(robot, built, new_q, links)
        return {
            "marker [mm]": 1e3 * float(off.square().sum(-1).mean().sqrt()),
            "axes [mm]": 1e3 * float(distance.mean()),
            "axes [deg]": float(angle.mean().rad2deg()),
        }

    optimiser = torch.optim.LBFGS(
        numbers.parameters(), max_iter=STEPS, history_size=100, line_search_fn="strong_wolfe", tolerance_change=0.0
    )
    return learn(robot, optimiser, loss, measure, iterations, kept, enough=ENOUGH)


@command
def main() -> None:
    parser, options = parse()
    robot = load_robot(parser, options, merge=False)
    tip = options.tip or robot.link_names[-1]
    if tip not in robot.link_names or not chain(robot, tip):
        parser.error(f"--tip {tip}: no joint moves a link of this name; the links are {', '.join(robot.link_names)}")
    links = chain(robot, tip)
    built = built_otherwise(robot, links, options.seed)
    middle, half = reach(robot)
    generator = torch.Generator().manual_seed(options.seed + 1)
    anywhere = torch.rand(options.poses + NEW_POSES, robot.nq, generator=generator, dtype=half.dtype).to(half.device)
    q, new_q = (middle + (2.0 * anywhere - 1.0) * half).split([options.poses, NEW_POSES])
    exact = marker(built, q, tip)
    measured = exact + options.noise * draw(options.seed + 2, *exact.shape, like=exact)
    before = torch.stack(compare(robot, built, new_q, links))
    drawn = copy.deepcopy(robot)
    numbers = make_origins_learnable(robot, links)
    count = shown(robot, numbers, new_q[:RANK_POSES], tip)
    print(f"{len(links)} joints, {options.poses} poses; positions determine {count} of {6 * len(links)} numbers")

    problem = {name: str(getattr(options, name)) for name in ("robot", "tip", "seed", "poses", "noise")}
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        learning = calibrate(robot, numbers, q, measured, options.noise, tip, built, new_q, options.iterations, kept)
        with torch.no_grad():
            after = torch.stack(compare(robot, built, new_q, links))
        distances, angles = (torch.stack(both).cpu().numpy() for both in zip(before, after, strict=True))
        for k, link in enumerate(links):
            print(
                f"{robot.model.joint_names[link]:>20}  axis off by {1e3 * distances[0, k]:6.2f} mm and "
                f"{np.degrees(angles[0, k]):5.2f} deg before, {1e3 * distances[1, k]:6.3f} mm and "
                f"{np.degrees(angles[1, k]):6.4f} deg after"
            )
        errors = learning["marker [mm]"]
        outcome = verdict(errors[-1] < 1e3 * GOAL, learning)
        print(f"{outcome}: marker predicted to within {errors[-1]:.3f} mm, {errors[0]:.1f} mm before")
        files = write(options, learning, robot, links, distances, angles)
        files += show(options, tip, built, {GREY: drawn, BLUE: robot}, new_q)
        print(f"wrote {', '.join(path.name for path in files)} to {options.out}")


@torch.no_grad()
def show(
    options: argparse.Namespace,
    tip: str,
    built: sim.torch.Robot,
    known: dict[str, sim.torch.Robot],
    poses: torch.Tensor,
) -> list[Path]:
    """Write an animation in which the arm leads its rod along a circle, with different knowledge of it, by colour.

    Args:
        options: the command line.
        tip: link with the rod.
        built: the actual arm.
        known: models of the arm, by colour.
        poses: candidates for the start [poses, nq]. Of those with high manipulability, the one with the largest error
            of the drawing is used.
    """
    ends, lever = pointer(built, poses, tip), lead(built, poses, tip)
    ease = torch.linalg.det(lever @ lever.mT) * (ends[:, 2] > 0.0)
    off = (ends - pointer(known[GREY], poses, tip)).norm(dim=1)
    start = int((off * (ease >= ease.quantile(EASY))).argmax())
    angle = torch.linspace(0.0, 2.0 * torch.pi, TURN_FRAMES + 1).to(ends)
    around = torch.stack([angle.cos() - 1.0, torch.zeros_like(angle), angle.sin()], dim=1)
    circle = ends[start] + CIRCLE * ends.norm(dim=1).max() * around
    arms = [Arm(color, built, trace(robot, circle, poses[start], tip), circle) for color, robot in known.items()]
    return write_arms(options, "origins", arms, tip, TURN_SECONDS / TURN_FRAMES, trails=True)


def lead(robot: sim.torch.Robot, q: torch.Tensor, tip: str) -> torch.Tensor:
    """Compute the Jacobian of the end of the rod [..., 3, nv]."""
    turning, moving = robot.jacobian(q, tip).split(3, dim=-2)
    arm = pointer(robot, q, tip) - robot.forward_kinematics(q, tip)[0]
    return moving + torch.linalg.cross(turning, arm[..., None].expand_as(turning), dim=-2)


def trace(robot: sim.torch.Robot, path: torch.Tensor, q: torch.Tensor, tip: str) -> torch.Tensor:
    """Compute coordinates [frames, nq] that lead the rod's end along a path [frames, 3], starting from ``q`` near its
    start.
    """
    result = []
    for x in path:
        for _ in range(CORRECTIONS):
            lever = lead(robot, q, tip)
            q = q + lever.mT @ torch.linalg.solve(
                lever @ lever.mT + CAUTION**2 * torch.eye(3).to(q), x - pointer(robot, q, tip)
            )
        result.append(q)
    return torch.stack(result)


def write(
    options: argparse.Namespace, learning: Learning, robot: sim.torch.Robot, links: list[int], distances: np.ndarray,
    angles: np.ndarray,
) -> list[Path]:  # fmt: skip
    """Write plots, numbers and the learnt arm. Distances and angles are [2, joints], before and after."""
    files = [options.out / name for name in ("loss.png", "axes.png", "origins.npz", "learnt.urdf")]
    curve, bars, file, urdf = files
    write_arrays(file, names=learning.names, figures=learning.figures, distances=distances, angles=angles)
    robot.save_urdf(urdf)
    with plot(curve) as (axes,):
        draw_curve(axes, learning["marker [mm]"], 1e3 * GOAL, f"{1e3 * GOAL:g} mm")
        axes.set_ylabel("error of the marker in new poses [mm]")
    with plot(bars) as (axes,):
        x = np.arange(len(links))
        for shift, values, label, color in ((-0.2, distances[0], "drawn", GREY), (0.2, distances[1], "learnt", BLUE)):
            axes.bar(x + shift, 1e3 * values, 0.4, label=label, color=color)
        axes.set_yscale("log")
        axes.set_ylim(top=10.0 * axes.get_ylim()[1])  # space for the legend
        axes.set_xticks(x, [robot.model.joint_names[link] for link in links], rotation=45, ha="right")
        axes.set_ylabel("distance of the axes [mm]")
        axes.legend()
    return files


def parse() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = example_parser(__doc__, out="out/origins", iterations=40)
    add_robot_option(parser)
    parser.add_argument("--tip", default=None, help="link with the marker (the last one)")
    parser.add_argument(
        "--poses", type=int, default=1000, help="number of poses in which the marker is measured (1000)"
    )
    parser.add_argument("--noise", type=float, default=3e-4, help="noise of the measured positions [m] (0.0003)")
    options = parse_example(parser, finite=["noise"])
    if options.poses < 1 or options.noise <= 0.0:
        parser.error("--poses and --noise must be positive")
    make_folder(options.out)
    return parser, options


if __name__ == "__main__":
    main()
