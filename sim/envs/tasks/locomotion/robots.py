"""Tasks of the bundled quadruped, Unitree's Go2 and G1.

Arguments that all of them have: ``terrain`` is the ground, a :class:`sim.terrain.Terrain`, "rough" for tiles with
slopes, rough ground and stairs, from easy to hard, or None for a plane. ``law`` is the contact law and ``settings`` are
attributes that differ from those of the class, see :class:`LeggedTask`. ``delay`` is the largest delay of the servos
[s]; each episode draws one between zero and this.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sim.envs.tasks.common import BUNDLED, example_robot
from sim.envs.tasks.locomotion.checks import finite
from sim.envs.tasks.locomotion.gait import GaitTask
from sim.envs.tasks.locomotion.get_up import GetUpTask
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot, legged_robot
from sim.envs.tasks.locomotion.legged_task import LeggedTask
from sim.envs.tasks.locomotion.velocity import VelocityTask
from sim.errors import ModelError
from sim.model.builder.properties import Delay
from sim.terrain import Rough, Slope, Stairs, Terrain, generate

Ground = Terrain | str | None
EASY_TO_HARD = (Slope(grade=(0.05, 0.3)), Rough(amplitude=(0.01, 0.05)), Stairs(rise=(0.02, 0.1)))


class _OfQuadruped(LeggedTask):
    """Task of the bundled quadruped: the arguments of its classes."""

    def __init__(
        self, terrain: Ground = None, law: str = "hard", dtype: str = "float32", delay: float = 0.0, **settings: Any
    ):
        super().__init__(quadruped(terrain, dtype, delay), law, **delayed(self, delay, settings))


class QuadrupedVelocity(_OfQuadruped, VelocityTask):
    """The bundled quadruped.

    Args:
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
        delay: largest delay of the servos, which each episode draws [s].
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.
    """


class QuadrupedGetUp(_OfQuadruped, GetUpTask):
    """The same, after a fall.

    Args:
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
        delay: largest delay of the servos, which each episode draws [s].
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.
    """


class _OfGo2(LeggedTask):
    """Task of Go2: the arguments of its classes."""

    _colliders = ".*"

    def __init__(
        self,
        file: str | Path | None = None,
        terrain: Ground = None,
        law: str = "hard",
        dtype: str = "float32",
        delay: float = 0.0,
        **settings: Any,
    ):
        robot = go2(file, terrain, dtype, delay, self._colliders)
        super().__init__(robot, law, **delayed(self, delay, settings))


class Go2Velocity(_OfGo2, VelocityTask):
    """Unitree's Go2.

    Args:
        file: file of the robot. Default: the URDF of example-robot-data, of which the feet collide, as spheres.
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
        delay: largest delay of the servos, which each episode draws [s].
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.
    """

    _colliders = ".*_foot/.*"


class Go2GetUp(_OfGo2, GetUpTask):
    """The same, after a fall.

    Args:
        file: file of the robot. Default: the URDF of example-robot-data, of which all parts collide, the feet as
            spheres.
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`.
        dtype: "float32" or "float64".
        delay: largest delay of the servos, which each episode draws [s].
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.
    """


class G1Velocity(GaitTask):
    """Unitree's humanoid G1, which walks with the twelve joints of its legs.

    Args:
        file: file of the robot; servos in it are used. Default: the URDF of example-robot-data, of which the feet
            collide, each with four spheres, with the inertias of its rotors.
        terrain: the ground. Default: a plane.
        law: contact law, see :class:`LeggedTask`; steps of "hard" take 1.3 times as long.
        dtype: "float32" or "float64".
        locked: joints that stay as they are when it stands, see :func:`sim.envs.legged_robot`; None for none of the 29.
        delay: largest delay of the servos, which each episode draws [s].
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.
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
        terrain: Ground = None,
        law: str = "mujoco",
        dtype: str = "float32",
        locked: str | None = ".*(waist|shoulder|elbow|wrist).*",
        delay: float = 0.0,
        **settings: Any,
    ):
        robot = g1(file, terrain, dtype, delay, locked)
        super().__init__(robot, law, **delayed(self, delay, settings))


# ---- robots ----------------------------------------------------------------------------------------------------------


def quadruped(terrain: Ground = None, dtype: str = "float32", delay: float = 0.0) -> LeggedRobot:
    """Return the bundled quadruped."""
    stand = {".*thigh.*": 0.8, ".*calf.*": -1.6}
    return legged_robot(
        BUNDLED / "quadruped.urdf",
        stand,
        kp=60.0,
        kd=2.0,
        terrain=ground(terrain),
        dtype=dtype,
        delay=servo_delay(delay),
    )


def go2(file: str | Path | None, terrain: Ground, dtype: str, delay: float, colliders: str) -> LeggedRobot:
    """Return Unitree's Go2; all geometries of a given file collide."""
    found = example_robot("go2_description/urdf/go2.urdf") if file is None else file
    stand = {".*thigh.*": 0.9, ".*calf.*": -1.8}
    chosen, balls = (colliders, ".*_foot/.*") if file is None else (".*", None)
    return legged_robot(
        found, stand, kp=35.0, kd=1.0, colliders=chosen, balls=balls, terrain=ground(terrain), dtype=dtype,
        delay=servo_delay(delay),
    )  # fmt: skip


def g1(file: str | Path | None, terrain: Ground, dtype: str, delay: float, locked: str | None) -> LeggedRobot:
    """Return Unitree's G1, without the locked joints."""
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
    return legged_robot(
        found, stand, kp=kp, kd=kd, armature=armature, colliders=colliders, locked=locked, terrain=ground(terrain),
        dtype=dtype, delay=servo_delay(delay),
    )  # fmt: skip


def ground(given: Ground) -> Terrain | None:
    """Return the terrain of an argument, which may be "rough"; None is a plane."""
    if given is None or isinstance(given, Terrain):
        return given
    if given != "rough":
        raise ModelError(f"terrain is {given!r}; it must be a Terrain of sim.terrain.generate, 'rough', or None")
    return generate(EASY_TO_HARD, levels=5, size=6.0)


def servo_delay(largest: float) -> Delay | None:
    """Return the delay of servos that remember inputs for as long as the largest one [s]; None for zero."""
    if finite("the robot", "delay", largest) < 0.0:
        raise ModelError(f"delay is {largest!r}; it must be zero or positive")
    # A tolerance, so that 0.02 s are four steps of 0.005 s.
    return Delay(largest, samples=math.ceil(largest / LeggedTask.dt - 1e-6)) if largest else None


def delayed(task: LeggedTask, delay: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings in which the delay of the servos varies between zero and the largest, if there is one."""
    spread = settings.get("spread", task.spread)
    if not delay or not isinstance(spread, Mapping):
        return settings
    return {**settings, "spread": {"actuator_delay": (0.0, 1.0), **spread}}
