"""C++ code of functions that work on the numbers of a lane group's worlds, one vector register for each."""

from typing import Any

# A ``pack`` has a number of each world, ``lanes_of`` whether something holds for it. Arrays need not be aligned to it.
BEGIN = """
    using number_type = wp::{scalar};
    typedef number_type pack __attribute__((ext_vector_type({lanes}), aligned(sizeof(number_type))));
    typedef decltype(pack() < pack()) lanes_of;
"""
# An array [item, world] of the worlds, which has room for whole groups: NAME(k) is item k of this group.
_OF_WORLDS = """
    const wp::int64 {name}_step = {name}.strides[0];
    char* {name}_at = reinterpret_cast<char*>({name}.data) + group * wp::int64(sizeof(pack));
#define {NAME}(k) (*reinterpret_cast<pack*>({name}_at + (k) * {name}_step))
"""
# Numbers of an array [world, item] to a pack for each item; a lane without a world has those of the last one.
_SIDE_BY_SIDE = """
    for (int n = 0; n < {{lanes}}; ++n) {{{{
        const int last = {array}.shape[0] - 1;
        const int world = group * {{lanes}} + n < last ? group * {{lanes}} + n : last;
        const number_type* own = reinterpret_cast<const number_type*>(reinterpret_cast<const char*>({array}.data) + world * wp::int64({array}.strides[0]));
        for (int k = 0; k < nv; ++k) {target}[k][n] = own[k];
    }}}}
"""


def side_by_side(array: str, target: str) -> str:
    """Code of a body for :func:`native_code` that puts the first ``nv`` numbers of all worlds of an array side by side."""
    return _SIDE_BY_SIDE.format(array=array, target=target)


def native_code(scalar: Any, lanes: int, body: str, *names: str, **parts: Any) -> str:
    """The code of a function.

    Args:
        scalar: precision.
        lanes: worlds of a group.
        body: the code, with braces doubled but those of ``parts``.
        names: of arrays of the worlds that it reads or writes.
        parts: what stands at other places of the code.
    """
    arrays = "".join(_OF_WORLDS.format(name=name, NAME=name.upper()) for name in names)
    ends = "".join(f"\n#undef {name.upper()}" for name in names)
    return (BEGIN + "{arrays}" + body + "{ends}\n").format(
        scalar=scalar.__name__, lanes=lanes, arrays=arrays, ends=ends, **parts
    )
