"""Array access of kernels without tests of negative indices.

Warp lets a negative index count from an array's end, and tests every index of every access for it, which takes longer
than the access. No kernel here uses that; ``tests/index_checks.py`` runs them with functions that check every index.
Everything that Warp generates accesses entries through two functions, ``index`` and ``index_grad``. Those below have
the same arguments. On a CPU they have a condition that always holds, for which Clang prefers them. CUDA's compiler has
no such conditions, and prefers functions for fewer types of entries.
"""

import functools
from collections.abc import Iterator

_ENTRY = """
template <typename T> inline T& {name}(const array_t<T>& values{arguments}) __attribute__((enable_if(true, "preferred")))
{{{check}
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(values.{memory}){offset});
}}
"""

# Types of entries for CUDA, with their template parameters. Warp's functions access entries of other types.
_ENTRY_TYPES = (
    *(("", scalar) for scalar in ("bool", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64")),
    ("template <unsigned Length, typename Scalar>", "vec_t<Length, Scalar>"),
    ("template <unsigned Rows, unsigned Columns, typename Scalar>", "mat_t<Rows, Columns, Scalar>"),
    ("template <typename Scalar>", "quat_t<Scalar>"),
    ("template <typename Scalar>", "transform_t<Scalar>"),
)
_CUDA_ENTRY = """
{template} CUDA_CALLABLE inline {entry}& {name}(const array_t<{entry}>& values{arguments}) {{
    return *reinterpret_cast<{entry}*>(reinterpret_cast<char*>(values.{memory}){offset});
}}
"""
# Vectors with an even number of components, read and written in pairs: half as many instructions, and of the sectors
# that a GPU's caches write.
_PAIRS = """
CUDA_CALLABLE inline vec_t<{length}, {scalar}> load(vec_t<{length}, {scalar}>* address) {{
    vec_t<{length}, {scalar}> value;
    for (int k = 0; k < {half}; ++k) {{
        const {pair} both = reinterpret_cast<const {pair}*>(address)[k];
        value.c[2 * k] = both.x;
        value.c[2 * k + 1] = both.y;
    }}
    return value;
}}
CUDA_CALLABLE inline void array_store(
    const array_t<vec_t<{length}, {scalar}>>& values, int i, int j, vec_t<{length}, {scalar}> value
) {{
    {pair}* address = reinterpret_cast<{pair}*>(&index(values, i, j));
    for (int k = 0; k < {half}; ++k) address[k] = {{value.c[2 * k], value.c[2 * k + 1]}};
}}
"""
# Debug builds, and those that verify each number, keep Warp's checks.
_CUDA_ONLY = "#if defined(NDEBUG) && !defined(WP_VERIFY_FP)\nnamespace wp {{\n{functions}}}\n#endif\n"


def access_functions(check: str = "") -> str:
    """Return the C++ source of the functions, which precedes that of a module.

    Args:
        check: a statement for every index {i} of the dimension {d} of an entry of ``values``, before it is read or
            written.
    """
    functions = []
    for indices, call in _calls():
        checks = "".join(check.format(i=i, d=d) for d, i in enumerate(indices))
        offset = "".join(f" + int64(uint32({i})) * values.strides[{d}]" for d, i in enumerate(indices))
        functions.append(_ENTRY.format(check=checks, offset=offset, **call))
    return "namespace wp {\n" + "".join(functions) + "}\n"


@functools.cache
def cuda_access_functions() -> str:
    """Return the C++ source of the functions for a GPU, where a dimension of an entry takes one instruction."""
    functions = []
    for indices, call in _calls():
        offset = "".join(f" + uint64(uint32({i})) * uint32(values.strides[{d}])" for d, i in enumerate(indices))
        for template, entry in _ENTRY_TYPES:
            functions.append(_CUDA_ENTRY.format(template=template, entry=entry, offset=offset, **call))
    return _CUDA_ONLY.format(functions="".join(functions))


@functools.cache
def cuda_pair_functions(lengths: tuple[int, ...]) -> str:
    """Return C++ source that lets kernels on a GPU access vectors of these lengths in pairs of components.

    Their arrays must be aligned to pairs, as Warp's own are.
    """
    pairs = (("float32", "float2"), ("float64", "double2"))
    return _CUDA_ONLY.format(
        functions="".join(
            _PAIRS.format(length=length, half=length // 2, scalar=scalar, pair=pair)
            for length in lengths
            for scalar, pair in pairs
        )
    )


def _calls() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the indices of each function, and its name, the memory that it accesses and its arguments."""
    for dimensions in range(1, 5):
        indices = [f"i{d}" for d in range(dimensions)]
        arguments = "".join(f", int {i}" for i in indices)
        for name, memory in (("index", "data"), ("index_grad", "grad")):
            yield indices, {"name": name, "memory": memory, "arguments": arguments}
