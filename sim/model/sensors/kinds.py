"""Kinds of sensors: what they are called, what they look at, and how many numbers they give."""

from dataclasses import dataclass

JOINT, BALL, ACTUATOR, TENDON = "joint", "ball joint", "actuator", "tendon"
FRAME, LINK, WHOLE, GEOMETRIES = "frame", "link", "world", "geometries"


@dataclass(frozen=True)
class SensorKind:
    """What a kind of sensor measures.

    Attributes:
        of: what its target is: a joint with one coordinate, a ball joint, an actuator, a tendon, a frame, a link, or
            the whole world; of geometries it is a list of its own.
        numbers: how many numbers it gives; of each contact or ray see :data:`CONTACT_READINGS`, :data:`RANGE_READINGS`.
        relative: whether it may measure in another frame.
        mjcf: its name in MJCF files.
        by_forces: whether it measures forces of constraints, which states don't tell.
        by_acceleration: whether it measures what goes by accelerations.
    """

    of: str
    numbers: int
    mjcf: str
    relative: bool = False
    by_forces: bool = False
    by_acceleration: bool = False


# What a sensor of contacts may read of each, in this order, and how many numbers that has.
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
# Which contacts it reads where there are more than it has room for; "net" is one that stands for all.
CONTACT_CHOICES = ("first", "nearest", "strongest", "net")

# The same of what a rangefinder may read of each of its rays.
RANGE_READINGS = {"distance": 1, "direction": 3, "origin": 3, "point": 3, "normal": 3, "depth": 1}

# The zones of sensors, and how many numbers their sizes have.
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
