"""Joints of a USD file that close loops, as constraints of the solver; and joints that contradict the stage's poses."""

from __future__ import annotations

import numpy as np
from pxr import Sdf
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.forest import Forest
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.reader import Reader, agreed_pose
from sim.importers.usd.schemas.mujoco_contacts import constraint_softness
from sim.model.poses import compose, inverse
from sim.usd.annotations import agreed, kept, kept_switch, kept_text

# Tolerance between the poses of a file's bodies and those its joints allow [m, rad]
MISFIT = 1e-3
# Distance of the two points that replace a hinge whose bodies have their origins at it [m]
LEVER = 0.1


def close_loops(reader: Reader, trees: Forest) -> None:
    """Turn the joints that close loops into constraints: a ball, a weld, or a hinge as two balls along its axis.

    Raises:
        ImportFileError: naming the joint, for one that slides or has several free axes.
    """
    for joint in trees.loops:
        if all(body is None or body in reader.scene.kinematic for body in (joint.parent, joint.child)):
            reader.scene.notes.append(f"prim '{joint.path}': it joins bodies that no force moves; it has no effect")
            continue
        if joint.type in ("prismatic", "chain"):
            kind = "a prismatic joint" if joint.type == "prismatic" else "a joint with several free axes"
            raise reader.scene.error(
                joint.path, f"is {kind} that closes a loop; only ball, revolute and fixed joints can. "
                "Make another joint of the loop the one that closes it, by excludeFromArticulation"
            )  # fmt: skip
        sides = _sides(reader, joint)
        if not _is_as_written(reader, joint, sides):
            note_misfit(reader, joint, compose(inverse(_placed(reader, *sides[0])), _placed(reader, *sides[1])))
        label = reader.prefix + (kept_text(reader.scene.prim(joint.path), "name") or joint.path.name)
        label = label if label not in reader.builder.anchors else reader.prefix + str(joint.path).lstrip("/")
        if joint.type == "fixed":
            _weld(reader, joint, label, sides)
        elif joint.type == "spherical":
            _hold(reader, joint, label, sides, np.zeros(3))
        else:
            _hinge(reader, joint, label, sides)


Side = tuple[Sdf.Path | None, np.ndarray]


def _sides(reader: Reader, joint: Joint) -> list[Side]:
    """Return the bodies of a joint in the order of the file, and the joint frame in the link of each [7]."""
    prim = reader.scene.prim(joint.path)
    sides = [(joint.parent, joint.parent_frame), (joint.child, joint.child_frame)]
    return [
        (body, agreed_pose(prim, f"anchor_{letter}", reader.in_link(body, frame)))
        for letter, (body, frame) in zip("ab", reversed(sides) if joint.turned else sides, strict=True)
    ]


def _is_as_written(reader: Reader, joint: Joint, sides: list[Side]) -> bool:
    """Return whether a constraint was written by Backswing, which need not be satisfied at the start."""
    prim = reader.scene.prim(joint.path)
    exact = [kept(prim, f"anchor_{letter}", 7) for letter in "ab"]
    return all(one is not None and np.array_equal(one, at) for one, (_, at) in zip(exact, sides, strict=True))


def _placed(reader: Reader, body: Sdf.Path | None, anchor: np.ndarray) -> np.ndarray:
    """Return the pose of an anchor in the world, at the start [7]."""
    return compose(reader.link_pose(body), anchor)


def _weld(reader: Reader, joint: Joint, label: str, sides: list[Side]) -> None:
    (a, at_a), (b, at_b) = sides
    reader.add(
        joint.path, reader.builder.add_weld_constraint, label, reader.link_name(a), reader.link_name(b),
        position_a=at_a[:3], orientation_a=at_a[3:], position_b=at_b[:3], orientation_b=at_b[3:],
        softness=constraint_softness(reader.scene, reader.scene.prim(joint.path), "softness"),
        torque_scale=_torque_scale(reader, joint), active=_active(reader, joint),
        break_force=joint.break_force, break_torque=joint.break_torque,
    )  # fmt: skip


def _active(reader: Reader, joint: Joint) -> bool | None:
    """Return whether a constraint is on at first, also if it was enabled by another program; None without a switch."""
    prim = reader.scene.prim(joint.path)
    stored = kept_switch(prim, "anchor_active")
    return True if stored is False and reader.scene.stated(prim, "physics:jointEnabled") else stored


def _torque_scale(reader: Reader, joint: Joint) -> float:
    prim = reader.scene.prim(joint.path)
    stated = reader.scene.number(prim, "mjc:torqueScale")
    return float(agreed(prim, "torque_scale", 1.0 if stated is None else stated * reader.scene.length))


def _hold(reader: Reader, joint: Joint, label: str, sides: list[Side], point: np.ndarray) -> None:
    """Add a point constraint at a point of the joint frame [3]."""
    (a, at_a), (b, at_b) = sides
    positions = [anchor[:3] + Rotation.from_quat(anchor[3:]).apply(point) for anchor in (at_a, at_b)]
    reader.add(
        joint.path, reader.builder.add_point_constraint, label, reader.link_name(a), reader.link_name(b),
        position_a=positions[0], position_b=positions[1],
        softness=constraint_softness(reader.scene, reader.scene.prim(joint.path), "softness"),
        active=_active(reader, joint), break_force=joint.break_force,
    )  # fmt: skip


def _hinge(reader: Reader, joint: Joint, label: str, sides: list[Side]) -> None:
    """Add two point constraints on the axis, as far apart as the links reach, so that they can transmit a moment."""
    extent = max(float(np.linalg.norm(anchor[:3])) for body, anchor in sides if body is not None)
    for name, share in (("start", -0.5), ("end", 0.5)):
        _hold(reader, joint, f"{label}/{name}", sides, share * (extent if extent > MISFIT else LEVER) * joint.axis)
    if joint.drive is not None or np.isfinite([joint.lower, joint.upper]).any():
        reader.scene.notes.append(f"prim '{joint.path}': it closes a loop, so that its limits and drive are ignored")


def note_misfit(reader: Reader, joint: Joint, motion: np.ndarray) -> None:
    """Note the pose [7] between the frames of a joint on its two bodies if the joint doesn't allow it."""
    turn = Rotation.from_quat(motion[3:])
    if joint.type == "fixed":
        angle = float(turn.magnitude())
    elif joint.type == "revolute":
        angle = float(np.arccos(np.clip(turn.apply(joint.axis) @ joint.axis, -1.0, 1.0)))
    else:
        angle = 0.0
    distance = float(np.linalg.norm(motion[:3]))
    if max(distance, angle) > MISFIT:
        reader.scene.notes.append(
            f"prim '{joint.path}': its frames are {distance:.3g} m and {angle:.3g} rad apart at the poses of its "
            "bodies; the joint is used, not the poses"
        )
