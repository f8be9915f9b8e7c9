"""Conversion of an MJCF file's bodies, joints and sites to links, joints and frames."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.mjcf.reader import Reader, pose, translation
from sim.model.builder.links_and_joints import Followed
from sim.model.builder.properties import JOINT_FIELDS, in_groups
from sim.model.joint_types import JOINT_TYPES
from sim.model.poses import IDENTITY, compose
from sim.model.softness import corrected_softness

# Joint types by the names of mjtJoint
TYPES = {f"mjJNT_{each.mjcf.upper()}": each.name for each in JOINT_TYPES.values() if each.mjcf}


def add_tree(reader: Reader) -> tuple[list[str], list[str]]:
    """Add all bodies with their joints, then the named sites and cameras.

    A body with several joints becomes a chain of links; only the last one, named after the body, has mass.

    Returns:
        Names of the links and of the joints.

    Raises:
        ImportFileError: naming the body or joint.
    """
    model, before = reader.file.model, len(reader.builder.links)
    for body in range(1, model.nbody):
        _add_body(reader, body)
    _add_sites(reader)
    _add_cameras(reader)
    links = list(reader.builder.links)[before:]
    children = {joint.child: joint.name for joint in reader.builder.joints.values()}
    return links, [children[link] for link in links]


def joint_type(reader: Reader, joint: int) -> str:
    """Return the type of a joint as in :meth:`sim.ModelBuilder.add_joint`."""
    return TYPES[reader.file.mujoco.mjtJoint(int(reader.file.model.jnt_type[joint])).name]


def _add_body(reader: Reader, body: int) -> None:
    model, builder = reader.file.model, reader.builder
    parent = int(model.body_parentid[body])
    own = reader.file.name("body", body)
    name = reader.prefix + own if own else _free_frame(reader, f"{reader.prefix}body_{body}")
    placement = compose(reader.frames[parent], pose(model.body_pos[body], model.body_quat[body]))
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    carrier, at = reader.links[parent], np.zeros(3)
    for joint in range(first, first + count):
        anchor = np.zeros(3) if joint_type(reader, joint) == "free" else np.array(model.jnt_pos[joint])
        number = "" if count == 1 else f"_{joint - first}"
        label = reader.name("joint", joint, f"{name.removeprefix(reader.prefix)}_joint{number}", builder.joints)
        reader.joints.append(label)
        last = joint == first + count - 1
        link = name if last else _free_frame(reader, f"{name}/{label.removeprefix(reader.prefix)}")
        _add_link(reader, body, link, anchor if last else None)
        _add_joint(reader, joint, label, carrier, link, compose(placement, translation(anchor - at)))
        carrier, at, placement = link, anchor, IDENTITY
    if count == 0:
        _add_link(reader, body, name, np.zeros(3))
        kinematic = bool(model.body_mocapid[body] >= 0)
        type, suffix = ("free", "mocap") if kinematic and reader.mocap_moves else ("fixed", "fixed")
        label = reader.free(f"{name}_{suffix}", builder.joints, "joint")
        builder.add_joint(
            label, type, parent=carrier, child=name, position=placement[:3], orientation=placement[3:],
            kinematic=kinematic,
        )  # fmt: skip
    reader.links.append(name)
    reader.frames.append(translation(-at))
    if at.any():
        builder.add_frame(_free_frame(reader, f"{name}/origin"), name, -at)
    if model.body_mocapid[body] >= 0:
        reader.carriers.append((name, IDENTITY))
    elif model.body_weldid[body] == 0:
        world, around = reader.carriers[parent]
        reader.carriers.append((world, compose(around, pose(model.body_pos[body], model.body_quat[body]))))
    else:
        reader.carriers.append((name, reader.frames[body]))


def _free_frame(reader: Reader, wanted: str) -> str:
    """Return an unused name for a link or frame."""
    return reader.free(wanted, reader.builder.links.keys() | reader.builder.frames.keys(), "body", "site")


def _add_link(reader: Reader, body: int, name: str, origin: np.ndarray | None) -> None:
    """Add a link whose frame is at ``origin`` in the body, with the body's mass; without an origin, a massless link."""
    model = reader.file.model
    with reader.file.located("body", body, f"link '{name}'"):
        if origin is None:
            reader.builder.add_link(name)
            return
        axes = Rotation.from_quat(pose(np.zeros(3), model.body_iquat[body])[3:]).as_matrix()
        inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
        # MuJoCo has checked bodies that move.
        reader.builder.add_link(
            name, mass=float(model.body_mass[body]), com=model.body_ipos[body] - origin,
            inertia=0.5 * (inertia + inertia.T), allow_unphysical=True,
            gravity_compensation=_compensation(reader, body) or None,
        )  # fmt: skip


