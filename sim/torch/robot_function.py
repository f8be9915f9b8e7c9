"""Operations of a robot model as operations of PyTorch's autograd and of torch.func.

The gradient is an operation of its own, so that ``torch.func.jacrev`` can batch it and a second derivative finds a node
that raises. Both fold the dimension over which ``torch.func.vmap`` maps into the rows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from sim.operation import Operation
from sim.torch.robot_engine import Engine
from sim.torch.robot_parameters import number_of_dims
from sim.torch.robot_values import Values, pack

NO_SECOND = (
    "a robot's functions have first derivatives only, and this asks for the derivative of a gradient; where none "
    "is meant, leave out create_graph"
)
NO_FORWARD_MODE = (
    "a robot's functions have no forward-mode derivatives (torch.func.jvp, jacfwd); use reverse mode (vjp, jacrev)"
)
NO_BATCHED_GRADIENTS = (
    "a robot's functions can't take a batch of gradients from torch.autograd.grad(..., is_grads_batched=True) or "
    "torch.autograd.functional.jacobian(..., vectorize=True); use torch.func.jacrev, or vmap of torch.func.vjp"
)


def evaluate(
    engine: Engine,
    operation: Operation,
    inputs: Sequence[torch.Tensor | None],
    parameters: Sequence[torch.Tensor],
    shape: tuple[int, ...],
) -> torch.Tensor:
    """The result of an operation, with its gradient where one is asked for.

    Args:
        engine: the model's arrays.
        operation: what to compute.
        inputs: tensors [rows, ...], the first one always there.
        parameters: those that the operation reads, ``[n, ...]`` or ``[rows, n, ...]``.
        shape: what the result is to have in place of [rows, *operation.shape].
    """
    tensors = [*inputs, *parameters]
    needs = [x is not None and x.requires_grad for x in tensors] if torch.is_grad_enabled() else []
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        if any(needs):
            # Copies, so that what becomes of the caller's tensors doesn't matter to the gradient.
            tensors = [None if x is None else x.clone() for x in tensors]
        return Evaluate.apply(engine, operation, len(inputs), *tensors).reshape(shape)
    values = Values(tensors, len(inputs))
    if any(needs):
        leaves = [x for x, need in zip(tensors, needs, strict=True) if need]
        return Recorded.apply(engine, operation, values, shape, needs, *leaves)
    # What torch needs to find no gradient takes longer than the kernels of a small batch.
    return engine.forward(operation, values, shape)[0]


class Recorded(torch.autograd.Function):
    """``apply(engine, operation, values, shape, needs, *leaves)``: the result in the shape given.

    The way to a gradient without transforms of torch.func, where torch's overhead is least: only what gets a gradient
    is an argument of its own, and what the gradient needs is kept as one copy of all values. ``leaves`` are those of
    the values that ``needs`` marks.
    """

    @staticmethod
    def forward(
        ctx: Any,
        engine: Engine,
        operation: Operation,
        values: Values,
        shape: tuple[int, ...],
        needs: list[bool],
        *leaves: torch.Tensor,
    ) -> torch.Tensor:
        """The value."""
        result, kept = engine.forward(operation, values, shape, keep=True)
        assert kept is not None
        ctx.shape, ctx.shapes = torch.Size((values.rows, *operation.shape)), values.shapes
        if operation.needs_result:
            kept, ctx.shapes = pack([kept, result]), [*values.shapes, ctx.shape]
        ctx.engine, ctx.operation, ctx.inputs, ctx.needs, ctx.leaves = engine, operation, values.inputs, needs, leaves
        ctx.save_for_backward(kept)
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        """The gradient of a loss from that in the value."""
        if torch._C._functorch.is_legacy_batchedtensor(grad):
            raise RuntimeError(NO_BATCHED_GRADIENTS)
        (flat,) = ctx.saved_tensors
        values = Values.from_flat(flat, ctx.shapes, ctx.inputs)
        grad = grad if grad.shape == ctx.shape else grad.reshape(ctx.shape)
        wanted = iter(ctx.needs_input_grad[5:])
        needs = [need and next(wanted) for need in ctx.needs]
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            gradients = Gradient.apply(ctx.engine, ctx.operation, ctx.inputs, tuple(needs), grad, *_linked(ctx, values))
        else:
            gradients = ctx.engine.backward(ctx.operation, values, needs, grad)
        found = iter(gradients)
        return None, None, None, None, None, *(next(found) if need else None for need in ctx.needs_input_grad[5:])


def _linked(ctx: Any, values: Values) -> list[torch.Tensor | None]:
    """The result, if it is needed, then the values, hung on the leaves that they are copies of.

    A derivative of the gradient then finds the node that raises.
    """
    tensors = list(values.tensors())
    result = tensors.pop() if ctx.operation.needs_result else None
    leaves = iter(ctx.leaves)
    always = torch.ones((), dtype=torch.bool, device=values.like.device)
    pairs = zip(tensors, ctx.needs, strict=True)
    return [result, *(torch.where(always, x, next(leaves)) if x is not None and need else x for x, need in pairs)]


class Evaluate(torch.autograd.Function):
    """``apply(engine, operation, number of inputs, *inputs, *parameters)``: the result [rows, ...]."""

    @staticmethod
    def forward(engine: Engine, operation: Operation, count: int, *tensors: torch.Tensor) -> torch.Tensor:
        """The value."""
        return engine.forward(operation, Values(tensors, count))[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        """Keep what the gradient needs."""
        ctx.engine, ctx.operation, ctx.count, *tensors = inputs
        ctx.save_for_backward(output if ctx.operation.needs_result else None, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        """The gradient of a loss from that in the value."""
        result, *tensors = ctx.saved_tensors
        needs = tuple(ctx.needs_input_grad[3:])
        gradients = iter(Gradient.apply(ctx.engine, ctx.operation, ctx.count, needs, grad, result, *tensors))
        return None, None, None, *(next(gradients) if need else None for need in needs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raises."""
        raise RuntimeError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, engine: Engine, operation: Operation, count: int, *tensors: Any) -> tuple:
        """The value for each of a batch."""
        size, dims = info.batch_size, in_dims[3:]
        rows = _rows(tensors[0], dims[0])
        folded = [_fold(x, d, size) for x, d in zip(tensors[:count], dims[:count], strict=True)]
        parameters = [
            _fold_parameter(name, x, d, size, rows, apart=False)
            for name, x, d in zip(operation.parameters, tensors[count:], dims[count:], strict=True)
        ]
        result = Evaluate.apply(engine, operation, count, *folded, *parameters)
        return result.unflatten(0, (size, rows)), 0


