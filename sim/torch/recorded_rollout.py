"""A rollout as an operation of PyTorch's autograd.

It keeps its inputs and its states and nothing else; the backward pass runs each step again (see
:mod:`sim.simulation.trajectory`). The gradient is an operation of its own, so that ``torch.func.jacrev`` can ask for
several, and a second derivative finds a node that raises.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import warp as wp

from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory
from sim.torch.arrays import SCALARS, TORCH_DTYPES, as_array, as_tensor, on_torch_stream

NO_SECOND = (
    "a rollout has first derivatives only, and this asks for the derivative of a gradient (create_graph=True, "
    "torch.autograd.functional.jvp, hvp or hessian); use reverse mode once, and differences of gradients beyond that"
)
NO_FORWARD_MODE = (
    "a rollout has no forward-mode derivatives (torch.func.jvp, jacfwd); use reverse mode (torch.func.vjp, jacrev)"
)
NO_BATCHED_GRADIENTS = (
    "a rollout can't take a batch of gradients from torch.autograd.grad(..., is_grads_batched=True) or "
    "torch.autograd.functional.jacobian(..., vectorize=True); use torch.func.jacrev, or a loop"
)
NO_VMAP = "a rollout has no vmap over its inputs; use the simulator's num_worlds as the batch dimension"


@dataclass(eq=False)
class Settings:
    """What a rollout takes beside tensors, and what its way back has to know of it.

    Attributes:
        simulator: the simulator.
        names: the parameters that are given.
        steps: number of steps, or None where an input says so.
        checkpoint_interval: of the states that are stored.
        leave_out_bad_worlds: whether worlds that went bad get no gradient.
        returned: which of the stored states are returned.
        keeps_solved: whether to keep what the trajectory calls ``solved``, see :meth:`sim.Simulator.run_steps`.
        trajectory: the rollout, with all its states and with the values of all parameters.
    """

    simulator: Simulator
    names: tuple[str, ...]
    steps: int | None
    checkpoint_interval: int
    leave_out_bad_worlds: bool
    returned: slice
    keeps_solved: bool = False
    trajectory: Trajectory = field(init=False)


class RecordedRollout(torch.autograd.Function):
    """``apply(settings, q, qd, act, tau, control, *values of parameters)``.

    It returns the states asked for, q, qd and act (empty without), the contact forces of all steps (empty without
    sensors), the velocities that the law found if they are kept, then impulses if any.
    """

    @staticmethod
    def forward(
        settings: Settings,
        q: torch.Tensor,
        qd: torch.Tensor,
        act: torch.Tensor | None,
        tau: torch.Tensor | None,
        control: torch.Tensor | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The value."""
        simulator = settings.simulator
        with _stream(simulator), _parameters(settings, values):
            # PyTorch itself notices if a tensor that the way back needs has been changed.
            trajectory = simulator.run_steps(
                State(_warp(q), _warp(qd), act=_warp_or_none(act)),
                _warp_or_none(tau),
                settings.steps,
                _warp_or_none(control),
                settings.checkpoint_interval,
                _gradients(settings, (q, qd, act, tau, control), values),
                settings.keeps_solved,
            )
            settings.trajectory = trajectory
            states = [_returned(settings, array) for array in (trajectory.q, trajectory.qd)]
            states += _further(settings, trajectory, states[0])
            if trajectory.impulses is not None:
                states += [as_tensor(array) for array in (trajectory.impulses.value, trajectory.impulses.key)]
            return tuple(states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, ...]) -> None:
        """Keep what the gradient needs. The states are among it so that a change of them is noticed."""
        ctx.settings, _, _, _, tau, control, *values = inputs
        ctx.mark_non_differentiable(*output[4 + ctx.settings.keeps_solved :])
        ctx.save_for_backward(tau, control, *values, *output)

    @staticmethod
    def backward(
        ctx: Any,
        q_grad: torch.Tensor | None,
        qd_grad: torch.Tensor | None,
        act_grad: torch.Tensor | None,
        force_grad: torch.Tensor | None,
        *further: Any,
    ) -> tuple:
        """The gradient of a loss from that in the states and in what is read of the steps."""
        settings: Settings = ctx.settings
        grads = (q_grad, qd_grad, act_grad, force_grad, further[0] if settings.keeps_solved else None)
        if any(x is not None and torch._C._functorch.is_legacy_batchedtensor(x) for x in grads):
            raise RuntimeError(NO_BATCHED_GRADIENTS)
        tau, control, *_ = inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        wanted = tuple(name for name, need in zip(settings.names, needed[5:], strict=True) if need)
        # As an operation of autograd only where somebody may want a derivative of it.
        gradient = RolloutGradient.apply if _is_differentiated() else RolloutGradient.forward
        found = iter(gradient(settings, wanted, *grads, *inputs))
        has_states = bool(settings.simulator.model.na)
        given = (True, True, has_states, tau is not None, control is not None, *needed[5:])
        return None, *(next(found) if there else None for there in given)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raises."""
        raise RuntimeError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(*_: Any) -> None:
        """Raises: worlds are the batch."""
        raise RuntimeError(NO_VMAP)


class RolloutGradient(torch.autograd.Function):
    """``apply(settings, wanted, *grads, tau, control, *parameters, *outputs)``, grads of q, qd, act, forces and solved.

    The gradients in the first q, qd and act, in tau and control where they are given, and in the parameters that are
    wanted.
    What the rollout was given and what it returned is among the arguments so that a derivative finds its way there.
    """

    @staticmethod
    def forward(
        settings: Settings,
        wanted: tuple[str, ...],
        q_grad: torch.Tensor | None,
        qd_grad: torch.Tensor | None,
        act_grad: torch.Tensor | None,
        force_grad: torch.Tensor | None,
        solved_grad: torch.Tensor | None,
        tau: torch.Tensor | None,
        control: torch.Tensor | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The gradients."""
        trajectory = settings.trajectory
        with _stream(settings.simulator):
            gradients = trajectory.gradients(
                _of_stored(settings, q_grad, trajectory.q),
                _of_stored(settings, qd_grad, trajectory.qd),
                wanted,
                contact_force_grad=_of_reading(force_grad, trajectory.contact_force),
                solved_grad=_of_reading(solved_grad, trajectory.solved),
                act_grad=None if trajectory.act is None else _of_stored(settings, act_grad, trajectory.act),
                leave_out_bad_worlds=settings.leave_out_bad_worlds,
            )
        found = (gradients.q, gradients.qd, gradients.act, gradients.tau, gradients.control)
        bars = [bar for bar in found if bar is not None]
        like = dict(zip(settings.names, values, strict=False))
        parameters = [_shaped_as(like[name], gradients.parameters[name]) for name in wanted]
        return *(as_tensor(bar) for bar in bars), *parameters

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Nothing to keep."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        """Raises."""
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raises."""
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *arguments: Any) -> tuple:
        """One way back after the other, for a batch of derivatives in the states."""
        dims = in_dims[2:7]
        settings, wanted, *seeds = arguments[:7]
        if any(dim is not None for dim in in_dims[7:]):
            raise RuntimeError(NO_VMAP)
        found = []
        for number in range(info.batch_size):
            each = [x if dim is None else x.select(dim, number) for x, dim in zip(seeds, dims, strict=True)]
            found.append(RolloutGradient.apply(settings, wanted, *each, *arguments[7:]))
        results = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
        return results, (0,) * len(results)


