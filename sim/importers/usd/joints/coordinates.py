"""Initial coordinates of joints, which put the bodies of a USD file where the file has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.loops import MISFIT
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.reader import ORIGIN, Reader
from sim.model.poses import IDENTITY, compose

# Newton's method for joints in series: most steps, and the change of coordinates at which it ends [m, rad]
MOST_STEPS = 50
CONVERGED = 1e-14
# Distances from which it doesn't begin [m]
LARGEST = 1e12


def coordinates(reader: Reader, joint: Joint, axis: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Return the coordinates of a joint whose frames are a motion [7] apart, as closely as the joint allows."""
    turn = Rotation.from_quat(motion[3:])
    if joint.type == "revolute":
        angle = float(turn.as_rotvec() @ axis)
        rest = (Rotation.from_rotvec(-angle * axis) * turn).magnitude() + float(np.linalg.norm(motion[:3]))
        q = np.array([_within(joint, angle)])
    elif joint.type == "prismatic":
        q = np.array([motion[:3] @ axis])
        rest = float(np.linalg.norm(motion[:3] - q[0] * axis)) + turn.magnitude()
    else:
        q, rest = motion[3:], float(np.linalg.norm(motion[:3]))
    _note_rest(reader, joint, rest)
    _note_state(reader, joint, q)
    return q


@dataclass(frozen=True)
class Step:
    """A joint of a series: its pose in the link before it [7], and its axis in its frame [3]."""

    joint: Joint
    placement: np.ndarray
    axis: np.ndarray

    @property
    def origin(self) -> np.ndarray:
        """Coordinates at which the frames coincide."""
        return IDENTITY[3:] if self.joint.type == "spherical" else np.zeros(1)

    def moved(self, q: np.ndarray) -> np.ndarray:
        """Return the pose [7] between the frames of the joint at its coordinates."""
        if self.joint.type == "prismatic":
            return np.concatenate([q * self.axis, IDENTITY[3:]])
        return np.concatenate([np.zeros(3), q if len(q) == 4 else Rotation.from_rotvec(q * self.axis).as_quat()])

    def referred(self) -> Step:
        """Return the joint with its frame moved so that the file's frames coincide at its reference, not at zero."""
        reference = self.joint.reference
        return (
            self
            if not reference
            else replace(self, placement=compose(self.placement, self.moved(np.array([-reference]))))
        )

    def changed(self, q: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return coordinates after a change [1], or of a ball a rotation vector in the axes of its child [3]."""
        if self.joint.type != "spherical":
            return q + change
        turned: np.ndarray = (Rotation.from_quat(q) * Rotation.from_rotvec(change)).as_quat()
        return turned

    def velocities(self, frame: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """Return the motions [n, 6] of the point of a pose for unit velocities of the joint, which is at a frame."""
        own = np.eye(3) if self.joint.type == "spherical" else self.axis[None]
        axes = Rotation.from_quat(frame[3:]).apply(own)
        if self.joint.type == "prismatic":
            return np.hstack([axes, np.zeros((1, 3))])
        return np.hstack([np.cross(axes, pose[:3] - frame[:3]), axes])


def coordinates_in_series(reader: Reader, steps: Sequence[Step], target: np.ndarray) -> list[np.ndarray]:
    """Return the coordinates at which the last link has a pose in the parent [7], as closely as the joints allow.

    Newton's method begins at the states in the file, or at zero.
    """
    q = [step.origin if (state := _state(reader, step.joint)) is None else np.array([state]) for step in steps]
    for _ in range(MOST_STEPS):
        rest, columns = _linearised(steps, q, target)
        if not np.abs(np.vstack([rest, *columns])).max() < LARGEST:
            break
        change = np.linalg.lstsq(np.vstack(columns).T, rest, rcond=1e-9)[0]
        parts = np.split(change, np.cumsum([len(each) for each in columns])[:-1])
        q = [step.changed(value, part) for step, value, part in zip(steps, q, parts, strict=True)]
        if np.abs(change).max() < CONVERGED:
            break
    rest, _ = _linearised(steps, q, target)
    _note_rest(reader, steps[0].joint, float(np.linalg.norm(rest[:3]) + np.linalg.norm(rest[3:])))
    for number, step in enumerate(steps):
        if step.joint.type == "revolute":
            q[number] = np.array([_within(step.joint, float(q[number][0]))])
        _note_state(reader, step.joint, q[number])
    return q


def _linearised(
    steps: Sequence[Step], q: Sequence[np.ndarray], target: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the motion [6] that is left to a pose, and those of each joint's velocities [n, 6]."""
    pose, frames = ORIGIN, []
    for step, value in zip(steps, q, strict=True):
        frame = compose(pose, step.placement)
        pose = compose(frame, step.moved(value))
        # A ball's change is in the axes of its child.
        frames.append(np.concatenate([frame[:3], pose[3:]]) if step.joint.type == "spherical" else frame)
    turn = Rotation.from_quat(target[3:]) * Rotation.from_quat(pose[3:]).inv()
    rest = np.concatenate([target[:3] - pose[:3], turn.as_rotvec()])
    return rest, [step.velocities(frame, pose) for step, frame in zip(steps, frames, strict=True)]


def _within(joint: Joint, angle: float) -> float:
    """Return the angle within the limits of a hinge, among those that differ by a full turn."""
    turns = (angle + 2.0 * np.pi * k for k in (0, 1, -1))
    return next((turn for turn in turns if joint.lower <= turn <= joint.upper), angle)


def _note_rest(reader: Reader, joint: Joint, rest: float) -> None:
    if rest > MISFIT:
        reader.scene.notes.append(
            f"prim '{joint.path}': its bodies are {rest:.3g} m or rad away from any pose that the joint allows"
        )


def _state(reader: Reader, joint: Joint) -> float | None:
    """Return the coordinate of a hinge or slide in PhysX' schema, None without one."""
    if joint.type not in ("revolute", "prismatic") or joint.freedom:
        return None
    label, unit = ("angular", np.radians(1.0)) if joint.type == "revolute" else ("linear", reader.scene.length)
    value = reader.scene.number(reader.scene.prim(joint.path), f"state:{label}:physics:position")
    return None if value is None else value * float(unit)


def _note_state(reader: Reader, joint: Joint, q: np.ndarray) -> None:
    """Note a PhysX state of a hinge or slide that differs from the poses of its bodies."""
    state = _state(reader, joint)
    if state is None:
        return
    off = state - float(q[0])
    if joint.type == "revolute":
        off = (off + np.pi) % (2.0 * np.pi) - np.pi
    if abs(off) > MISFIT:
        reader.scene.notes.append(
            f"prim '{joint.path}': its state differs from the poses of its bodies; the poses are used"
        )
