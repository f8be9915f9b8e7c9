"""Sensors of a model, as annotations of a stage."""

from collections.abc import Iterator

import numpy as np
from pxr import Usd

from sim.model.model import Model
from sim.model.sensors.kinds import ZONE_SIZES
from sim.model.sensors.sensor import Sensor
from sim.usd.annotations import keep, keep_text, keep_texts, kept, kept_text, kept_texts


def keep_sensors(prim: Usd.Prim, model: Model) -> None:
    """Keep the sensors of a model at a prim."""
    for number, sensor in enumerate(model.sensors):
        keep_texts(prim, f"sensor_{number}", [sensor.name, sensor.kind, sensor.target, sensor.reference])
        for side in ("lower", "upper"):
            if np.isfinite(getattr(sensor, side)):
                keep(prim, f"sensor_{number}:{side}", getattr(sensor, side))
        if sensor.magnetic_field is not None:
            keep(prim, f"sensor_{number}:magnetic_field", sensor.magnetic_field)
        if sensor.zone is not None and sensor.zone_size is not None:
            keep_text(prim, f"sensor_{number}:zone", sensor.zone)
            keep(prim, f"sensor_{number}:zone_size", sensor.zone_size)
            keep_texts(prim, f"sensor_{number}:geometries", sensor.geometries or ())


def kept_sensors(prim: Usd.Prim) -> Iterator[Sensor]:
    """The sensors that a prim was written with."""
    number = 0
    while len(texts := kept_texts(prim, f"sensor_{number}")) == 4:
        lower, upper = (kept(prim, f"sensor_{number}:{side}", 1) for side in ("lower", "upper"))
        field = kept(prim, f"sensor_{number}:magnetic_field", 3)
        name, kind, target, reference = texts
        zone = kept_text(prim, f"sensor_{number}:zone")
        sizes = kept(prim, f"sensor_{number}:zone_size", ZONE_SIZES.get(zone or "", 0))
        yield Sensor(
            name, kind, target, reference,
            -np.inf if lower is None else float(lower[0]), np.inf if upper is None else float(upper[0]),
            None if field is None else (float(field[0]), float(field[1]), float(field[2])),
            zone, None if sizes is None else tuple(map(float, sizes)),
            tuple(kept_texts(prim, f"sensor_{number}:geometries")) if zone else None,
        )  # fmt: skip
        number += 1
