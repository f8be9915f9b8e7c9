"""Derivatives of simulated motions' states in parameters and initial states, for batches of motions.

Every interval between two inputs of a known motion becomes a separate world, and one backward pass for each component
of the final state gives the derivatives of all intervals in one batch. Their products, from the start on, are the
derivatives of the states. This takes nq + nv + na backward passes through one interval, independent of the length of
the motion and of the number of measurements and unknowns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

from sim.errors import ModelError
from sim.model.checks import require_type
from sim.model.model import Model
from sim.simulation.options import ContactMethod
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.autograd import rollout, step

TOGETHER = 1024  # intervals per batch
# From free numbers [worlds, p] to whole parameters [worlds, n, ...] by name.
Parameters = Callable[[torch.Tensor], dict[str, torch.Tensor]]
Start = tuple[torch.Tensor, ...]  # q, qd and, where actuators have states, act


@dataclass(frozen=True)
class Motion:
    """States of simulated motions, at the times where inputs change.

    Attributes:
        q: coordinates [rows, worlds, nq].
        qd: velocities [rows, worlds, nv].
        act: states of the actuators that have one [rows, worlds, na]; None if none has.
    """

    q: torch.Tensor
    qd: torch.Tensor
    act: torch.Tensor | None = None

    @property
    def states(self) -> Start:
        """All parts of the state that exist."""
        return (self.q, self.qd) if self.act is None else (self.q, self.qd, self.act)


@dataclass(frozen=True)
class Inputs:
    """Inputs of motions: joint forces [rows - 1, worlds, nv] and actuator inputs [rows - 1, worlds, nu]."""

    tau: torch.Tensor | None
    control: torch.Tensor | None

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Inputs":
        """Apply a function to both of them."""
        return Inputs(*(None if each is None else change(each) for each in (self.tau, self.control)))


class Simulators:
    """Simulators of a model whose unknown parameters differ between worlds, one for each number of worlds.

    Args:
        model: the model.
        dt: time step [s].
        hold: number of steps in an interval.
        parameters: map from free numbers to parameters.
        contact: options of the contact solver.
        device: Warp device.
        threads: CPU threads.
        integrator: integrator of the simulators.
    """

    def __init__(
        self,
        model: Model,
        dt: float,
        hold: int,
        parameters: Parameters,
        contact: ContactMethod | None = None,
        device: str | None = None,
        threads: int | None = None,
        integrator: str | None = None,
    ):
        self.model, self.dt, self.hold, self.parameters = model, dt, hold, parameters
        self.contact, self.device, self.threads = contact, device, threads
        self.integrator = integrator
        self._simulators: dict[int, Simulator] = {}

    def simulator(self, x: torch.Tensor) -> Simulator:
        """Return a simulator with a world for each row of free numbers [worlds, p]."""
        count = len(x)
        if count not in self._simulators:
            # Parameters are per world from the start, so that setting them doesn't change an array's shape.
            first = {name: value.numpy(force=True) for name, value in self._parameters(x.detach()).items()}
            self._simulators[count] = Simulator(
                self.model, self.dt, count, self.device, self.contact, first, threads=self.threads,
                integrator=self.integrator,
            )  # fmt: skip
        return self._simulators[count]

    @property
    def state_size(self) -> int:
        """Size of a state, nq + nv + na."""
        return self.model.nq + self.model.nv + self.model.na

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the model."""
        return TORCH_DTYPES[self.model.dtype]

    def run(self, x: torch.Tensor, start: Start, inputs: Inputs, rows: int) -> Motion:
        """Simulate without gradients.

        Args:
            x: free numbers [worlds, p].
            start: coordinates [worlds, nq], velocities [worlds, nv] and states of actuators, if there are any.
            inputs: inputs of the motions.
            rows: number of states, the first included.
        """
        with torch.no_grad():
            simulator = self.simulator(x)
            device = wp.device_to_torch(simulator.device)
            given: dict[str, Any] = self._parameters(x.to(device))
            q, qd, *act = (each.to(device, self.dtype) for each in start)
            tau, control = self._inputs(inputs, device)
            states = rollout(
                simulator, q, qd, tau, control, steps=(rows - 1) * self.hold, hold=self.hold,
                act=act[0] if act else None, **given,
            )  # fmt: skip
        return Motion(*(each.cpu() for each in states))

    def derivatives(self, x: torch.Tensor, motion: Motion, inputs: Inputs, start: torch.Tensor) -> torch.Tensor:
        """Compute the derivatives of all states.

        Args:
            x: free numbers [worlds, p].
            motion: the result of :meth:`run` for them.
            inputs: inputs of the motions.
            start: derivatives of the first states [worlds, nq + nv + na, m] in further variables.

        Returns:
            [rows, worlds, nq + nv + na, p + m]: derivatives in the free numbers, then in the variables of ``start``.
        """
        a, b, _ = self.of_intervals(x, motion, inputs)
        slopes = [torch.cat([start.new_zeros(*start.shape[:2], x.shape[1]), start], dim=-1)]
        for k in range(len(a)):
            following = a[k] @ slopes[-1]
            following[..., : x.shape[1]] += b[k]
            slopes.append(following)
        return torch.stack(slopes)

    def of_intervals(
        self, x: torch.Tensor, motion: Motion, inputs: Inputs, of_inputs: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """Return derivatives of states in the previous ones [rows - 1, worlds, nx, nx], in free numbers [..., nx, p],
        and, if ``of_inputs``, in the motion's inputs, joint forces first [..., nx, n].
        """
        rows, worlds = motion.q.shape[0] - 1, motion.q.shape[1]
        states = [each[:-1].flatten(0, 1) for each in motion.states]
        flat, numbers = inputs.map(lambda each: each.flatten(0, 1)), x.repeat(rows, 1)
        count = min(TOGETHER, rows * worlds)
        parts = []
        for begin in range(0, rows * worlds, count):
            # The last part starts earlier to keep its size: all parts have the same number of worlds.
            first = min(begin, rows * worlds - count)
            some = slice(first, first + count)
            given = Inputs(*(None if each is None else each[some] for each in (flat.tau, flat.control)))
            found = self._of_some(numbers[some], [each[some] for each in states], given, of_inputs)
            parts.append(found[begin - first :])
        whole = torch.cat(parts).unflatten(0, (rows, worlds))
        sizes = [self.state_size, x.shape[1]]
        return whole.split([*sizes, whole.shape[-1] - sum(sizes)], dim=-1)

    def _of_some(
        self, x: torch.Tensor, states: Sequence[torch.Tensor], inputs: Inputs, of_inputs: bool
    ) -> torch.Tensor:
        """Return derivatives of states one interval later [worlds, nx, nx + p + n]."""
        simulator = self.simulator(x)
        device = wp.device_to_torch(simulator.device)
        inner = [each.detach().to(device).requires_grad_() for each in (*states, x)]
        given: dict[str, Any] = self._parameters(inner[-1])
        if not any(value.requires_grad for value in given.values()):
            raise ModelError("parameters don't depend on the unknowns; use only PyTorch operations in the function")
        tau, control = self._inputs(inputs, device)
        if of_inputs:
            inner += [each.requires_grad_() for each in (tau, control) if each is not None]
        act = inner[2] if self.model.na else None
        later = step(simulator, inner[0], inner[1], tau, control, hold=self.hold, act=act, **given)
        rows = []
        for part in later:
            for component in part.unbind(1):
                found = torch.autograd.grad(component.sum(), inner, retain_graph=True)
                rows.append(torch.cat([each.double().cpu() for each in found], dim=1))
        return torch.stack(rows, dim=1)

    def _parameters(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.parameters(x)
        require_type("parameters of the unknowns", found, Mapping, "a dictionary from names to tensors")
        for name, value in found.items():
            require_type(f"parameter '{name}'", value, torch.Tensor, "a torch.Tensor")
            own = self.model.parameters.get(name)  # the simulator rejects unknown names
            if own is not None and value.shape != (len(x), *own.shape):
                raise ModelError(
                    f"parameter '{name}' of {len(x)} guesses has shape {tuple(value.shape)}; expected "
                    f"{(len(x), *own.shape)}"
                )
        return {name: value.to(self.dtype) for name, value in found.items()}

    def _inputs(self, inputs: Inputs, device: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        given = inputs.map(lambda each: each.to(device, self.dtype))
        return given.tau, given.control


def as_states(values: np.ndarray) -> torch.Tensor:
    """Return an array [rows, worlds, n] in float64."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))
