"""A simulator's parameters, present or given for a call, as tensors and in a robot."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch

from sim.dynamics.differentiable_op import dynamics_parameters
from sim.errors import ModelError
from sim.model.checks import as_numbers
from sim.model.parameters import PARAMETERS, number_of_dims, require_shape
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.robot.robot import Robot


def given_parameter(simulator: Simulator, name: str, value: Any) -> torch.Tensor:
    """Return a parameter that is given for a call, ``[n, ...]`` or ``[num_worlds, n, ...]``.

    Raises:
        ModelError: for an unknown name, a value without numbers, and a wrong shape.
    """
    own, counts = simulator.engine.parameters.values, simulator.model.counts
    if name not in own:
        raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(own)}")
    numbers = TORCH_DTYPES[simulator.model.dtype]
    if isinstance(value, torch.Tensor):
        tensor = value.to(numbers) if value.dtype in (torch.bfloat16, torch.float16) else value
    elif isinstance(value, Sequence) and any(isinstance(each, torch.Tensor) for each in value):
        raise ModelError(f"parameter '{name}' is a {type(value).__name__} of tensors; join them with torch.stack")
    else:
        tensor = torch.from_numpy(as_numbers(f"parameter '{name}'", value)).to(numbers)
    if tensor.dim() == 0 and not PARAMETERS[name].shape and PARAMETERS[name].per != "world":
        tensor = tensor.expand(counts[PARAMETERS[name].per])
    require_shape(name, tuple(tensor.shape), counts, simulator.num_worlds)
    return tensor


def with_given(simulator: Simulator, given: Mapping[str, torch.Tensor]) -> Simulator:
    """Return a view of a simulator whose parameters are partly replaced by tensors, which may have gradients.

    Only readers of its parameters see them; it still simulates with its own.
    """
    return cast(Simulator, _Given(simulator, given)) if given else simulator


class _Given:
    """parameters: the given values, or else the simulator's."""

    def __init__(self, simulator: Simulator, given: Mapping[str, torch.Tensor]):
        self._simulator = simulator
        self.parameters: Mapping[str, Any] = ChainMap(dict(given), cast(dict[str, Any], simulator.parameters))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulator, name)


def current_parameter(simulator: Simulator, name: str, like: torch.Tensor) -> torch.Tensor:
    """Return a parameter of the simulator, with the dtype and on the device of another tensor.

    It has a gradient if it is given by :func:`with_given`.
    """
    return torch.as_tensor(simulator.parameters[name], dtype=like.dtype, device=like.device)


def parameters_of_rows(simulator: Simulator, names: Iterable[str], q: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return parameters for a flattened batch of states [steps, num_worlds, nq]; one value each if worlds share it."""
    found = {}
    for name in names:
        value = current_parameter(simulator, name, q)
        per_world = value.dim() > number_of_dims(name)
        found[name] = value.expand(len(q), *value.shape).flatten(0, 1) if per_world else value
    return found


class CurrentRobot:
    """A robot with the present parameters of a simulator; none of them is learnt.

    Args:
        simulator: the simulator.

    Attributes:
        robot: the robot, with the parameters of the last call.
    """

    def __init__(self, simulator: Simulator):
        self._simulator, self.robot = simulator, Robot(simulator.model, device=simulator.device)
        self._held: tuple[Mapping[str, Any], torch.device, torch.Size] | None = None

    def __call__(self, q: torch.Tensor) -> Robot:
        """Return the robot for coordinates [steps + 1, num_worlds, nq] of a rollout, excluding the last state.

        Where worlds differ, rows of a flat batch are steps times worlds.
        """
        held = self._simulator.engine.parameters.values, q.device, q.shape
        # Setting parameters again would make the robot capture its graphs again.
        if self._held is None or self._held[0] is not held[0] or self._held[1:] != held[1:]:
            self._take(self._simulator, q)
            self._held = held
        return self.robot

    @contextmanager
    def as_given(self, simulator: Simulator, q: torch.Tensor) -> Iterator[Robot]:
        """Return the robot for coordinates of a rollout, with the parameters of the result of :func:`with_given`.

        It keeps no history of these parameters afterwards.
        """
        if simulator is self._simulator:
            yield self(q)
            return
        self._held = None
        self._take(simulator, q)
        try:
            yield self.robot
        finally:
            for name in dynamics_parameters(simulator.model):
                setattr(self.robot, name, getattr(self.robot, name).detach())

    def _take(self, simulator: Simulator, q: torch.Tensor) -> None:
        robot = self.robot.to(q.device)
        for name in dynamics_parameters(simulator.model):
            shared, value = simulator.model.parameters[name], current_parameter(simulator, name, getattr(robot, name))
            if value.dim() > shared.ndim:
                value = value.expand(q.shape[1], *value.shape[1:]).repeat(len(q) - 1, *[1] * shared.ndim)
            setattr(robot, name, value)
