"""A rollout as an operation of PyTorch's autograd.

It keeps only its inputs and states; the backward pass recomputes each step, see :mod:`sim.simulation.engine.recording`.
The gradient is an operation of its own, so that ``torch.func.jacrev`` can batch it and a second derivative reaches a
node that raises.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.host_memory import AnyArray, as_warp
from sim.simulation.engine.first_state import first_impulses
from sim.simulation.engine.recording import LossGradient, Recording
from sim.simulation.engine.rollout import run_steps
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES, as_rows, as_tensor, keeps_graph, on_torch_stream, torch_device
from sim.torch.modes import require_no_recording
from warp_kernels.rollout.records import Records, StateArrays

NO_SECOND = (
    "a rollout has first derivatives only (no create_graph=True, torch.autograd.functional.jvp, hvp or hessian); use "
    "reverse mode once, and finite differences of gradients beyond that"
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
    """Settings of a rollout other than tensors, and state for its backward pass.

    Attributes:
        simulator: the simulator.
        names: names of the given parameters.
        steps: number of steps, or None if an input determines it.
        checkpoint_interval: interval of the stored states.
        leave_out_bad_worlds: True to give bad worlds a zero gradient.
        returned: indices of the stored states that are returned; None for the last one, without the dimension of steps.
        keeps_solved: True to keep a trajectory's ``solved``, see :func:`run_steps`.
        keep_bytes: memory for kept steps [bytes].
        recording: the rollout, with all its states and with the values of all parameters; freed by the backward pass
            unless the graph is retained.
    """

    simulator: Simulator
    names: tuple[str, ...]
    steps: int | None
    checkpoint_interval: int
    leave_out_bad_worlds: bool
    returned: slice | None
    keeps_solved: bool = False
    keep_bytes: int = 0
    recording: Recording = field(init=False)


class RecordedRollout(torch.autograd.Function):
    """``apply(settings, q, qd, act, tau, control, kinematic_qd, active, q_low, broken, *values of parameters)``.

    ``active``, ``q_low`` and ``broken`` have no gradient. It returns the requested states q, qd and act (empty
    without), the contact forces of all steps (empty without sensors), the velocities that the constraint law found if
    they are kept, then impulses if any.
    """

    @staticmethod
    @serialized
    def forward(
        settings: Settings,
        q: torch.Tensor,
        qd: torch.Tensor,
        act: torch.Tensor | None,
        tau: torch.Tensor | None,
        control: torch.Tensor | None,
        kinematic_qd: torch.Tensor | None,
        active: torch.Tensor | None,
        q_low: torch.Tensor | None,
        broken: torch.Tensor | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Return the value."""
        simulator = settings.simulator
        with _stream(simulator), _parameters(settings, values):
            # PyTorch itself detects changes of tensors that the backward pass needs.
            further = {"act": act, "q_low": q_low, "broken": broken}
            first: StateArrays[AnyArray] = StateArrays(
                as_rows(q), as_rows(qd), **{name: _rows_or_none(value) for name, value in further.items()}
            )
            impulses = first_impulses(simulator.engine, None)
            if impulses is not None:
                first.impulse, first.key = impulses.value, impulses.key
            gradients = _gradients(settings, (q, qd, act, tau, control, kinematic_qd), values)
            recording = run_steps(
                simulator.engine,
                first,
                _rows_or_none(tau),
                _rows_or_none(control),
                settings.steps,
                settings.checkpoint_interval,
                gradients,
                settings.keeps_solved,
                _rows_or_none(kinematic_qd),
                _rows_or_none(active),
                settings.keep_bytes if gradients is not None else 0,
            )
            settings.recording = recording
            return _outputs(settings, recording.records)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, ...]) -> None:
        """Save what the gradient needs, including the states, so that PyTorch detects a change of them."""
        ctx.settings, _, _, _, tau, control, kinematic_qd, active, _, _, *values = inputs
        ctx.mark_non_differentiable(*output[4 + ctx.settings.keeps_solved :])
        ctx.save_for_backward(active, tau, control, kinematic_qd, *values, *output)

    @staticmethod
    def backward(
        ctx: Any,
        q_grad: torch.Tensor | None,
        qd_grad: torch.Tensor | None,
        act_grad: torch.Tensor | None,
        force_grad: torch.Tensor | None,
        *further: Any,
    ) -> tuple:
        """Return the gradient of a loss from its gradient in the states and in the readings of the steps."""
        settings: Settings = ctx.settings
        grads = (q_grad, qd_grad, act_grad, force_grad, further[0] if settings.keeps_solved else None)
        if any(x is not None and torch._C._functorch.is_legacy_batchedtensor(x) for x in grads):
            raise RuntimeError(NO_BATCHED_GRADIENTS)
        _, *inputs = ctx.saved_tensors
        tau, control, kinematic_qd, *_ = inputs
        needed = ctx.needs_input_grad[1:]
        wanted = tuple(name for name, need in zip(settings.names, needed[9:], strict=True) if need)
        # An operation of autograd only if a derivative of it may be requested.
        gradient = RolloutGradient.apply if _is_differentiated() else RolloutGradient.forward
        found = iter(gradient(settings, wanted, *grads, *inputs))
        if not keeps_graph():
            # Freed like PyTorch's saved tensors, and before PyTorch raises at a second call.
            del settings.recording
        has_states = bool(settings.simulator.model.na)
        driven = (x is not None for x in (tau, control, kinematic_qd))
        given = (True, True, has_states, *driven, False, False, False, *needed[9:])
        return None, *(next(found) if there else None for there in given)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raise an error: forward mode is not supported."""
        raise RuntimeError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(*_: Any) -> None:
        """Raise an error: worlds are the batch."""
        raise RuntimeError(NO_VMAP)


class RolloutGradient(torch.autograd.Function):
    """``apply(settings, wanted, *grads, tau, control, kinematic_qd, *parameters, *outputs)``.

    ``grads`` are those of q, qd, act, forces and solved. It returns the gradients in the first q, qd and act, in the
    inputs of steps that are given, and in the parameters that are wanted. Inputs and outputs of the rollout are among
    the arguments so that a second derivative reaches them.
    """

    @staticmethod
    @serialized
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
        kinematic_qd: torch.Tensor | None,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Return the gradients."""
        recording = settings.recording
        records = recording.records
        with _stream(settings.simulator):
            last_q, every_q = _of_states(settings, q_grad, records.q)
            last_qd, every_qd = _of_states(settings, qd_grad, records.qd)
            loss = LossGradient(
                last_q,
                last_qd,
                q=every_q,
                qd=every_qd,
                act=_of_acts(settings, act_grad, records.act),
                contact_force=_of_reading(force_grad, records.contact_force),
                solved=_of_reading(solved_grad, records.solved),
            )
            found = recording.gradients(loss, frozenset(wanted), settings.leave_out_bad_worlds)
        bars = (found.q, found.qd, found.act, found.tau, found.control, found.kinematic_qd)
        like = dict(zip(settings.names, values, strict=False))
        parameters = [_shaped_as(like[name], found.parameters[name]) for name in wanted]
        return *(as_tensor(bar) for bar in bars if bar is not None), *parameters

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Save nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        """Raise an error: there is no second derivative."""
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raise an error: forward mode is not supported."""
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *arguments: Any) -> tuple:
        """Run one backward pass after the other, for a batch of gradients in the states."""
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
    """Call ``RecordedRollout.apply`` without its lookup of default arguments, unless torch.func is active.

    Args:
        settings: everything but tensors.
        inputs: q, qd, act, tau, control, kinematic_qd, active, q_low, broken, and values of parameters.
    """
    require_no_recording("a rollout")
    if torch._C._are_functorch_transforms_active():
        return RecordedRollout.apply(settings, *inputs)
    return super(torch.autograd.Function, RecordedRollout).apply(settings, *inputs)


def _gradients(
    settings: Settings, inputs: Iterable[torch.Tensor | None], values: Sequence[torch.Tensor]
) -> frozenset[str] | None:
    """Return the parameters that need a gradient, None for the others."""
    names = frozenset(name for name, value in zip(settings.names, values, strict=True) if value.requires_grad)
    return names if names or any(x is not None and x.requires_grad for x in inputs) else None


def _is_differentiated() -> bool:
    return torch.is_grad_enabled() or torch._C._are_functorch_transforms_active()


def _outputs(settings: Settings, records: Records[AnyArray]) -> tuple[torch.Tensor, ...]:
    """Return the outputs of :class:`RecordedRollout` for a recording."""
    q, qd = _returned(settings, records.q), _returned(settings, records.qd)
    act, force = records.act, records.contact_force
    further = [records.solved, records.impulse, records.key]
    return (
        q,
        qd,
        q.new_empty(0) if act is None else _returned(settings, act),
        q.new_empty(0) if force is None else as_tensor(force),
        *(as_tensor(rows) for rows in further if rows is not None),
    )


def _returned(settings: Settings, rows: AnyArray) -> torch.Tensor:
    """Return the states for the caller: all stored ones, or copies of some."""
    every = as_tensor(rows)
    if settings.returned is None:
        return every[-1].clone()
    some = every[settings.returned]
    return every if some.shape == every.shape else some.clone()


def broken_states(settings: Settings) -> torch.Tensor | None:
    """Return a copy of the requested ``broken`` of a rollout, None if no constraint breaks."""
    rows = settings.recording.records.broken
    return None if rows is None else as_tensor(rows)[-1 if settings.returned is None else settings.returned].clone()


def last_low_words(settings: Settings) -> torch.Tensor | None:
    """Return a copy of the low words of the last state of a rollout, None without."""
    rows = settings.recording.records.q_low
    return None if rows is None else as_tensor(rows)[-1].clone()


def _of_reading(grad: torch.Tensor | None, reading: AnyArray | None) -> AnyArray | None:
    """Return the gradient in the readings of all steps, None if there is none."""
    return None if grad is None or reading is None else as_rows(grad)


def _of_states(
    settings: Settings, grad: torch.Tensor | None, states: AnyArray
) -> tuple[AnyArray | None, AnyArray | None]:
    """Return the gradient in the last state or in all stored states, from the gradient in the returned ones."""
    if grad is None:
        return None, None
    if settings.returned is None:
        return as_rows(grad), None
    return None, as_rows(_of_all(settings.returned, grad, states))


def _of_acts(settings: Settings, grad: torch.Tensor | None, acts: AnyArray | None) -> AnyArray | None:
    """Return the gradient in all stored activations, from the gradient in the returned ones."""
    if grad is None or acts is None:
        return None
    returned, grad = (slice(-1, None), grad[None]) if settings.returned is None else (settings.returned, grad)
    return as_rows(_of_all(returned, grad, acts))


def _of_all(returned: slice, grad: torch.Tensor, states: AnyArray) -> torch.Tensor:
    """Return the gradient in all stored states, from the gradient in some."""
    if grad.shape == tuple(states.shape):
        return grad
    every = grad.new_zeros(tuple(states.shape))
    every[returned] = grad
    return every


def _rows_or_none(tensor: torch.Tensor | None) -> AnyArray | None:
    return None if tensor is None else as_rows(tensor)


def _stream(simulator: Simulator) -> contextlib.AbstractContextManager[object]:
    if simulator.device.is_cpu:
        return contextlib.nullcontext()
    return on_torch_stream(torch_device(simulator.device))


def _parameters(settings: Settings, values: tuple[torch.Tensor, ...]) -> contextlib.AbstractContextManager[None]:
    simulator = settings.simulator
    if not values:
        return contextlib.nullcontext()
    given = {name: _given(simulator, value) for name, value in zip(settings.names, values, strict=True)}
    return simulator.parameters.using(given)


def _given(simulator: Simulator, value: torch.Tensor) -> "np.ndarray | wp.array":
    """Return a parameter's value for the simulator, on the host if the simulator reads it there."""
    value = value.detach().resolve_neg()
    if simulator.engine.settings.keeps_on_device and value.device == torch_device(simulator.device):
        return as_warp(as_rows(value.to(TORCH_DTYPES[simulator.model.dtype])))
    return value.cpu().numpy()


def _shaped_as(like: torch.Tensor, gradient: "np.ndarray | wp.array") -> torch.Tensor:
    """Return the gradient of a parameter as a tensor shaped like a value."""
    found = as_tensor(gradient) if isinstance(gradient, wp.array) else torch.from_numpy(np.asarray(gradient))
    return found.to(dtype=like.dtype, device=like.device).reshape(like.shape)
