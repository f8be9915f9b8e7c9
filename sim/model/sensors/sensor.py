"""A sensor of a model."""

from dataclasses import dataclass

import numpy as np

from sim.model.sensors.kinds import CONTACT_READINGS, RANGE_READINGS, SENSOR_KINDS


@dataclass(frozen=True)
class Sensor:
    """A sensor; :class:`sim.torch.Sensors` reads it.

    Attributes:
        name: unique name.
        kind: one of :data:`sim.model.sensors.kinds.SENSOR_KINDS`.
        target: the joint, actuator, tendon, frame or link that it looks at; "world" for the whole world. Of a sensor of
            contacts the frame of its zone.
        reference: the frame in which it measures; "world" for the world's.
        lower, upper: what it gives is held between them.
        magnetic_field: of the world, for a magnetometer.
        zone, zone_size: shape and size of the zone of a sensor of touch or of contacts, in the axes of its target, or
            of one of what is inside, in those of its reference.
        geometries: names of those whose contacts a touch sensor counts, or of those on one side of contacts and
            distances; None for any.
        against: names of those on the other side; None for any.
        readings: what a sensor of contacts reads of each, see :data:`sim.model.sensors.kinds.CONTACT_READINGS`, or a
            rangefinder of each of its rays, see :data:`sim.model.sensors.kinds.RANGE_READINGS`.
        choice: which contacts it reads, one of :data:`sim.model.sensors.kinds.CONTACT_CHOICES`.
        most: how many of them.
        reach: up to which distance two geometries are near each other [m].
        image: of a camera, focal lengths along x and y and the centre of the picture [px].
        pixels: columns and rows of a camera, each of which is a ray.
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
    against: tuple[str, ...] | None = None
    readings: tuple[str, ...] = ()
    choice: str = "first"
    most: int = 1
    reach: float = np.inf
    image: tuple[float, float, float, float] | None = None
    pixels: tuple[int, int] | None = None

    @property
    def numbers(self) -> int:
        """How many numbers it gives."""
        if self.kind == "contact":
            return self.most * sum(CONTACT_READINGS[reading] for reading in self.readings)
        if self.kind == "rangefinder":
            columns, rows = self.pixels or (1, 1)
            return columns * rows * sum(RANGE_READINGS[reading] for reading in self.readings)
        return SENSOR_KINDS[self.kind].numbers
