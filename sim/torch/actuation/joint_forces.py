"""Generalised forces on the joints in each step of a rollout, by origin."""

from typing import NamedTuple

import torch

from sim.errors import ModelError
from sim.model.checks import require_type
from sim.simulation.options import MujocoContact
from sim.simulation.simulator import Simulator
from sim.torch.actuation.actuators import forces_of_actuators, on_joints, require_joints_and_tendons
from sim.torch.actuation.tendon_paths import TendonPaths, point_jacobian
from sim.torch.arrays import require_dense, require_tensor
from sim.torch.current_parameters import CurrentRobot, current_parameter
from sim.torch.modes import PARAMETERS, in_own_precision, not_compiled
from sim.torch.robot.robot import Robot


class JointForceParts(NamedTuple):
    """Generalised forces by their origin, [steps, num_worlds, nv] each, N m or N, along the degrees of freedom.

    Attributes:
        applied: ``tau``.
        actuators: of all actuators, those of tendons included, times their gears; MuJoCo's ``qfrc_actuator``.
        passive: of dampers and springs of joints and tendons, and of gravity compensation (``gravcomp``); MuJoCo's
            ``qfrc_passive``.
        constraints: of dry friction, limits, contacts, and equality constraints of joints, links and tendons;
            MuJoCo's ``qfrc_constraint``.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> tau = torch.ones(5, 1, 7)
        >>> q, qd = sim.torch.rollout(simulator, torch.zeros(1, 7), torch.zeros(1, 7), tau)
        >>> parts = sim.torch.JointForces(simulator)(q, qd, tau)
        >>> bool((parts.applied == 1.0).all()), parts.passive.shape
        (True, torch.Size([5, 1, 7]))
    """

    applied: torch.Tensor
    actuators: torch.Tensor
    passive: torch.Tensor
    constraints: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """Sum of all parts: inverse dynamics of the velocities before and after a step."""
        return self.applied + self.actuators + self.passive + self.constraints


