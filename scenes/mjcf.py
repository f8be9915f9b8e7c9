"""A model as an MJCF file, to run the same robot in MuJoCo."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model import GEOMETRY_TYPE_NAMES, Geometry, Model
from warp_kernels import types as codes

JOINT_TAGS = {codes.REVOLUTE: "hinge", codes.PRISMATIC: "slide", codes.SPHERICAL: "ball"}
GEOMETRY_TAGS = {
    codes.PLANE: "plane",
    codes.SPHERE: "sphere",
    codes.CAPSULE: "capsule",
    codes.CYLINDER: "cylinder",
    codes.BOX: "box",
    codes.ELLIPSOID: "ellipsoid",
    codes.HEIGHTFIELD: "hfield",
}
ACTUATOR_TAGS = {codes.TORQUE: "motor", codes.POSITION: "position", codes.VELOCITY: "velocity"}
SIZES = {codes.SPHERE: 1, codes.CAPSULE: 2, codes.CYLINDER: 2, codes.BOX: 3, codes.ELLIPSOID: 3}


def to_mjcf(model: Model, *, dt: float, sweeps: int) -> str:
    """The links, joints and colliding geometries of a model as MJCF.

    MuJoCo's order of coordinates is the model's own, but for quaternions, which it writes wxyz, and the angular
    velocity of a free joint, which it has in the body's axes.

    Args:
        model: the model; joint springs and spherical joints with damping are left to MuJoCo's own meaning.
        dt: time step [s]. MuJoCo's implicit integrators take the velocity at the end of the step but the position at
            its start; with dt * kp added to its kv an actuator exerts the force that it has here.
        sweeps: iterations of the projected Gauss-Seidel solver; its early exit is switched off.

    Returns:
        the text of the file.

    Raises:
        ModelError: for limits of swing or twist, compliance, torsional and rolling friction, which MuJoCo doesn't have
            or combines otherwise; for a colliding mesh, which would need a file of its own.
    """
    _check_expressible(model)
    root = ET.Element("mujoco", model="backswing")
    ET.SubElement(root, "compiler", angle="radian", autolimits="true", inertiafromgeom="false")
    gravity = _text(model.parameters["gravity"])
    ET.SubElement(
        root, "option", timestep=repr(dt), gravity=gravity, solver="PGS", iterations=str(sweeps), tolerance="0",
        cone="elliptic", integrator="implicitfast" if model.nu else "Euler",
    )  # fmt: skip
    _add_heightfields(root, model)
    worldbody = ET.SubElement(root, "worldbody")
    _add_geometries(worldbody, model, -1)
    bodies: list[ET.Element] = []
    for link in range(model.num_links):
        parent = int(model.link_parent[link])
        bodies.append(_add_body(worldbody if parent < 0 else bodies[parent], model, link))
    _add_exclusions(root, model)
    _add_equalities(root, worldbody, bodies, model)
    if model.nu:
        _add_actuators(root, model, dt)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def _add_body(parent: ET.Element, model: Model, link: int) -> ET.Element:
    placement = model.parameters["joint_placement"][link]
    body = ET.SubElement(
        parent, "body", name=model.link_names[link], pos=_text(placement[:3]), quat=_wxyz(placement[3:])
    )
    kind, name = int(model.joint_type[link]), model.joint_names[link]
    if kind == codes.FREE:
        start = int(model.joint_q_start[link])
        body.set("pos", _text(model.q0[start : start + 3]))
        body.set("quat", _wxyz(model.q0[start + 3 : start + 7]))
        ET.SubElement(body, "freejoint", name=name)
    elif kind in JOINT_TAGS:
        _add_joint(body, model, link, JOINT_TAGS[kind], name)
    mass = float(model.parameters["mass"][link])
    if mass > 0.0:
        inertia = model.parameters["inertia"][link]
        rows, columns = [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
        com = _text(model.parameters["com"][link])
        ET.SubElement(body, "inertial", pos=com, mass=repr(mass), fullinertia=_text(inertia[rows, columns]))
    _add_geometries(body, model, link)
    return body


def _check_expressible(model: Model) -> None:
    for what, names, unused in (
        ("joint", model.joint_names, {"swing_limit": np.inf, "twist_limit": np.inf}),
        (
            "geometry",
            [geometry.name for geometry in model.geometries],
            {"contact_stiffness": np.inf, "torsional_friction": 0.0, "rolling_friction": 0.0},
        ),
        (
            "joint",
            [model.joint_names[link] for link in model.dof_link],
            {"limit_stiffness": np.inf, "limit_margin": 0.0},
        ),
    ):
        for key, value in unused.items():
            for name, own in zip(names, model.parameters[key], strict=True):
                if own != value:
                    raise ModelError(f"{what} '{name}': its {key} can't be written as MJCF; leave it out")


def _add_joint(body: ET.Element, model: Model, link: int, tag: str, name: str) -> None:
    dof = int(model.joint_qd_start[link])
    values = {key: float(model.parameters[key][dof]) for key in ("damping", "armature", "stiffness", "friction_loss")}
    joint = ET.SubElement(body, "joint", name=name, type=tag)
    for key, value in values.items():
        if value:
            joint.set(key.replace("_", ""), repr(value))
    if tag == "ball":
        return
    joint.set("axis", _text(model.joint_axis[link]))
    if values["stiffness"]:
        joint.set("springref", repr(float(model.parameters["rest_position"][dof])))
    limits = [float(model.parameters[key][dof]) for key in ("lower_limit", "upper_limit")]
    if np.isfinite(limits).any():
        joint.set("range", _text(np.clip(limits, -1.0e10, 1.0e10)))


def _add_geometries(body: ET.Element, model: Model, link: int) -> None:
    for index, geometry in enumerate(model.geometries):
        if geometry.link != link or not geometry.collides:
            continue
        if geometry.type not in GEOMETRY_TAGS:
            kind = GEOMETRY_TYPE_NAMES[geometry.type]
            raise ModelError(f"geometry '{geometry.name}': a {kind} can't be written as MJCF; use primitives")
        # MuJoCo takes the larger friction of a pair; with ones on all robots the ground's would be lost.
        friction = float(model.parameters["friction"][index])
        terrain = geometry.type in (codes.PLANE, codes.HEIGHTFIELD)
        element = ET.SubElement(
            body, "geom", name=geometry.name, type=GEOMETRY_TAGS[geometry.type], pos=_text(_position(geometry)),
            quat=_wxyz(geometry.placement[3:]), friction=_text([friction, 0.0, 0.0]), condim="3",
            priority="1" if terrain else "0",
        )  # fmt: skip
        if geometry.type == codes.HEIGHTFIELD:
            element.set("hfield", geometry.name)
        else:
            size = geometry.size[: SIZES[geometry.type]] if geometry.type in SIZES else (0.0, 0.0, 1.0)
            element.set("size", _text(size))


def _add_heightfields(root: ET.Element, model: Model) -> None:
    """MuJoCo's heights begin at zero and end at one, times the third of its sizes; the fourth is solid below them.

    Its files have the rows from the greatest y down.
    """
    asset = ET.SubElement(root, "asset")
    for geometry in model.geometries:
        if geometry.heights is not None and geometry.collides:
            rows, columns = geometry.heights.shape
            rise = float(geometry.size[2] * np.ptp(geometry.heights))
            ET.SubElement(
                asset, "hfield", name=geometry.name, nrow=str(rows), ncol=str(columns),
                elevation=_text(geometry.heights[::-1].ravel()), size=_text([*geometry.size[:2], max(rise, 1e-6), 1.0]),
            )  # fmt: skip


def _position(geometry: Geometry) -> np.ndarray:
    """Where MuJoCo has a geometry: a heightfield at its least height."""
    lowest = 0.0 if geometry.heights is None else float(geometry.size[2] * geometry.heights.min())
    return geometry.placement[:3] + Rotation.from_quat(geometry.placement[3:]).apply((0.0, 0.0, lowest))


def _add_exclusions(root: ET.Element, model: Model) -> None:
    owners = [geometry.link for geometry in model.geometries]
    pairs = sorted({tuple(sorted((owners[i], owners[j]))) for i, j in model.excluded_pairs})
    contact = ET.SubElement(root, "contact")
    colliding = [index for index, geometry in enumerate(model.geometries) if geometry.collides]
    for a, b in pairs:
        if 0 <= a < b:
            both = [(i, j) for i in colliding for j in colliding if i < j and {owners[i], owners[j]} == {a, b}]
            if not model.excluded_pairs.issuperset(both):
                raise ModelError(
                    f"links '{model.link_names[a]}' and '{model.link_names[b]}': only some pairs of their geometries "
                    "are excluded, and MJCF excludes links as a whole"
                )
            ET.SubElement(contact, "exclude", body1=model.link_names[a], body2=model.link_names[b])


def _add_equalities(root: ET.Element, worldbody: ET.Element, bodies: list[ET.Element], model: Model) -> None:
    equalities = model.equalities
    equality = ET.SubElement(root, "equality")
    for row, name in enumerate(equalities.anchor_names):
        constraint = ET.SubElement(equality, "weld" if equalities.anchor_welded[row] else "connect", name=name)
        for number, side in enumerate("ab", start=1):
            link = int(getattr(equalities, f"anchor_link_{side}")[row])
            anchor = model.parameters[f"anchor_{side}"][row]
            site = ET.SubElement(worldbody if link < 0 else bodies[link], "site", name=f"{name}/{side}")
            site.set("pos", _text(anchor[:3]))
            site.set("quat", _wxyz(anchor[3:]))
            constraint.set(f"site{number}", f"{name}/{side}")
    for row, name in enumerate(equalities.coupling_names):
        other = model.joint_names[int(model.dof_link[equalities.coupling_other[row]])]
        polynomial = [model.parameters[f"coupling_{key}"][row] for key in ("offset", "ratio")]
        ET.SubElement(equality, "joint", joint1=name, joint2=other, polycoef=_text([*polynomial, 0.0, 0.0, 0.0]))


def _add_actuators(root: ET.Element, model: Model, dt: float) -> None:
    actuators = ET.SubElement(root, "actuator")
    for index, name in enumerate(model.actuator_names):
        gear, kp, kd, limit = (
            float(model.parameters[f"actuator_{key}"][index]) for key in ("gear", "kp", "kd", "force_limit")
        )
        joint = model.joint_names[model.dof_link[model.actuator_dof[index]]]
        kind = int(model.actuator_kind[index])
        element = ET.SubElement(actuators, ACTUATOR_TAGS[kind], name=name, joint=joint, gear=repr(gear))
        if kind == codes.POSITION:
            element.set("kp", repr(kp))
            element.set("kv", repr(kd + dt * kp))
        if kind == codes.VELOCITY:
            element.set("kv", repr(kd))
        if np.isfinite(limit):
            element.set("forcerange", _text([-limit, limit]))


def _text(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _wxyz(quaternion: np.ndarray) -> str:
    return _text(quaternion[[3, 0, 1, 2]])
