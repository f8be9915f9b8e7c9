"""Equality constraints of an MJCF file: points, welds and coupled joints."""

from typing import Any

import numpy as np

from sim.importers.mjcf.reader import Reader, pose
from sim.model.poses import compose
from sim.model.softness import Softness, corrected_softness


def add_equalities(reader: Reader) -> None:
    """Add the supported constraints; note the others in the reader.

    Raises:
        ImportFileError: naming the constraint.
    """
    file = reader.file
    for number in range(file.model.neq):
        label = file.label("equality", number)
        kind = file.mujoco.mjtEq(int(file.model.eq_type[number])).name.removeprefix("mjEQ_").lower()
        taken = reader.builder.anchors.keys() | reader.builder.tendon_couplings.keys()
        name = reader.name("equality", number, f"{kind}_{number}", taken)
        with file.located("equality", number, f"constraint '{name}'"):
            if kind == "joint":
                _add_coupling(reader, number, label)
            elif kind in ("connect", "weld"):
                _add_anchors(reader, number, name, kind)
            elif kind == "tendon":
                _tie_tendons(reader, number, name)
            else:
                reader.notes.append(f"ignored: {label}: constraints of type {kind} are not supported")


def _add_coupling(reader: Reader, number: int, label: str) -> None:
    """Add the coupling q1 - ref1 = p(q2 - ref2) with a polynomial p."""
    model = reader.file.model
    first, second = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
    constant, ratio, *higher = (float(value) for value in model.eq_data[number, :5])
    if second < 0 or any(higher):
        reader.notes.append(
            f"ignored: {label}: only linear couplings of joints are supported; "
            + ("use the joint's limits instead" if second < 0 else "its polynomial is of higher order")
        )
        return
    references = [float(model.qpos0[int(model.jnt_qposadr[joint])]) for joint in (first, second)]
    reader.builder.add_joint_coupling(
        reader.joints[first], reader.joints[second], ratio=ratio,
        offset=references[0] + constant - ratio * references[1], softness=_softness(model, number),
        active=_active(model, number),
    )  # fmt: skip


def _tie_tendons(reader: Reader, number: int, name: str) -> None:
    """Couple tendon lengths: l1 - l1_0 = p(l2 - l2_0) with a polynomial p and the lengths at qpos0."""
    model = reader.file.model
    first, second = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
    reference = [float(model.tendon_length0[tendon]) if tendon >= 0 else 0.0 for tendon in (first, second)]
    reader.builder.add_tendon_coupling(
        name, reader.tendons[first], reader.tendons.get(second), polynomial=model.eq_data[number, :5],
        reference=(reference[0], reference[1]), softness=_softness(model, number), active=_active(model, number),
    )  # fmt: skip


def _add_anchors(reader: Reader, number: int, name: str, kind: str) -> None:
    model = reader.file.model
    (link_a, a), (link_b, b) = _anchors(reader, number, kind)
    if kind == "connect":
        reader.builder.add_point_constraint(
            name, link_a, link_b, position_a=a[:3], position_b=b[:3], softness=_softness(model, number),
            active=_active(model, number),
        )  # fmt: skip
        return
    scale = float(model.eq_data[number, 10])
    if scale <= 0.0:
        reader.notes.append(
            f"{reader.file.label('equality', number)}: torquescale {scale:g} is ignored; use connect instead"
        )
        scale = 1.0
    reader.builder.add_weld_constraint(
        name, link_a, link_b, position_a=a[:3], orientation_a=a[3:], position_b=b[:3], orientation_b=b[3:],
        softness=_softness(model, number), torque_scale=scale, active=_active(model, number),
    )  # fmt: skip


def _active(model: Any, number: int) -> bool | None:
    """Return False for a constraint that is off at the start, None for another one."""
    return None if model.eq_active0[number] else False


def _softness(model: Any, number: int) -> Softness:
    return corrected_softness(model.eq_solref[number], model.eq_solimp[number])


def _anchors(reader: Reader, number: int, kind: str) -> list[tuple[str, np.ndarray]]:
    """Return, for both sides, the link and the frame in it [7] that coincides with the other."""
    model = reader.file.model
    objects = [int(model.eq_obj1id[number]), int(model.eq_obj2id[number])]
    data = model.eq_data[number]
    if model.eq_objtype[number] == int(reader.file.mujoco.mjtObj.mjOBJ_SITE):
        bodies = [int(model.site_bodyid[site]) for site in objects]
        local = [pose(model.site_pos[site], model.site_quat[site]) for site in objects]
    else:
        bodies = objects
        none = np.array([1.0, 0.0, 0.0, 0.0])
        if kind == "weld":  # first the second body's anchor, then the pose of the second frame in the first body
            local = [pose(data[3:6], data[6:10]), pose(data[:3], none)]
        else:
            local = [pose(data[:3], none), pose(data[3:6], none)]
    return [
        (reader.links[body], compose(reader.frames[body], frame)) for body, frame in zip(bodies, local, strict=True)
    ]
