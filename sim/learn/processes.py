"""Several processes that share one job: each has separate worlds, and all take the same steps.

    torchrun --nproc-per-node 2 my_training.py

torchrun gives each process its rank. On a machine with GPUs each process uses a separate one; with --device cpu the
cores are divided, and each process is bound to its own: otherwise the system migrates processes, and they wait for each
other. In training, gradients are averaged over all processes, by Gloo on CPUs and NCCL on GPUs, and the moments of
observations are those of all; in estimation, the rows are divided. The first process writes the files. Its saved
progress can be resumed with any number of processes: those that train load the networks, and begin new episodes.
Without torchrun all this is a no-op.
"""

import atexit
import functools
import os
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as distributed
import warp as wp

from sim.cores import usable_cores
from sim.errors import ModelError

Anything = TypeVar("Anything")


def join(asked: str | None = None) -> str | None:
    """Join the processes that torchrun has started; no-op without it.

    Args:
        asked: the user's ``--device``.

    Returns:
        The device of this process, which becomes Warp's and PyTorch's current one. Without torchrun it is ``asked``.

    Raises:
        ModelError: as :func:`own_device`.
    """
    if "RANK" not in os.environ:
        return asked
    device = own_device(asked)
    if device is not None and device.startswith("cuda"):
        torch.cuda.set_device(device)  # if NCCL works
        wp.set_device(device)
    elif hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own_cores())  # Linux
    if not distributed.is_initialized():
        distributed.init_process_group()
        atexit.register(_leave)
    return device


def own_device(asked: str | None) -> str | None:
    """Return the device of a process of torchrun: its own GPU, unless the user requests "cpu" or a certain GPU.

    Args:
        asked: the user's choice; "cuda", and with GPUs also None, mean the GPU of the process's rank.

    Raises:
        ModelError: if the machine has fewer GPUs than processes.
    """
    gpus, here = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if asked not in (None, "cuda") or (asked is None and gpus == 0):
        return asked
    if gpus < here:
        raise ModelError(
            f"{here} processes on a machine with {gpus} GPU{'' if gpus == 1 else 's'}: each needs its own; start "
            "fewer with --nproc-per-node, or give --device cpu"
        )
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"


def _leave() -> None:
    """Leave the process group before Python ends: otherwise its threads are killed, which aborts the process."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def number() -> int:
    """Return the rank of this process, 0 without torchrun."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def count() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def threads() -> int | None:
    """Return CPU threads of this process, one for each of its cores; None without torchrun, for all of them."""
    return len(own_cores()) if "RANK" in os.environ else None


@functools.cache  # called before and after the process is bound to them
def own_cores() -> list[int]:
    """Return the number of cores for this process, at least one, of those that the machine's processes may use."""
    cores, here = usable_cores(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    share, rank = max(len(cores) // here, 1), int(os.environ.get("LOCAL_RANK", "0"))
    first = rank * share % len(cores)
    return cores[first : first + share]


def own_seed(seed: int) -> int:
    """Return the seed of random numbers that differ between processes: of their environments and noise."""
    return seed + 100_003 * number()


def from_first(value: Anything) -> Anything:
    """Return the first process's value."""
    if not distributed.is_initialized():
        return value
    box = [value]
    distributed.broadcast_object_list(box)
    return box[0]


def own_rows(rows: int) -> slice:
    """Return the slice of the rows that this process works on, which may be empty."""
    return slice(rows * number() // count(), rows * (number() + 1) // count())


def of_all_rows(own: np.ndarray) -> np.ndarray:
    """Gather the rows of all processes."""
    if not distributed.is_initialized():
        return own
    parts: list[np.ndarray] = [own] * count()
    distributed.all_gather_object(parts, own)
    return np.concatenate(parts)


def average_gradients(parameters: Iterable[torch.Tensor]) -> None:
    """Replace the gradients of parameters, the same ones in all processes, by their means over the processes."""
    if not distributed.is_initialized():
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    whole = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(whole)
    whole /= count()
    parts = whole.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def mean_over_processes(value: float) -> float:
    """Return the mean of a number over the processes."""
    if not distributed.is_initialized():
        return value
    total = torch.tensor(value, dtype=torch.float64)
    distributed.all_reduce(total)
    return float(total) / count()


def of_all_processes(tensor: torch.Tensor) -> torch.Tensor:
    """Gather tensors of one shape from all processes, concatenated along the first dimension."""
    if not distributed.is_initialized():
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(count())]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)
