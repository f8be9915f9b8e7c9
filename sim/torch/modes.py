"""PyTorch modes that affect calls: recording of gradients, precision of products, compilation."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
KINDS = ("cpu", "cuda")  # of devices
# Modes in which tensors are placeholders for later runs, without values that kernels could read.
RECORDING = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE)


@contextmanager
def with_gradients() -> Iterator[None]:
    """Record derivatives, also inside ``torch.no_grad()`` and ``torch.inference_mode()``; also a decorator.

    A search or a controller may run in such a mode, as a robot's loop does, and still needs derivatives internally.
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
    """Wrap a function so that its matrix products ignore ``torch.autocast``, which is meant for the networks around
    it.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(map(torch.is_autocast_enabled, KINDS)):
            return function(*args, **kwargs)
        with without_autocast():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def outside_inference(function: Function) -> Function:
    """Wrap a function so that ``torch.inference_mode()`` acts as ``torch.no_grad()`` in it: its tensors may get a
    history later.

    It is for objects that keep tensors: an environment that is made in such a mode may be trained in afterwards.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def require_no_recording(what: str) -> None:
    """Raise RuntimeError while PyTorch records a program, which would hold present values, or none, of kernel
    results.
    """
    recording = torch._C._len_torch_dispatch_stack() and any(map(torch._C._get_dispatch_mode, RECORDING))
    if recording or torch._C._is_tracing():
        raise RuntimeError(
            f"{what} can't be recorded by torch.jit.trace, torch.export or make_fx; record the network around it"
        )


PARAMETERS = "values of a simulator's parameters can't be traced by torch.compile"


def not_compiled(reason: str) -> Callable[[Function], Function]:
    """Exclude a function like ``torch.compiler.disable``, without importing the whole compiler (1.5 s) at its
    definition.

    Args:
        reason: shown by torch.compile if it is asked for a single graph.
    """

    def decorate(function: Function) -> Function:
        disabled: list[Callable[..., Any]] = []

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if "torch._dynamo" not in sys.modules:  # nothing can be compiled yet
                return function(*args, **kwargs)
            if not disabled:
                disabled.append(torch.compiler.disable(function, reason=reason))
            return disabled[0](*args, **kwargs)

        # torch.compile checks these attributes before it traces a function; ``torch.compiler.disable`` sets the same.
        called._torchdynamo_disable = True  # type: ignore[attr-defined]
        called._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate
