"""Conversion of an MJCF file's sensors, and the geometries that they refer to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sim.importers.mjcf.actuators import TRANSMISSIONS, transmission_of
from sim.importers.mjcf.geoms import notes_on_rays
from sim.importers.mjcf.notes import names_of
from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.tree import joint_type
from sim.model.checks import free_name
from sim.model.poses import IDENTITY, compose
from sim.model.sensors.sensors import (
    ACTUATOR,
    BALL,
    CONTACT_CHOICES,
    CONTACT_READINGS,
    FRAME,
    GEOMETRIES,
    JOINT,
    LINK,
    RANGE_READINGS,
    SENSOR_KINDS,
    TENDON,
    WHOLE,
    ZONE_SIZES,
    Sensor,
)
from sim.model.sensors.targets import attach_sensor, have_distance
from sim.model.specs import WORLD


def contact_sensor(reader: Reader, number: int, shapes: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """Return attributes of a contact sensor, with readings and choices in MuJoCo's order."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    bits, choice, most = map(int, model.sensor_intprm[number][:3])
    attributes: dict[str, Any] = {
        "readings": tuple(name for frame_pose, name in enumerate(CONTACT_READINGS) if bits >> frame_pose & 1),
        "choice": CONTACT_CHOICES[choice],
        "most": most,
        "target": "world",
        "against": _names(shapes, _geoms(reader, model.sensor_reftype[number], model.sensor_refid[number])),
    }
    index = int(model.sensor_objid[number])
    if model.sensor_objtype[number] == kinds.mjOBJ_SITE:
        return attributes | zone(reader, index) | {"target": reader.sites[index]}
    return attributes | {"geometries": _names(shapes, _geoms(reader, model.sensor_objtype[number], index))}


def geometries_apart(reader: Reader, number: int, shapes: Mapping[int, Sequence[str]]) -> dict[str, Any] | None:
    """Return the geometries on both sides of a distance sensor; None if it is unsupported."""
    model = reader.file.model
    first = _geoms(reader, model.sensor_objtype[number], model.sensor_objid[number])
    second = _geoms(reader, model.sensor_reftype[number], model.sensor_refid[number])
    if not all(shapes.get(geom) for geom in (*(first or ()), *(second or ()))):
        return None
    sides = _names(shapes, first) or (), _names(shapes, second) or ()
    if not (sides[0] and sides[1] and all(have_distance(reader.builder, *pair) for pair in product(*sides))):
        return None
    return dict(zip(("geometries", "against"), sides, strict=True))


def zone(reader: Reader, site: int) -> dict[str, Any]:
    """Return shape and size of a site."""
    model = reader.file.model
    shape = reader.file.mujoco.mjtGeom(int(model.site_type[site])).name.removeprefix("mjGEOM_").lower()
    return {"zone": shape, "zone_size": tuple(map(float, model.site_size[site][: ZONE_SIZES[shape]]))}


