"""Clipping of the gradient that is propagated from one step to the previous step."""

from typing import Any

import torch

from sim.errors import ModelError
from sim.model.checks import number
from sim.torch.arrays import require_dense


def clip_adjoint(
    q: torch.Tensor, qd: torch.Tensor, limit: float, act: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """Return a state unchanged, and scale its gradient down to a maximum norm in the backward pass, per world.

    Contacts multiply gradients from step to step, until a few worlds dominate a loss over a batch. Put this between
    steps to bound the gradient that each world propagates to earlier steps. It biases the gradient of everything before
    it. Norms are those of the loss that is differentiated: of a sum over worlds, not of a mean.

    Args:
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        limit: largest norm of a world's gradient in q, qd and act, taken together.
        act: states of actuators that have one [num_worlds, na]; returned as a third result.

    Raises:
        ModelError: if the limit isn't positive or a tensor isn't two-dimensional.

    Example:
        >>> import torch
        >>> import sim
        >>> q, qd = torch.ones(1, 2, requires_grad=True), torch.ones(1, 2, requires_grad=True)
        >>> q1, qd1 = sim.torch.clip_adjoint(q, qd, 1.0)
        >>> (30 * q1).sum().backward()
        >>> q.grad.norm().item() < 1.001
        True
    """
    if not number("clip_adjoint", "limit", limit) > 0.0:
        raise ModelError(f"clip_adjoint: limit is {limit!r}; it must be positive")
    for name, value in (("q", q), ("qd", qd), ("act", act)):
        if name == "act" and value is None:
            continue
        require_dense(f"clip_adjoint: {name}", value, 2)
        if value is None or value.dim() != 2:
            raise ModelError(
                f"clip_adjoint: {name} has shape {tuple(getattr(value, 'shape', ()))}; expected [num_worlds, n]"
            )
    return _ClipAdjoint.apply(limit, q, qd) if act is None else _ClipAdjoint.apply(limit, q, qd, act)


class _ClipAdjoint(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(limit: float, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(each.view_as(each) for each in state)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        ctx.limit = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        # Double precision: squares in single precision soon overflow.
        norm = torch.linalg.vector_norm(torch.cat(grads, dim=1), dim=1, keepdim=True, dtype=torch.float64)
        longer = norm > ctx.limit
        # Two torch.where: the branch that isn't chosen must not divide by zero, or its derivative is NaN.
        scale = torch.where(longer, ctx.limit / torch.where(longer, norm, 1.0), 1.0)
        return None, *((grad * scale).to(grad.dtype) for grad in grads)
