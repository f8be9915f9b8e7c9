"""What sensors on a robot would measure along a rollout, as differentiable functions of its states."""

import numpy as np
import torch

from sim.errors import ModelError
from sim.simulation.simulator import Simulator
from sim.torch.robot.robot import Robot
from warp_kernels.types import POSITION, TORQUE, VELOCITY


def imu(robot: Robot, q: torch.Tensor, qd: torch.Tensor, dt: float, frame: str) -> tuple[torch.Tensor, torch.Tensor]:
    """What an inertial measurement unit at a frame measures, in each step of a rollout.

    The acceleration is the change of velocity over the step that leads to a state, so that contacts are part of it.

    Args:
        robot: the robot that was simulated; gravity is that of its parameters.
        q: coordinates [steps + 1, ..., nq], as :func:`sim.torch.rollout` returns them.
        qd: velocities [steps + 1, ..., nv].
        dt: time between two states [s].
        frame: name of a frame or link.

    Returns:
        specific force, the acceleration of the frame's origin less gravity [steps, ..., 3], m/s^2, and angular velocity
        [steps, ..., 3], rad/s, both along the frame's axes.

    Raises:
        ModelError: for an unknown frame, and for fewer than two states.
    """
    if len(q) < 2 or len(qd) != len(q):
        raise ModelError(f"imu: q has {len(q)} states and qd {len(qd)}; it takes the same number of both, at least two")
    qdd = torch.diff(qd, dim=0) / dt
    acceleration = robot.frame_acceleration(q[1:], qd[1:], qdd, frame, reference="local")[..., 3:]
    rotation = robot.forward_kinematics_matrix(q[1:], frame)[..., :3, :3]
    rate = robot.frame_velocity(q[1:], qd[1:], frame, reference="local")[..., :3]
    return acceleration - (rotation.mT @ robot.gravity.unsqueeze(-1)).squeeze(-1), rate


def actuator_forces(simulator: Simulator, q: torch.Tensor, qd: torch.Tensor, control: torch.Tensor) -> torch.Tensor:
    """The forces with which actuators acted in each step of a rollout, held within their limits.

    An actuator's force acts on its joint times the gear; see :mod:`warp_kernels.solver.actuators` for the law.

    Args:
        simulator: that made the rollout; gains, gears and limits are its present ones, without gradient.
        q: coordinates [steps + 1, num_worlds, nq], as :func:`sim.torch.rollout` returns them.
        qd: velocities [steps + 1, num_worlds, nv].
        control: the inputs [steps, num_worlds, nu].

    Returns:
        forces [steps, num_worlds, nu], N or N m.

    Raises:
        ModelError: for numbers of steps that don't fit together, such as those of a rollout with ``hold``, and for
            actuators of tendons.
    """
    if not len(q) == len(qd) == len(control) + 1:
        raise ModelError(
            f"actuator_forces: q has {len(q)} states, qd {len(qd)} and control {len(control)} inputs; it takes every "
            "state, one more than inputs"
        )
    model = simulator.model
    model.require_stateless_actuators("actuator_forces")
    for name, tendon in zip(model.actuator_names, model.actuator_tendon.tolist(), strict=True):
        if tendon >= 0:
            raise ModelError(
                f"actuator_forces: actuator '{name}' acts on tendon '{model.tendons.names[tendon]}', whose length "
                "isn't among the coordinates; there are forces of actuators of joints alone"
            )
    gear, kp, kd, gain, offset, kp_per_input, kd_per_input, centre, limit, lower, upper = (
        torch.as_tensor(simulator.parameter(f"actuator_{name}"), dtype=q.dtype, device=q.device)
        for name in (
            "gear", "kp", "kd", "gain", "offset", "kp_per_input", "kd_per_input", "force_centre", "force_limit",
            "control_lower", "control_upper",
        )
    )  # fmt: skip
    control = control.clamp(lower, upper)
    dof = model.actuator_dof
    position, velocity = q[:-1, :, _coordinates(simulator)], qd[1:, :, dof]
    kind = torch.as_tensor(np.asarray(model.actuator_kind), device=q.device)
    # Gains that a kind doesn't have are zero.
    kp, kd = kp + kp_per_input * control, kd + kd_per_input * control
    push = torch.where(kind == TORQUE, control, torch.where(kind == VELOCITY, kd * control, gain * control + offset))
    asked = torch.where(kind == POSITION, kp * (control - gear * position), push - kp * gear * position)
    ahead = 0.0 if simulator.contact.law == "mujoco" else simulator.dt
    damping = kd + ahead * kp
    # Without damping at the end of the step, the force is that of its start, as always under MuJoCo's law.
    velocity = torch.where(ahead * damping > 0.0, velocity, qd[:-1, :, dof])
    return torch.clamp(asked - gear * damping * velocity, centre - limit, centre + limit)


def _coordinates(simulator: Simulator) -> np.ndarray:
    """Places in q of the joints that actuators act on."""
    return simulator.model.dof_q[simulator.model.actuator_dof]
