"""Rehearsal of teams on the CPU: items of each phase in another order, and a report of phases whose items meet.

``--rehearse`` compiles kernels of teams with :data:`ORDERS` and fails a test during which one was noted. The checks are
in ``warp_kernels/cpu/team_checks.h``. The memory of a team holds NaN when it begins with a world.
"""

import ctypes
from typing import Any

import pytest
import warp as wp
from warp._src import context  # Warp has no public names for its loaded modules

from warp_kernels import team

# Which item comes as number k of n, in C++. Any prime beyond the number of items makes a permutation.
ORDERS = {
    "as they are": "k",
    "reversed": "n - 1 - k",
    "shuffled": "int((k * 1000003ll + 12345) % n)",
}
_FAULT = "team_fault"
_DEFINED = "#define BACKSWING_TEAM_ORDER"
EVERY = -1
MEETING, SYNC_IN_LOOP, FULL = 1, 2, 3


def checked_order(order: str) -> wp.ModuleBuildOptions:
    """The build options by which kernels of teams take their items in an order, and check their phases."""
    return wp.ModuleBuildOptions(extra_cpu_preamble=f"{_DEFINED} {ORDERS[order]}\n")


def reverse_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels of teams that are made from now on take the items of a phase in reversed order, and note items that
    meet.
    """
    make = team.kernel_module

    def checked(name: str, *arguments: Any, **options: Any) -> wp.Module:
        module = make(f"tests.reversed.{name}", *arguments, **options)
        before = module.options["extra_build_options"]
        wp.set_module_options({"extra_build_options": checked_order("reversed").merged(before)}, module)
        return module

    monkeypatch.setattr(team, "kernel_module", checked)


def team_faults() -> list[str]:
    """Return the faults that kernels of teams noted since the last call, in words."""
    found = []
    for module in list(context.user_modules.values()):
        preamble = getattr(module.options["extra_build_options"], "extra_cpu_preamble", "")
        if _DEFINED in preamble and "namespace backswing::team" in preamble:
            for loaded in module.execs.values():
                if loaded.device.is_cpu:
                    found += _faults_of(module.name, loaded)
    return found


def _faults_of(name: str, loaded: Any) -> list[str]:
    handle = loaded.handle.encode()
    notes = (ctypes.c_int * 5).from_address(context.runtime.llvm.wp_lookup(handle, _FAULT.encode()))
    count, kind, phase, one, other = notes
    notes[:] = [0] * 5
    if count == 0:
        return []
    first, second = ("every thread" if item == EVERY else f"item {item}" for item in (one, other))
    what = {
        MEETING: f"{first} and {second} meet at a number that one of them writes; a sync is missing",
        SYNC_IN_LOOP: f"a sync within a loop over items, before {second}",
        FULL: "more numbers than the table of checks has room for",
    }[kind]
    return [f"{name}: after {phase} calls of sync {what}; {count} such faults"]