def _compensation(reader: Reader, body: int) -> float:
    """Return the compensated share of a body's weight; MuJoCo ignores negative shares if no body has a positive one."""
    compensates = bool(reader.file.array("ngravcomp", 1))
    return float(reader.file.model.body_gravcomp[body]) if compensates else 0.0


def _add_joint(reader: Reader, joint: int, name: str, parent: str, child: str, placement: np.ndarray) -> None:
    model = reader.file.model
    type, dof = joint_type(reader, joint), int(model.jnt_dofadr[joint])
    properties: dict[str, object] = {
        "damping": float(model.dof_damping[dof]),
        "armature": float(model.dof_armature[dof]),
        "friction_loss": float(model.dof_frictionloss[dof]),
        "friction_softness": corrected_softness(model.dof_solref[dof], model.dof_solimp[dof]),
        "limit_softness": corrected_softness(model.jnt_solref[joint], model.jnt_solimp[joint]),
    }
    if type in ("revolute", "prismatic"):
        at = int(model.jnt_qposadr[joint])
        axis, reference = np.array(model.jnt_axis[joint]), float(model.qpos0[at])
        # The file's pose belongs to the coordinate `ref`; Backswing's joint frames coincide at zero.
        back = IDENTITY.copy()
        if type == "revolute":
            back[3:] = Rotation.from_rotvec(-reference * axis).as_quat()
        else:
            back[:3] = -reference * axis
        placement = compose(placement, back)
        properties |= {
            "axis": axis, "stiffness": float(model.jnt_stiffness[joint]),
            "rest_position": float(model.qpos_spring[at]), "q0": (reference,), "effort": _effort(reader, joint),
        }  # fmt: skip
        if model.jnt_limited[joint]:
            lower, upper = (float(bound) for bound in model.jnt_range[joint])
            properties |= {"lower": lower, "upper": upper, "limit_margin": float(model.jnt_margin[joint])}
    if type in ("spherical", "free"):
        properties |= _pose_spring(reader, joint, type)
    if type == "spherical" and model.jnt_limited[joint]:
        # Beyond half a turn MuJoCo's angle decreases again.
        properties["limit_margin"] = float(model.jnt_margin[joint])
        limit = max(float(bound) for bound in model.jnt_range[joint])
        properties["rotation_limit"] = limit if limit <= np.pi else np.inf
    with reader.file.located("joint", joint, f"joint '{name}'"):
        reader.builder.add_joint(
            name, type, parent=parent, child=child, position=placement[:3], orientation=placement[3:],
            **in_groups(JOINT_FIELDS, properties),
        )  # fmt: skip


def _pose_spring(reader: Reader, joint: int, type: str) -> dict[str, object]:
    """Return stiffness and reference of the spring of a spherical or free joint; empty without one."""
    model, at = reader.file.model, int(reader.file.model.jnt_qposadr[joint])
    if not model.jnt_stiffness[joint]:
        return {}
    start = 0 if type == "spherical" else 3
    rest = pose(model.qpos_spring[at : at + 3], model.qpos_spring[at + start : at + start + 4])
    rest = rest[3:] if type == "spherical" else compose(reader.frames[0], rest)
    return {"stiffness": float(model.jnt_stiffness[joint]), "rest_position": rest}


def _effort(reader: Reader, joint: int) -> float:
    """Return the largest force in either direction of an actuator that is added to a joint."""
    model = reader.file.model
    if not model.jnt_actfrclimited[joint]:
        return np.inf
    lower, upper = (float(bound) for bound in model.jnt_actfrcrange[joint])
    return max(-lower, upper, 0.0)


