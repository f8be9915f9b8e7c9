"""Checks of user arguments; unused names, and names and numbers for messages."""

import math
import numbers
import os
import reprlib
from collections.abc import Container, Iterable, Sized
from typing import Any

import numpy as np

from sim.errors import ModelError

MOST_UNDERSCORES = 8


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return an unused name: with up to eight underscores appended, otherwise with a number."""
    for count in range(MOST_UNDERSCORES + 1):
        if (name := wanted + count * "_") not in taken:
            return name
    last, free = MOST_UNDERSCORES, 2 * MOST_UNDERSCORES
    while f"{wanted}_{free}" in taken:
        last, free = free, 2 * free
    while free - last > 1:  # numbers are taken in turn, so that few have to be tried
        middle = (last + free) // 2
        last, free = (middle, free) if f"{wanted}_{middle}" in taken else (last, middle)
    return f"{wanted}_{free}"


def some(names: Iterable[str], most: int = 6) -> str:
    """Return names in quotes, as many as fit into a message."""
    listed = [f"'{name}'" for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def counted(number: int, what: str) -> str:
    """Return a number of things as text, such as "1 link" and "2 geometries"."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


# Errors of conversions by NumPy, PyTorch and SciPy: sparse, nested, huge or foreign arrays.
UNREADABLE = (TypeError, ValueError, RuntimeError, MemoryError, OverflowError, AttributeError, AssertionError)
# Items of a list in an argument, of which NumPy and PyTorch would make an object each
MOST_ITEMS = 10_000_000


def numbered(names: Iterable[str]) -> dict[str, int]:
    """Return the index of each name; the first index for duplicates."""
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        numbers.setdefault(name, number)
    return numbers


def find_number(numbers: dict[str, int], name: str, what: str) -> int:
    """Return the index of a name. Raises ModelError with the known names if there is none."""
    try:
        return numbers[name]
    except (KeyError, TypeError):  # TypeError for unhashable values, such as a list
        known = ", ".join(numbers) if len(numbers) <= 40 else f"{', '.join(list(numbers)[:40])} ..."
        raise ModelError(f"no {what} named '{name}'; there are: {known}") from None


def is_whole(value: object, least: int) -> bool:
    """Return whether a value is a whole number, Python's or NumPy's, of at least ``least``."""
    # Python's int first: a check against an abstract class takes ten times as long.
    return isinstance(value, int | numbers.Integral) and int(value) >= least


def require_whole(where: str, **given: object) -> None:
    """Raise ModelError unless arguments are whole numbers, not negative."""
    for name, value in given.items():
        if not is_whole(value, 0):
            raise ModelError(f"{where}: {name} is {_shown(value)}; it must be a whole number, not negative")


def is_positive(value: object) -> bool:
    """Return whether a value is a finite real number above zero; an array of one entry without dimensions counts."""
    try:
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
    except UNREADABLE:  # a nested tensor
        return False
    return isinstance(value, numbers.Real) and math.isfinite(value) and float(value) > 0.0


