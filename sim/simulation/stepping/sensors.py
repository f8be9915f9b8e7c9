"""Sensors of contacts and forces of a simulator, as arrays for :mod:`warp_kernels.sensors`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.errors import ModelError
from sim.model.checks import is_whole, items_of
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.sensors.sensors import SENSOR_KINDS, Sensor
from sim.model.sensors.targets import links_carried
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.specs import WORLD
from warp_kernels.sensors.structs import (
    CONTACTS,
    DOF_LIMIT_FORCE,
    FORCE,
    PER_CONTACT,
    TENDON_LIMIT_FORCE,
    TORQUE,
    TOUCH,
    sensor_structs,
)
from warp_kernels.sensors.zones import ZONES
from warp_kernels.types import warp_types

CODES = {
    "touch": TOUCH,
    "joint_limit_force": DOF_LIMIT_FORCE,
    "tendon_limit_force": TENDON_LIMIT_FORCE,
    "force": FORCE,
    "torque": TORQUE,
    "contact": CONTACTS,
}


def chosen_sensors(model: Model, given: str | Iterable[str | int]) -> tuple[int | str, ...]:
    """Return the sensors of a simulator, given as one or several, see :func:`chosen_sensor`.

    Raises:
        ModelError: for an unknown sensor, and for one that is given twice.
    """
    expected = "a list of geometries and sensors"
    listed = [given] if isinstance(given, str) else items_of("Simulator: contact_sensors", given, expected)
    chosen = tuple(chosen_sensor(model, each) for each in listed)
    if len(set(chosen)) < len(chosen):
        raise ModelError(f"Simulator: contact_sensors {listed} name a geometry or sensor twice")
    return chosen


def chosen_sensor(model: Model, given: str | int) -> int | str:
    """Return the index of a geometry, given by name or index, or the name of a force sensor.

    Raises:
        ModelError: for an unknown geometry or sensor.
    """
    if isinstance(given, str):
        if any(sensor.name == given and SENSOR_KINDS[sensor.kind].by_forces for sensor in model.sensors):
            return given
        return model.geometry(given)
    if not is_whole(given, 0) or given >= model.num_geometries:
        raise ModelError(
            f"Simulator: contact_sensors has {given!r}; it must be the name of a geometry or of a sensor of contacts "
            f"or forces, or the index of a geometry below {model.num_geometries}"
        )
    return int(given)


def contact_slots(
    model: Model, chosen: Sequence[int | str], capacity: Callable[[np.ndarray], int]
) -> dict[str, tuple[int, int]]:
    """Return the first slot of each contact sensor, by name, and its number of contact slots.

    Args:
        model: the model.
        chosen: sensors and geometries, see :func:`chosen_sensors`; each has one slot before these.
        capacity: maximum number of contacts of geometries by their sides, see
            :class:`warp_kernels.sensors.structs.sensor_structs`.
    """
    slots = {}
    start = len(chosen)
    for _, sensor in _named(model, chosen):
        if sensor.kind == "contact":
            count = capacity(_sides(model, sensor))
            if sensor.choice == "first":
                count = min(sensor.most, count)
            slots[sensor.name] = start, count
            start += PER_CONTACT * count
    return slots


def num_slots(chosen: Sequence[int | str], slots: dict[str, tuple[int, int]]) -> int:
    """Return the number of slots of all chosen sensors and geometries."""
    return len(chosen) + PER_CONTACT * sum(count for _, count in slots.values())


def sensor_arrays(
    model: Model,
    chosen: Sequence[int | str],
    slots: dict[str, tuple[int, int]],
    by_mujoco: bool,
    device: wp.DeviceLike,
) -> Any:
    """Return the struct of the sensors of a simulator.

    Args:
        model: the model.
        chosen: sensors and geometries, see :func:`chosen_sensors`.
        slots: see :func:`contact_slots`.
        by_mujoco: whether the contact law is MuJoCo's.
        device: where arrays are.

    Raises:
        ModelError: for a force sensor on a part on which other constraints or tendons act.
    """
    t = warp_types(model.scalar)
    sensors = list(_named(model, chosen))
    geometry_slot = np.full(model.num_geometries, -1)
    for slot, each in enumerate(chosen):
        if not isinstance(each, str):
            geometry_slot[each] = slot
    frames = [_frame(model, sensor) for _, sensor in sensors]
    columns: dict[str, npt.ArrayLike] = {
        "geometry_slot": geometry_slot,
        "kind": [CODES[sensor.kind] for _, sensor in sensors],
        "slot": [slot for slot, _ in sensors],
        "item": [_limited(model, sensor) for _, sensor in sensors],
        "first": [slots.get(sensor.name, (-1, 0))[0] for _, sensor in sensors],
        "capacity": [slots.get(sensor.name, (-1, 0))[1] for _, sensor in sensors],
        "sides": np.reshape([_sides(model, sensor) for _, sensor in sensors], (len(sensors), model.num_geometries)),
        "rank": ranks(model),
        "zone": [-1 if sensor.zone is None else ZONES.index(sensor.zone) for _, sensor in sensors],
        "link": [link for link, _ in frames],
    }
    sizes = [(*(sensor.zone_size or ()), 1.0, 1.0, 1.0)[:3] for _, sensor in sensors]
    return fill(
        sensor_structs(model.scalar).Sensors,
        idle=int(by_mujoco),
        size=wp.array(sizes, dtype=t.vec3, device=device),
        placement=wp.array([placement for _, placement in frames], dtype=t.transform, device=device),
        **{name: integer_array(column, device) for name, column in columns.items()},
    )


def ranks(model: Model) -> np.ndarray:
    """Return the rank of each geometry: the lower one is first in a contact, by MuJoCo's types, then by index."""
    order = sorted(range(model.num_geometries), key=lambda i: (GEOMETRY_TYPES[model.geometries[i].type].rank, i))
    return np.argsort(order)


