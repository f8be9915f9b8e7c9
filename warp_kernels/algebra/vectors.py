"""Vectors and quaternions with contiguous components in arrays of the user, in terms of the basic functions.

The digit in a name is the number of dimensions of the array, two if absent.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp


def vector_functions(a: SimpleNamespace) -> SimpleNamespace:
    """Return functions for the precision and number of lanes of the basic functions ``a``."""

    @wp.func
    def load_vec3(values: Any, group: int, k: int):
        return a.make_vec3(a.load(values, group, k), a.load(values, group, k + 1), a.load(values, group, k + 2))

    @wp.func
    def load_quat(values: Any, group: int, k: int):
        return a.make_quat(
            a.load(values, group, k),
            a.load(values, group, k + 1),
            a.load(values, group, k + 2),
            a.load(values, group, k + 3),
        )

    @wp.func
    def load3_vec3(values: Any, group: int, i: int, j: int):
        return a.make_vec3(
            a.load3(values, group, i, j), a.load3(values, group, i, j + 1), a.load3(values, group, i, j + 2)
        )

    @wp.func
    def load_bar3_vec3(values: Any, group: int, i: int, j: int):
        return a.make_vec3(
            a.load_bar3(values, group, i, j), a.load_bar3(values, group, i, j + 1), a.load_bar3(values, group, i, j + 2)
        )

    @wp.func
    def load_bar3_quat(values: Any, group: int, i: int, j: int):
        return a.make_quat(
            a.load_bar3(values, group, i, j),
            a.load_bar3(values, group, i, j + 1),
            a.load_bar3(values, group, i, j + 2),
            a.load_bar3(values, group, i, j + 3),
        )

    @wp.func
    def get_row(buffer: Any, values: Any, group: int, frame: int, i: int, columns: int):
        """Return the first three entries of row i of a frame."""
        return a.make_vec3(
            a.get(buffer, values, group, frame, i, 0, columns),
            a.get(buffer, values, group, frame, i, 1, columns),
            a.get(buffer, values, group, frame, i, 2, columns),
        )

    @wp.func
    def get_column(buffer: Any, values: Any, group: int, frame: int, i: int, j: int, columns: int):
        """Return three entries of column j of a frame, from row i on."""
        return a.make_vec3(
            a.get(buffer, values, group, frame, i, j, columns),
            a.get(buffer, values, group, frame, i + 1, j, columns),
            a.get(buffer, values, group, frame, i + 2, j, columns),
        )

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
