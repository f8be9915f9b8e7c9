"""Tensors and Warp arrays over the same memory, and the stream on which both work."""

import contextlib
import functools
from typing import Any

import numpy as np
import torch
import warp as wp

from sim.arrays.device_model import the_cpu
from sim.arrays.graphs import CAPTURED
from sim.arrays.host_memory import AnyArray, HostArray
from sim.arrays.kernels import start_warp
from sim.errors import ModelError

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
SCALARS = {torch.float32: wp.float32, torch.float64: wp.float64}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
# True while a backward pass keeps its buffers for another one (retain_graph).
keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph


def as_array(tensor: torch.Tensor, dtype: Any, grad: wp.array | None = None) -> wp.array:
    """Return a Warp array over the memory of a contiguous tensor, which the caller keeps alive.

    Args:
        tensor: entries of a vector or matrix type are its last dimensions.
        dtype: scalar, vector or matrix type of the entries.
        grad: the array's gradient.
    """
    assert tensor.is_contiguous()
    inner = len(getattr(dtype, "_shape_", ()))
    shape = tuple(tensor.shape[: tensor.dim() - inner])
    return wp.array(
        ptr=tensor.data_ptr() or None, dtype=dtype, shape=shape, device=warp_device(tensor.device), copy=False,
        grad=grad,
    )  # fmt: skip


def as_rows(tensor: torch.Tensor) -> AnyArray:
    """Return an array over the memory of a tensor, or of a contiguous copy; it keeps that memory alive."""
    tensor = tensor.detach().contiguous().resolve_neg()
    scalar = SCALARS[tensor.dtype]
    if tensor.is_cpu:
        return HostArray(tensor.data_ptr(), tensor.shape, scalar, tensor)
    array = as_array(tensor, scalar)
    array._tensor = tensor  # type: ignore[attr-defined]
    return array


def as_tensor(array: AnyArray) -> torch.Tensor:
    """Return a tensor over the memory of an array, which it keeps alive; ``wp.to_torch`` takes twice as long on a
    CPU.
    """
    if isinstance(array, HostArray):
        return torch.from_numpy(array.memory)
    return torch.from_numpy(np.asarray(array)) if the_cpu() == array.device else wp.to_torch(array)


def warp_device(device: torch.device) -> wp.Device:
    """Return the Warp device of a torch device. Raises ModelError for one that Warp doesn't have."""
    if device.type == "cpu":
        return the_cpu()
    start_warp()
    try:
        return wp.device_from_torch(device)
    except (RuntimeError, ValueError):
        raise ModelError(f"device '{device}' is not supported; it must be a CPU or a CUDA device") from None


def known_device(name: str, device: object) -> torch.device:
    """Return the torch device that an argument names. Raises ModelError, naming it, for one that Warp doesn't have."""
    try:
        found = device if isinstance(device, torch.device) else torch.device(str(device))
    except RuntimeError:
        raise ModelError(f"{name}: device is {device!r:.80}; it must be such as 'cpu' or 'cuda:0'") from None
    return torch_device(warp_device(found))


def torch_device(device: wp.Device) -> torch.device:
    """Return the torch device of a Warp device."""
    return _torch_device(device.alias)


@functools.cache
def _torch_device(alias: str) -> torch.device:
    return torch.device(wp.device_to_torch(alias))


def on_torch_stream(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Make Warp work on torch's current CUDA stream in this context; Warp's own stream then waits for that work.

    Arrays are read and freed on Warp's stream after the context, and may be used on another stream of torch's. The
    default stream is the only one of torch's that is waited for automatically.

    Raises:
        ModelError: while torch captures a graph.
    """
    if device.type == "cpu":
        return contextlib.nullcontext()
    if torch.cuda.is_current_stream_capturing():
        raise ModelError(CAPTURED)
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device)), sync_exit=True)


def stream_key(device: torch.device) -> int:
    """Return a number that identifies torch's current stream among those of its device."""
    return 0 if device.type == "cpu" else int(torch.cuda.current_stream(device).cuda_stream)


def require_dense(name: str, value: object, dimensions: int = 0) -> None:
    """Raise ModelError, naming it, unless an argument is a tensor with its numbers in memory.

    Args:
        name: name of the argument in messages.
        value: the argument.
        dimensions: minimum number of dimensions.
    """
    if not isinstance(value, torch.Tensor):
        raise ModelError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")
    if value.is_nested or value.layout != torch.strided or value.is_quantized or value.is_meta:
        kind = "nested" if value.is_nested else "quantized" if value.is_quantized else "on the device meta"
        kind = kind if value.layout == torch.strided else f"sparse ({value.layout})"
        raise ModelError(f"{name} is {kind}; give a dense tensor, such as that of to_dense()")
    if value.dim() < dimensions:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected at least {dimensions} dimensions")


def require_tensor(name: str, value: object, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> None:
    """Raise ModelError, naming it, for anything but a tensor of this shape; a broadcast tensor would be wrong."""
    require_dense(name, value)
    assert isinstance(value, torch.Tensor)
    if value.shape != shape:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
    if dtype is not None and value.dtype != dtype:
        raise ModelError(f"{name} is of {value.dtype}; expected {dtype}")
