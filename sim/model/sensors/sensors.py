"""Sensors of a model, and their kinds: names, targets and numbers of readings."""

from dataclasses import dataclass

import numpy as np

JOINT, BALL, ACTUATOR, TENDON = "joint", "ball joint", "actuator", "tendon"
FRAME, LINK, WHOLE, GEOMETRIES = "frame", "link", "world", "geometries"


@dataclass(frozen=True)
class SensorKind:
    """Kind of sensor.

    Attributes:
        of: type of its target: a joint with one coordinate, a ball joint, an actuator, a tendon, a frame, a link, or
            the whole world; for geometries it is a list of its own.
        numbers: number of values; for each contact or ray see :data:`CONTACT_READINGS`, :data:`RANGE_READINGS`.
        relative: whether it may measure in another frame.
        mjcf: name in MJCF files.
        by_forces: whether it measures constraint forces, which don't follow from states.
        by_acceleration: whether it depends on accelerations.
    """

    of: str
    numbers: int
    mjcf: str
    relative: bool = False
    by_forces: bool = False
    by_acceleration: bool = False


# Readings of a contact sensor for each contact, in this order, with their numbers of values.
CONTACT_READINGS = {
    "found": 1,
    "force": 3,
    "torque": 3,
    "distance": 1,
    "position": 3,
    "normal": 3,
    "tangent": 3,
    "linear_velocity": 3,
    "angular_velocity": 3,
}
# Choices of contacts if there are more than slots; "net" combines all in one.
CONTACT_CHOICES = ("first", "nearest", "strongest", "net")

# Readings of a rangefinder for each ray, likewise.
RANGE_READINGS = {"distance": 1, "direction": 3, "origin": 3, "point": 3, "normal": 3, "depth": 1}

# Zones of sensors, with their numbers of sizes.
ZONE_SIZES = {"sphere": 1, "capsule": 2, "ellipsoid": 3, "cylinder": 2, "box": 3}

SENSOR_KINDS = {
    "joint_position": SensorKind(JOINT, 1, "jointpos"),
    "joint_velocity": SensorKind(JOINT, 1, "jointvel"),
    "ball_orientation": SensorKind(BALL, 4, "ballquat"),
    "ball_angular_velocity": SensorKind(BALL, 3, "ballangvel"),
    "actuator_position": SensorKind(ACTUATOR, 1, "actuatorpos"),
    "actuator_velocity": SensorKind(ACTUATOR, 1, "actuatorvel"),
    "actuator_force": SensorKind(ACTUATOR, 1, "actuatorfrc"),
    "joint_actuator_force": SensorKind(JOINT, 1, "jointactuatorfrc"),
    "joint_limit_position": SensorKind(JOINT, 1, "jointlimitpos"),
    "joint_limit_velocity": SensorKind(JOINT, 1, "jointlimitvel"),
    "joint_limit_force": SensorKind(JOINT, 1, "jointlimitfrc", by_forces=True),
    "tendon_position": SensorKind(TENDON, 1, "tendonpos"),
    "tendon_velocity": SensorKind(TENDON, 1, "tendonvel"),
    "tendon_actuator_force": SensorKind(TENDON, 1, "tendonactuatorfrc"),
    "tendon_limit_position": SensorKind(TENDON, 1, "tendonlimitpos"),
    "tendon_limit_velocity": SensorKind(TENDON, 1, "tendonlimitvel"),
    "tendon_limit_force": SensorKind(TENDON, 1, "tendonlimitfrc", by_forces=True),
    "frame_position": SensorKind(FRAME, 3, "framepos", relative=True),
    "frame_orientation": SensorKind(FRAME, 4, "framequat", relative=True),
    "frame_x_axis": SensorKind(FRAME, 3, "framexaxis", relative=True),
    "frame_y_axis": SensorKind(FRAME, 3, "frameyaxis", relative=True),
    "frame_z_axis": SensorKind(FRAME, 3, "framezaxis", relative=True),
    "frame_linear_velocity": SensorKind(FRAME, 3, "framelinvel", relative=True),
    "frame_angular_velocity": SensorKind(FRAME, 3, "frameangvel", relative=True),
    "frame_linear_acceleration": SensorKind(FRAME, 3, "framelinacc", by_acceleration=True),
    "frame_angular_acceleration": SensorKind(FRAME, 3, "frameangacc", by_acceleration=True),
    "accelerometer": SensorKind(FRAME, 3, "accelerometer", by_acceleration=True),
    "gyro": SensorKind(FRAME, 3, "gyro"),
    "velocimeter": SensorKind(FRAME, 3, "velocimeter"),
    "magnetometer": SensorKind(FRAME, 3, "magnetometer"),
    "rangefinder": SensorKind(FRAME, 0, "rangefinder"),
    "inside": SensorKind(FRAME, 1, "insidesite", relative=True),
    "camera_projection": SensorKind(FRAME, 2, "camprojection", relative=True),
    "touch": SensorKind(FRAME, 1, "touch", by_forces=True),
    "contact": SensorKind(GEOMETRIES, 0, "contact", by_forces=True),
    "geometry_distance": SensorKind(GEOMETRIES, 1, "distance"),
    "geometry_normal": SensorKind(GEOMETRIES, 3, "normal"),
    "geometry_points": SensorKind(GEOMETRIES, 6, "fromto"),
    "force": SensorKind(FRAME, 3, "force", by_forces=True, by_acceleration=True),
    "torque": SensorKind(FRAME, 3, "torque", by_forces=True, by_acceleration=True),
    "subtree_com": SensorKind(LINK, 3, "subtreecom"),
    "subtree_linear_velocity": SensorKind(LINK, 3, "subtreelinvel"),
    "subtree_angular_momentum": SensorKind(LINK, 3, "subtreeangmom"),
    "potential_energy": SensorKind(WHOLE, 1, "e_potential"),
    "kinetic_energy": SensorKind(WHOLE, 1, "e_kinetic"),
    "clock": SensorKind(WHOLE, 1, "clock"),
}


