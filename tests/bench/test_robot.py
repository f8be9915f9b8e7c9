"""What the benchmark of robots says of other libraries, of which none is needed here."""

import sys
from collections.abc import Callable, Sequence
from importlib import invalidate_caches
from typing import Any

import numpy as np
import torch

from bench import robot_page, robot_turns, robot_worker
from bench.robot_checks import difference
from bench.robot_libraries import is_installed
from bench.robot_libraries.base import CASES, Robot, State, TorchLibrary


class Cubes(TorchLibrary):
    """Cubes of the coordinates, the gradient of which is right for fk alone."""

    def function(self, case: str) -> Callable[..., Any]:
        def overwritten(q: torch.Tensor) -> torch.Tensor:
            square = q * q
            cube = square * q
            square += 1.0
            return cube

        return {"fk": lambda q: q**3, "crba": lambda q: q * q.detach() ** 2, "aba": overwritten}[case]

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        return [self.tensor(state.q)]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        return result


def test_values_count_without_a_gradient(tmp_path):
    q = np.linspace(-1.0, 2.0, 32).reshape(16, 2)
    known = {"q": q, "qd": q, "qdd": q, "tau": q, "fk": q**3, "crba": q**3, "aba": q**3}
    calls = Cubes(Robot("cubes", tmp_path, False, "", ("a", "b")), "float64", "cpu")
    assert difference(calls, "fk", known, "float64") == (None, None)
    wrong, gradient = difference(calls, "crba", known, "float64")
    assert wrong is None
    assert gradient.startswith("the gradient differs from central differences by ")
    wrong, gradient = difference(calls, "aba", known, "float64")
    assert wrong is None
    assert gradient.startswith(
        "no gradient: RuntimeError: one of the variables needed for gradient computation has been"
    )
    wrong, _ = difference(calls, "aba", known | {"aba": q**2}, "float64")
    assert wrong.startswith("values differ from Pinocchio's by ")


# A library that prints, writes down its turns, and has calls of 1 ms; or of 1 s, or dies at 64 states.
LIBRARY = """
import os, sys
from bench.processes import serve
name, folder = sys.argv[1:]
def answer(do, **arguments):
    print("in Python", flush=True)
    os.write(1, b"in C++")
    if name == "mortal" and arguments.get("batch") == 64:
        os._exit(7)
    with open(f"{folder}/turns.txt", "a") as file:
        print(name, do, file=file)
    return {} if do == "prepare" else [1e-6, 1.0 if name == "slow" else 1e-3], ""
serve(answer)
"""


def measured(monkeypatch, folder, names):
    monkeypatch.setattr(robot_turns, "COMMAND", (sys.executable, "-c", LIBRARY))
    plan = {"robots": [{"name": "arm"}], "dtypes": ["float64"], "batches": [1, 64], "seconds": 0.1, "longest": 2.0}
    return robot_turns.measure(names, plan, folder)


def test_libraries_take_turns(monkeypatch, tmp_path):
    times = measured(monkeypatch, tmp_path, ["quick", "slow"])
    turns = (tmp_path / "turns.txt").read_text().splitlines()
    assert turns[:4] == ["quick prepare", "slow prepare", "quick begin", "slow begin"]
    assert turns[4:10] == ["quick turn", "slow turn", *["quick turn"] * 4]
    assert [(t.library, t.case, t.batch) for t in times[:4]] == [
        ("quick", "fk", 1), ("slow", "fk", 1), ("quick", "fk", 64), ("slow", "fk", 64)
    ]  # fmt: skip
    assert all((t.forward_us, t.backward_us, t.note) == (1.0, 1.0, "") for t in times)


def test_process_that_dies_leaves_only_its_own_columns_empty(monkeypatch, tmp_path, capsys):
    times = measured(monkeypatch, tmp_path, ["mortal", "healthy"])
    assert capsys.readouterr().out.count("mortal: its process ended with status 7") == 1
    assert len(times) == 2 * 2 * len(CASES)
    first, *further = [(t.forward_us, t.backward_us, t.note) for t in times if t.library == "mortal"]
    assert first == (1.0, 1.0, "")
    assert set(further) == {(None, None, "its process ended with status 7")}
    assert all((t.forward_us, t.backward_us, t.note) == (1.0, 1.0, "") for t in times if t.library == "healthy")


def test_what_python_takes_is_timed_beside_the_call_and_subtracted(monkeypatch, tmp_path):
    worker = robot_worker.Worker("Pinocchio", {}, tmp_path)
    order = []
    worker.runs = [lambda: order.append("call") or 5.0, lambda: order.append("overhead") or 3.0]
    worker.states = 2
    monkeypatch.setattr(robot_worker, "seconds_of", lambda run: run())
    assert worker.turn(10.0) == (1.0, 5.0)
    assert order == ["call", "overhead"] * 3  # one of them to warm up


def test_a_call_that_would_take_too_long_is_left_out():
    player = robot_turns.Player(None)
    player.us = {"forward": 3e4, "backward": 1e3}
    assert player.can("forward", 64, 1.0)
    assert player.can("backward", 65, 1.0)
    assert not player.can("forward", 65, 1.0)
    assert player.barred == {"forward": "a call would take longer than 1.0 s"}
    assert not player.can("backward", 64, 1.0)


def test_column_for_each_library_with_figures():
    first = dict(
        case="aba", robot="go2", batch=64, dtype="float64", forward_us=2.0, backward_us=7.0, peer="Pinocchio",
        peer_forward_us=3.0, peer_backward_us=9.0, note="", machine={"processor": "P", "load": "0.1"},
    )  # fmt: skip
    without = first | dict(peer="BARD", peer_forward_us=50.0, peer_backward_us=None, note="BARD: eager. no gradient")
    complete = without | dict(case="fk", peer_forward_us=1.0, peer_backward_us=14.0, note="BARD: eager")
    empty = first | dict(peer="DRM", peer_forward_us=None, peer_backward_us=None, note="DRM: fixed. float32")
    single = empty | dict(dtype="float32", peer_forward_us=80.0, peer_backward_us=90.0, note="DRM: fixed")
    page = robot_page.speed([first, without, complete, empty, single])
    assert "| Backswing | Pinocchio | BARD |\n" in page
    assert "| go2, 18 dof | aba | 64 | 2.00 / 7.00 | 3.00 / 9.00 | 50.00 / – |\n" in page
    assert "\n\n- BARD: eager.\n- DRM: fixed.\n\n" in page
    assert "- BARD: median 2, minimum 0.5 (values of fk, go2, float64, batch 64); below 10 in 2 of 3" in page
    alone = robot_page.speed([first])
    assert "| Backswing | Pinocchio |\n" in alone
    assert "BARD" not in alone


def test_empty_package_of_the_same_name_is_not_bard(monkeypatch, tmp_path):
    package = tmp_path / "bard"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bard", raising=False)
    assert not is_installed("BARD")
    (package / "api.py").touch()
    invalidate_caches()
    assert is_installed("BARD")
    del sys.modules["bard"]
