"""Copies of kernels of teams that leave out one call of ``sync`` at a time.

The source of a package is copied, with a number in each call of ``sync``. One build serves all of them: the number of
the call to leave out is a variable of the module. Items come as they are, so that no result changes.
"""

import ctypes
import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import pytest
import warp as wp
from warp._src import context  # Warp has no public names for its loaded modules

from tests.team_checks import checked_order, team_faults
from warp_kernels import team

Runs = list[Callable[[], Any]]
NOTHING: Mapping[str, str] = MappingProxyType({})
# No call has this number.
NONE = -1
_LEFT_OUT = "team_sync_left_out"
_DECLARED = wp.ModuleBuildOptions(extra_cpu_preamble=f'extern "C" {{ WP_API int {_LEFT_OUT}; }}\n')
_SYNC = f"\n    if (number != {_LEFT_OUT}) backswing::team::sync();\n"


def numbered(text: str, name: str, calls: list[str]) -> str:
    """The source of a file with a number in each call of ``sync``; the function of each is appended to calls."""

    def with_number(call: re.Match[str]) -> str:
        function = re.findall(r"def (\w+)\(", text[: call.start()])[-1]
        calls.append(f"{name}.{function}")
        return f"team.sync_unless({len(calls) - 1})"

    return re.sub(r"team\.sync\(\)", with_number, text)


@contextmanager
def numbered_copy(
    package: ModuleType, user: ModuleType, names: set[str], folder: Path, replaced: Mapping[str, str] = NOTHING
) -> Iterator[list[str]]:
    """Let the kernels of a package be those of a copy; yield the functions of the calls, in the order of their numbers.

    Args:
        package: the package.
        user: module that uses it.
        names: what it uses.
        folder: folder for the copy.
        replaced: text to replace in its source.
    """
    copied = f"numbered_{package.__name__.replace('.', '_')}"
    shutil.copytree(Path(str(package.__file__)).parent, folder / copied, ignore=shutil.ignore_patterns("__pycache__"))
    found: list[str] = []
    for path in sorted((folder / copied).glob("*.py")):
        source = numbered(path.read_text(encoding="utf-8"), path.stem, found)
        for old, new in {f"{package.__name__}.": f"{copied}.", **replaced}.items():
            source = source.replace(old, new)
        path.write_text(source, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setattr(team, "kernel_module", checked(team.kernel_module))
        for path in sorted((folder / copied).glob("*.py")):
            module = importlib.import_module(f"{copied}.{path.stem}")
            if hasattr(module, "team_functions"):
                patch.setattr(module, "team_functions", with_numbers(module.team_functions))
            for name in names & vars(module).keys():
                patch.setattr(user, name, getattr(module, name))
        yield found
    for name in [each for each in sys.modules if each.partition(".")[0] == copied]:
        del sys.modules[name]


def with_numbers(team_functions: Any) -> Any:
    """Functions of teams with a ``sync`` that has a number, and does nothing if that one is left out."""

    @wp.func_native(_SYNC)
    def sync_unless(number: int):
        """Wait for all threads of the team, unless this call is left out."""

    def made(*arguments: Any) -> SimpleNamespace:
        return SimpleNamespace(**vars(team_functions(*arguments)), sync_unless=sync_unless)

    return made


def checked(kernel_module: Any) -> Any:
    """Modules of their own, with the checks of a rehearsal."""

    def made(name: str, *arguments: Any, **options: Any) -> wp.Module:
        module = kernel_module(f"tests.numbered.{name}", *arguments, **options)
        before = module.options["extra_build_options"]
        own = checked_order("as they are").merged(_DECLARED).merged(before)
        wp.set_module_options({"extra_build_options": own}, module)
        return module

    return made


def leave_out(number: int) -> None:
    """Leave this call of ``sync`` out from now on."""
    for module in list(context.user_modules.values()):
        if module.name.startswith("backswing.tests.numbered."):
            for loaded in module.execs.values():
                at = context.runtime.llvm.wp_lookup(loaded.handle.encode(), _LEFT_OUT.encode())
                ctypes.c_int.from_address(at).value = number


def faults(runs: Runs) -> list[str]:
    """Return the reports of the checks."""
    for run in runs:
        run()
    return team_faults()


def not_missed(calls: list[str], runs: Runs) -> list[str]:
    """The calls without which the checks report nothing."""
    faults(runs)  # loads the modules
    leave_out(NONE)
    assert faults(runs) == []
    found = []
    for number, name in enumerate(calls):
        leave_out(number)
        if not any("a sync is missing" in line for line in faults(runs)):
            found.append(name)
    return found
