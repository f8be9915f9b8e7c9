"""Sensors of a model as annotations of a stage."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from pxr import Usd

from sim.model.model import Model
from sim.model.sensors.sensors import ZONE_SIZES, Sensor
from sim.usd.annotations import keep, keep_text, keep_texts, kept, kept_text, kept_texts


def keep_sensors(prim: Usd.Prim, model: Model) -> None:
    """Store the sensors of a model at a prim."""
    for number, sensor in enumerate(model.sensors):
        keep_texts(prim, f"sensor_{number}", [sensor.name, sensor.kind, sensor.target, sensor.reference])
        for side in ("lower", "upper"):
            if np.isfinite(getattr(sensor, side)):
                keep(prim, f"sensor_{number}:{side}", getattr(sensor, side))
        if sensor.magnetic_field is not None:
            keep(prim, f"sensor_{number}:magnetic_field", sensor.magnetic_field)
        if sensor.image is not None:
            keep(prim, f"sensor_{number}:image", sensor.image)
        if sensor.zone is not None and sensor.zone_size is not None:
            keep_text(prim, f"sensor_{number}:zone", sensor.zone)
            keep(prim, f"sensor_{number}:zone_size", sensor.zone_size)
        for side in ("geometries", "against"):
            names = getattr(sensor, side)
            if names is not None:
                keep_texts(prim, f"sensor_{number}:{side}", names)
                keep(prim, f"sensor_{number}:{side}:count", len(names))
        if sensor.pixels is not None:
            keep(prim, f"sensor_{number}:pixels", sensor.pixels)
        keep_texts(prim, f"sensor_{number}:readings", sensor.readings)
        if sensor.kind == "contact":
            keep_text(prim, f"sensor_{number}:choice", sensor.choice)
            keep(prim, f"sensor_{number}:most", sensor.most)
        if np.isfinite(sensor.max_distance):
            keep(prim, f"sensor_{number}:reach", sensor.max_distance)


def kept_sensors(prim: Usd.Prim) -> Iterator[Sensor]:
    """Return the sensors stored at a prim."""
    number = 0
    while len(texts := kept_texts(prim, f"sensor_{number}")) == 4:
        label = f"sensor_{number}:"
        name, kind, target, reference = texts
        zone = kept_text(prim, f"{label}zone")
        yield Sensor(
            name, kind, target, reference,
            _number(prim, f"{label}lower", -np.inf), _number(prim, f"{label}upper", np.inf),
            _numbers(prim, f"{label}magnetic_field", 3), zone,
            _numbers(prim, f"{label}zone_size", ZONE_SIZES.get(zone or "", 0)),
            _names(prim, f"{label}geometries"), _names(prim, f"{label}against"),
            tuple(kept_texts(prim, f"{label}readings")), kept_text(prim, f"{label}choice") or "first",
            int(_number(prim, f"{label}most", 1.0)), _number(prim, f"{label}reach", np.inf),
            _numbers(prim, f"{label}image", 4), _counts(prim, f"{label}pixels"),
        )  # fmt: skip
        number += 1


def _number(prim: Usd.Prim, name: str, otherwise: float) -> float:
    found = kept(prim, name, 1)
    return otherwise if found is None else float(found[0])


def _numbers(prim: Usd.Prim, name: str, count: int) -> Any:
    found = kept(prim, name, count)
    return None if found is None else tuple(map(float, found))


def _counts(prim: Usd.Prim, name: str) -> tuple[int, int] | None:
    found = kept(prim, name, 2)
    return None if found is None else (int(found[0]), int(found[1]))


def _names(prim: Usd.Prim, name: str) -> tuple[str, ...] | None:
    """Return names, or None if they weren't written, which differs from an empty list."""
    names = kept_texts(prim, name)
    return names if names or kept(prim, f"{name}:count", 1) is not None else None
