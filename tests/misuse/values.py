"""Values that no argument expects: wrong types, NaN, ragged and sparse arrays, wrong shapes and huge sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch


class Hostile:
    """An object whose conversion to an array or a number raises an unusual error."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("no array")

    def __float__(self) -> float:
        raise RuntimeError("no number")


def ragged_lists() -> list[list[float]]:
    """Return rows of different lengths."""
    return [[1.0, 2.0], [3.0]]


def huge_view() -> np.ndarray:
    """Return an array of 2^43 bytes that takes eight: a copy of it finds no memory."""
    return np.broadcast_to(np.zeros(1), (2**40, 1))


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "text",
    "bytes": lambda: b"\x00\xff",
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "negative": lambda: -1,
    "half": lambda: 0.5,
    "complex": lambda: 1.0 + 2.0j,
    "object": object,
    "hostile": Hostile,
    "type": lambda: int,
    "set": lambda: {1, 2},
    "dictionary": lambda: {"a": 1},
    "dictionary by numbers": lambda: {3: None},
    "empty list": list,
    "list of None": lambda: [None, None],
    "list of objects": lambda: [object()],
    "ragged list": ragged_lists,
    "ragged of texts": lambda: [["a"], 1.0],
    "empty array": lambda: np.zeros((0, 3)),
    "wrong shape": lambda: np.zeros((2, 3, 5, 7)),
    "array of NaN": lambda: np.full((1, 3), np.nan),
    "array of objects": lambda: np.array([None, "a"], dtype=object),
    "array of texts": lambda: np.array(["a", "b"]),
    "array of times": lambda: np.array(["2020-01-01"], dtype="datetime64[s]"),
    "array of records": lambda: np.zeros(2, dtype=[("x", "f8"), ("y", "i4")]),
    "matrix of SciPy": lambda: scipy.sparse.csr_matrix(np.eye(3)),
    "sparse tensor": lambda: torch.eye(3, dtype=torch.float64).to_sparse(),
    "sparse rows": lambda: torch.eye(3, dtype=torch.float64).to_sparse_csr(),
    "tensor of meta": lambda: torch.zeros((1, 3), device="meta"),
    "quantised tensor": lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
    "half tensor": lambda: torch.zeros((1, 8), dtype=torch.bfloat16),
    "tensor of NaN": lambda: torch.full((1, 3), torch.nan, dtype=torch.float64),
    "tensor without dimensions": lambda: torch.tensor(1.0),
    "tensor with a gradient": lambda: torch.zeros(1, 8, dtype=torch.float64, requires_grad=True),
    "nested tensor": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
}
HUGE: dict[str, Callable[[], Any]] = {
    "huge integer": lambda: 10**30,
    "large integer": lambda: 2**62,
    "huge number": lambda: 1e300,
    "huge array": huge_view,
    "huge tensor": lambda: torch.zeros(1, dtype=torch.float64).expand(2**40, 8),
    "long text": lambda: 100_000 * "x",
}
