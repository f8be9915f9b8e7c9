"""A sensor of a model."""

from dataclasses import dataclass

import numpy as np

from sim.model.sensors.kinds import SENSOR_KINDS


@dataclass(frozen=True)
class Sensor:
    """A sensor; :class:`sim.torch.Sensors` reads it.

    Attributes:
        name: unique name.
        kind: one of :data:`sim.model.sensors.kinds.SENSOR_KINDS`.
        target: the joint, actuator, tendon, frame or link that it looks at; "world" for the whole world.
        reference: the frame in which it measures; "world" for the world's.
        lower, upper: what it gives is held between them.
        magnetic_field: of the world, for a magnetometer.
        zone, zone_size: shape and size of the zone of a touch sensor, in the axes of its frame.
        geometries: names of those whose contacts a touch sensor counts.
    """

    name: str
    kind: str
    target: str
    reference: str = "world"
    lower: float = -np.inf
    upper: float = np.inf
    magnetic_field: tuple[float, float, float] | None = None
    zone: str | None = None
    zone_size: tuple[float, ...] | None = None
    geometries: tuple[str, ...] | None = None

    @property
    def numbers(self) -> int:
        """How many numbers it gives."""
        return SENSOR_KINDS[self.kind].numbers
