"""The rollout and the step as operations of PyTorch's autograd.

A rollout is one operation. It saves its inputs and its states and nothing else; the backward pass runs each step again
(see :mod:`sim.simulation.rollout`).
"""

import contextlib
from typing import Any

import numpy as np
import torch
import warp as wp
from torch.autograd.function import once_differentiable

from sim.errors import ModelError
from sim.model.parameters import PARAMETERS
from sim.simulation.simulator import Simulator
from sim.simulation.state import Impulses, State
from sim.simulation.trajectory import Trajectory
from sim.torch.arrays import DTYPES, on_torch_stream

_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def rollout(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    *,
    steps: int | None = None,
    checkpoint_interval: int = 1,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Many steps, differentiable in state, control and the parameters given.

    Args:
        simulator: the simulator; its device and dtype are those of the tensors.
        q: coordinates [num_worlds, nq]; gradients are ambient, tangent to the unit sphere for quaternions.
        qd: velocities [num_worlds, nv].
        tau: joint forces [steps, num_worlds, nv]; None for none.
        control: inputs of the actuators [steps, num_worlds, nu]; None for zeros.
        steps: number of steps; needed where neither tau nor control is given.
        checkpoint_interval: k, to keep and return only the states before every k-th step and the last one.
        **parameters: values used for this call only, by the names of :data:`sim.model.parameters.PARAMETERS` such as
            ``friction``, ``[n, ...]`` shared or ``[num_worlds, n, ...]``; a single number is used for all n.

    Returns:
        q [steps + 1, num_worlds, nq] and qd [steps + 1, num_worlds, nv], the first entry being the given state; with a
        checkpoint interval only the states that are stored, ceil(steps / k) + 1.

    Raises:
        ModelError: for a wrong shape, dtype, device or parameter name.
        RuntimeError: for a second derivative, which is not supported.

    With ``ContactOptions(warm_start=True)`` the first step begins with zero impulses.
    """
    names = tuple(parameters)
    values = tuple(_parameter(simulator, name, value) for name, value in parameters.items())
    q = _tensor(simulator, "q", q, simulator.model.nq)
    qd = _tensor(simulator, "qd", qd, simulator.model.nv)
    for name, given, size in (("tau", tau, simulator.model.nv), ("control", control, simulator.model.nu)):
        if given is not None:
            _require_tensor(name, given)
            if given.dim() != 3:
                shape = (simulator.num_worlds, size)
                raise ModelError(f"{name} has shape {tuple(given.shape)}; expected (steps, {shape[0]}, {shape[1]})")
            _tensor(simulator, name, given[0] if len(given) else q.new_zeros(simulator.num_worlds, size), size)
            steps = given.shape[0] if steps is None else steps
    states = _Rollout.apply(simulator, names, (steps, checkpoint_interval), q, qd, tau, control, *values)
    return states[0], states[1]


def step(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step, differentiable like :func:`rollout`; the autograd graph of a loop of steps is then the list of
    checkpoints.

    Args:
        simulator: the simulator.
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        tau: joint forces [num_worlds, nv]; None for none.
        control: inputs of the actuators [num_worlds, nu]; None for zeros.
        **parameters: as for :func:`rollout`.

    Returns:
        the next q [num_worlds, nq] and qd [num_worlds, nv].
    """
    for name, given in (("tau", tau), ("control", control)):
        if given is not None:
            _require_tensor(name, given)
    if simulator.contact.warm_start:
        raise ModelError("sim.torch.step doesn't carry the impulses of a warm start; use rollout, or warm_start=False")
    forces, inputs = (None if given is None else given.unsqueeze(0) for given in (tau, control))
    q_all, qd_all = rollout(simulator, q, qd, forces, inputs, steps=1, checkpoint_interval=1, **parameters)
    return q_all[1], qd_all[1]


class _Rollout(torch.autograd.Function):
    """See :func:`rollout`. Forward mode and second derivatives raise."""

    @staticmethod
    def forward(
        simulator: Simulator,
        names: tuple[str, ...],
        length: tuple[int | None, int],
        q: torch.Tensor,
        qd: torch.Tensor,
        tau: torch.Tensor | None,
        control: torch.Tensor | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        with _stream(simulator), _parameters(simulator, names, values):
            state = State(_warp(q), _warp(qd))
            steps, interval = length
            trajectory = simulator.rollout(
                state, _warp_or_none(tau), steps, control=_warp_or_none(control), checkpoint_interval=interval
            )
            states = [trajectory.q, trajectory.qd]
            if trajectory.impulses is not None:
                states += [trajectory.impulses.value, trajectory.impulses.key]
            return tuple(wp.to_torch(array) for array in states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, ...]) -> None:
        simulator, names, length, _, _, tau, control, *values = inputs
        ctx.simulator, ctx.names, ctx.length = simulator, names, length
        # All parameters as they are now: the backward pass must not see what is set later.
        ctx.others = simulator.parameter_values()
        ctx.mark_non_differentiable(*output[2:])
        ctx.warm = len(output) > 2
        ctx.save_for_backward(*output, tau, control, *values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, q_grad: torch.Tensor | None, qd_grad: torch.Tensor | None, *_: Any) -> tuple:
        simulator: Simulator = ctx.simulator
        q, qd, *others = ctx.saved_tensors
        impulses = Impulses(_warp(others[0]), _warp(others[1])) if ctx.warm else None
        tau, control, *values = others[2:] if ctx.warm else others
        wanted = [name for name, needed in zip(ctx.names, ctx.needs_input_grad[7:], strict=True) if needed]
        with (
            _stream(simulator),
            simulator.with_parameters(ctx.others),
            _parameters(simulator, ctx.names, tuple(values)),
        ):
            inputs = _warp_or_none(tau), _warp_or_none(control)
            trajectory = Trajectory(simulator, _warp(q), _warp(qd), *inputs, impulses, *ctx.length)
            gradients = trajectory.backward(_warp_or_none(q_grad), _warp_or_none(qd_grad), wanted)
            parameter_gradients = [
                torch.as_tensor(gradients.parameters[name], dtype=value.dtype, device=value.device).reshape(value.shape)
                if name in wanted
                else None
                for name, value in zip(ctx.names, values, strict=True)
            ]
            input_grads = (None if bar is None else wp.to_torch(bar) for bar in (gradients.tau, gradients.control))
            return (
                None,
                None,
                None,
                wp.to_torch(gradients.q),
                wp.to_torch(gradients.qd),
                *input_grads,
                *parameter_gradients,
            )

    @staticmethod
    def vmap(*_: Any) -> None:
        """Raises: worlds are the batch."""
        raise RuntimeError("sim.torch.rollout has no vmap rule; use the simulator's num_worlds as the batch dimension")


def _warp(tensor: torch.Tensor) -> wp.array:
    array = wp.from_torch(tensor.detach().contiguous(), requires_grad=False)
    assert isinstance(array, wp.array)
    return array


def _warp_or_none(tensor: torch.Tensor | None) -> wp.array | None:
    return None if tensor is None else _warp(tensor)


def _stream(simulator: Simulator) -> contextlib.AbstractContextManager[object]:
    return on_torch_stream(torch.device(wp.device_to_torch(simulator.device)))


def _parameters(
    simulator: Simulator, names: tuple[str, ...], values: tuple[torch.Tensor, ...]
) -> contextlib.AbstractContextManager[None]:
    given: dict[str, np.ndarray] = {
        name: value.detach().cpu().numpy() for name, value in zip(names, values, strict=True)
    }
    return simulator.with_parameters(given)


def _tensor(simulator: Simulator, name: str, value: torch.Tensor, size: int) -> torch.Tensor:
    _require_tensor(name, value)
    shape = (simulator.num_worlds, size)
    if value.dim() == 1 and value.shape[0] == size:
        value = value.expand(shape)
    if tuple(value.shape) != shape:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
    dtype = _TORCH_DTYPES[simulator.model.dtype]
    if value.dtype != dtype:
        raise ModelError(f"{name} has dtype {value.dtype}, but the model has {dtype}; convert one of them")
    if str(wp.device_from_torch(value.device)) != str(simulator.device):
        raise ModelError(
            f"{name} is on device {value.device}, but the simulator is on {simulator.device}; move one of them"
        )
    return value


def _require_tensor(name: str, value: object) -> None:
    if not isinstance(value, torch.Tensor):
        raise ModelError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")


def _parameter(simulator: Simulator, name: str, value: Any) -> torch.Tensor:
    own = simulator.model.parameters
    if name not in own:
        raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(own)}")
    tensor = torch.as_tensor(value)
    shape = own[name].shape
    if tensor.dim() == 0 and not PARAMETERS[name].shape:
        tensor = tensor.expand(shape)
    return tensor