def require_type(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise ModelError, with the expected type, unless an argument has the type."""
    if not isinstance(value, kind):
        raise ModelError(f"{name} is a {type(value).__name__}; it must be {expected}")


def require_flags(where: str, **given: object) -> None:
    """Raise ModelError unless flags are True, False, 1 or 0: the text "false" would count as true."""
    for name, value in given.items():
        if not (isinstance(value, int | np.bool_ | np.integer) and value in (0, 1)):
            raise ModelError(f"{where}: {name} is {_shown(value)}; it must be True or False")


def require_names(where: str, **given: object) -> None:
    """Raise ModelError unless arguments are names as text."""
    for label, value in given.items():
        if not isinstance(value, str):
            name = getattr(value, "name", None)
            remedy = f"; give its name, '{name}'" if isinstance(name, str) else ""
            raise ModelError(f"{where}: {label} is {_shown(value)}; it must be a name{remedy}")


def names_in(name: str, given: object) -> tuple[str, ...]:
    """Return the names in an argument, one or several. Raises ModelError for anything else."""
    held = (
        (given,) if isinstance(given, str) else tuple(items_of(name, given, "a name, or a list of names", shown=True))
    )
    if not all(isinstance(each, str) for each in held):
        raise ModelError(f"{name} is {_shown(given)}; it must be a name, or a list of names")
    return held


def items_of(name: str, given: object, expected: str, shown: bool = False) -> list[Any]:
    """Return the items of an argument. Raises ModelError, with what is expected, for one that has none.

    Args:
        name: name of the argument in messages.
        given: a list, or anything else to iterate over; text has no items.
        expected: words for messages.
        shown: show the value in the message; its type otherwise.
    """
    found = _shown(given) if shown else f"a {type(given).__name__}"
    try:
        if isinstance(given, Iterable) and not isinstance(given, str | bytes):
            if isinstance(given, Sized) and len(given) > MOST_ITEMS:
                raise ModelError(f"{name} has {len(given)} items; at most {MOST_ITEMS} are supported")
            return list(given)
    except ModelError:
        raise
    except UNREADABLE:  # a tensor without dimensions, a nested one
        pass
    raise ModelError(f"{name} is {found}; it must be {expected}")


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise ModelError, with the choices, unless an argument is one of them; None is none of them."""
    listed = list(choices)
    if not (isinstance(value, str) and value in listed):
        raise ModelError(f"{name} is {_shown(value)}; it must be one of {', '.join(listed)}")


def require_rows(where: str, rows: float) -> None:
    """Raise ModelError for a motion of more rows than an array should have."""
    if not rows <= MOST_ITEMS:
        raise ModelError(f"{where}: {rows:.3g} rows would be made; at most {MOST_ITEMS} are supported")


def require_seed(name: str, value: object) -> None:
    """Raise ModelError unless the seed of a generator of random numbers is a whole number, not negative."""
    if not is_whole(value, 0):
        raise ModelError(f"{name} is {_shown(value)}; it must be a whole number, not negative")


def require_callable(name: str, value: object, optional: bool = False) -> None:
    """Raise ModelError unless an argument is a function; None if it is optional."""
    if not (callable(value) or (optional and value is None)):
        raise ModelError(f"{name} is a {type(value).__name__}; it must be a function")


def _shown(value: object) -> str:
    """Return a value for messages, shortened."""
    return reprlib.repr(value) if not isinstance(value, float | int | np.generic) else repr(value)


def require_path(path: object) -> None:
    """Raise ModelError unless an argument is the path of a file."""
    if not isinstance(path, str | os.PathLike):
        by_text = (
            "; sim.load_text reads open files and bytes" if isinstance(path, bytes) or hasattr(path, "read") else ""
        )
        raise ModelError(f"{_shown(path)} is a {type(path).__name__}; it must be the path of a file{by_text}")
    if isinstance(path, str) and (path.lstrip().startswith("<") or "\n" in path):
        raise ModelError(
            f"{reprlib.repr(path)} looks like the content of a file; give the path of a file, or the content to "
            "sim.load_text"
        )


def require_no_gradient(name: str, value: object) -> None:
    """Raise ModelError for a PyTorch tensor that requires a gradient, which would be lost."""
    if hasattr(value, "detach") and getattr(value, "requires_grad", False):
        raise ModelError(
            f"{name} is a PyTorch tensor that requires a gradient; use sim.torch to keep the gradient, or detach() it"
        )


def is_single(value: object) -> bool:
    """Return whether an argument is one number instead of several; False for values that NumPy can't read."""
    try:
        return np.ndim(value) == 0  # type: ignore[arg-type]
    except (*UNREADABLE, MemoryError):
        return False


def number(where: str, label: str, value: object) -> float:
    """Return a property as a float. Raises ModelError, naming it, unless it is one number."""
    require_no_gradient(f"{where}: {label}", value)
    try:
        if not isinstance(value, str):
            return float(value)  # type: ignore[arg-type]
    except UNREADABLE:
        pass
    raise ModelError(f"{where}: {label} is {_shown(value)}; it must be one number")


def two_numbers(where: str, label: str, given: object) -> tuple[float, float]:
    """Return a property of two numbers as floats. Raises ModelError, naming it, for anything else."""
    try:
        lower, upper = (number(where, label, bound) for bound in items_of(label, given, "two numbers"))
    except ValueError:
        raise ModelError(f"{where}: {label} is {_shown(given)}; it must be two numbers") from None
    return lower, upper


def on_host(value: Any) -> Any:
    """Return a copy on the host of a PyTorch or Warp array on a GPU, which NumPy can't read; other values unchanged."""
    if hasattr(value, "cpu"):
        return value.cpu()
    return value.numpy() if getattr(getattr(value, "device", None), "is_cuda", False) else value


def as_numbers(name: str, value: object) -> np.ndarray:
    """Return a float64 copy of a caller's array, nested list, number or tensor.

    Args:
        name: name of the argument in messages.
        value: anything that NumPy can read; also an array on a GPU, with synchronisation.

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
        if array.dtype.kind in "mM":
            raise TypeError("it is times")
        return array.astype(np.float64)
    except UNREADABLE as error:
        raise ModelError(f"{name}: {reprlib.repr(value)} is not an array of numbers: {error}") from None
