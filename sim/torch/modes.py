"""The modes of PyTorch that matter here: what it records, and in which precision it multiplies."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
KINDS = ("cpu", "cuda")  # of devices
# Modes in which tensors stand for those of later runs, so that kernels find no numbers in them.
RECORDING = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE)


@contextmanager
def with_gradients() -> Iterator[None]:
    """Record derivatives, also inside ``torch.no_grad()`` and ``torch.inference_mode()``; also a decorator.

    A search or a controller that runs in such a mode, as a robot's loop may, needs its own derivatives none the less.
    """
    with torch.inference_mode(False), torch.enable_grad(), without_autocast():
        yield


@contextmanager
def without_autocast() -> Iterator[None]:
    """Multiply in the precision of the factors, also inside ``torch.autocast``."""
    with ExitStack() as stack:
        for kind in KINDS:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def in_own_precision(function: Function) -> Function:
    """A function whose products of matrices are those of mechanics: ``torch.autocast`` is for networks around it."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(map(torch.is_autocast_enabled, KINDS)):
            return function(*args, **kwargs)
        with without_autocast():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def outside_inference(function: Function) -> Function:
    """A function whose tensors may get a history later: for it ``torch.inference_mode()`` is ``torch.no_grad()``.

    It is for what keeps tensors: an environment that begins in such a mode may be trained in after it.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def require_no_recording(what: str) -> None:
    """Raise RuntimeError where PyTorch records a program, which would have numbers of now, or none, for what kernels
    will compute.
    """
    recording = torch._C._len_torch_dispatch_stack() and any(map(torch._C._get_dispatch_mode, RECORDING))
    if recording or torch._C._is_tracing():
        raise RuntimeError(
            f"{what} can't be recorded by torch.jit.trace, torch.export or make_fx; record the network around it"
        )
