"""Joints of a USD file with several free axes, converted to chains of joints and massless links."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.usd.joints.dofs import dof_properties
from sim.importers.usd.joints.loops import MISFIT
from sim.importers.usd.joints.reading import AXES, Joint
from sim.importers.usd.reader import ORIGIN, Reader
from sim.model.checks import free_name


def add_chain(reader: Reader, carrier: Joint, placement: np.ndarray, motion: np.ndarray) -> list[str]:
    """Add the joints of a chain, with a massless link between neighbouring joints.

    Args:
        reader: the import.
        carrier: a joint of type "chain".
        placement: pose of the first joint in the link of the parent, along the axes of the child's link [7].
        motion: pose of the child's link in that frame, in the file [7].

    Returns:
        The names of the joints, from the parent on.
    """
    prim, turn = reader.scene.prim(carrier.path), Rotation.from_quat(carrier.child_frame[3:])
    child, before = reader.names[carrier.child], reader.link_name(carrier.parent)
    if carrier.parent is not None:
        reader.builder.exclude_collision(before, child)
    names: list[str] = []
    for step, q0 in zip(carrier.chain, _coordinates(reader, carrier, turn, motion), strict=True):
        link = child
        if step is not carrier.chain[-1]:
            link = reader.add(
                carrier.path, reader.builder.add_link, free_name(f"{child}/{step.name}", reader.builder.links)
            )
        pose = ORIGIN if names else placement
        name = reader.unique(step.name, carrier.path, reader.builder.joints)
        reader.add(
            carrier.path, reader.builder.add_joint, name, step.type, parent=before, child=link, position=pose[:3],
            orientation=pose[3:], axis=turn.apply(step.axis), q0=q0, **dof_properties(reader, prim, step),
        )  # fmt: skip
        names.append(name)
        before = link
    return names


def _coordinates(reader: Reader, carrier: Joint, turn: Rotation, motion: np.ndarray) -> list[np.ndarray]:
    """Return coordinates that put the bodies where the file has them, as closely as the chain allows.

    Rotations are Euler angles about x, y and z. With parent and child swapped the motion is the inverse one.
    """
    slide, rotation = turn.inv().apply(motion[:3]), turn.inv() * Rotation.from_quat(motion[3:]) * turn
    if carrier.turned:
        slide, rotation = -rotation.inv().apply(slide), rotation.inv()
    angles = rotation.as_euler("XYZ")
    found: dict[str, np.ndarray] = {}
    left, reached = slide.copy(), Rotation.identity()
    for step in sorted(carrier.chain, key=lambda step: "xyz".find(step.freedom[-1].lower())):
        letter = step.freedom[-1]
        number = "XYZ".find(letter)
        if step.type == "spherical":
            found[step.freedom], reached = motion[3:], rotation
        elif step.type == "prismatic":
            found[step.freedom], left[number] = slide[number : number + 1], 0.0
        else:
            found[step.freedom] = angles[number : number + 1]
            reached = reached * Rotation.from_rotvec(angles[number] * AXES[letter])
    rest = float(np.linalg.norm(left)) + float((reached.inv() * rotation).magnitude())
    if rest > MISFIT:
        reader.scene.notes.append(
            f"prim '{carrier.path}': its bodies are {rest:.3g} m or rad away from any pose that the joint allows"
        )
    return [found[step.freedom] for step in carrier.chain]
