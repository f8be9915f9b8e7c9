"""Tendons of an MJCF file."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.tree import joint_type
from sim.model.builder.properties import Limits, Spring
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.poses import compose
from sim.model.softness import corrected_softness
from sim.model.tendons.tendons import TendonWrap


def add_tendons(reader: Reader) -> None:
    """Add the tendons.

    Raises:
        ImportFileError: naming the tendon.
    """
    for tendon in range(reader.file.model.ntendon):
        kinds = _kinds(reader, tendon)
        name = reader.name("tendon", tendon, f"tendon_{tendon}", reader.builder.tendons)
        with reader.file.located("tendon", tendon, f"tendon '{name}'"):
            if "joint" in kinds:
                reader.builder.add_fixed_tendon(name, _coefficients(reader, tendon), **_properties(reader, tendon))
            else:
                reader.builder.add_spatial_tendon(name, _path(reader, tendon), **_properties(reader, tendon))
        reader.tendons[tendon] = name
    _add_joint_springs(reader)


def _add_joint_springs(reader: Reader) -> None:
    """Add the quadratic and cubic terms of joint springs as tendons whose length is the coordinate."""
    model = reader.file.model
    curve = _polynomials(reader, "jnt_stiffnesspoly", model.njnt)
    for joint in np.flatnonzero(curve.any(axis=1)).tolist():
        if joint_type(reader, joint) not in ("revolute", "prismatic"):
            continue
        name = reader.free(f"{reader.joints[joint]}/spring", reader.builder.tendons, "tendon")
        with reader.file.located("joint", joint, f"the spring of joint '{reader.joints[joint]}'"):
            reader.builder.add_fixed_tendon(
                name, {reader.joints[joint]: 1.0},
                spring=Spring(rest=float(model.qpos_spring[model.jnt_qposadr[joint]]), stiffness=(0.0, *curve[joint])),
            )  # fmt: skip


def _polynomials(reader: Reader, name: str, count: int) -> np.ndarray:
    """Return quadratic and cubic coefficients [count, 2]; zeros in versions of MuJoCo that lack them."""
    return reader.file.array(name, np.zeros((count, 2))).reshape(count, 2)


def _parts(reader: Reader, tendon: int) -> range:
    first = int(reader.file.model.tendon_adr[tendon])
    return range(first, first + int(reader.file.model.tendon_num[tendon]))


def _kind(reader: Reader, part: int) -> str:
    return reader.file.mujoco.mjtWrap(int(reader.file.model.wrap_type[part])).name.removeprefix("mjWRAP_").lower()


def _kinds(reader: Reader, tendon: int) -> set[str]:
    return {_kind(reader, part) for part in _parts(reader, tendon)}


def _coefficients(reader: Reader, tendon: int) -> dict[str, float]:
    """Return coefficients by joint, summed for joints named twice."""
    model = reader.file.model
    found: dict[str, float] = {}
    for part in _parts(reader, tendon):
        joint = reader.joints[int(model.wrap_objid[part])]
        found[joint] = found.get(joint, 0.0) + float(model.wrap_prm[part])
    return found


def _path(reader: Reader, tendon: int) -> list[Any]:
    """Return the path: points on links, wraps, and divisors of pulleys."""
    model = reader.file.model
    path: list[Any] = []
    for part in _parts(reader, tendon):
        kind = _kind(reader, part)
        if kind == "pulley":
            path.append(float(model.wrap_prm[part]))
        elif kind == "site":
            path.append(_site(reader, int(model.wrap_objid[part])))
        else:
            path.append(_wrap(reader, kind, int(model.wrap_objid[part]), int(model.wrap_prm[part])))
    return path


def _site(reader: Reader, site: int) -> tuple[str, np.ndarray]:
    model = reader.file.model
    return reader.point(int(model.site_bodyid[site]), model.site_pos[site])


def _wrap(reader: Reader, kind: str, geom: int, side: int) -> TendonWrap:
    """Return a wrap, a sphere or a cylinder; ``side`` is -1 without a site."""
    model = reader.file.model
    body = int(model.geom_bodyid[geom])
    placed = compose(reader.frames[body], pose(model.geom_pos[geom], model.geom_quat[geom]))
    axis = Rotation.from_quat(placed[3:]).as_matrix()[:, 2]
    return TendonWrap(
        link=reader.links[body], radius=float(model.geom_size[geom, 0]), position=placed[:3],
        axis=axis if kind == "cylinder" else None, side=None if side < 0 else _site(reader, side),
    )  # fmt: skip


def _force_range(reader: Reader, tendon: int) -> tuple[float, float] | None:
    """Return the range of the sum of several actuators' forces; that of a single actuator is the actuator's."""
    model = reader.file.model
    limited = reader.file.array("tendon_actfrclimited", np.zeros(model.ntendon))
    if not limited[tendon] or len(actuators_of(reader, tendon)) < 2:
        return None
    lower, upper = model.tendon_actfrcrange[tendon].tolist()
    return lower, upper


def actuators_of(reader: Reader, tendon: int) -> np.ndarray:
    """Return the file's actuators on a tendon."""
    model = reader.file.model
    on_tendons = model.actuator_trntype == int(reader.file.mujoco.mjtTrn.mjTRN_TENDON)
    return np.flatnonzero(on_tendons & (model.actuator_trnid[: len(on_tendons), 0] == tendon))


def _properties(reader: Reader, tendon: int) -> dict[str, Any]:
    model = reader.file.model
    lower, upper = model.tendon_range[tendon].tolist() if model.tendon_limited[tendon] else (-np.inf, np.inf)
    rest = model.tendon_lengthspring[tendon]
    curve, growth = (_polynomials(reader, f"tendon_{kind}poly", model.ntendon) for kind in ("stiffness", "damping"))
    return {
        "spring": Spring(
            stiffness=(float(model.tendon_stiffness[tendon]), *curve[tendon]),
            damping=(float(model.tendon_damping[tendon]), *growth[tendon]),
            rest=(float(rest[0]), float(rest[1])),
        ),
        "limits": Limits(
            lower if lower > -MUJOCO_INFINITY else -np.inf,
            upper if upper < MUJOCO_INFINITY else np.inf,
            margin=float(model.tendon_margin[tendon]),
            softness=corrected_softness(model.tendon_solref_lim[tendon], model.tendon_solimp_lim[tendon]),
        ),
        "force_range": _force_range(reader, tendon),
        "armature": float(model.tendon_armature[tendon]),
        "friction_loss": float(model.tendon_frictionloss[tendon]),
        "friction_softness": corrected_softness(model.tendon_solref_fri[tendon], model.tendon_solimp_fri[tendon]),
    }
