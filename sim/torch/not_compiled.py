"""Leaving a function out of what torch.compile compiles, without loading the compiler."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

PARAMETERS = "numbers of a simulator's parameters are outside of what torch.compile can see"
Function = TypeVar("Function", bound=Callable[..., Any])


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