def _geoms(reader: Reader, kind: int, index: int) -> list[int] | None:
    """Return the geoms of a geom, a body, or a body and all its descendants; None for any."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    if kind == kinds.mjOBJ_GEOM:
        return [int(index)]
    if kind == kinds.mjOBJ_BODY:
        return np.flatnonzero(model.geom_bodyid == index).tolist()
    if kind != kinds.mjOBJ_XBODY:
        return None
    carried = {int(index)}
    for body in range(int(index) + 1, model.nbody):
        if int(model.body_parentid[body]) in carried:
            carried.add(body)
    return [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in carried]


def _names(shapes: Mapping[int, Sequence[str]], geoms: Sequence[int] | None) -> tuple[str, ...] | None:
    return None if geoms is None else tuple(name for geom in geoms for name in shapes.get(geom, ()))


# Names in mjtSensor that differ from that of the element
SHORT = {
    "jointactuatorfrc": "jointactfrc", "tendonactuatorfrc": "tendonactfrc", "distance": "geomdist",
    "normal": "geomnormal", "fromto": "geomfromto",
}  # fmt: skip
KINDS = {SHORT.get(each.mjcf, each.mjcf): kind for kind, each in SENSOR_KINDS.items()}


def add_sensors(reader: Reader, shapes: Mapping[int, Sequence[str]]) -> None:
    """Add the supported sensors, after everything else; note the others by name.

    Args:
        reader: reader of the file.
        shapes: names of the geometries, by geom.

    Raises:
        ImportFileError: naming the sensor.
    """
    left: dict[str, list[str]] = {}
    reader.notes += [*notes_on_rays(reader, shapes), *_notes_on_delays(reader), *_notes_on_limited_forces(reader)]
    for number in range(reader.file.model.nsensor):
        kind = KINDS.get(_type(reader, number))
        name = reader.name("sensor", number, f"{kind}_{number}", reader.builder.sensors)
        with reader.file.located("sensor", number, f"sensor '{name}'"):
            record = None if kind is None else _record(reader, number, kind, name, shapes)
            if record is not None:
                attach_sensor(reader.builder, record)
                continue
        what = "of cameras that follow or turn to a body" if _is_led(reader, number) else "for what they look at"
        left.setdefault(f"{_type(reader, number)} {what}", []).append(reader.file.label("sensor", number))
    for what, labels in left.items():
        reader.notes.append(f"ignored: {', '.join(labels)}: there are no sensors of type {what}")


def _notes_on_delays(reader: Reader) -> list[str]:
    """Return a note on delayed or sampled sensors; empty if there are none."""
    file = reader.file
    count = file.model.nsensor
    late = file.array("sensor_delay", np.zeros(count)) > 0.0
    rare = file.array("sensor_interval", np.zeros((count, 2))).reshape(count, 2)[:, 0] > 0.0
    which = np.flatnonzero(late | rare)
    if not len(which):
        return []
    return [f"ignored: delay and interval of sensors ({names_of(file, 'sensor', which)}); they read the present"]


def _notes_on_limited_forces(reader: Reader) -> list[str]:
    """Return a note on sensors of actuators whose joints limit their forces; empty if there are none.

    MuJoCo reads the force of the actuator before the joint limits it.
    """
    model = reader.file.model
    which = []
    for number in range(model.nsensor):
        actuator = int(model.sensor_objid[number])
        if _type(reader, number) == "actuatorfrc" and actuator in reader.actuators:
            joint = int(model.actuator_trnid[actuator, 0])
            if TRANSMISSIONS[transmission_of(reader, actuator)] == "joint" and model.jnt_actfrclimited[joint]:
                which.append(number)
    if not which:
        return []
    names = names_of(reader.file, "sensor", which)
    return [f"sensors of actuators read forces within the actuatorfrcrange of their joints ({names})"]


def _record(reader: Reader, number: int, kind: str, name: str, shapes: Mapping[int, Sequence[str]]) -> Sensor | None:
    """Return a sensor of the builder; None if it is unsupported."""
    model = reader.file.model
    cutoff = float(model.sensor_cutoff[number])
    if kind == "contact":
        return Sensor(name, kind, **contact_sensor(reader, number, shapes))
    if SENSOR_KINDS[kind].of == GEOMETRIES:
        sides = geometries_apart(reader, number, shapes)
        return None if sides is None else Sensor(name, kind, WORLD, max_distance=cutoff, **sides)
    if not _has_counterpart(reader, number, kind):
        return None
    target = _target(reader, number, SENSOR_KINDS[kind].of)
    if target is None:
        return None
    bound = cutoff or np.inf
    record = Sensor(name, kind, target, _reference(reader, number), -bound, bound)
    if kind == "magnetometer":
        x, y, z = map(float, model.opt.magnetic)
        return replace(record, magnetic_field=(x, y, z))
    if kind == "touch":
        site = int(model.sensor_objid[number])
        own = (names for geom, names in shapes.items() if model.geom_bodyid[geom] == model.site_bodyid[site])
        return replace(record, **zone(reader, site), geometries=tuple(name for names in own for name in names))
    if kind == "inside":
        return replace(record, **zone(reader, int(model.sensor_refid[number])))
    if kind == "camera_projection":
        return replace(record, image=_image(reader, int(model.sensor_refid[number])))
    if kind == "rangefinder":
        return _rangefinder(reader, number, record)
    return record


def _rangefinder(reader: Reader, number: int, record: Sensor) -> Sensor:
    """Return a rangefinder with a single ray of a site, or one ray per pixel of a camera."""
    model, bits = reader.file.model, int(reader.file.model.sensor_intprm[number][0])
    record = replace(
        record, readings=tuple(name for frame_pose, name in enumerate(RANGE_READINGS) if bits >> frame_pose & 1)
    )
    camera = int(model.sensor_objid[number])
    if model.sensor_objtype[number] != reader.file.mujoco.mjtObj.mjOBJ_CAMERA:
        return record
    width, height = map(int, model.cam_resolution[camera])
    image = _image(reader, camera)
    if model.cam_sensorsize[camera].all():
        # For its rays MuJoCo 4 counts the principal point from the image's corner.
        corner = model.cam_intrinsic[camera, 2:] / model.cam_sensorsize[camera] * (width, height)
        image = (*image[:2], float(corner[0]), float(corner[1]))
    return replace(record, image=image, pixels=(width, height))


def _is_led(reader: Reader, number: int) -> bool:
    """Return whether a sensor refers to a camera that isn't fixed to its body."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    ends = (
        (model.sensor_objtype[number], model.sensor_objid[number]),
        (model.sensor_reftype[number], model.sensor_refid[number]),
    )
    fixed = int(reader.file.mujoco.mjtCamLight.mjCAMLIGHT_FIXED)
    return any(type == kinds.mjOBJ_CAMERA and model.cam_mode[index] != fixed for type, index in ends)


