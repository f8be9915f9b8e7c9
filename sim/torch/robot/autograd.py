"""Operations of a robot model as functions of PyTorch's autograd and of torch.func; see docs/robot-calls.md.

The gradient is an operation of its own, so that ``torch.func.jacrev`` can batch it and a second derivative reaches a
node that raises. Both fold the dimension over which ``torch.func.vmap`` maps into the rows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from sim.dynamics.differentiable_op import DifferentiableOp
from sim.model.parameters import number_of_dims
from sim.torch.arrays import keeps_graph
from sim.torch.modes import require_no_recording
from sim.torch.runtime.call_signature import CallSignature, separate_parts, whole_gradient
from sim.torch.runtime.engine import Engine
from sim.torch.runtime.tensors import unpack

NO_SECOND = (
    "a robot's functions have first derivatives only, not derivatives of gradients; remove create_graph if you don't "
    "need them"
)
NO_FORWARD_MODE = (
    "a robot's functions have no forward-mode derivatives (torch.func.jvp, jacfwd); use reverse mode (vjp, jacrev)"
)
NO_BATCHED_GRADIENTS = (
    "a robot's functions can't take a batch of gradients from torch.autograd.grad(..., is_grads_batched=True) or "
    "torch.autograd.functional.jacobian(..., vectorize=True); use torch.func.jacrev, or vmap of torch.func.vjp"
)


def evaluate(engine: Engine, signature: CallSignature, tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Return the parts of a call's result, with gradients if any are requested.

    Args:
        engine: runs the operation.
        signature: the call's signature.
        tensors: inputs, then the parameters that the operation reads.
    """
    require_no_recording("a robot's call")
    tensors = signature.broadcast(tensors)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        if signature.leaves:
            # Copies, so that later changes of the caller's tensors don't affect the gradient.
            tensors = [tensor.clone() for tensor in tensors]
        result = Evaluate.apply(engine, signature.operation, *signature.flat(tensors))
        return separate_parts(result.reshape(signature.shape), signature.split)
    if signature.leaves:
        leaves = [tensors[number] for number in signature.leaves]
        parts: tuple[torch.Tensor, ...] = Recorded.apply(engine, signature, tensors, *leaves)
        return parts
    # Without gradients, autograd's overhead would exceed the kernels of a small batch.
    return engine.value(signature, tensors)


class Recorded(torch.autograd.Function):
    """``apply(engine, signature, tensors, *leaves)``: the parts of a call's result; tensors are broadcast to the batch.

    For gradients without transforms of torch.func, with the least overhead in torch: only ``leaves``, the tensors that
    get a gradient, are arguments of the function, and all values that the gradient needs are kept as one packed copy.

    The leaves themselves are kept only so that a derivative of the gradient reaches them and raises. torch
    can't save them, since it would then refuse changes in place before the gradient, and weak references would be dead
    if nobody else held them. A leaf changed in place, ``q += robot.f(q)``, depends on the node that keeps it, a cycle
    that Python's garbage collector can't see; so the leaves are freed with everything that torch frees after the
    backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, engine: Engine, signature: CallSignature, tensors: list[torch.Tensor], *leaves: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the value."""
        *parts, packed = engine.value(signature, tensors)
        ctx.engine, ctx.signature, ctx.leaves = engine, signature, leaves
        ctx.save_for_backward(packed)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple:
        """Return the gradient of a loss from its gradient in the value."""
        if any(map(torch._C._functorch.is_legacy_batchedtensor, grads)):
            raise RuntimeError(NO_BATCHED_GRADIENTS)
        (packed,) = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            found = iter(_differentiable_gradients(ctx, packed, wanted, grads))
        else:
            found = iter(ctx.engine.gradients(ctx.signature, packed, wanted, grads))
        if not keeps_graph():
            ctx.leaves = ()
        return None, None, None, *[next(found) if want else None for want in wanted]


