"""Checks of a sensor against the world that it is added to, and the descendants of its link."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_choice, require_names
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.model import Model
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
    ZONE_SIZES,
    Sensor,
)
from sim.model.spec_checks import check_name, finite
from sim.model.specs import WORLD, WorldSpec
from warp_kernels import types as codes
from warp_kernels.collision.pairs import distance_family


def links_carried(model: Model, top: int) -> list[int]:
    """Return a link and all its descendants, in order."""
    links = [top]
    for link in range(top + 1, model.num_links):
        if int(model.link_parent[link]) in links:
            links.append(link)
    return links


# Kinds with a zone, which is optional for contacts, and kinds that measure geometries.
ZONED = ("touch", "inside", "contact")
OF_GEOMETRIES = ("touch", *(kind for kind, each in SENSOR_KINDS.items() if each.of == GEOMETRIES))
# MuJoCo's default.
MAGNETIC_FIELD = (0.0, -0.5, 0.0)


def attach_sensor(world: WorldSpec, sensor: Sensor) -> str:
    """Add a sensor to a world and return its name.

    Raises:
        ModelError: naming the sensor, for arguments that don't fit its kind, and for unknown names.
    """
    check_name(sensor.name, world.sensors, "sensor")
    require_names(f"sensor '{sensor.name}'", kind=sensor.kind, target=sensor.target, reference=sensor.reference)
    if sensor.kind == "rangefinder" and not sensor.readings:
        sensor = dataclasses.replace(sensor, readings=("distance",))
    where = f"sensor '{sensor.name}'"
    if sensor.kind not in SENSOR_KINDS:
        raise ModelError(f"{where}: unknown kind '{sensor.kind}'; known are {', '.join(SENSOR_KINDS)}")
    _check_target(world, where, sensor)
    if sensor.reference != WORLD and not SENSOR_KINDS[sensor.kind].relative:
        raise ModelError(f"{where}: a sensor of kind '{sensor.kind}' has no reference; remove it")
    if sensor.reference != WORLD and not _is_frame(world, sensor.reference):
        raise ModelError(f"{where}: unknown reference '{sensor.reference}'; add the frame or link first")
    lower, upper = number(where, "lower", sensor.lower), number(where, "upper", sensor.upper)
    if not lower < upper:
        raise ModelError(f"{where}: lower is {lower} and upper is {upper}; lower must be less than upper")
    _check_geometries(world, where, sensor)
    _check_readings(where, sensor)
    _check_choice(where, sensor)
    _check_pixels(where, sensor)
    world.sensors[sensor.name] = dataclasses.replace(
        sensor,
        lower=lower,
        upper=upper,
        magnetic_field=_field(where, sensor),
        zone_size=_zone_size(where, sensor),
        image=_image(where, sensor),
    )
    return sensor.name


def _is_frame(world: WorldSpec, name: str) -> bool:
    return name in world.links or name in world.frames


def _check_target(world: WorldSpec, where: str, sensor: Sensor) -> None:
    of, target = SENSOR_KINDS[sensor.kind].of, sensor.target
    if of in (JOINT, BALL):
        if target not in world.joints:
            raise ModelError(f"{where}: unknown joint '{target}'; add the joint first")
        type = world.joints[target].type
        if not (type == codes.SPHERICAL if of == BALL else is_scalar(type)):
            needed = "spherical" if of == BALL else "revolute or prismatic"
            raise ModelError(
                f"{where}: joint '{target}' is {JOINT_TYPES[type].name}; '{sensor.kind}' needs a {needed} one"
            )
    elif of == ACTUATOR and target not in world.actuators:
        raise ModelError(f"{where}: unknown actuator '{target}'; add the actuator first")
    elif of == TENDON and target not in world.tendons:
        raise ModelError(f"{where}: unknown tendon '{target}'; add the tendon first")
    elif of in (FRAME, GEOMETRIES) and target != WORLD and not _is_frame(world, target):
        raise ModelError(f"{where}: unknown frame or link '{target}'; add it first")
    elif of == LINK and target not in world.links:
        raise ModelError(f"{where}: unknown link '{target}'; add the link first")
    if sensor.kind in ("touch", "force", "torque") and target == WORLD:
        raise ModelError(
            f"{where}: a sensor of kind '{sensor.kind}' requires a frame or link as target; add_frame makes a frame"
        )


def _check_geometries(world: WorldSpec, where: str, sensor: Sensor) -> None:
    sides = (sensor.geometries, sensor.against)
    if sensor.kind not in OF_GEOMETRIES:
        if any(side is not None for side in sides):
            raise ModelError(f"{where}: kind '{sensor.kind}' has no geometries; remove them")
        return
    for side, label in zip(sides, ("geometries", "against"), strict=True):
        for name in side or ():
            if name not in world.geometries:
                raise ModelError(f"{where}: unknown geometry '{name}'; add the geometry first")
        if not side and sensor.kind.startswith("geometry_"):
            raise ModelError(f"{where}: {label} is empty; give geometries on both sides")
    if not sensor.kind.startswith("geometry_"):
        return
    if not sensor.max_distance >= 0.0:
        raise ModelError(f"{where}: max_distance is {sensor.max_distance}; it must be zero or more")
    for one, other in itertools.product(sensor.geometries or (), sensor.against or ()):
        if not have_distance(world, one, other):
            raise ModelError(
                f"{where}: the distance between geometries '{one}' and '{other}' is not supported: heightfields, "
                "triangle meshes, two planes, and a geometry with itself have none"
            )


def have_distance(world: WorldSpec, one: str, other: str) -> bool:
    """Return whether :func:`sim.geometry_distances` supports a pair of geometries."""
    types = (world.geometries[name].geometry.type for name in (one, other))
    return one != other and distance_family(*types) is not None


def _check_readings(where: str, sensor: Sensor) -> None:
    known = {"contact": CONTACT_READINGS, "rangefinder": RANGE_READINGS}.get(sensor.kind, {})
    if sensor.kind == "contact" and not sensor.readings:
        raise ModelError(f"{where}: readings is empty; give some of {', '.join(known)}")
    for reading in sensor.readings:
        if reading not in known:
            raise ModelError(f"{where}: unknown reading '{reading}'; known are {', '.join(known) or 'none'}")
    if len(set(sensor.readings)) < len(sensor.readings):
        raise ModelError(f"{where}: readings {list(sensor.readings)} have duplicates; remove them")


def _check_choice(where: str, sensor: Sensor) -> None:
    """Raise ModelError for an invalid choice of a contact sensor."""
    if sensor.kind != "contact":
        return
    require_choice(f"{where}: choice", sensor.choice, CONTACT_CHOICES)
    if not is_whole(sensor.most, 1):
        raise ModelError(f"{where}: most is {sensor.most!r}; it must be a whole number of at least 1")
    if sensor.choice == "net" and sensor.most > 1:
        raise ModelError(f"{where}: most is {sensor.most}; with the choice 'net' it must be 1")
    moving = {"linear_velocity", "angular_velocity"} & set(sensor.readings)
    if sensor.choice == "net" and moving:
        raise ModelError(f"{where}: the choice 'net' has no reading '{min(moving)}'; remove it, or use another choice")


def _check_pixels(where: str, sensor: Sensor) -> None:
    """Raise ModelError for invalid pixels of a camera rangefinder."""
    given = sensor.pixels
    if sensor.kind != "rangefinder":
        if given is not None:
            raise ModelError(f"{where}: a sensor of kind '{sensor.kind}' has no pixels; remove them")
        return
    if (given is None) != (sensor.image is None):
        raise ModelError(f"{where}: give both image and pixels for the rays of a camera, or neither for a single ray")
    if given is not None and (len(given) != 2 or not all(is_whole(count, 1) for count in given)):
        raise ModelError(f"{where}: pixels are {given}; they must be two whole numbers of at least 1, columns and rows")


def _field(where: str, sensor: Sensor) -> tuple[float, float, float] | None:
    """Return the magnetic field of a magnetometer, checked."""
    if sensor.kind != "magnetometer":
        if sensor.magnetic_field is not None:
            raise ModelError(f"{where}: a sensor of kind '{sensor.kind}' has no magnetic_field; remove it")
        return None
    given = MAGNETIC_FIELD if sensor.magnetic_field is None else sensor.magnetic_field
    x, y, z = finite(f"{where}: magnetic_field", given, (3,)).tolist()
    return x, y, z


def _zone_size(where: str, sensor: Sensor) -> tuple[float, ...] | None:
    """Return the size of a sensor's zone, checked."""
    zone, given = sensor.zone, sensor.zone_size
    if sensor.kind not in ZONED and not (zone is None and given is None):
        raise ModelError(f"{where}: a sensor of kind '{sensor.kind}' has no zone; remove zone and zone_size")
    if sensor.kind not in ZONED or (sensor.kind == "contact" and zone is None and given is None):
        return None
    if not isinstance(zone, str) or zone not in ZONE_SIZES:
        raise ModelError(f"{where}: zone is {zone!r}; '{sensor.kind}' requires one of {', '.join(ZONE_SIZES)}")
    size = _positive(f"{where}: zone_size", () if given is None else given, ZONE_SIZES[zone])
    return tuple(size)


def _image(where: str, sensor: Sensor) -> tuple[float, float, float, float] | None:
    """Return the intrinsics of a camera, checked."""
    if sensor.kind not in ("camera_projection", "rangefinder"):
        if sensor.image is not None:
            raise ModelError(f"{where}: a sensor of kind '{sensor.kind}' has no image; remove it")
        return None
    if sensor.image is None:
        if sensor.kind == "rangefinder":
            return None
        raise ModelError(f"{where}: image is missing; give two focal lengths and the centre of the picture, in pixels")
    along, across, x, y = finite(f"{where}: image", sensor.image, (4,)).tolist()
    if not np.prod([along, across]) > 0.0 or along < 0.0:
        raise ModelError(f"{where}: image begins with focal lengths {along} and {across}; they must be positive")
    return along, across, x, y


def _positive(label: str, given: Sequence[float], count: int) -> list[float]:
    values: list[float] = finite(label, given, (count,)).tolist()
    if min(values) <= 0.0:
        raise ModelError(f"{label} is {values}; it must be positive")
    return values
