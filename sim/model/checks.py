"""Checks of arguments that come from outside; free names, and names and numbers in messages."""

import math
import numbers
import os
import reprlib
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from sim.errors import ModelError


def free_name(wanted: str, taken: Container[str]) -> str:
    """The name, with underscores added until it isn't taken."""
    while wanted in taken:
        wanted += "_"
    return wanted


def some(names: Iterable[str], most: int = 6) -> str:
    """Names in quotes, at most as many as fit into a message."""
    listed = [f"'{name}'" for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def counted(number: int, what: str) -> str:
    """A number of things, such as "1 link" and "2 geometries"."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


def numbered(names: Iterable[str]) -> dict[str, int]:
    """The number of each name; the first where a name stands twice."""
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name, number)
    return numbers


def find_number(numbers: dict[str, int], name: str, what: str) -> int:
    """Return the number of a name. Raises ModelError if there is none, naming what it is of."""
    try:
        return numbers[name]
    except (KeyError, TypeError):  # the latter for what is no name, such as a list
        known = ", ".join(numbers) if len(numbers) <= 40 else f"{', '.join(list(numbers)[:40])} ..."
        raise ModelError(f"no {what} named '{name}'; there are: {known}") from None


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, Python's or numpy's, not below ``least``."""
    # Python's own first: to ask an abstract class takes ten times as long.
    return isinstance(value, int | numbers.Integral) and int(value) >= least


def is_positive(value: object) -> bool:
    """Whether a value is a finite real number above zero; an array of one entry without dimensions counts as one."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, numbers.Real) and math.isfinite(value) and float(value) > 0.0


def require_type(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise ModelError, saying what is expected, for an argument that isn't of its class."""
    if not isinstance(value, kind):
        raise ModelError(f"{name} is a {type(value).__name__}; it must be {expected}")


def require_flags(where: str, **given: object) -> None:
    """Raise ModelError for switches that are neither True nor False, nor 1 or 0: the text "false" counts as true."""
    for name, value in given.items():
        if not (isinstance(value, int | np.bool_ | np.integer) and value in (0, 1)):
            raise ModelError(f"{where}: {name} is {value!r}; it must be True or False")


def require_names(where: str, **given: object) -> None:
    """Raise ModelError for arguments that must be names and aren't text."""
    for label, value in given.items():
        if not isinstance(value, str):
            raise ModelError(f"{where}: {label} is {value!r}; it must be a name")


def names_in(name: str, given: object) -> tuple[str, ...]:
    """The names that an argument holds, one or several. Raises ModelError for what holds anything else."""
    held = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else None
    if held is None or not all(isinstance(each, str) for each in held):
        raise ModelError(f"{name} is {given!r}; it must be a name, or a list of names")
    return held


def require_path(path: object) -> None:
    """Raise ModelError for what isn't the path of a file."""
    if not isinstance(path, str | os.PathLike):
        raise ModelError(f"{path!r} is a {type(path).__name__}; it must be the path of a file")
    if isinstance(path, str) and (path.lstrip().startswith("<") or "\n" in path):
        raise ModelError(f"{reprlib.repr(path)} is the text of a file; write it to a file and give its path")


def require_no_gradient(name: str, value: object) -> None:
    """Raise ModelError for a PyTorch tensor that requires a gradient, which would be lost."""
    if hasattr(value, "detach") and getattr(value, "requires_grad", False):
        raise ModelError(
            f"{name} is a PyTorch tensor that requires a gradient; use sim.torch, which carries it, or detach() it"
        )


def number(where: str, label: str, value: object) -> float:
    """A property as a float. Raises ModelError, naming it, for what isn't one number."""
    require_no_gradient(f"{where}: {label}", value)
    try:
        if not isinstance(value, str):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    raise ModelError(f"{where}: {label} is {value!r}; it must be one number")


def two_numbers(where: str, label: str, given: object) -> tuple[float, float]:
    """A property of two numbers as floats. Raises ModelError, naming it, for anything else."""
    try:
        lower, upper = (number(where, label, bound) for bound in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError, ModelError):
        raise ModelError(f"{where}: {label} is {given!r}; it must be two numbers") from None
    return lower, upper


def on_host(value: Any) -> Any:
    """A copy on the host of an array on a GPU, of PyTorch or Warp, which NumPy doesn't read; anything else as it is."""
    if hasattr(value, "cpu"):
        return value.cpu()
    return value.numpy() if getattr(getattr(value, "device", None), "is_cuda", False) else value


def as_numbers(name: str, value: object) -> np.ndarray:
    """A copy of a caller's array, nested list, number or tensor in float64.

    Args:
        name: what to call it in an error.
        value: anything that numpy can read, also on a GPU, which is waited for then.

    Raises:
        ModelError: if it doesn't hold real numbers, or is a PyTorch tensor that requires a gradient, which would be
            lost.
    """
    require_no_gradient(name, value)
    try:
        array = np.asarray(on_host(value))
        if np.iscomplexobj(array):
            raise TypeError("it is complex")
        if array.dtype.kind in "US":
            raise TypeError("it is text")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name}: {reprlib.repr(value)} is not an array of numbers: {error}") from None
