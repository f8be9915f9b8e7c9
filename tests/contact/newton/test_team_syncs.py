"""Every ``sync`` of the team solver is needed: the checks of a rehearsal report each one that is left out.

The source of the team solver is copied, with a number in each call of ``sync``. One build serves all of them: the
number of the call to leave out is a variable of the module. Items come as they are, so that no result changes.
"""

import ctypes
import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warp as wp
from warp._src import context  # Warp has no public names for its loaded modules

import sim
import warp_kernels.solver.newton.team as original
from sim.simulation.stepping.solvers import teams as solvers
from tests.contact.newton.test_solution import pressed_legs
from tests.golden import mujoco_law, plain
from tests.golden.case import Case
from tests.team_checks import checked_order, team_faults

Runs = list[Callable[[], Any]]
FOLDER = Path(str(original.__file__)).parent
COPY = "team_with_numbers"
# No call has this number.
NONE = -1
_LEFT_OUT = "team_sync_left_out"
_DECLARED = wp.ModuleBuildOptions(extra_cpu_preamble=f'extern "C" {{ WP_API int {_LEFT_OUT}; }}\n')
_SYNC = f"\n    if (number != {_LEFT_OUT}) backswing::team::sync();\n"
# What MuJoCo's law does without.
OF_THE_HARD_LAW = {
    "steps.sweep",
    "steps.linear_impulses",
    "steps.linear_residual",
    "steps.keep_impulses",
    "steps.prepare",
    "regularisation_adjoint.team_regularisation_adjoint",
}
# What only sweeps need.
OF_SWEEPS = {"impulse.team_velocity_adjoint"}
# Files of the copy, and what the solver uses of them.
MODULES = ("system", "solve", "adjoint", "impulse", "regularisation_adjoint")
USED = {
    "Levels",
    "team_adjoint_kernels",
    "team_impulse_kernels",
    "team_newton_kernels",
    "team_regularisation_kernels",
    "team_work_struct",
}


def rolling(contact: sim.ContactMethod) -> Callable[[], Any]:
    """Bodies that slide and roll."""
    return run_of(replace(plain.skis((0.01, 0.03)), contact=contact))


def sweeping() -> Callable[[], Any]:
    """Bodies whose impulses are swept after the solution."""
    return run_of(mujoco_law.noslip("elliptic"))


def run_of(case: Case, steps: int = 3) -> Callable[[], Any]:
    """A rollout by teams, with its gradient."""
    case = replace(case, steps=steps, options={**case.options, "threads_per_world": 32})
    simulator, given = case.simulator(), case.inputs()
    return lambda: simulator.rollout(simulator.state(given["q"], given["qd"]), given["tau"]).backward(given["q"])


def wedged() -> Callable[[], Any]:
    """Legs that friction presses onto the ground, for which Newton's method tries all that it has."""
    case = pressed_legs(0.002)
    simulator = case.simulator().replace(1, threads_per_world=32)
    return lambda: case.rollout(simulator).backward(case.q[None])


def numbered(text: str, name: str, calls: list[str]) -> str:
    """The source of a file with a number in each call of ``sync``; the function of each is appended to calls."""

    def with_number(call: re.Match[str]) -> str:
        function = re.findall(r"def (\w+)\(", text[: call.start()])[-1]
        calls.append(f"{name}.{function}")
        return f"team.sync_unless({len(calls) - 1})"

    return re.sub(r"team\.sync\(\)", with_number, text)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The functions of the calls, in the order of their numbers; meanwhile steps are those of the copy."""
    folder = tmp_path_factory.mktemp("numbered") / COPY
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    found: list[str] = []
    for path in sorted(folder.glob("*.py")):
        source = numbered(path.read_text(encoding="utf-8"), path.stem, found)
        # All adjoints are refined.
        source = source.replace("scalar(1000.0 * ", "scalar(0.0 * ").replace(f"{original.__name__}.", f"{COPY}.")
        path.write_text(source, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder.parent))
        made = {name: importlib.import_module(f"{COPY}.{name}") for name in MODULES}
        for module in made.values():
            if hasattr(module, "team_functions"):
                patch.setattr(module, "team_functions", with_numbers(module.team_functions))
        patch.setattr(made["solve"], "kernel_module", checked(made["solve"].kernel_module))
        for module in made.values():
            for name in USED & vars(module).keys():
                patch.setattr(solvers, name, getattr(module, name))
        yield found
    for module in [each for each in sys.modules if each.partition(".")[0] == COPY]:
        del sys.modules[module]


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


@pytest.mark.slow
def test_every_sync_is_needed(calls):
    assert len(calls) > 25
    standing = plain.standing()
    hard = [rolling(sim.HardContact()), wedged(), run_of(standing, 8)]
    assert set(not_missed(calls, hard)) == OF_SWEEPS
    mujoco = [rolling(sim.MujocoContact()), sweeping(), run_of(replace(standing, contact=sim.MujocoContact()), 8)]
    assert set(not_missed(calls, mujoco)) == OF_THE_HARD_LAW
