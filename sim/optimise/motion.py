"""Motion: the argument of costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from sim.optimise.forces import Measure
from sim.optimise.tangent import Tangent
from sim.torch.robot.robot import Robot


@dataclass(frozen=True)
class Motion:
    """Motion of every world, at the times at which the controls change.

    Attributes:
        q: coordinates before each stage and after the last [stages + 1, worlds, nq].
        qd: velocities likewise [stages + 1, worlds, nv].
        act: states of actuators likewise [stages + 1, worlds, na]; na is zero where none has one.
        controls: joint forces of the chosen joints, or inputs of the actuators [stages, worlds, size].
        contact_force: readings of the simulator's ``contact_sensors``, then forces that costs ask for, averaged over
            each stage [stages, worlds, measures, 3], N; None if there are none.
        measures: what they are, None for readings of the simulator's ``contact_sensors`` [measures].
        robot: kinematics and dynamics, with the simulator's present parameters.
        tangent: differences of coordinates.
        parameters: the simulator's present values by name, see :mod:`sim.model.parameters`.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> import sim
        >>> from sim.optimise import Effort, Problem
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> motion = Problem(simulator, 20, [Effort(1.0)]).motion(torch.ones(3, 20))  # of three worlds
        >>> motion.q.shape, motion.controls.shape
        (torch.Size([21, 3, 1]), torch.Size([20, 3, 1]))
    """

    q: torch.Tensor
    qd: torch.Tensor
    act: torch.Tensor
    controls: torch.Tensor
    contact_force: torch.Tensor | None
    robot: Robot
    tangent: Tangent
    parameters: Mapping[str, np.ndarray]
    measures: tuple[Measure | None, ...] = ()

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.controls)

    @property
    def state_size(self) -> int:
        """Size of a change of the state, 2 nv + na."""
        return 2 * self.tangent.nv + self.act.shape[-1]

    def detached(self) -> Motion:
        """Return the motion without autograd history."""
        force = None if self.contact_force is None else self.contact_force.detach()
        return replace(
            self, q=self.q.detach(), qd=self.qd.detach(), act=self.act.detach(), controls=self.controls.detach(),
            contact_force=force,
        )  # fmt: skip

    def moved(self, dx: torch.Tensor, du: torch.Tensor) -> Motion:
        """Return the motion with states moved by tangents [stages + 1, worlds, 2 nv + na], controls by [stages, worlds,
        size].
        """
        nv = self.tangent.nv
        return replace(
            self, q=self.tangent.moved(self.q, dx[..., :nv]), qd=self.qd + dx[..., nv : 2 * nv],
            act=self.act + dx[..., 2 * nv :], controls=self.controls + du,
        )  # fmt: skip