def _add_sites(reader: Reader) -> None:
    model, builder = reader.file.model, reader.builder
    for site in range(model.nsite):
        if not reader.file.name("site", site):
            continue
        body = int(model.site_bodyid[site])
        name = reader.prefix + reader.file.name("site", site)
        if name in builder.links or name in builder.frames:
            name = _free_frame(reader, f"{name}/site")
        placement = compose(reader.frames[body], pose(model.site_pos[site], model.site_quat[site]))
        with reader.file.located("site", site, f"frame '{name}'"):
            reader.sites[site] = builder.add_frame(name, reader.links[body], placement[:3], placement[3:])


def _add_cameras(reader: Reader) -> None:
    """Add the named cameras; note those that turn to a body, and orthographic ones."""
    model, left_out = reader.file.model, []
    for camera in range(model.ncam):
        name, at_first = reader.file.name("camera", camera), Rotation.from_matrix(model.cam_mat0[camera].reshape(3, 3))
        if not name:
            continue
        mount = mount_of(reader, "cam", camera, pose(np.zeros(3), model.cam_quat[camera])[3:], at_first)
        if mount is None or model.cam_projection[camera]:
            left_out.append(name)
            continue
        with reader.file.located("camera", camera, f"camera '{name}'"):
            reader.builder.add_camera(
                reader.prefix + name, mount.link, mount.placement[:3], mount.placement[3:],
                fov=_field_of_view(reader, camera), follows=mount.follows, point=mount.point,
            )  # fmt: skip
    if left_out:
        reader.notes.append(
            "skipped: cameras that turn to a body, follow the centre of mass of a fixed one, or are orthographic: "
            + ", ".join(left_out)
        )


@dataclass(frozen=True)
class Mount:
    """Link of a camera or light and its pose there, as for :meth:`sim.ModelBuilder.add_camera`."""

    link: str
    placement: np.ndarray
    follows: Followed
    point: tuple[float, float, float]


def mount_of(reader: Reader, kind: str, index: int, turn: np.ndarray, at_first: Rotation) -> Mount | None:
    """Return the link of a camera or light; None for one that turns to a body, or follows the centre of mass of a body
    that is fixed to another: a link may carry more than it.

    Args:
        reader: the import.
        kind: prefix of the arrays of MuJoCo's model, "cam" or "light".
        index: index of the camera or light.
        turn: orientation in its body, quaternion xyzw [4].
        at_first: orientation in the world of the file at the first coordinates.
    """
    model, kinds = reader.file.model, reader.file.mujoco.mjtCamLight
    known: dict[int, Followed] = {
        int(kinds.mjCAMLIGHT_FIXED): "link", int(kinds.mjCAMLIGHT_TRACK): "point",
        int(kinds.mjCAMLIGHT_TRACKCOM): "centre of mass",
    }  # fmt: skip
    mode, body = int(getattr(model, f"{kind}_mode")[index]), int(getattr(model, f"{kind}_bodyid")[index])
    follows = known.get(mode)
    if follows is None or (body and body != model.body_weldid[body] and follows == "centre of mass"):
        return None
    placement = compose(reader.frames[body], np.concatenate([getattr(model, f"{kind}_pos")[index], turn]))
    if follows != "link":
        offset = getattr(model, f"{kind}_{'pos0' if follows == 'point' else 'poscom0'}")[index]
        axes = Rotation.from_quat(reader.base[3:])
        placement = np.concatenate([axes.apply(offset), (axes * at_first).as_quat()])
    x, y, z = reader.frames[body][:3].tolist()
    return Mount(reader.links[body], placement, follows, (x, y, z))


def _field_of_view(reader: Reader, camera: int) -> float:
    """Return the vertical field of view [degrees]; that of a camera with a sensor follows from its focal length."""
    model = reader.file.model
    height, focal = float(model.cam_sensorsize[camera, 1]), float(model.cam_intrinsic[camera, 1])
    if height > 0.0:
        return float(np.rad2deg(2.0 * np.arctan(0.5 * height / focal)))
    return float(model.cam_fovy[camera])
