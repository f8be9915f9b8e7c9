"""Sensors of an MJCF file."""

import xml.etree.ElementTree as ET
from collections.abc import Container, Sequence

import numpy as np

from sim.exporters.files import number, numbers, wxyz
from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies
from sim.model.model import Model
from sim.model.poses import IDENTITY
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
    Sensor,
)
from sim.model.sensors.targets import links_carried
from sim.model.specs import WORLD

# MuJoCo's words for the data that sensors read of each contact, or of each ray
OF_CONTACTS = ("found", "force", "torque", "dist", "pos", "normal", "tangent", "linvel", "angvel")
OF_RAYS = ("dist", "dir", "origin", "point", "normal", "depth")
DATA = {
    "contact": dict(zip(CONTACT_READINGS, OF_CONTACTS, strict=True)),
    "rangefinder": dict(zip(RANGE_READINGS, OF_RAYS, strict=True)),
}
MUJOCO_CHOICES = ("none", "mindist", "maxforce", "netforce")
# Value that stands for an unlimited distance [m], and the size of a camera's pixel [m].
FARTHEST, PIXEL = 1e6, 1e-5
# Kinds that MuJoCo has only for sites
OF_SITES = ("accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder", "force", "torque")


def add_sensors(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add all sensors except those of links without a body."""
    sensors = ET.SubElement(root, "sensor")
    lost, bounded, some, mixed = [], [], [], []
    for sensor in bodies.model.sensors:
        element = ET.Element(SENSOR_KINDS[sensor.kind].mjcf, name=sensor.name)
        if _lacks_limits(sensor, bodies.model) or not _aim(element, sensor, bodies, root):
            lost.append(sensor.name)
            continue
        if sensor.readings != tuple(name for name in DATA.get(sensor.kind, {}) if name in sensor.readings):
            mixed.append(sensor.name)
        if sensor.kind == "touch" and not _touches_all(sensor, bodies):
            some.append(sensor.name)
        sensors.append(element)
        if np.isfinite([sensor.lower, sensor.upper]).any():
            if sensor.upper == -sensor.lower and SENSOR_KINDS[sensor.kind].of != GEOMETRIES:
                element.set("cutoff", number(sensor.upper))
            else:
                bounded.append(sensor.name)
    fields = sorted({sensor.magnetic_field for sensor in bodies.model.sensors if sensor.magnetic_field is not None})
    if fields:
        option = root.find("option")
        assert option is not None
        option.set("magnetic", numbers(fields[0]))
        others = [s.name for s in bodies.model.sensors if s.magnetic_field not in (None, fields[0])]
        losses.leaves_out("magnetic fields of single sensors", others)
    losses.leaves_out("sensors of links without mass, of missing limits, and of quantities that MJCF lacks", lost)
    losses.leaves_out("touch sensors that count only some geoms of a body", some)
    losses.leaves_out("orders of readings that differ from MuJoCo's", mixed)
    losses.leaves_out("asymmetric ranges of sensors", bounded)


def _lacks_limits(sensor: Sensor, model: Model) -> bool:
    """Return whether a sensor reads limits that its joint or tendon lacks; MuJoCo rejects such a sensor."""
    if sensor.kind.startswith("joint_limit_"):
        of, at = "", int(model.joint_qd_start[model.joint_names.index(sensor.target)])
    elif sensor.kind.startswith("tendon_limit_"):
        of, at = "tendon_", model.tendons.names.index(sensor.target)
    else:
        return False
    return not np.isfinite([model.parameters[f"{of}{side}_limit"][at] for side in ("lower", "upper")]).any()


def _aim(element: ET.Element, sensor: Sensor, bodies: Bodies, root: ET.Element) -> bool:
    """Add the target of a sensor; return whether the file has that target."""
    of = SENSOR_KINDS[sensor.kind].of
    if of in (JOINT, BALL):
        element.set("joint", sensor.target)
    elif of == ACTUATOR:
        element.set("actuator", sensor.target)
    elif of == TENDON:
        element.set("tendon", sensor.target)
    elif of == LINK:
        element.set("body", sensor.target)
    elif of == GEOMETRIES:
        return _aim_at_geometries(element, sensor, bodies, root)
    elif sensor.kind == "touch":
        return _aim_at_zone(element, sensor, sensor.target, bodies, root)
    elif sensor.kind == "inside":
        zoned = _aim_at_zone(element, sensor, sensor.reference, bodies, root)
        return zoned and _aim_at_frame(element, "obj", sensor.target, bodies)
    elif sensor.kind == "camera_projection":
        assert sensor.image is not None
        seen = _aim_at_site(element, sensor.target, bodies)
        return seen and _aim_at_camera(element, sensor, sensor.reference, 2.0 * np.array(sensor.image[2:]), bodies)
    elif sensor.kind == "rangefinder":
        element.set("data", _data(sensor))
        if sensor.pixels is None:
            return _aim_at_site(element, sensor.target, bodies)
        return _aim_at_camera(element, sensor, sensor.target, np.array(sensor.pixels), bodies)
    elif of == FRAME and sensor.kind in OF_SITES:
        return _aim_at_site(element, sensor.target, bodies)
    elif of == FRAME:
        aimed = _aim_at_frame(element, "obj", sensor.target, bodies)
        return aimed and (sensor.reference == WORLD or _aim_at_frame(element, "ref", sensor.reference, bodies))
    return True


def _data(sensor: Sensor) -> str:
    """Return the sensor's data in MuJoCo's words and order."""
    return " ".join(word for reading, word in DATA[sensor.kind].items() if reading in sensor.readings)


def _aim_at_geometries(element: ET.Element, sensor: Sensor, bodies: Bodies, root: ET.Element) -> bool:
    """Set the geometries of both sides as targets; a site's zone replaces the first."""
    if sensor.kind == "contact":
        element.set("data", _data(sensor))
        element.set("reduce", MUJOCO_CHOICES[CONTACT_CHOICES.index(sensor.choice)])
        element.set("num", str(sensor.most))
    elif np.isfinite(sensor.max_distance):
        element.set("cutoff", number(sensor.max_distance))
    else:
        element.set("cutoff", number(FARTHEST))
    if sensor.zone is None:
        first = _aim_at_side(element, sensor.geometries, "1", sensor, bodies)
    else:
        first = sensor.geometries is None and _aim_at_zone(element, sensor, sensor.target, bodies, root)
    return first and _aim_at_side(element, sensor.against, "2", sensor, bodies)


def _aim_at_side(element: ET.Element, names: Sequence[str] | None, side: str, sensor: Sensor, bodies: Bodies) -> bool:
    """Set one side's target: a geom, or a body or subtree with exactly these geometries; return success."""
    if names is None:
        return True
    if len(names) == 1:
        element.set(f"geom{side}", names[0])
        return True
    model = bodies.model
    every = sensor.kind != "contact"
    counting = {i for i, each in enumerate(model.geometries) if every or each.collides}
    numbers_of = {model.geometry(name) for name in names} & counting
    links = {model.geometries[index].link for index in numbers_of}

    def counted(within: Container[int]) -> set[int]:
        return {index for index in counting if model.geometries[index].link in within}

    held = {id(bodies.body_of(each)[0]) for each in model.geometries if each.link in links}
    if len(links) == 1 and len(held) == 1 and counted(links) == numbers_of:
        (link,) = links
        body = bodies.body_of(model.geometries[min(numbers_of)])[0]
        element.set(f"body{side}", body.get("name", WORLD))
        return link < 0 or link in bodies.heads
    top = min(links, default=-1)
    if top >= 0 and sensor.kind == "contact" and counted(links_carried(model, top)) == numbers_of:
        element.set(f"subtree{side}", model.link_names[top])
        return top in bodies.heads
    return False


def _aim_at_camera(element: ET.Element, sensor: Sensor, frame: str, resolution: np.ndarray, bodies: Bodies) -> bool:
    """Set a new camera with a whole number of pixels as target.

    MuJoCo 4 projects to the middle of the image, but counts the principal point of rays from its corner.
    """
    assert sensor.image is not None
    link, placement = _frame_pose(frame, bodies)
    if (link >= 0 and link not in bodies.heads) or (resolution % 1.0).any() or (resolution <= 0.0).any():
        return False
    name = f"{sensor.name}/camera"
    principal = sensor.image[2:] if sensor.kind == "rangefinder" else (0.0, 0.0)
    ET.SubElement(
        bodies.elements[link], "camera", name=name, pos=numbers(placement[:3]), quat=wxyz(placement[3:]),
        resolution=" ".join(str(int(count)) for count in resolution), sensorsize=numbers(PIXEL * resolution),
        focal=numbers(PIXEL * np.array(sensor.image[:2])), principal=numbers(PIXEL * np.array(principal)),
    )  # fmt: skip
    element.set("camera", name)
    return True


def _aim_at_zone(element: ET.Element, sensor: Sensor, name: str, bodies: Bodies, root: ET.Element) -> bool:
    """Set the site of a frame as target, or a new site, which gets the zone's shape."""
    link, placement = _frame_pose(name, bodies)
    if link >= 0 and link not in bodies.heads:
        return False
    assert sensor.zone is not None
    assert sensor.zone_size is not None
    site, own = _site(root, name), f"{sensor.name}/zone"
    touching = [each for each in bodies.model.geometries if each.collides and each.name in (sensor.geometries or ())]
    if sensor.kind == "touch" and touching and touching[0].link == link:
        site = _site(root, bodies.weighed_site(own, link, placement, np.array(touching[0].weighed_at)))
    elif site is None or "type" in site.attrib:
        site = _site(root, bodies.site(own, link, placement))
    assert site is not None
    site.set("type", sensor.zone)
    site.set("size", numbers(sensor.zone_size))
    element.set("site", site.attrib["name"])
    return True


def _frame_pose(name: str, bodies: Bodies) -> tuple[int, np.ndarray]:
    """Return the link of a frame, -1 for the world, and the frame's pose in it [7]."""
    if name == WORLD:
        return -1, IDENTITY
    frame = bodies.model.frame(name)
    return frame.link, frame.placement


def _site(root: ET.Element, name: str) -> ET.Element | None:
    return next((site for site in root.iter("site") if site.get("name") == name), None)


def _touches_all(sensor: Sensor, bodies: Bodies) -> bool:
    """Return whether a touch sensor counts contacts of exactly the geoms of one body, as MuJoCo does."""
    model = bodies.model
    named = {model.geometry(name) for name in sensor.geometries or ()}
    named = {index for index in named if model.geometries[index].collides}
    held = {index: bodies.body_of(each)[0] for index, each in enumerate(model.geometries) if each.collides}
    around = bodies.elements[model.frame(sensor.target).link] if not named else held[min(named)]
    return {index for index, body in held.items() if body is around} == named


def _aim_at_site(element: ET.Element, frame: str, bodies: Bodies) -> bool:
    links = bodies.model.link_names
    if frame in links or frame == WORLD:
        link = links.index(frame) if frame in links else -1
        if link >= 0 and link not in bodies.heads:
            return False
        frame = bodies.site(f"{frame}/sensor", link, IDENTITY)
    element.set("site", frame)
    return frame not in bodies.lost_frames()


def _aim_at_frame(element: ET.Element, role: str, frame: str, bodies: Bodies) -> bool:
    links = bodies.model.link_names
    body = frame in links or frame == WORLD
    element.set(f"{role}type", "xbody" if body else "site")
    element.set(f"{role}name", frame)
    return links.index(frame) in bodies.heads if frame in links else frame not in bodies.lost_frames()
