"""Drawings of arms in a row that show what was learnt. Each has its own motion; a ball marks its pointer's target."""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from scipy.spatial.transform import Rotation

import sim
import sim.torch
from examples.outputs import RED, write_motion
from sim.errors import URDFWarning
from sim.model.model import Part
from sim.model.poses import compose
from sim.render import Trail
from warp_kernels.types import FIXED

POINTER = np.array([0.2, 0.1, 0.2])  # end of the rod on the tip, in the tip's frame, off the last joint's axis [m]
ROD, BALL = 0.012, 0.035  # radii [m]
PLATE = (0.2, 0.005)  # radius and half thickness of the plate that an arm stands on [m]
GAP = 0.2  # between neighbouring arms when they are closest [m]
LOAD_COLOR = (0.85, 0.62, 0.25, 1.0)
TINT = 0.6  # opacity of an arm's tint
CLEARANCE = 0.3  # clearance between the ground and arms on a wall [m]
AZIMUTH = -80.0  # azimuth of the camera, which looks across the row [degrees]
UPRIGHT = Rotation.identity()
ON_A_WALL = Rotation.from_euler("y", 90.0, degrees=True)  # the base's x axis points down, and the arm to the right


@dataclass(frozen=True)
class Load:
    """A box that an arm holds.

    Attributes:
        link: the link that it is fixed to.
        half_extents: half its sides [3], m.
        position: of its middle in the link's frame [3], m.
        axes: its axes in the link's frame, as columns [3, 3].
    """

    link: str
    half_extents: np.ndarray
    position: np.ndarray
    axes: np.ndarray


@dataclass(frozen=True)
class Arm:
    """Arm of the row.

    Attributes:
        color: colour of the arm and of the plate that it stands on, "#rrggbb".
        robot: the arm.
        q: coordinates [frames, nq].
        ball: target of its pointer, in the frame of its base [frames, 3] [m].
        load: load to draw.
    """

    color: str
    robot: sim.torch.Robot
    q: torch.Tensor
    ball: torch.Tensor
    load: Load | None = None


def pointer(robot: sim.torch.Robot, q: torch.Tensor, tip: str) -> torch.Tensor:
    """Return the position of the end of the rod on the tip, in the frame of the base [..., 3] [m]."""
    pose = robot.forward_kinematics_matrix(q, tip)
    return pose[..., :3, :3] @ pose.new_tensor(POINTER) + pose[..., :3, 3]


