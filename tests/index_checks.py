"""A pytest plugin: with ``--check-indices`` a test fails where a kernel uses an index that an array doesn't have.

    python -m pytest --check-indices tests/contact

``--rehearse`` does so too, and checks teams of threads (:mod:`tests.team_checks`). Kernels don't look at the signs of
indices, see :mod:`warp_kernels.cpu.array_access`. Here they are compiled with functions that compare every index with
the shape of its array. They note one that isn't within it, and read or write somewhere else instead. What is compiled
has a cache of its own. Native code that goes through memory by itself, such as that which loads and stores lane groups,
isn't checked.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import warp as wp
from warp._src import context  # Warp has no public names for its loaded modules

import warp_kernels.types
from tests.team_checks import checked_order, team_faults
from warp_kernels.cpu.array_access import access_functions
from warp_kernels.cpu.native import header_source

# What a module notes: how many faults there were, and of the last one the index, its dimension, how many entries that
# has, and how many dimensions the array has.
_FAULT = "index_fault"
_NOTE = f'extern "C" {{ WP_API int {_FAULT}[5]; }}'
# Where a kernel asks for the shape of an array, Warp's adjoint of it sets the shape of the array's gradient to zero.
# The same index has been compared with the array's own shape by then. An array without entries has no address.
_CHECK = f"""
    if (uint32({{i}}) >= uint32(values.shape[{{d}}]) && !(values.data && values.shape[{{d}}] == 0)) {{{{
        alignas(64) static char nowhere[sizeof(T)];
        {_FAULT}[0] += 1;
        {_FAULT}[1] = {{i}};
        {_FAULT}[2] = {{d}};
        {_FAULT}[3] = values.shape[{{d}}];
        {_FAULT}[4] = values.ndim;
        return *reinterpret_cast<T*>(nowhere);
    }}}}"""
CHECKED = wp.ModuleBuildOptions(
    extra_cpu_preamble=f"{_NOTE}\n{access_functions(_CHECK)}{header_source(warp_kernels.types.ALGEBRA_HEADERS)}"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--check-indices", action="store_true", help="fail where a kernel goes beyond an array")


def pytest_configure(config: pytest.Config) -> None:
    order = config.getoption("--rehearse")
    if config.getoption("--check-indices") or order:
        checked = CHECKED.merged(checked_order(order)) if order else CHECKED
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        for options in ("BUILD_OPTIONS", "INLINED_BUILD_OPTIONS", "LANE_BUILD_OPTIONS"):
            patch.setattr(warp_kernels.types, options, checked)
        folder = Path(str(wp.config.kernel_cache_dir)) / "checked"
        folder.mkdir(exist_ok=True)
        patch.setattr(wp.config, "kernel_cache_dir", str(folder))
        config.pluginmanager.register(IndexChecks(), "index_checks")


class IndexChecks:
    """Fails the test during which an index was noted."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        try:
            result = yield
        finally:
            found = faults() + team_faults()
            if found:
                pytest.fail("\n".join(found), pytrace=False)
        return result


def faults() -> list[str]:
    """What modules compiled with these checks noted since the last call, in words."""
    found = []
    for module in list(context.user_modules.values()):
        if _NOTE in getattr(module.options["extra_build_options"], "extra_cpu_preamble", ""):
            for loaded in module.execs.values():
                if loaded.device.is_cpu:
                    found += _fault_of(module.name, loaded)
    return found


def _fault_of(name: str, loaded: Any) -> list[str]:
    notes = (ctypes.c_int * 5).from_address(context.runtime.llvm.wp_lookup(loaded.handle.encode(), _FAULT.encode()))
    count, index, dimension, entries, dimensions = notes
    notes[:] = [0] * 5
    if count == 0:
        return []
    where = f"dimension {dimension} of {dimensions}, which has {entries} entries"
    return [f"{name}: index {index} of {where}; {count} such accesses"]
