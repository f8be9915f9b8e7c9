"""Actuators whose force a PyTorch module computes from the latest position errors and velocities of their joints."""

from collections.abc import Sequence
from typing import Any

import torch

from sim.errors import ModelError
from sim.model.checks import is_whole, items_of, names_in, number, require_type
from sim.model.joint_types import is_scalar
from sim.model.model import Model
from sim.simulation.simulator import Simulator
from sim.torch.arrays import require_dense, require_tensor
from sim.torch.autograd import step
from sim.torch.rollout_result import Rollout


class ActuatorNetwork(torch.nn.Module):
    """Actuators of joints as a network: the force follows from position errors and velocities, present and past.

    One network serves all joints (Hwangbo et al., *Learning agile and dynamic motor skills for legged robots*, 2019).
    Its inputs are, for each age, the error (target - q) and the velocity of the joint that many steps ago: first all
    errors, then all velocities. Gradients pass through it, and through the simulation, by autograd.

    - Train it with :meth:`forces_along` of measured targets and motions, like any module.
    - Simulate with :meth:`rollout`; or in a loop or a task with the module itself, which returns joint forces and the
      next memory.

    Args:
        model: the model. Its joints have no actuators that act besides.
        joints: names of the joints, revolute or prismatic, in the order of the targets.
        network: module that takes [..., 2 * len(ages)] to [..., 1], of the model's precision.
        ages: how many steps ago the inputs are from, from small to large.
        error_scale: factor of position errors before the network.
        velocity_scale: factor of velocities, likewise.
        force_scale: factor of the network's result [N m or N].
        force_limit: largest force [N m or N]. Default: none.

    Raises:
        ModelError: for an unknown joint, one that is named twice or is neither revolute nor prismatic, ages that aren't
            increasing whole numbers, and in the methods for targets or results of the network of another shape.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> layers = torch.nn.Linear(6, 32), torch.nn.Softsign(), torch.nn.Linear(32, 1)
        >>> network = torch.nn.Sequential(*layers)
        >>> actuators = sim.torch.ActuatorNetwork(model, model.joint_names, network, ages=(0, 2, 4))
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> target, still = torch.full((10, 1, 7), 0.2), torch.zeros(1, 7)
        >>> motion, forces = actuators.rollout(simulator, still, still, target)
        >>> motion.q[-1].square().sum().backward()
        >>> forces.shape, network[0].weight.grad.shape
        (torch.Size([10, 1, 7]), torch.Size([32, 6]))
    """

    def __init__(
        self,
        model: Model,
        joints: Sequence[str],
        network: torch.nn.Module,
        *,
        ages: Sequence[int] = (0, 1, 2),
        error_scale: float = 1.0,
        velocity_scale: float = 1.0,
        force_scale: float = 1.0,
        force_limit: float | None = None,
    ):
        super().__init__()
        require_type("ActuatorNetwork: model", model, Model, "a sim.Model")
        require_type("ActuatorNetwork: network", network, torch.nn.Module, "a torch.nn.Module")
        ages = tuple(items_of("ActuatorNetwork: ages", ages, "whole numbers from small to large"))
        if not ages or not all(is_whole(age, 0) for age in ages) or list(ages) != sorted(set(ages)):
            raise ModelError(f"ActuatorNetwork: ages are {ages}; they must be whole numbers from small to large")
        joints = names_in("ActuatorNetwork: joints", joints)
        if not joints or len(set(joints)) < len(joints):
            raise ModelError(f"ActuatorNetwork: joints are {', '.join(joints) or 'none'}; name at least one, each once")
        for name in joints:
            if name not in model.joint_names:
                raise ModelError(f"ActuatorNetwork: unknown joint '{name}'; choose from {', '.join(model.joint_names)}")
            if not is_scalar(int(model.joint_type[model.joint_names.index(name)])):
                raise ModelError(f"ActuatorNetwork: joint '{name}' is neither revolute nor prismatic")
        self.network, self.ages, self.joints = network, ages, joints
        scales = {"error_scale": error_scale, "velocity_scale": velocity_scale, "force_scale": force_scale}
        self.error_scale, self.velocity_scale, self.force_scale = (
            number("ActuatorNetwork", name, value) for name, value in scales.items()
        )
        if force_limit is not None and not number("ActuatorNetwork", "force_limit", force_limit) > 0.0:
            raise ModelError(f"ActuatorNetwork: force_limit is {force_limit}; it must be positive")
        self.force_limit = force_limit
        self._nq, self._nv = model.nq, model.nv
        self._q, self._qd = ([part(name).start for name in joints] for part in (model.q_slice, model.qd_slice))

    @property
    def history(self) -> int:
        """The number of past steps that the memory has."""
        return self.ages[-1]

    def begin(self, q: torch.Tensor) -> torch.Tensor:
        """Return the memory of worlds at rest at their targets [num_worlds, history, 2, joints].

        Args:
            q: coordinates, whose number of worlds, dtype and device are used [num_worlds, nq].
        """
        return q.new_zeros(len(q), self.history, 2, len(self.joints))

    def forward(
        self, target: torch.Tensor, q: torch.Tensor, qd: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return joint forces [num_worlds, nv], zero for other joints, and the memory of the next step.

        Args:
            target: target positions of the joints [num_worlds, joints].
            q: coordinates [num_worlds, nq].
            qd: velocities [num_worlds, nv].
            memory: errors and velocities of the steps before, the latest first, see :meth:`begin`.
        """
        known = self._known(target, q, qd, memory)
        force = self._force(known[:, list(self.ages)])
        tau = qd.new_zeros(len(qd), self._nv).index_add(1, torch.as_tensor(self._qd, device=qd.device), force)
        return tau, known[:, : self.history]

    def remember(self, target: torch.Tensor, q: torch.Tensor, qd: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Return the memory of the next step alone; the arguments are those of :meth:`forward`."""
        return self._known(target, q, qd, memory)[:, : self.history]

    def forces_along(self, target: torch.Tensor, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Return the forces along a motion, such as a measured one, from its row ``history`` on.

        Args:
            target: target positions of the joints [rows, worlds, joints], one time step of the network apart.
            q: coordinates [rows, worlds, nq].
            qd: velocities [rows, worlds, nv].

        Returns:
            forces on the joints [rows - history, worlds, joints].
        """
        present = self._present(target, q, qd)
        rows = len(present)
        return self._force(torch.stack([present[self.history - age : rows - age] for age in self.ages], dim=-3))

    def rollout(
        self,
        simulator: Simulator,
        q: torch.Tensor,
        qd: torch.Tensor,
        target: torch.Tensor,
        memory: torch.Tensor | None = None,
        **options: Any,
    ) -> tuple[Rollout, torch.Tensor]:
        """Simulate with these actuators, differentiable in the network, the state, the targets and the options.

        Args:
            simulator: the simulator, of the same model. Actuators of the model have zero inputs.
            q: coordinates [num_worlds, nq].
            qd: velocities [num_worlds, nv].
            target: target positions of the joints in each step [steps, num_worlds, joints].
            memory: errors and velocities before the first step. Default: zeros, see :meth:`begin`.
            **options: further arguments of :func:`sim.torch.step`, such as parameters by name; not ``tau``, which the
                network gives, and no readings.

        Returns:
            the states [steps + 1, num_worlds, ...], and the forces on the joints [steps, num_worlds, joints].
        """
        require_type("ActuatorNetwork.rollout: simulator", simulator, Simulator, "a sim.Simulator")
        model = simulator.model
        if model.na:
            raise ModelError(
                "ActuatorNetwork.rollout: the model's actuators have states; call sim.torch.step in a loop"
            )
        for name in ("tau", "act", "sensors", "contact_forces"):
            if name in options:
                raise ModelError(f"ActuatorNetwork.rollout has no '{name}'; call sim.torch.step in a loop")
        for label, value, dimensions in (("q", q, 2), ("target", target, 3)):
            require_dense(f"ActuatorNetwork.rollout: {label}", value, dimensions)
        if len(q) != simulator.num_worlds:
            raise ModelError(
                f"ActuatorNetwork.rollout: q has {len(q)} worlds, but the simulator has {simulator.num_worlds}"
            )
        if not len(target):
            raise ModelError("ActuatorNetwork.rollout: target has no steps; give at least one")
        memory = self.begin(q) if memory is None else memory
        states, forces = [(q, qd)], []
        for wanted in target:
            tau, memory = self(wanted, q, qd, memory)
            q, qd = step(simulator, q, qd, tau, **options)
            states.append((q, qd))
            forces.append(tau[:, self._qd])
        return Rollout(*(torch.stack(part) for part in zip(*states, strict=True))), torch.stack(forces)

    def _known(self, target: torch.Tensor, q: torch.Tensor, qd: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Return errors and velocities, present and past [num_worlds, history + 1, 2, joints]."""
        present = self._present(target, q, qd)
        require_tensor("ActuatorNetwork: memory", memory, (len(q), self.history, 2, len(self.joints)), q.dtype)
        return torch.cat([present[:, None], memory], dim=1)

    def _present(self, target: torch.Tensor, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Return scaled errors and velocities [..., 2, joints]."""
        require_dense("ActuatorNetwork: q", q)
        if q.shape[-1:] != (self._nq,):
            raise ModelError(f"ActuatorNetwork: q has shape {tuple(q.shape)}; expected [num_worlds, {self._nq}]")
        require_tensor("ActuatorNetwork: qd", qd, (*q.shape[:-1], self._nv), q.dtype)
        require_tensor("ActuatorNetwork: target", target, (*q.shape[:-1], len(self.joints)), q.dtype)
        error = self.error_scale * (target - q[..., self._q])
        return torch.stack([error, self.velocity_scale * qd[..., self._qd]], dim=-2)

    def _force(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return forces [..., joints] from scaled inputs [..., ages, 2, joints]."""
        columns = inputs.transpose(-3, -2).flatten(-3, -2).transpose(-2, -1)
        found = self.network(columns)
        if found.shape != (expected := (*columns.shape[:-1], 1)):
            raise ModelError(
                f"ActuatorNetwork: network returned shape {tuple(found.shape)}; expected {tuple(expected)}"
            )
        force = self.force_scale * found[..., 0]
        return force if self.force_limit is None else force.clamp(-self.force_limit, self.force_limit)
