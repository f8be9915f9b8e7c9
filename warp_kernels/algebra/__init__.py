"""Arithmetic for one world, or for a lane group: several worlds in the SIMD lanes of a vector register.

A kernel written with these functions works on a group of ``lanes`` worlds: a real number is then a Warp vector with an
entry for each world, and a vector, quaternion or pose a matrix with a row for each component. With one lane, as on a
GPU, which has a thread for each world, they are Warp's own types; see :func:`warp_kernels.types.lane_types`. Values
common to all worlds of a group, such as topology, branches and literals, are plain. Lane types support addition,
subtraction, and multiplication by a plain scalar; everything else goes through functions.

Some lanes of the last group may have no world. They repeat the computation of the last world; nothing of it is stored,
and adjoints are read as zero there, so that they add nothing to adjoints of shared values.
"""

import functools
from types import SimpleNamespace
from typing import Any

from warp_kernels.algebra.one_world import one_world
from warp_kernels.algebra.one_world_arrays import one_world_arrays
from warp_kernels.algebra.rotations import rotation_functions
from warp_kernels.algebra.several_worlds import several_worlds
from warp_kernels.algebra.several_worlds_arrays import several_worlds_arrays
from warp_kernels.algebra.trigonometry import trigonometry_functions
from warp_kernels.algebra.vectors import vector_functions


@functools.cache
def algebra(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the functions for one precision and a number of worlds in a lane group."""
    basic = _of_one(scalar) if lanes == 1 else _of_several(scalar, lanes)
    rotations, vectors = rotation_functions(scalar, lanes, basic), vector_functions(basic)
    return SimpleNamespace(**vars(basic), **vars(rotations), **vars(vectors))


def _of_one(scalar: Any) -> SimpleNamespace:
    return SimpleNamespace(**vars(one_world(scalar)), **vars(one_world_arrays(scalar)))


def _of_several(scalar: Any, lanes: int) -> SimpleNamespace:
    arithmetic = several_worlds(scalar, lanes)
    trigonometry = trigonometry_functions(scalar, lanes, arithmetic.real)
    arrays = several_worlds_arrays(scalar, lanes, arithmetic)
    return SimpleNamespace(**vars(arithmetic), **vars(trigonometry), **vars(arrays))
