"""The sensors of contacts of a model, as arrays for :mod:`warp_kernels.sensors.contacts`."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.model.geometry_types import GEOMETRY_TYPES
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.sensors import Sensor
from sim.model.specs import WORLD
from warp_kernels import types as codes
from warp_kernels.sensors.contacts import PER_CONTACT, contact_sensor_structs
from warp_kernels.sensors.zones import ZONES


def contact_places(
    model: Model, chosen: Sequence[int | str], room_for: Callable[[np.ndarray], int]
) -> dict[str, tuple[int, int]]:
    """Of each sensor of contacts, by name, the first place of its contacts and how many it has room for.

    The places are behind one for each that is chosen. ``room_for`` says how many contacts geometries may have that are
    on the sides given, see :class:`warp_kernels.sensors.contacts.contact_sensor_structs`.
    """
    places = {}
    start = len(chosen)
    for sensor in _sensors(model, chosen):
        count = room_for(_sides(model, sensor))
        if sensor.choice == "first":
            count = min(sensor.most, count)
        places[sensor.name] = start, count
        start += PER_CONTACT * count
    return places


def num_places(chosen: Sequence[int | str], places: dict[str, tuple[int, int]]) -> int:
    """How many places all that is chosen takes."""
    return len(chosen) + PER_CONTACT * sum(count for _, count in places.values())


def contact_sensors(
    model: Model,
    chosen: Sequence[int | str],
    places: dict[str, tuple[int, int]],
    by_mujoco: bool,
    device: wp.DeviceLike,
) -> Any:
    """The sensors among those that are chosen, by name, and their places."""
    t = codes.warp_types(model.scalar)
    sensors = list(_sensors(model, chosen))
    frames = [None if sensor.target == WORLD else model.frame(sensor.target) for sensor in sensors]
    sizes = [(*(sensor.zone_size or ()), 1.0, 1.0, 1.0)[:3] for sensor in sensors]
    whole = functools.partial(integer_array, device=device)
    sides = [_sides(model, sensor) for sensor in sensors]
    return fill(
        contact_sensor_structs(model.scalar).ContactSensors,
        place=whole([list(chosen).index(sensor.name) for sensor in sensors]),
        first=whole([places[sensor.name][0] for sensor in sensors]),
        room=whole([places[sensor.name][1] for sensor in sensors]),
        sides=whole(np.reshape(sides, (len(sensors), model.num_geometries))),
        rank=whole(ranks(model)),
        idle=int(by_mujoco),
        zone=whole([-1 if sensor.zone is None else ZONES.index(sensor.zone) for sensor in sensors]),
        size=wp.array(sizes, dtype=t.vec3, device=device),
        link=whole([-1 if frame is None else frame.link for frame in frames]),
        placement=wp.array(
            [IDENTITY if frame is None else frame.placement for frame in frames], dtype=t.transform, device=device
        ),
    )


def ranks(model: Model) -> np.ndarray:
    """Of two geometries the one of the lower rank is the first of a contact: by MuJoCo's types, then by place."""
    order = sorted(range(model.num_geometries), key=lambda i: (GEOMETRY_TYPES[model.geometries[i].type].rank, i))
    return np.argsort(order)


def _sensors(model: Model, chosen: Sequence[int | str]) -> Iterator[Sensor]:
    by_name = {sensor.name: sensor for sensor in model.sensors}
    found = (by_name[each] for each in chosen if isinstance(each, str))
    return (sensor for sensor in found if sensor.kind == "contact")


def _sides(model: Model, sensor: Sensor) -> np.ndarray:
    return _allowed(model, sensor.geometries) + 2 * _allowed(model, sensor.against)


def _allowed(model: Model, names: Sequence[str] | None) -> np.ndarray:
    allowed = np.full(model.num_geometries, names is None, dtype=np.int32)
    allowed[[model.geometry(name) for name in names or ()]] = 1
    return allowed