def _has_counterpart(reader: Reader, number: int, kind: str) -> bool:
    if _is_led(reader, number):
        return False
    if kind == "rangefinder":
        return not _is_orthographic(reader, number)
    if kind in ("force", "torque"):  # parts of the world have none
        return bool(reader.file.model.body_weldid[_body_of_site(reader, number)] != 0)
    # The force that carries its links' weight isn't separated.
    return kind != "joint_actuator_force" or not _bears_weight(reader, number)


def _image(reader: Reader, camera: int) -> tuple[float, float, float, float]:
    """Return focal lengths and centre of a camera's image [px]; MuJoCo projects without its principal point."""
    model = reader.file.model
    width, height = map(float, model.cam_resolution[camera])
    focal = 0.5 * height / np.tan(np.deg2rad(0.5 * float(model.cam_fovy[camera])))
    along, across = focal, focal
    if model.cam_sensorsize[camera].all():
        along, across = np.divide(model.cam_intrinsic[camera, :2], model.cam_sensorsize[camera]) * (width, height)
    return float(along), float(across), 0.5 * width, 0.5 * height


def _type(reader: Reader, number: int) -> str:
    return (
        str(reader.file.mujoco.mjtSensor(int(reader.file.model.sensor_type[number])).name)
        .removeprefix("mjSENS_")
        .lower()
    )


def _target(reader: Reader, number: int, of: str) -> str | None:
    """Return the name of a sensor's target; None if the builder lacks it."""
    index = int(reader.file.model.sensor_objid[number])
    if of in (JOINT, BALL):
        if of == JOINT and joint_type(reader, index) not in ("revolute", "prismatic"):  # limits of ball joints
            return None
        return reader.joints[index]
    if of == ACTUATOR:
        return reader.actuators.get(index)
    if of == TENDON:
        return reader.tendons.get(index)
    if of == FRAME:
        return _frame(reader, int(reader.file.model.sensor_objtype[number]), index)
    if of == LINK:
        # The masses of bodies without joints are merged into those of their parents.
        return reader.links[index] if index > 0 and reader.file.model.body_jntnum[index] else None
    assert of == WHOLE
    return WORLD


def _is_orthographic(reader: Reader, number: int) -> bool:
    """Return whether a rangefinder's rays are those of an orthographic camera."""
    model = reader.file.model
    of_camera = model.sensor_objtype[number] == reader.file.mujoco.mjtObj.mjOBJ_CAMERA
    return bool(of_camera and model.cam_projection[model.sensor_objid[number]])


def _bears_weight(reader: Reader, number: int) -> bool:
    """Return whether a joint's actuators are said to carry the weight that ``gravcomp`` compensates."""
    model = reader.file.model
    return bool(model.jnt_actgravcomp[model.sensor_objid[number]] and model.body_gravcomp.any())


def _body_of_site(reader: Reader, number: int) -> int:
    return int(reader.file.model.site_bodyid[reader.file.model.sensor_objid[number]])


def _reference(reader: Reader, number: int) -> str:
    index = int(reader.file.model.sensor_refid[number])
    return WORLD if index < 0 else _frame(reader, int(reader.file.model.sensor_reftype[number]), index)


def _frame(reader: Reader, kind: int, index: int) -> str:
    """Return the name of the frame of a site, body, geom or camera; add a frame if there is none."""
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
    link, frame_pose = reader.links[int(body)], compose(reader.frames[int(body)], at)
    for name, (carrier, placement) in reader.builder.frames.items():
        if carrier == link and np.array_equal(placement, frame_pose):
            return name
    if np.array_equal(frame_pose, IDENTITY):
        return link
    name = free_name(f"{link}/{label}", reader.builder.frames.keys() | reader.builder.links.keys())
    return reader.builder.add_frame(name, link, frame_pose[:3], frame_pose[3:])
