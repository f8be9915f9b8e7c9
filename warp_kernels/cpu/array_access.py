"""Array access of kernels on a CPU without tests of negative indices.

Warp lets a negative index count from an array's end, and tests every index of every access for it, which takes longer
than the access. No kernel here uses that; ``tests/index_checks.py`` runs them with functions that check every index.
Everything that Warp generates accesses entries through two functions, ``index`` and ``index_grad``. Those below have
the same arguments and a condition that always holds, for which Clang prefers them.
"""

_ENTRY = """
template <typename T> inline T& {name}(const array_t<T>& values{arguments}) __attribute__((enable_if(true, "preferred")))
{{{check}
    return *reinterpret_cast<T*>(reinterpret_cast<char*>(values.{memory}){offset});
}}
"""


def access_functions(check: str = "") -> str:
    """Return the C++ source of the functions, which precedes that of a module.

    Args:
        check: a statement for every index {i} of the dimension {d} of an entry of ``values``, before it is read or
            written.
    """
    functions = []
    for dimensions in range(1, 5):
        indices = [f"i{d}" for d in range(dimensions)]
        for name, memory in (("index", "data"), ("index_grad", "grad")):
            functions.append(
                _ENTRY.format(
                    name=name,
                    memory=memory,
                    arguments="".join(f", int {i}" for i in indices),
                    check="".join(check.format(i=i, d=d) for d, i in enumerate(indices)),
                    offset="".join(f" + int64(uint32({i})) * values.strides[{d}]" for d, i in enumerate(indices)),
                )
            )
    return "namespace wp {\n" + "".join(functions) + "}\n"
