"""Compare the arrays of two runs bit for bit."""

import difflib
from collections.abc import Iterator

import numpy as np

from tests.golden.record import TABLE, Arrays

ERROR = "error"  # array with the message of a case that failed
MOST_ROWS = 12  # of the difference of two replay tables that are printed


def differences(old: Arrays, new: Arrays) -> Iterator[tuple[str, str]]:
    """The names of arrays that differ, each with a description of the difference.

    Args:
        old: one run.
        new: the other run.
    """
    for name in sorted(old.keys() | new.keys()):
        if name not in new or name not in old:
            yield name, f"only in the {'old' if name in old else 'new'} run: {old.get(name, new.get(name))}"[:300]
        elif not same(old[name], new[name]):
            yield name, describe(name, old[name], new[name])


def same(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    return old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes()


def describe(name: str, old: np.ndarray, new: np.ndarray) -> str:
    """The largest difference of two arrays that differ."""
    if name.startswith(TABLE):
        return _of_tables(list(map(str, old)), list(map(str, new)))
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{old.dtype}{list(old.shape)} -> {new.dtype}{list(new.shape)}"
    if old.dtype.kind != "f":
        indices = np.flatnonzero(old.ravel() != new.ravel())
        first = indices[0]
        return f"{len(indices)} of {old.size} differ; first [{first}]: {old.ravel()[first]} -> {new.ravel()[first]}"
    bits = np.dtype(f"i{old.dtype.itemsize}")
    count = int((np.ascontiguousarray(old).view(bits) != np.ascontiguousarray(new).view(bits)).sum())
    finite = np.isfinite(old) & np.isfinite(new)
    if not finite.any():
        return f"{count} of {old.size} differ; none is finite in both runs"
    distance = np.abs(np.where(finite, new, 0.0).astype(float) - np.where(finite, old, 0.0))
    worst = np.unravel_index(np.argmax(distance), distance.shape)
    largest = float(np.abs(old[finite]).max())
    relative = distance.max() / largest if largest else np.inf
    unequal = int((np.isfinite(old) != np.isfinite(new)).sum())
    index, steps = list(map(int, worst)), ulps(old[worst][None], new[worst][None])[0]
    return (
        f"{count} of {old.size} differ; largest {distance.max():.2e} "
        f"({relative:.1e} of the largest number, {steps} ulps) at {index}: {old[worst]:.17g} -> {new[worst]:.17g}"
        + (f"; {unequal} finite in one run only" if unequal else "")
    )


def ulps(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The number of floating-point numbers from one to the other, element by element; 0.0 and -0.0 are one."""
    return np.abs(_ordered(old).astype(object) - _ordered(new).astype(object))


def _ordered(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of the floating-point numbers."""
    bits = np.ascontiguousarray(values).view(np.dtype(f"i{values.dtype.itemsize}")).astype(np.int64)
    least = np.int64(-(2 ** (8 * values.dtype.itemsize - 1)))
    return np.where(bits < 0, least - bits, bits)


def _of_tables(old: list[str], new: list[str]) -> str:
    rows = [row for row in difflib.unified_diff(old, new, n=0, lineterm="") if not row.startswith(("---", "+++"))]
    more = [f"... {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return "\n      ".join([f"{len(old)} -> {len(new)} launches", *rows[:MOST_ROWS], *more])
