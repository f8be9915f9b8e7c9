"""The modes of PyTorch that matter here: what it records, in which precision it multiplies, what it compiles."""

import functools
import sys
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


PARAMETERS = "numbers of a simulator's parameters are outside of what torch.compile can see"


def not_compiled(reason: str) -> Callable[[Function], Function]:
    """As ``torch.compiler.disable``, which imports the whole compiler (1.5 s) where a function is merely defined.

    Args:
        reason: what torch.compile says when it is asked for a single graph.
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

        # What torch.compile looks at before it traces a function; ``torch.compiler.disable`` sets the same.
        called._torchdynamo_disable = True  # type: ignore[attr-defined]
        called._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate
