"""Several processes that train one policy: each has environments of its own, and all take the same steps.

    torchrun --nproc-per-node 2 -m examples.rl.shac Ant --minutes 10

torchrun says to each process which it is. Gradients are averaged over all of them, by Gloo on CPUs and NCCL on GPUs, and
so are the moments of observations. The first process writes the files. Without torchrun nothing of this happens.
"""

import os

import torch
import torch.distributed as distributed
from torch import nn


def join() -> int:
    """Join the processes that torchrun has started; the number of this one, 0 without torchrun."""
    if "RANK" not in os.environ:
        return 0
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return distributed.get_rank()


def average_gradients(module: nn.Module) -> None:
    """Replace the gradients of a module, the same in all processes, by their means over the processes."""
    if not distributed.is_initialized():
        return
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    whole = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(whole)
    whole /= distributed.get_world_size()
    parts = whole.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def mean_over_processes(value: float) -> float:
    """The mean of a number over the processes."""
    if not distributed.is_initialized():
        return value
    total = torch.tensor(value, dtype=torch.float64)
    distributed.all_reduce(total)
    return float(total) / distributed.get_world_size()


def of_all_processes(tensor: torch.Tensor) -> torch.Tensor:
    """Tensors of one shape from all processes, one after the other along the first dimension."""
    if not distributed.is_initialized():
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)
