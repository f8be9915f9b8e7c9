"""Sensors of an MJCF file."""

import xml.etree.ElementTree as ET

import numpy as np

from sim.exporters.losses import Losses
from sim.exporters.mjcf.bodies import Bodies
from sim.exporters.text import number, numbers
from sim.model.poses import IDENTITY
from sim.model.sensors.kinds import ACTUATOR, BALL, FRAME, JOINT, LINK, SENSOR_KINDS, TENDON
from sim.model.sensors.sensor import Sensor
from sim.model.specs import WORLD

# Kinds that MuJoCo has for sites alone.
OF_SITES = ("accelerometer", "gyro", "velocimeter", "magnetometer", "rangefinder")


def add_sensors(root: ET.Element, bodies: Bodies, losses: Losses) -> None:
    """Add all sensors but those of links without a body."""
    sensors = ET.SubElement(root, "sensor")
    lost, bounded = [], []
    for sensor in bodies.model.sensors:
        element = ET.Element(SENSOR_KINDS[sensor.kind].mjcf, name=sensor.name)
        if not _aim(element, sensor, bodies):
            lost.append(sensor.name)
            continue
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
    losses.leaves_out("ranges of sensors that are not symmetric", bounded)


def _aim(element: ET.Element, sensor: Sensor, bodies: Bodies) -> bool:
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
    elif of == FRAME and sensor.kind in OF_SITES:
        return _aim_at_site(element, sensor.target, bodies)
    elif of == FRAME:
        aimed = _aim_at_frame(element, "obj", sensor.target, bodies)
        return aimed and (sensor.reference == WORLD or _aim_at_frame(element, "ref", sensor.reference, bodies))
    return True


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
