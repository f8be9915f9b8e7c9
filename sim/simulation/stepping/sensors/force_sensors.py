"""Which sensors of a model measure forces of constraints, as arrays for :mod:`warp_kernels.sensors.forces`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill
from sim.errors import ModelError
from sim.model.checks import is_whole, require_type
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.model.sensor_targets import links_carried
from sim.model.sensors import SENSOR_KINDS, Sensor
from warp_kernels.sensors.forces import (
    FORCE,
    JOINT_LIMIT,
    TENDON_LIMIT_FORCE,
    TORQUE,
    TOUCH,
    force_sensor_structs,
)
from warp_kernels.sensors.zones import ZONES
from warp_kernels.types import warp_types


def chosen_sensors(model: Model, given: str | Iterable[str | int]) -> tuple[int | str, ...]:
    """The sensors of a simulator, one or several, see :func:`chosen_sensor`.

    Raises:
        ModelError: for another, and for one that is given twice.
    """
    require_type("Simulator: contact_sensors", given, Iterable, "a list of geometries and sensors")
    listed = [given] if isinstance(given, str) else list(given)
    chosen = tuple(chosen_sensor(model, each) for each in listed)
    if len(set(chosen)) < len(chosen):
        raise ModelError(f"Simulator: contact_sensors {listed} name a geometry or sensor twice")
    return chosen


def chosen_sensor(model: Model, given: str | int) -> int | str:
    """The number of a geometry that is given by its name or that number, or the name of a sensor of forces.

    Raises:
        ModelError: for another.
    """
    if isinstance(given, str):
        if any(sensor.name == given and SENSOR_KINDS[sensor.kind].by_forces for sensor in model.sensors):
            return given
        return model.geometry(given)
    if not is_whole(given, 0) or given >= model.num_geometries:
        raise ModelError(
            f"Simulator: contact_sensors has {given!r}; it must be the name of a geometry or of a sensor of contacts "
            f"or forces, or the number of a geometry below {model.num_geometries}"
        )
    return int(given)


def force_sensors(model: Model, chosen: Sequence[int | str], device: wp.DeviceLike) -> Any:
    """The sensors among those that are chosen, by name; geometries are numbers."""
    t = warp_types(model.scalar)
    by_name = {sensor.name: sensor for sensor in model.sensors}
    places = [place for place, each in enumerate(chosen) if isinstance(each, str) and by_name[each].kind != "contact"]
    sensors = [by_name[str(chosen[place])] for place in places]
    rows = [_row(model, sensor) for sensor in sensors]
    touches = np.zeros((len(sensors), model.num_geometries), dtype=np.int32)
    for row, sensor in enumerate(sensors):
        touches[row, [model.geometry(name) for name in sensor.geometries or ()]] = 1
        if sensor.kind in ("force", "torque"):
            links = links_carried(model, rows[row]["link"])
            _require_contacts_alone(model, sensor, links)
            touches[row, [i for i, geometry in enumerate(model.geometries) if geometry.link in links]] = 1

    def column(name: str, dtype: Any) -> wp.array:
        return wp.array([row[name] for row in rows], dtype=dtype, device=device)

    return fill(
        force_sensor_structs(model.scalar).ForceSensors,
        place=wp.array(places, dtype=wp.int32, device=device),
        touches=wp.array(touches, dtype=wp.int32, device=device),
        size=column("size", t.vec3),
        placement=column("placement", t.transform),
        **{name: column(name, wp.int32) for name in ("kind", "item", "link", "zone")},
    )


def _row(model: Model, sensor: Sensor) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": TOUCH, "item": -1, "link": -1, "zone": 0, "size": (1.0, 1.0, 1.0), "placement": IDENTITY,
    }  # fmt: skip
    if sensor.kind == "joint_limit_force":
        dof = int(model.joint_qd_start[model.joint_names.index(sensor.target)])
        return row | {"kind": JOINT_LIMIT, "item": dof}
    if sensor.kind == "tendon_limit_force":
        return row | {"kind": TENDON_LIMIT_FORCE, "item": model.tendons.names.index(sensor.target)}
    frame = model.frame(sensor.target)
    if sensor.kind in ("force", "torque"):
        kind = FORCE if sensor.kind == "force" else TORQUE
        return row | {"link": frame.link, "placement": frame.placement, "kind": kind}
    assert sensor.zone is not None
    assert sensor.zone_size is not None
    size = (*sensor.zone_size, 1.0, 1.0)[:3]
    return row | {"link": frame.link, "placement": frame.placement, "zone": ZONES.index(sensor.zone), "size": size}


def _require_contacts_alone(model: Model, sensor: Sensor, links: Sequence[int]) -> None:
    """Refuse what else acts on a sensor's part from outside, constraints and tendons; raises ModelError naming one."""
    equalities = model.equalities
    sides = zip(equalities.anchor_names, equalities.anchor_link_a, equalities.anchor_link_b, strict=True)
    for name, a, b in sides:
        if (a in links) != (b in links):
            raise ModelError(
                f"Simulator: sensor '{sensor.name}' doesn't measure what the constraint '{name}' does to its link; "
                "leave it out of contact_sensors"
            )
    tendons = model.tendons
    for number, name in enumerate(tendons.names):
        places = tendons.segment_ends[tendons.segments(number)].flat
        if len({int(tendons.place_link[place]) in links for place in places}) == 2:
            raise ModelError(
                f"Simulator: sensor '{sensor.name}' doesn't measure how the tendon '{name}' pulls at its link; leave "
                "it out of contact_sensors"
            )
