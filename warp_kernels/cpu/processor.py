"""Instruction sets that kernels of a CPU are compiled for: levels of x86-64, or those of this processor.

A level is a set of instructions that all processors of some years have. Kernels of a level are the same on each of them;
those compiled for one processor, ``-march=native``, depend on its model and on what its virtual machine shows. So
kernels that were compiled elsewhere can be used, see :mod:`sim.arrays.shipped`. Kernels of other processors, such as
those of ARM, are compiled for the processor itself.
"""

import ctypes
import functools
import sys
from pathlib import Path

import warp as wp

NATIVE = "native"
# Instructions of each level, by the names of LLVM, the best level first. Levels 1 and 2 lack fused products and sums.
_V3 = (
    "avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
    " xsave"
)
_V4 = f"{_V3} avx512bw avx512cd avx512dq avx512f avx512vl"
LEVELS = {"x86-64-v4": frozenset(_V4.split()), "x86-64-v3": frozenset(_V3.split())}
# Flags of each level. By default LLVM splits vectors of 512 bits in two for x86-64-v4, and lane groups in float64 take
# 13 to 16 % longer. Tuned for znver4 it doesn't; most kernels are then the same as by ``-march=native`` on a processor
# of that kind, and none was measured to be slower.
FLAGS = {
    "x86-64-v4": "-target-cpu x86-64-v4 -tune-cpu znver4",
    "x86-64-v3": "-target-cpu x86-64-v3",
    NATIVE: "-march=native",
}
_LIBRARIES = {"win32": "warp-clang.dll", "darwin": "libwarp-clang.dylib"}


@functools.cache
def instructions() -> frozenset[str]:
    """Return the instruction sets of this processor, by the names of LLVM, as Warp's library finds them; empty if
    unknown.
    """
    library = Path(wp.__file__).parent / "bin" / _LIBRARIES.get(sys.platform, "warp-clang.so")
    try:
        found = ctypes.CDLL(str(library)).wp_get_host_cpu_features
    except (OSError, AttributeError):
        return frozenset()
    found.restype = ctypes.c_char_p
    return frozenset((found() or b"").decode().split(","))


def level_of(found: frozenset[str]) -> str:
    """Return the best level whose instructions a processor has, or ``NATIVE``."""
    return next((name for name, needed in LEVELS.items() if needed <= found), NATIVE)


_chosen: list[str] = []


def level() -> str:
    """Return the level that kernels are compiled for."""
    if not _chosen:
        _chosen.append(level_of(instructions()))
    return _chosen[0]


def choose_level(name: str) -> None:
    """Compile for another level than that of this processor, which may not be able to run it.

    Args:
        name: one of ``LEVELS``, or ``NATIVE``.

    Raises:
        ValueError: for another name, and after kernels were made for another level.
    """
    if name not in (*LEVELS, NATIVE):
        raise ValueError(f"there is no level '{name}' of processors; there is {', '.join((*LEVELS, NATIVE))}")
    if _chosen and _chosen != [name]:
        raise ValueError(f"kernels were made for {_chosen[0]} before")
    _chosen[:] = [name]


def target_flags() -> str:
    """Return the compiler's flags for the level."""
    return FLAGS[level()]
