"""Joints in series between two bodies of a USD file, converted to chains of joints and massless links."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
from pxr import Sdf
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.coordinates import Step, coordinates_in_series
from sim.importers.usd.joints.dofs import dof_properties
from sim.importers.usd.joints.loops import MISFIT
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.reader import ORIGIN, Reader, poses_agree
from sim.model.checks import free_name
from sim.model.poses import compose, inverse, is_identity
from sim.usd.annotations import kept, kept_text

# Accuracy of directions in single precision
SINGLE = 2e-6


def add_inner_links(reader: Reader, body: Sdf.Path, carrier: Joint) -> None:
    """Add the massless links between the joints of a chain that carries a body."""
    for step in carrier.chain[:-1]:
        stated = None if carrier.turned else kept_text(reader.scene.prim(step.path), "link")
        name = f"{reader.names[body]}/{step.name}" if stated is None else reader.prefix + stated
        link = free_name(name, reader.builder.links)
        reader.add(step.path, reader.builder.add_link, link)
        reader.inner_links.setdefault(body, []).append(link)


def add_chain(reader: Reader, carrier: Joint) -> list[str]:
    """Add the joints of a chain; return their names, from the parent on."""
    parent, child = reader.link_name(carrier.parent), reader.names[carrier.child]
    steps = _as_written(reader, carrier) or _as_stated(reader, carrier)
    target = compose(inverse(reader.link_pose(carrier.parent)), reader.link_pose(carrier.child))
    found = coordinates_in_series(reader, steps, target)
    if carrier.parent is not None and not carrier.collides:
        reader.builder.exclude_collision(parent, child)
    names: list[str] = []
    for step, q0, link in zip(steps, found, [*reader.inner_links[carrier.child], child], strict=True):
        prim = reader.scene.prim(step.joint.path)
        name = reader.joint_name(prim, step.joint.name)
        reader.add(
            step.joint.path, reader.builder.add_joint, name, step.joint.type, parent=parent, child=link,
            position=step.placement[:3], orientation=step.placement[3:], axis=step.axis, q0=q0,
            **dof_properties(reader, prim, step.joint),
        )  # fmt: skip
        names.append(name)
        parent = link
    return names


def _as_stated(reader: Reader, carrier: Joint) -> list[Step]:
    """Return the joints of a chain where the file states their frames.

    Each link between them has its origin at the joint before it, and the axes of the child at zero.
    """
    steps: list[Step] = []
    zero, before = _at_zero(carrier.chain[0]), np.zeros(3)
    for joint in carrier.chain:
        turn, at = Rotation.from_quat(joint.child_frame[3:]), joint.child_frame[:3]
        placement = np.concatenate([at - before, ORIGIN[3:]])
        if not steps:
            placement = reader.in_link(carrier.parent, compose(zero, placement))
        steps.append(Step(joint, placement, turn.apply(joint.axis)).referred())
        before = at
        apart = compose(inverse(zero), _at_zero(joint))
        angle = float(Rotation.from_quat(apart[3:]).magnitude())
        if max(float(np.linalg.norm(apart[:3])), angle) > MISFIT:
            reader.scene.notes.append(
                f"prim '{joint.path}': its frames and those of '{carrier.path}', which joins the same bodies, don't "
                "coincide for one pose of these; the frame on the child is used"
            )
    return steps


def _as_written(reader: Reader, carrier: Joint) -> list[Step]:
    """Return the joints of a chain as Backswing has stored them; empty if they don't agree with the file's frames."""
    prims = [reader.scene.prim(joint.path) for joint in carrier.chain]
    placements, axes = (
        [kept(prim, name, size) for prim in prims] for name, size in (("joint_placement", 7), ("axis", 3))
    )
    exact = [
        Step(joint, placement, axis)
        for joint, placement, axis in zip(carrier.chain, placements, axes, strict=True)
        if placement is not None and axis is not None and placement[3:].any()
    ]
    moved = carrier.turned or (carrier.parent is not None and not is_identity(reader.link_in_body[carrier.parent]))
    if moved or len(exact) < len(carrier.chain):
        return []
    frames = list(accumulate((step.placement for step in exact), compose))
    for step, frame in zip(exact, frames, strict=True):
        stated, axis = step.joint.parent_frame, Rotation.from_quat(frame[3:]).apply(step.axis)
        similar = np.abs(axis - Rotation.from_quat(stated[3:]).apply(step.joint.axis)).max() < SINGLE
        same_point = step.joint.type == "prismatic" or poses_agree(_point(stated), _point(frame))
        if not (similar and same_point and poses_agree(_at_zero(step.joint), frames[-1])):
            return []
    return [replace(exact[0], placement=reader.in_link(carrier.parent, exact[0].placement)), *exact[1:]]


def _at_zero(joint: Joint) -> np.ndarray:
    """Return the pose of the child in the parent at which the frames of a joint coincide [7]."""
    return compose(joint.parent_frame, inverse(joint.child_frame))


def _point(frame: np.ndarray) -> np.ndarray:
    """Return a pose without its rotation [7]."""
    return np.concatenate([frame[:3], ORIGIN[3:]])