class Gradient(torch.autograd.Function):
    """``apply(engine, operation, number of inputs, needs, gradient, result, *inputs, *parameters)``.

    The gradients that ``needs`` marks, from that of the result; the result itself is None where it isn't needed.
    """

    @staticmethod
    def forward(
        engine: Engine,
        operation: Operation,
        count: int,
        needs: tuple[bool, ...],
        grad: torch.Tensor,
        result: torch.Tensor | None,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The gradients."""
        values = Values([*tensors, result] if operation.needs_result else tensors, count)
        return tuple(engine.backward(operation, values, needs, grad))

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
    def vmap(
        info: Any,
        in_dims: tuple,
        engine: Engine,
        operation: Operation,
        count: int,
        needs: tuple[bool, ...],
        grad: torch.Tensor,
        result: torch.Tensor | None,
        *tensors: Any,
    ) -> tuple:
        """The gradients for each of a batch."""
        size, dims = info.batch_size, in_dims[6:]
        rows = _rows(grad, in_dims[4])
        inputs = [_fold(x, d, size) for x, d in zip(tensors[:count], dims[:count], strict=True)]
        given = list(zip(operation.parameters, tensors[count:], dims[count:], needs[count:], strict=True))
        parameters = [_fold_parameter(name, x, d, size, rows, apart=need) for name, x, d, need in given]
        folded = [_fold(grad, in_dims[4], size), _fold(result, in_dims[5], size), *inputs, *parameters]
        gradients = list(Gradient.apply(engine, operation, count, needs, *folded))
        first = sum(needs[:count])
        results = [gradient.unflatten(0, (size, rows)) for gradient in gradients[:first]]
        for (name, x, d, _), gradient in zip([each for each in given if each[3]], gradients[first:], strict=True):
            each = gradient.unflatten(0, (size, rows))
            results.append(each.sum(1) if _is_shared(name, x, d) else each)
        return tuple(results), (0,) * len(results)


def _rows(tensor: torch.Tensor, dim: int | None) -> int:
    return tensor.shape[0] if dim is None else tensor.movedim(dim, 0).shape[1]


def _fold(tensor: torch.Tensor | None, dim: int | None, size: int) -> torch.Tensor | None:
    """[size, rows, ...] as [size * rows, ...], the first dimension at ``dim`` or not there."""
    if tensor is None:
        return None
    tensor = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(size * tensor.shape[1], *tensor.shape[2:])


def _is_shared(name: str, tensor: torch.Tensor, dim: int | None) -> bool:
    return tensor.dim() - (dim is not None) == number_of_dims(name)


def _fold_parameter(
    name: str, tensor: torch.Tensor, dim: int | None, size: int, rows: int, apart: bool
) -> torch.Tensor:
    """A parameter for all rows. One that all share stays so, unless its gradients are to be kept ``apart``."""
    if not _is_shared(name, tensor, dim):
        folded = _fold(tensor, dim, size)
        assert folded is not None
        return folded
    if dim is None and not apart:
        return tensor
    moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return moved.unsqueeze(1).expand(size, rows, *moved.shape[1:]).reshape(size * rows, *moved.shape[1:])
