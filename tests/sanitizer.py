"""A pytest plugin: ``--sanitize`` runs tests with CPU kernels that clang has compiled with its sanitizers.

    make sanitize                               # part of the tests, with AddressSanitizer's runtime loaded first
    make sanitize ARGS=tests/contact/test_stops.py

Warp compiles the kernels of a CPU with its own clang, which has no sanitizers. Here another clang makes a shared
library of the same C++ source, with the headers of ``warp_kernels/cpu`` in it. AddressSanitizer finds reads and writes
outside of arrays, since Warp's arrays are allocated by ``malloc``, and of the stack; UndefinedBehaviorSanitizer finds
overflow of integers, wrong shifts, misaligned pointers and the like. An index that is beyond a row, but within its
array, isn't found; ``--check-indices`` finds that in what Warp generates. The process ends at the first finding, whose
report would be lost if pytest captured the file of standard error. ``tests/kernels/test_sanitizer.py`` makes one fault
of each kind.

Warp reaches the functions of a library by their addresses, as those of its own object files. What is compiled has a
cache of its own for each compiler and its flags.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warp as wp
from warp._src import build, context  # Warp has no public names for these

from sim.arrays.launch import clear
from sim.simulation.stepping import runge_kutta
from sim.simulation.stepping.stages import stages

CACHES = "out/sanitize"
# Not the types of functions: a replay calls all kernels as functions of pointers to their structs of arguments.
FLAGS = (
    "-std=c++17", "-O1", "-DNDEBUG", "-gline-tables-only", "-w", "-shared", "-fPIC", "-fsanitize=address,undefined",
    "-fno-sanitize=function", "-fno-sanitize-recover=all", "-shared-libsan", "-fno-omit-frame-pointer",
)  # fmt: skip
# Functions of the C library that Warp gives its own object files.
SUPPORT = """#include <cmath>
extern "C" int _wp_isfinite(double x) { return std::isfinite(x); }
extern "C" int _wp_isnan(double x) { return std::isnan(x); }
extern "C" int _wp_isinf(double x) { return std::isinf(x); }
"""
# Names of clang, the newest first; older ones lack some functions of vectors.
COMPILERS = ("clang++", "clang++-21", "clang++-20", "clang++-19", "clang++-18", "clang++-17")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sanitize", action="store_true", help="compile CPU kernels with clang's sanitizers")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--sanitize"):
        if "libclang_rt.asan" not in os.environ.get("LD_PRELOAD", ""):
            raise pytest.UsageError("--sanitize needs AddressSanitizer's runtime in LD_PRELOAD; run make sanitize")
        if config.option.capture == "fd":
            raise pytest.UsageError("--sanitize needs --capture=sys: a report is lost with the file of standard error")
        install(compiler())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of the sanitizers where there are none."""
    return True if collection_path.name == "test_sanitizer.py" and not config.getoption("--sanitize") else None


def compiler() -> str:
    """Return the path of clang; CXX takes precedence."""
    names = (os.environ.get("CXX", ""), *COMPILERS)
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise pytest.UsageError(f"--sanitize needs clang: none of {', '.join(COMPILERS)} was found; set CXX")
    return found


def runtime_library(clang: str) -> str:
    """Return the path of AddressSanitizer's runtime, which a program that isn't sanitized must load first."""
    name = f"libclang_rt.asan-{os.uname().machine}.so"
    done = subprocess.run([clang, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Libraries:
    """Warp's LLVM library, but for modules that are shared libraries.

    Args:
        own: the library.
    """

    def __init__(self, own: Any):
        self._own = own
        self._loaded: dict[bytes, ctypes.CDLL] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def wp_load_obj(self, path: bytes, handle: bytes, *_: Any) -> int:
        """Load a module; return 0."""
        self._loaded[handle] = ctypes.CDLL(path.decode())
        return 0

    def wp_lookup(self, handle: bytes, name: bytes) -> int:
        """Return the address of a function of a module."""
        return ctypes.cast(getattr(self._loaded[handle], name.decode()), ctypes.c_void_p).value or 0

    def wp_unload_obj(self, handle: bytes) -> None:
        """Keep a module: a graph may still call it."""


def install(clang: str) -> None:
    """Let Warp compile CPU modules by this compiler, and give each gradient its own memory."""
    version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    cache = Path(CACHES).absolute() / hashlib.sha256("\n".join([version, SUPPORT, *FLAGS]).encode()).hexdigest()[:16]
    wp.config.kernel_cache_dir = str(cache)
    wp.init()
    context.runtime.llvm = Libraries(context.runtime.llvm)
    native = Path(wp.__file__).parent / "native"
    cache.mkdir(parents=True, exist_ok=True)
    support = cache / "support.cpp"
    support.write_text(SUPPORT)

    def build_cpu(output: str, source: str, **options: Any) -> None:
        folders = [flag for folder in options.get("extra_include_dirs", ()) for flag in ("-I", str(folder))]
        command = [clang, *FLAGS, "-I", str(native), *folders, source, str(support), "-o", output]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LD_PRELOAD": ""}, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[:4000]}")

    build.build_cpu = build_cpu
    assert context.warp._src.build.build_cpu is build_cpu
    for module in (stages, runge_kutta):
        module.shared_gradients = separate_gradients
        module.clear = clear_each


def separate_gradients(arrays: list[wp.array], device: Any) -> list[wp.array]:
    """Give each array with rows a gradient, as ``shared_gradients``, but with a red zone behind each of them."""
    arrays = [array for array in arrays if array.size]
    for array in arrays:
        array.grad = wp.zeros(array.shape, dtype=array.dtype, device=device)
    return [array.grad for array in arrays]


def clear_each(memory: list[wp.array] | wp.array) -> None:
    """Set an array or several to zero."""
    for array in memory if isinstance(memory, list) else [memory]:
        clear(array)


if __name__ == "__main__":
    print(runtime_library(compiler()))