class JointForces(torch.nn.Module):
    """The forces on the joints of a model along rollouts.

    Their sum gives the step's change of velocity exactly. Implicit terms are evaluated at the end of the step: dampers
    at the velocity after it and, with hard contact, springs at the position that this leads to. Constraint forces are
    the rest of the balance, averaged over the step. With hard contact they include, for free and ball joints, the
    difference between gyroscopic forces in the middle of the step and at its start.

    A torque sensor between motor and link measures ``actuators``, or the sum of ``actuators``, ``passive`` and, of its
    joint's dry friction and limits, ``constraints``, depending on where it sits.

    Args:
        simulator: the one that makes the rollouts; its parameters at the time of a call are used, without gradient.

    Raises:
        ModelError: for integrators other than "euler", whose steps have other forces, for a model with a medium, and
            for tendons with armature.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("rod", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        >>> limits, spring = sim.Limits(upper=0.0), sim.Spring(damping=0.1)
        >>> _ = scene.add_joint("hinge", "revolute", child="rod", axis=(0.0, 1.0, 0.0), limits=limits, spring=spring)
        >>> simulator = sim.Simulator(scene.finalize("float64"), 1 / 240, num_worlds=1, device="cpu")
        >>> start = torch.zeros(1, 1, dtype=torch.float64)
        >>> q, qd = sim.torch.rollout(simulator, start, start, steps=10)
        >>> parts = sim.torch.JointForces(simulator)(q, qd)  # the limit bears the weight of the rod
        >>> round(float(parts.constraints[-1, 0, 0]), 2)
        -1.96
    """

    def __init__(self, simulator: Simulator):
        super().__init__()
        require_type("JointForces: simulator", simulator, Simulator, "a sim.Simulator")
        if simulator.integrator != "euler":
            raise ModelError(
                f"JointForces: the simulator has integrator='{simulator.integrator}'; joint forces need 'euler'"
            )
        if len(simulator.model.drag_boxes.link):
            raise ModelError("JointForces: the forces of a medium can't be separated; remove set_medium from the model")
        tendons = simulator.model.tendons.names
        if tendons and (simulator.parameters["tendon_armature"] > 0.0).any():
            raise ModelError(
                "JointForces: inertia of tendon armature can't be separated from constraints; give the joints "
                "armature instead"
            )
        self._simulator, self._current = simulator, CurrentRobot(simulator)

    @not_compiled(PARAMETERS)
    @in_own_precision
    def forward(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        tau: torch.Tensor | None = None,
        control: torch.Tensor | None = None,
        act: torch.Tensor | None = None,
    ) -> JointForceParts:
        """Compute the forces in each step of a rollout.

        Args:
            q: coordinates [steps + 1, num_worlds, nq], as :func:`sim.torch.rollout` returns them.
            qd: velocities [steps + 1, num_worlds, nv].
            tau: the joint forces given to the rollout [steps, num_worlds, nv]. Default: zeros.
            control: the inputs given to it [steps, num_worlds, nu]. Default: zeros.
            act: states of actuators that have one [steps + 1, num_worlds, na].

        Raises:
            ModelError: if the numbers of steps are inconsistent, such as those of a rollout with ``hold``, or act is
                missing.
        """
        for name, value in {"q": q, "qd": qd, "tau": tau, "control": control, "act": act}.items():
            if value is not None or name in ("q", "qd"):
                require_dense(f"JointForces: {name}", value, 1)
        model, steps = self._simulator.model, len(q) - 1
        if q.dim() != 3 or qd.dim() != 3:
            raise ModelError(
                f"JointForces: q has shape {tuple(q.shape)} and qd {tuple(qd.shape)}; expected [steps + 1, worlds, n]"
            )
        lengths = [len(given) for given in (tau, control) if given is not None]
        if steps < 1 or len(qd) != len(q) or any(length != steps for length in lengths):
            raise ModelError(
                f"JointForces: q has {len(q)} states, qd {len(qd)}, and inputs {lengths or 'none'}; give all states, "
                "at least two and one more than inputs"
            )
        if tau is not None:
            require_tensor("JointForces: tau", tau, (steps, q.shape[1], model.nv))
        robot = self._current(q)
        applied = torch.zeros_like(qd[1:]) if tau is None else tau
        inputs = qd.new_zeros(*qd[1:].shape[:2], model.nu) if control is None else control
        before = q[:-1].flatten(0, 1)
        change = (torch.diff(qd, dim=0) / self._simulator.dt).flatten(0, 1)
        moved = robot.inverse_dynamics(before, qd[:-1].flatten(0, 1), change, passive=False)
        total = moved.unflatten(0, (steps, -1))
        tendons = TendonPaths(self._simulator, robot)(q[:-1]) if model.tendons.names else None
        actuators = self._of_actuators(q, qd, inputs, act, tendons)
        passive = self._of_joints(q, qd)
        if len(model.sprung_links):
            passive = passive + self._of_pose_springs(before, qd[1:], robot)
        if tendons is not None:
            passive = passive + self._of_tendons(qd, *tendons)
        if model.compensated:
            passive = passive + self._of_compensation(before, robot).unflatten(0, (steps, -1))
        return JointForceParts(applied, actuators, passive, total - applied - actuators - passive)

    def _of_actuators(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        control: torch.Tensor,
        act: torch.Tensor | None,
        tendons: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> torch.Tensor:
        """Add forces of joint actuators at their degrees of freedom, and those of tendon actuators along the
        tendons.
        """
        if not self._simulator.model.nu:
            return torch.zeros_like(qd[1:])
        require_joints_and_tendons(self._simulator.model, "JointForces")
        force = forces_of_actuators(self._simulator, q, qd, control, act, tendons)
        return on_joints(self._simulator, force, tendons)

    def _of_joints(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Compute forces of dampers and springs of joints."""
        model, after = self._simulator.model, qd[1:]
        damping, stiffness, rest = (
            current_parameter(self._simulator, name, q) for name in ("damping", "stiffness", "rest_position")
        )
        force = -damping * after
        dofs = [dof for dof in range(model.nv) if model.dof_q[dof] >= 0]
        ahead = 0.0 if isinstance(self._simulator.contact, MujocoContact) else self._simulator.dt
        position = q[:-1, :, model.dof_q[dofs]] + ahead * after[..., dofs]
        spring = torch.zeros_like(force)
        spring[..., dofs] = -stiffness[..., dofs] * (position - rest[..., dofs])
        return force + spring

    def _of_pose_springs(self, before: torch.Tensor, after: torch.Tensor, robot: Robot) -> torch.Tensor:
        """Compute forces of springs of spherical and free joints: passive forces at rest other than gravity
        compensation.
        """
        model, still = self._simulator.model, torch.zeros_like(after).flatten(0, 1)
        without, whole = (robot.inverse_dynamics(before, still, still, passive=passive) for passive in (False, True))
        force = without - whole
        if model.compensated:
            force = force - self._of_compensation(before, robot)
        sprung = torch.as_tensor(model.sprung_dofs, dtype=after.dtype, device=after.device)
        force = force.unflatten(0, after.shape[:2])
        if not isinstance(self._simulator.contact, MujocoContact):
            force = force - self._simulator.dt * current_parameter(self._simulator, "stiffness", after) * after
        return sprung * force

    def _of_tendons(self, qd: torch.Tensor, length: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        """Compute forces of springs and dampers of tendons, both at the start of a step."""
        stiffness, damping, curve, growth, lower, upper = (
            current_parameter(self._simulator, f"tendon_{name}", qd)
            for name in (
                "stiffness", "damping", "stiffness_polynomial", "damping_polynomial", "rest_lower", "rest_upper",
            )
        )  # fmt: skip
        rate = (slope @ qd[:-1, ..., None])[..., 0]
        # The slope at the rest length is that of one side.
        stretch = torch.where(length >= upper, length - upper, (length - lower).clamp(max=0.0))
        stiffness = stiffness + (curve[..., 0] + curve[..., 1] * stretch) * stretch
        damping = damping + growth[..., 0] * rate.abs() + growth[..., 1] * rate**2
        force = -stiffness * stretch - damping * rate
        return (slope.mT @ force[..., None])[..., 0]

    def _of_compensation(self, q: torch.Tensor, robot: Robot) -> torch.Tensor:
        """Compute gravity compensation: forces at the centres of mass that carry a share of the links' weights [rows,
        nv].
        """
        names = list(self._simulator.model.link_names)
        pose, jacobian = robot.forward_kinematics_matrix(q), robot.jacobian(q, names)
        arm = (pose[..., :3, :3] @ robot.com[..., None])[..., 0]
        lift = -robot.gravity_compensation[..., None] * robot.mass[..., None] * robot.gravity[..., None, :]
        return (point_jacobian(jacobian, arm) @ lift[..., None]).squeeze(-1).sum(dim=-2)
