"""Tasks of the bundled quadruped, Unitree's Go2 and G1."""

from pathlib import Path
from types import MappingProxyType

from sim.envs.tasks.common import BUNDLED, example_robot
from sim.envs.tasks.locomotion.gait import GaitTask
from sim.envs.tasks.locomotion.get_up import GetUpTask
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot, legged_robot
from sim.envs.tasks.locomotion.velocity import VelocityTask
from sim.terrain import Terrain


def quadruped(terrain: Terrain | None = None, dtype: str = "float32") -> LeggedRobot:
    """Return the bundled quadruped on a terrain or a plane."""
    stand = {".*thigh.*": 0.8, ".*calf.*": -1.6}
    return legged_robot(BUNDLED / "quadruped.urdf", stand, kp=60.0, kd=2.0, terrain=terrain, dtype=dtype)


class QuadrupedVelocity(VelocityTask):
    """The bundled quadruped.

    Args:
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
    """

    def __init__(self, terrain: Terrain | None = None, law: str = "hard", dtype: str = "float32"):
        super().__init__(quadruped(terrain, dtype), law)


class QuadrupedGetUp(GetUpTask):
    """The same, after a fall.

    Args:
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
    """

    def __init__(self, terrain: Terrain | None = None, law: str = "hard", dtype: str = "float32"):
        super().__init__(quadruped(terrain, dtype), law)


class Go2Velocity(VelocityTask):
    """Unitree's Go2.

    Args:
        file: file of the robot. Default: the URDF of example-robot-data, of which the feet collide, as spheres.
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
    """

    def __init__(
        self, file: str | Path | None = None, terrain: Terrain | None = None, law: str = "hard", dtype: str = "float32"
    ):
        found = example_robot("go2_description/urdf/go2.urdf") if file is None else file
        stand = {".*thigh.*": 0.9, ".*calf.*": -1.8}
        colliders, balls = (".*_foot/.*", ".*_foot/.*") if file is None else (".*", None)
        robot = legged_robot(
            found, stand, kp=35.0, kd=1.0, colliders=colliders, balls=balls, terrain=terrain, dtype=dtype
        )
        super().__init__(robot, law)


class G1Velocity(GaitTask):
    """Unitree's humanoid G1, which walks with the twelve joints of its legs.

    Args:
        file: file of the robot; servos in it are used. Default: the URDF of example-robot-data, of which the feet
            collide, each with four spheres, with the inertias of its rotors.
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`; steps of "hard" take 1.3 times as long.
        dtype: "float32" or "float64".
        locked: joints that stay as they are when it stands, see :func:`sim.envs.legged_robot`; None for none of the 29.
    """

    commands, idle = ((-0.5, 1.0), (-0.3, 0.3), (-0.5, 0.5)), 0.1
    least_height, tilt = 0.75, 0.7
    start_bend, start_speed = 0.05, 0.15
    action_scale = MappingProxyType({".*_(hip_pitch|knee|ankle_pitch)_joint": 0.5, ".*": 0.25})
    fold = MappingProxyType(
        {".*_hip_pitch_joint": -0.25, ".*_knee_joint": 0.5, ".*_ankle_pitch_joint": -0.25, ".*": 0.0}
    )
    stiff = MappingProxyType({".*_(hip_pitch|knee|ankle_pitch)_joint": 0.0, ".*": 1.0})

    def __init__(
        self,
        file: str | Path | None = None,
        terrain: Terrain | None = None,
        law: str = "mujoco",
        dtype: str = "float32",
        locked: str | None = ".*(waist|shoulder|elbow|wrist).*",
    ):
        found = example_robot("g1_description/urdf/g1_29dof_rev_1_0.urdf") if file is None else file
        stand = {
            ".*_hip_pitch_joint": -0.312, ".*_knee_joint": 0.669, ".*_ankle_pitch_joint": -0.363,
            ".*_shoulder_pitch_joint": 0.2, "left_shoulder_roll_joint": 0.2, "right_shoulder_roll_joint": -0.2,
            ".*_elbow_joint": 0.6,
        }  # fmt: skip
        kp = {".*_hip_.*": 150.0, ".*_knee_.*": 200.0, ".*_ankle_.*": 40.0, "waist.*": 100.0, ".*": 30.0}
        kd = {".*_hip_.*": 3.0, ".*_knee_.*": 4.0, "waist.*": 4.0, ".*": 2.0}
        rotors = {  # of Unitree's motors and gears
            ".*_(hip_roll|knee)_.*": 0.025, ".*_hip_.*|waist_yaw.*": 0.01, ".*ankle.*|waist.*": 0.007, ".*": 0.004
        }  # fmt: skip
        colliders, armature = (".*_ankle_roll_link/.*", rotors) if file is None else (".*", None)
        robot = legged_robot(
            found, stand, kp=kp, kd=kd, armature=armature, colliders=colliders, locked=locked, terrain=terrain,
            dtype=dtype,
        )  # fmt: skip
        super().__init__(robot, law)
