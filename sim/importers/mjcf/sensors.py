"""Sensors of an MJCF file as those of the builder."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.importers.mjcf.reader import Reader, pose
from sim.model.names import free_name
from sim.model.poses import IDENTITY, compose
from sim.model.sensors.kinds import ACTUATOR, BALL, FRAME, JOINT, LINK, SENSOR_KINDS, TENDON, WHOLE, ZONE_SIZES
from sim.model.specs import WORLD

# The name in mjtSensor that isn't that of its element.
SHORT = {"jointactuatorfrc": "jointactfrc", "tendonactuatorfrc": "tendonactfrc"}
KINDS = {SHORT.get(each.mjcf, each.mjcf): kind for kind, each in SENSOR_KINDS.items()}


def add_sensors(reader: Reader, shapes: Mapping[int, Sequence[str]]) -> None:
    """Add the sensors that have a counterpart, after all else; the others are noted by name.

    Args:
        reader: the file.
        shapes: names of the geometries that collide, by geom.

    Raises:
        ImportFileError: naming the sensor.
    """
    left: dict[str, list[str]] = {}
    for number in range(reader.file.model.nsensor):
        kind = KINDS.get(_type(reader, number))
        target = None if kind is None else _target(reader, number, SENSOR_KINDS[kind].of)
        if kind == "rangefinder" and not _is_plain_rangefinder(reader, number):
            target = None
        if kind in ("force", "torque") and reader.file.model.body_weldid[_body_of_site(reader, number)] == 0:
            target = None  # a part of the world
        if kind == "joint_actuator_force" and _bears_weight(reader, number):
            target = None  # what bears its links' weight isn't told apart
        if kind is None or target is None:
            left.setdefault(_type(reader, number), []).append(reader.file.label("sensor", number))
            continue
        name = reader.name("sensor", number, f"{kind}_{number}", reader.builder.sensors)
        cutoff = float(reader.file.model.sensor_cutoff[number]) or np.inf
        field = tuple(map(float, reader.file.model.opt.magnetic)) if kind == "magnetometer" else None
        with reader.file.located("sensor", number, f"sensor '{name}'"):
            reader.builder.add_sensor(
                name, kind, target, reference=_reference(reader, number), lower=-cutoff, upper=cutoff,
                magnetic_field=field, **(_zone(reader, number, shapes) if kind == "touch" else {}),
            )  # fmt: skip
    for type, labels in left.items():
        reader.notes.append(f"left out: {', '.join(labels)}: there are no sensors of type {type} for what they look at")


def _zone(reader: Reader, number: int, shapes: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """The zone of a touch sensor, its site, and the geoms of its body."""
    model, site = reader.file.model, int(reader.file.model.sensor_objid[number])
    zone = reader.file.mujoco.mjtGeom(int(model.site_type[site])).name.removeprefix("mjGEOM_").lower()
    own = (names for geom, names in shapes.items() if model.geom_bodyid[geom] == model.site_bodyid[site])
    geoms = [name for names in own for name in names]
    return {"zone": zone, "zone_size": model.site_size[site][: ZONE_SIZES[zone]], "geometries": geoms}


def _type(reader: Reader, number: int) -> str:
    return (
        str(reader.file.mujoco.mjtSensor(int(reader.file.model.sensor_type[number])).name)
        .removeprefix("mjSENS_")
        .lower()
    )


def _target(reader: Reader, number: int, of: str) -> str | None:
    """The name of what a sensor looks at; None for what isn't in the builder."""
    index = int(reader.file.model.sensor_objid[number])
    if of in (JOINT, BALL):
        return reader.joints[index]
    if of == ACTUATOR:
        return reader.actuators.get(index)
    if of == TENDON:
        return reader.tendons.get(index)
    if of == FRAME:
        return _frame(reader, int(reader.file.model.sensor_objtype[number]), index)
    if of == LINK:
        # The masses of bodies without joints are merged into those that carry them.
        return reader.links[index] if index > 0 and reader.file.model.body_jntnum[index] else None
    assert of == WHOLE
    return WORLD


def _is_plain_rangefinder(reader: Reader, number: int) -> bool:
    """Whether it is one ray along the axis of a site, and not a camera's or one that gives more than the distance."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    return int(model.sensor_objtype[number]) == kinds.mjOBJ_SITE and int(model.sensor_dim[number]) == 1


def _bears_weight(reader: Reader, number: int) -> bool:
    """Whether a joint's actuators are said to bear the weight that ``gravcomp`` takes off."""
    model = reader.file.model
    return bool(model.jnt_actgravcomp[model.sensor_objid[number]] and model.body_gravcomp.any())


def _body_of_site(reader: Reader, number: int) -> int:
    return int(reader.file.model.site_bodyid[reader.file.model.sensor_objid[number]])


def _reference(reader: Reader, number: int) -> str:
    index = int(reader.file.model.sensor_refid[number])
    return WORLD if index < 0 else _frame(reader, int(reader.file.model.sensor_reftype[number]), index)


def _frame(reader: Reader, kind: int, index: int) -> str:
    """The name of the frame of a site, body, geom or camera; one is added for it where there is none yet."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    if kind == kinds.mjOBJ_SITE:
        return reader.sites[index]
    label, body, at = {
        int(kinds.mjOBJ_XBODY): lambda: ("body", index, IDENTITY),
        int(kinds.mjOBJ_BODY): lambda: ("inertia", index, pose(model.body_ipos[index], model.body_iquat[index])),
        int(kinds.mjOBJ_GEOM): lambda: (
            "geom", model.geom_bodyid[index], pose(model.geom_pos[index], model.geom_quat[index])
        ),
        int(kinds.mjOBJ_CAMERA): lambda: (
            "camera", model.cam_bodyid[index], pose(model.cam_pos[index], model.cam_quat[index])
        ),
    }[kind]()  # fmt: skip
    link, place = reader.links[int(body)], compose(reader.frames[int(body)], at)
    for name, (carrier, placement) in reader.builder.frames.items():
        if carrier == link and np.array_equal(placement, place):
            return name
    if np.array_equal(place, IDENTITY):
        return link
    name = free_name(f"{link}/{label}", reader.builder.frames.keys() | reader.builder.links.keys())
    return reader.builder.add_frame(name, link, place[:3], place[3:])
