"""The version of Backswing, and the warning of names that a later one removes."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

__version__ = "0.2.0"  # the only place; pyproject.toml reads it


def warn_deprecated(old: str, instead: str, removed: str, *, stacklevel: int = 2) -> None:
    """Warn that a name or an argument is deprecated.

    Args:
        old: what is deprecated, as a user writes it, such as "sim.ContactOptions(...)".
        instead: what to do now, such as "call sim.HardContact(...)".
        removed: the version that removes it, the next minor one after that which deprecates it, such as "0.3".
        stacklevel: as for :func:`warnings.warn`, counted from the caller; 2 shows the line that called the caller.
    """
    warnings.warn(
        f"{old} is deprecated and will be removed in version {removed}; {instead}",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def renamed_argument(old: str, new: str, function: str) -> Callable[[Function], Function]:
    """Accept an argument of a function under its old name, too, with a deprecation warning.

    Args:
        old, new: its names.
        function: the function, as a user writes it, such as "ModelBuilder.add_distance_sensor".
    """

    def decorate(inner: Function) -> Function:
        @functools.wraps(inner)
        def accepting(*arguments: Any, **given: Any) -> Any:
            if old in given:
                warn_deprecated(f"{function}({old}=...)", f"give {new}=...", "0.3")
                given[new] = given.pop(old)
            return inner(*arguments, **given)

        return accepting  # type: ignore[return-value]

    return decorate