def record(settings: Settings, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """``RecordedRollout.apply`` without the time in which it looks for default arguments, unless torch.func is at work.

    Args:
        settings: what there is beside tensors.
        inputs: q, qd, act, tau, control, and values of parameters.
    """
    if torch._C._are_functorch_transforms_active():
        return RecordedRollout.apply(settings, *inputs)
    return super(torch.autograd.Function, RecordedRollout).apply(settings, *inputs)


def _gradients(
    settings: Settings, inputs: Iterable[torch.Tensor | None], values: Sequence[torch.Tensor]
) -> frozenset[str] | None:
    """The parameters that a way back is needed for, None where there is none."""
    names = frozenset(name for name, value in zip(settings.names, values, strict=True) if value.requires_grad)
    return names if names or any(x is not None and x.requires_grad for x in inputs) else None


def _is_differentiated() -> bool:
    return torch.is_grad_enabled() or torch._C._are_functorch_transforms_active()


def _returned(settings: Settings, states: wp.array) -> torch.Tensor:
    """The states that the caller gets: all that are stored, or copies of some."""
    every = as_tensor(states)
    some = every[settings.returned]
    return every if some.shape == every.shape else some.clone()


def _further(settings: Settings, trajectory: Trajectory, like: torch.Tensor) -> list[torch.Tensor]:
    """States of actuators and contact forces of a trajectory, empty where there are none, and what else is kept."""
    act, force = trajectory.act, trajectory.contact_force
    return [
        like.new_empty(0) if act is None else _returned(settings, act),
        like.new_empty(0) if force is None else as_tensor(force),
        *([] if trajectory.solved is None else [as_tensor(trajectory.solved)]),
    ]


def _of_reading(grad: torch.Tensor | None, reading: wp.array | None) -> wp.array | None:
    """The gradient in what is read of every step, None where nothing is."""
    return None if grad is None or reading is None else _warp(grad)


def _of_stored(settings: Settings, grad: torch.Tensor | None, states: wp.array) -> wp.array | None:
    """The gradient in the stored states, or in the last one, from that in the states that were returned."""
    if grad is None:
        return None
    rows = range(states.shape[0])
    if rows[settings.returned] == rows:
        return _warp(grad)
    if rows[settings.returned] == rows[-1:]:
        return _warp(grad[0])
    every = grad.new_zeros(states.shape)
    every[settings.returned] = grad
    return _warp(every)


def _warp(tensor: torch.Tensor) -> wp.array:
    """A Warp array over the memory of a tensor, or of a copy where it isn't contiguous; it keeps that memory."""
    tensor = tensor.detach().contiguous()
    array = as_array(tensor, SCALARS[tensor.dtype])
    array._tensor = tensor  # type: ignore[attr-defined]
    return array


def _warp_or_none(tensor: torch.Tensor | None) -> wp.array | None:
    return None if tensor is None else _warp(tensor)


def _stream(simulator: Simulator) -> contextlib.AbstractContextManager[object]:
    if simulator.device.is_cpu:
        return contextlib.nullcontext()
    return on_torch_stream(torch.device(wp.device_to_torch(simulator.device)))


def _parameters(settings: Settings, values: tuple[torch.Tensor, ...]) -> contextlib.AbstractContextManager[None]:
    simulator = settings.simulator
    if not values:
        return contextlib.nullcontext()
    given = {name: _given(simulator, value) for name, value in zip(settings.names, values, strict=True)}
    return simulator.with_parameters(given)


def _given(simulator: Simulator, value: torch.Tensor) -> "np.ndarray | wp.array":
    """A parameter's value for the simulator, on the host where it looks at it there."""
    value = value.detach()
    if simulator.keeps_on_device and value.device == torch.device(wp.device_to_torch(simulator.device)):
        return _warp(value.to(TORCH_DTYPES[simulator.model.dtype]))
    return value.cpu().numpy()


def _shaped_as(like: torch.Tensor, gradient: "np.ndarray | wp.array") -> torch.Tensor:
    """The gradient of a parameter as a tensor that is one of a value."""
    found = as_tensor(gradient) if isinstance(gradient, wp.array) else torch.as_tensor(gradient)
    return found.to(dtype=like.dtype, device=like.device).reshape(like.shape)