def write_arms(
    options: argparse.Namespace, name: str, arms: Sequence[Arm], tip: str, dt: float, *, speed: float = 1.0,
    base: Rotation = UPRIGHT, trails: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the motion of arms in a row, see :func:`examples.outputs.write_motion`.

    Args:
        options: the command line, see :func:`examples.options.example_parser`; all arms are of its ``--robot``.
        name: name of the files, without suffix.
        arms: the arms, from left to right.
        tip: link that carries the pointer.
        dt: time between the frames of the arms [s].
        speed: speed of the animation relative to real time.
        base: orientation of the bases; if they are not upright, the arms are above the ground.
        trails: draw the paths of pointers and balls.
    """
    with torch.no_grad():
        ends = [base.apply(pointer(arm.robot, arm.q, tip).cpu().numpy()) for arm in arms]
        links = [arm.robot.forward_kinematics(arm.q, None)[0].flatten(0, 1).cpu().numpy() for arm in arms]
    balls = [base.apply(arm.ball.cpu().numpy()) for arm in arms]
    frames = len(arms[0].q)
    # Points of each arm in every frame, including its base [frames, points, 3].
    taken = [
        np.concatenate(
            [np.zeros((frames, 1, 3)), end[:, None], ball[:, None], base.apply(link).reshape(frames, -1, 3)], axis=1
        )
        for end, ball, link in zip(ends, balls, links, strict=True)
    ]
    height = 0.0 if base is UPRIGHT else CLEARANCE - min(points[..., 2].min() for points in taken)
    row = [np.array([x, 0.0, height, *base.as_quat()]) for x in _offsets([points[..., 0] for points in taken])]

    builder = sim.ModelBuilder()
    builder.add_ground()
    parts = [
        _add(builder, k, arm, options.robot, tip, stand) for k, (arm, stand) in enumerate(zip(arms, row, strict=True))
    ]
    merged = not (arms[0].robot.model.joint_type == FIXED).any()
    model = builder.finalize("float64", collapse_fixed=merged)
    q, drawn = np.zeros((len(arms[0].q), model.nq)), []
    for arm, end, ball, stand, (robot, body) in zip(arms, ends, balls, row, parts, strict=True):
        _move_joints(model, robot, arm.robot, stand)
        q[:, model.q_slice(robot)] = arm.q.cpu().numpy()
        q[:, model.q_slice(body)] = [[*at, *UPRIGHT.as_quat()] for at in ball + stand[:3]]
        if trails:
            drawn.append(Trail(f"{robot.name}_wanted", ball + stand[:3], 0.6 * ROD, _rgba(RED)[:3]))
            drawn.append(Trail(f"{robot.name}_path", end + stand[:3], ROD))
    return write_motion(options, name, model, q, dt, trails=drawn, speed=speed, azimuth=AZIMUTH)


def _offsets(across: Sequence[np.ndarray]) -> list[float]:
    """Return offsets of arms with points at x [frames, points] in a row, each clear of the previous one at all
    times.
    """
    offsets = [0.0]
    for before, behind in pairwise(across):
        apart = (before.max(axis=1) - behind.min(axis=1)).max()
        offsets.append(offsets[-1] + max(float(apart), 2.0 * PLATE[0]) + GAP)
    return offsets


def _add(builder: sim.ModelBuilder, k: int, arm: Arm, file: Path, tip: str, stand: np.ndarray) -> tuple[Part, Part]:
    """Add an arm to the scene, with its plate, pointer and ball. Returns arm and ball."""
    name, color = f"arm{k}", _rgba(arm.color)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", URDFWarning)  # warnings were already shown when the robot was loaded
        part = builder.add_urdf(
            file, name=name, position=stand[:3], orientation=stand[3:], mimic="free", collision=False
        )
    _tint(builder, name, color)
    builder.add_geometry(
        "world", "cylinder", name=f"{name}/plate", size=(*PLATE, 0.0), position=stand[:3], orientation=stand[3:],
        rgba=color, collides=False,
    )  # fmt: skip
    length = float(np.linalg.norm(POINTER))
    along, _ = Rotation.align_vectors([POINTER / length], [(0.0, 0.0, 1.0)])
    builder.add_geometry(
        f"{name}/{tip}", "capsule", name=f"{name}/pointer", size=(ROD, 0.5 * length, 0.0), position=0.5 * POINTER,
        orientation=along.as_quat(), rgba=color, collides=False,
    )  # fmt: skip
    if arm.load is not None:
        load = arm.load
        builder.add_geometry(
            f"{name}/{load.link}", "box", name=f"{name}/load", size=load.half_extents, position=load.position,
            orientation=Rotation.from_matrix(load.axes).as_quat(), rgba=LOAD_COLOR, collides=False,
        )  # fmt: skip
    ball = builder.add_sphere(name=f"ball{k}", radius=BALL, mass=1.0, rgba=_rgba(RED), collides=False)
    return part, ball


def _tint(builder: sim.ModelBuilder, name: str, color: tuple[float, float, float, float]) -> None:
    """Mix a colour into those of all shapes of an arm."""
    for spec in builder.geometries.values():
        if spec.link.startswith(f"{name}/"):
            own, share = np.array(spec.geometry.rgba[:3]), TINT * np.array(color[:3])
            red, green, blue = (float(c) for c in (1.0 - TINT) * own + share)
            spec.geometry = replace(spec.geometry, rgba=(red, green, blue, spec.geometry.rgba[3]))


def _move_joints(model: sim.Model, part: Part, robot: sim.torch.Robot, stand: np.ndarray) -> None:
    """Give an arm of the scene the joint placements of a robot, with its base at a pose."""
    own = robot.value("joint_placement").detach().cpu().numpy()
    links = [link for link, name in enumerate(model.link_names) if name.startswith(f"{part.name}/")]
    for link, placement, parent in zip(links, own, robot.model.link_parent, strict=True):
        model.parameters["joint_placement"][link] = placement if parent >= 0 else compose(stand, placement)


def _rgba(color: str) -> tuple[float, float, float, float]:
    """Convert a colour "#rrggbb" to RGBA."""
    red, green, blue = (int(color[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
    return red, green, blue, 1.0