def _named(model: Model, chosen: Sequence[int | str]) -> Iterator[tuple[int, Sensor]]:
    """Yield the sensors among those chosen, with their slots."""
    by_name = {sensor.name: sensor for sensor in model.sensors}
    return ((slot, by_name[each]) for slot, each in enumerate(chosen) if isinstance(each, str))


def _frame(model: Model, sensor: Sensor) -> tuple[int, Any]:
    """Return the link and the placement of a sensor's frame."""
    if sensor.kind in ("joint_limit_force", "tendon_limit_force") or sensor.target == WORLD:
        return -1, IDENTITY
    frame = model.frame(sensor.target)
    return frame.link, frame.placement


def _limited(model: Model, sensor: Sensor) -> int:
    """Return the degree of freedom or the tendon of a limit sensor; -1 for others."""
    if sensor.kind == "joint_limit_force":
        return int(model.joint_qd_start[model.joint_names.index(sensor.target)])
    return model.tendons.names.index(sensor.target) if sensor.kind == "tendon_limit_force" else -1


def _sides(model: Model, sensor: Sensor) -> np.ndarray:
    """Return the sides of contacts on which each geometry counts."""
    if sensor.kind == "contact":
        return _allowed(model, sensor.geometries) + 2 * _allowed(model, sensor.against)
    if sensor.kind in ("force", "torque"):
        links = links_carried(model, _frame(model, sensor)[0])
        _require_contacts_alone(model, sensor, links)
        return np.array([3 * (geometry.link in links) for geometry in model.geometries])
    return 3 * _allowed(model, sensor.geometries or ())


def _allowed(model: Model, names: Sequence[str] | None) -> np.ndarray:
    allowed = np.full(model.num_geometries, names is None, dtype=np.int32)
    allowed[[model.geometry(name) for name in names or ()]] = 1
    return allowed


def _require_contacts_alone(model: Model, sensor: Sensor, links: Sequence[int]) -> None:
    """Raise ModelError for a constraint or tendon that acts on a sensor's part from outside, naming it."""
    equalities = model.equalities
    sides = zip(equalities.anchor_names, equalities.anchor_link_a, equalities.anchor_link_b, strict=True)
    for name, a, b in sides:
        if (a in links) != (b in links):
            raise ModelError(
                f"Simulator: sensor '{sensor.name}' can't measure the force of constraint '{name}' on its link; "
                "remove it from contact_sensors"
            )
    tendons = model.tendons
    for number, name in enumerate(tendons.names):
        ends = tendons.segment_ends[tendons.segments(number)].flat
        if len({int(tendons.path_link[end]) in links for end in ends}) == 2:
            raise ModelError(
                f"Simulator: sensor '{sensor.name}' can't measure the force of tendon '{name}' on its link; "
                "remove it from contact_sensors"
            )
