"""Several joints between the same two bodies, which follow each other from the parent to the child."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pxr import Sdf
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.loops import MISFIT
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.stage import Kind, Scene


def in_series(scene: Scene, joints: list[Joint]) -> list[Joint]:
    """Return joints in which those of a tree between the same two bodies are one joint of type "chain".

    They add mobility, in the order of the file, as in MuJoCo. A joint that repeats the one before it constrains the
    bodies once more, like the second hinge of a door, unless the articulation has Newton's ``jointsAddMobility``.
    """
    adding = {
        body
        for found in scene.of(Kind.Articulation)
        if scene.stated(scene.prim(found.primPath), "newton:jointsAddMobility")
        for body in found.articulatedBodies
    }
    between: dict[frozenset[Sdf.Path | None], list[Joint]] = {}
    for joint in joints:
        if joint.in_tree and joint.type in ("revolute", "prismatic", "spherical"):
            between.setdefault(frozenset((joint.parent, joint.child)), []).append(joint)
    chains: dict[Sdf.Path, Joint] = {}
    inside: set[Sdf.Path] = set()
    for first, *others in between.values():
        steps = [first]
        for joint in others:
            one = joint if joint.child == first.child else joint.swapped()
            if first.child in adding or not _repeats(steps[-1], one):
                steps.append(one)
        if len(steps) > 1:
            chains[first.path] = replace(first, type="chain", child_frame=steps[-1].child_frame, chain=tuple(steps))
            inside.update(step.path for step in steps[1:])
    return [chains.get(joint.path, joint) for joint in joints if joint.path not in inside]


def _repeats(one: Joint, other: Joint) -> bool:
    """Return whether a joint leaves nothing free that another one doesn't, apart from its limits."""
    if "spherical" in (one.type, other.type):
        return "prismatic" not in (one.type, other.type)
    axes = [Rotation.from_quat(joint.child_frame[3:]).apply(joint.axis) for joint in (one, other)]
    if one.type != other.type or abs(axes[0] @ axes[1]) < 1.0 - MISFIT:
        return False
    apart = np.cross(axes[0], other.child_frame[:3] - one.child_frame[:3])
    return one.type == "prismatic" or float(np.linalg.norm(apart)) < MISFIT