def _differentiable_gradients(
    ctx: Any, packed: torch.Tensor, wanted_leaves: Sequence[bool], grads: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return the gradients as functions of the leaves, so that a derivative of them reaches the node that raises."""
    signature: CallSignature = ctx.signature
    always = torch.ones((), dtype=torch.bool, device=packed.device)
    tensors = unpack(packed, signature.packed_shapes)
    result = tensors.pop() if signature.operation.needs_result else None
    for number, leaf in zip(signature.leaves, ctx.leaves, strict=True):
        tensors[number] = torch.where(always, tensors[number], leaf.reshape(signature.flat_shapes[number]))
    wanted = signature.wanted(wanted_leaves)
    grad = whole_gradient(grads, signature.result_shape)
    gradients = Gradient.apply(ctx.engine, signature.operation, wanted, grad, result, *tensors)
    shapes = [shape for shape, want in zip(signature.shapes, wanted, strict=True) if want]
    return [gradient.reshape(shape) for gradient, shape in zip(gradients, shapes, strict=True)]


class Evaluate(torch.autograd.Function):
    """``apply(engine, operation, *inputs, *parameters)``: the result [rows, ...]."""

    @staticmethod
    def forward(engine: Engine, operation: DifferentiableOp, *tensors: torch.Tensor) -> torch.Tensor:
        """Return the value."""
        return engine.forward(operation, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        """Save what the gradient needs."""
        ctx.engine, ctx.operation, *tensors = inputs
        ctx.save_for_backward(output if ctx.operation.needs_result else None, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        """Return the gradient of a loss from its gradient in the value."""
        result, *tensors = ctx.saved_tensors
        wanted = tuple(ctx.needs_input_grad[2:])
        gradients = iter(Gradient.apply(ctx.engine, ctx.operation, wanted, grad, result, *tensors))
        return None, None, *(next(gradients) if want else None for want in wanted)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """Raise an error: forward mode is not supported."""
        raise RuntimeError(NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, engine: Engine, operation: DifferentiableOp, *tensors: Any) -> tuple:
        """Return the value for each entry of a batch."""
        size, dims = info.batch_size, in_dims[2:]
        count, rows = len(tensors) - len(operation.parameters), _rows(tensors[0], dims[0])
        folded = [_fold(x, d, size) for x, d in zip(tensors[:count], dims[:count], strict=True)]
        parameters = [
            _fold_parameter(name, x, d, size, rows, apart=False)
            for name, x, d in zip(operation.parameters, tensors[count:], dims[count:], strict=True)
        ]
        result = Evaluate.apply(engine, operation, *folded, *parameters)
        return result.unflatten(0, (size, rows)), 0


class Gradient(torch.autograd.Function):
    """``apply(engine, operation, wanted, gradient, result, *inputs, *parameters)``.

    The requested gradients of inputs and parameters, from the gradient of the result; the result is None if it isn't
    needed.
    """

    @staticmethod
    def forward(
        engine: Engine,
        operation: DifferentiableOp,
        wanted: tuple[bool, ...],
        grad: torch.Tensor,
        result: torch.Tensor | None,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Return the gradients."""
        given = tensors if result is None else [*tensors, result]
        return tuple(engine.backward(operation, given, wanted, grad))

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
    def vmap(
        info: Any,
        in_dims: tuple,
        engine: Engine,
        operation: DifferentiableOp,
        wanted: tuple[bool, ...],
        grad: torch.Tensor,
        result: torch.Tensor | None,
        *tensors: Any,
    ) -> tuple:
        """Return the gradients for each entry of a batch."""
        size, dims = info.batch_size, in_dims[5:]
        count, rows = len(tensors) - len(operation.parameters), _rows(grad, in_dims[3])
        inputs = [_fold(x, d, size) for x, d in zip(tensors[:count], dims[:count], strict=True)]
        given = list(zip(operation.parameters, tensors[count:], dims[count:], wanted[count:], strict=True))
        parameters = [_fold_parameter(name, x, d, size, rows, apart=want) for name, x, d, want in given]
        folded = [_fold(grad, in_dims[3], size), _fold(result, in_dims[4], size), *inputs, *parameters]
        gradients = list(Gradient.apply(engine, operation, wanted, *folded))
        first = sum(wanted[:count])
        results = [gradient.unflatten(0, (size, rows)) for gradient in gradients[:first]]
        for (name, x, d, _), gradient in zip([each for each in given if each[3]], gradients[first:], strict=True):
            each = gradient.unflatten(0, (size, rows))
            results.append(each.sum(1) if _is_shared(name, x, d) else each)
        return tuple(results), (0,) * len(results)


def _rows(tensor: torch.Tensor, dim: int | None) -> int:
    return tensor.shape[0] if dim is None else tensor.movedim(dim, 0).shape[1]


def _fold(tensor: torch.Tensor | None, dim: int | None, size: int) -> torch.Tensor | None:
    """Reshape [size, rows, ...] to [size * rows, ...]; the first dimension is at ``dim``, or absent."""
    if tensor is None:
        return None
    tensor = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.reshape(size * tensor.shape[1], *tensor.shape[2:])


def _is_shared(name: str, tensor: torch.Tensor, dim: int | None) -> bool:
    return tensor.dim() - (dim is not None) == number_of_dims(name)


def _fold_parameter(
    name: str, tensor: torch.Tensor, dim: int | None, size: int, rows: int, apart: bool
) -> torch.Tensor:
    """Return a parameter for all rows; a shared one stays shared, unless its gradients are to be kept ``apart``."""
    if not _is_shared(name, tensor, dim):
        folded = _fold(tensor, dim, size)
        assert folded is not None
        return folded
    if dim is None and not apart:
        return tensor
    moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return moved.unsqueeze(1).expand(size, rows, *moved.shape[1:]).reshape(size * rows, *moved.shape[1:])
