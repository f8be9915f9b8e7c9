"""Sensors of an MJCF file."""

import xml.etree.ElementTree as ET

import numpy as np

from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.text import number, numbers
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.sensors.kinds import ACTUATOR, BALL, FRAME, JOINT, LINK, SENSOR_KINDS, TENDON
from sim.model.sensors.sensor import Sensor
from sim.model.specs import WORLD

# Kinds that MuJoCo has for sites alone.
OF_SITES = ("accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder", "force", "torque")


def add_sensors(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add all sensors but those of links without a body."""
    sensors = ET.SubElement(root, "sensor")
    lost, bounded, some = [], [], []
    for sensor in bodies.model.sensors:
        element = ET.Element(SENSOR_KINDS[sensor.kind].mjcf, name=sensor.name)
        if not _aim(element, sensor, bodies, root):
            lost.append(sensor.name)
            continue
        if sensor.kind == "touch" and not _touches_all(sensor, bodies.model):
            some.append(sensor.name)
        sensors.append(element)
        if np.isfinite([sensor.lower, sensor.upper]).any():
            if sensor.upper == -sensor.lower:
                element.set("cutoff", number(sensor.upper))
            else:
                bounded.append(sensor.name)
    fields = sorted({sensor.magnetic_field for sensor in bodies.model.sensors if sensor.magnetic_field is not None})
    if fields:
        option = root.find("option")
        assert option is not None
        option.set("magnetic", numbers(fields[0]))
        others = [s.name for s in bodies.model.sensors if s.magnetic_field not in (None, fields[0])]
        losses.leaves_out("magnetic fields of their own, of sensors", others)
    losses.leaves_out("sensors of links without mass", lost)
    losses.leaves_out("that touch sensors count some of a body's geoms alone", some)
    losses.leaves_out("ranges of sensors that are not symmetric", bounded)


def _aim(element: ET.Element, sensor: Sensor, bodies: Bodies, root: ET.Element) -> bool:
    """Say what a sensor looks at; whether the file has it."""
    of = SENSOR_KINDS[sensor.kind].of
    if of in (JOINT, BALL):
        element.set("joint", sensor.target)
    elif of == ACTUATOR:
        element.set("actuator", sensor.target)
    elif of == TENDON:
        element.set("tendon", sensor.target)
    elif of == LINK:
        element.set("body", sensor.target)
    elif sensor.kind == "touch":
        return _aim_at_zone(element, sensor, bodies, root)
    elif of == FRAME and sensor.kind in OF_SITES:
        return _aim_at_site(element, sensor.target, bodies)
    elif of == FRAME:
        aimed = _aim_at_frame(element, "obj", sensor.target, bodies)
        return aimed and (sensor.reference == WORLD or _aim_at_frame(element, "ref", sensor.reference, bodies))
    return True


def _aim_at_zone(element: ET.Element, sensor: Sensor, bodies: Bodies, root: ET.Element) -> bool:
    """At the site of its frame, or one of its own, which gets the zone's shape."""
    frame = bodies.model.frame(sensor.target)
    if frame.link >= 0 and frame.link not in bodies.heads:
        return False
    assert sensor.zone is not None
    assert sensor.zone_size is not None
    site = _site(root, sensor.target)
    if site is None or "type" in site.attrib:
        site = _site(root, bodies.site(f"{sensor.name}/zone", frame.link, frame.placement))
        assert site is not None
    site.set("type", sensor.zone)
    site.set("size", numbers(sensor.zone_size))
    element.set("site", site.attrib["name"])
    return True


def _site(root: ET.Element, name: str) -> ET.Element | None:
    return next((site for site in root.iter("site") if site.get("name") == name), None)


def _touches_all(sensor: Sensor, model: Model) -> bool:
    """Whether a touch sensor counts contacts of all geometries of its link that can have any."""
    link = model.frame(sensor.target).link
    named = {model.geometry(name) for name in sensor.geometries or ()}
    return all(i in named for i, each in enumerate(model.geometries) if each.collides and each.link == link)


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