@dataclass(frozen=True)
class Sensor:
    """Sensor, which :class:`sim.torch.Sensors` reads.

    Attributes:
        name: unique name.
        kind: one of :data:`sim.model.sensors.sensors.SENSOR_KINDS`.
        target: joint, actuator, tendon, frame or link that is measured; "world" for the whole world. For a contact
            sensor, the frame of its zone.
        reference: frame relative to which it measures; "world" for the world's.
        lower, upper: bounds to which readings are clamped.
        magnetic_field: magnetic field of the world, for a magnetometer.
        zone, zone_size: shape and size of the zone of a touch or contact sensor, in the axes of its target, or of an
            "inside" sensor, in those of its reference.
        geometries: names of the geometries whose contacts a touch sensor counts, or of those on one side of contacts
            and distances; None for any.
        against: names of the geometries on the other side; None for any.
        readings: readings of a contact sensor for each contact, see :data:`sim.model.sensors.sensors.CONTACT_READINGS`,
            or of a rangefinder for each ray, see :data:`sim.model.sensors.sensors.RANGE_READINGS`.
        choice: contacts that are read, one of :data:`sim.model.sensors.sensors.CONTACT_CHOICES`.
        most: number of contact slots.
        max_distance: maximum distance between two geometries [m].
        image: intrinsics of a camera: focal lengths along x and y, and the centre of the picture [px].
        pixels: number of columns and rows of a camera, one ray each.
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
    max_distance: float = np.inf
    image: tuple[float, float, float, float] | None = None
    pixels: tuple[int, int] | None = None

    @property
    def numbers(self) -> int:
        """Return the number of values."""
        if self.kind == "contact":
            return self.most * sum(CONTACT_READINGS[reading] for reading in self.readings)
        if self.kind == "rangefinder":
            columns, rows = self.pixels or (1, 1)
            return columns * rows * sum(RANGE_READINGS[reading] for reading in self.readings)
        return SENSOR_KINDS[self.kind].numbers
