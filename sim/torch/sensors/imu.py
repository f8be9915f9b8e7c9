"""What sensors on a robot would measure along a rollout, as differentiable functions of its states."""

import torch

from sim.errors import ModelError
from sim.model.checks import number, require_type
from sim.torch.modes import in_own_precision
from sim.torch.robot.robot import Robot


@in_own_precision
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

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> robot = sim.torch.Robot(model)
        >>> q = torch.zeros(11, model.nq, dtype=torch.float64)  # at rest for ten steps
        >>> force, turning = sim.torch.imu(robot, q, torch.zeros_like(q), 0.01, "link7")
        >>> force.shape, round(float(force[0].norm()), 2)
        (torch.Size([10, 3]), 9.81)
    """
    require_type("imu: robot", robot, Robot, "a sim.torch.Robot")
    for name, given in (("q", q), ("qd", qd)):
        require_type(f"imu: {name}", given, torch.Tensor, "a torch.Tensor")
    if not number("imu", "dt", dt) > 0.0:
        raise ModelError(f"imu: dt is {dt!r}; it must be positive")
    if len(q) < 2 or len(qd) != len(q):
        raise ModelError(f"imu: q has {len(q)} states and qd {len(qd)}; it takes the same number of both, at least two")
    qdd = torch.diff(qd, dim=0) / dt
    acceleration = robot.frame_acceleration(q[1:], qd[1:], qdd, frame, reference="local")[..., 3:]
    rotation = robot.forward_kinematics_matrix(q[1:], frame)[..., :3, :3]
    rate = robot.frame_velocity(q[1:], qd[1:], frame, reference="local")[..., :3]
    return acceleration - (rotation.mT @ robot.gravity.unsqueeze(-1)).squeeze(-1), rate
