"""Kernels are launched by the names of their arguments: Warp's own launch, by position, is called in one file alone."""

import ast

import pytest

from tests.layout.imports import ROOT, python_files

NAMES = ("launch", "launch_tiled", "record_launch")
LAUNCHER = ROOT / "sim" / "arrays" / "launch.py"
COUNTER = ROOT / "bench" / "traffic.py"  # notes what is launched


def launches_by_position(source: str) -> list[int]:
    """The lines of a file that call Warp's own launch, or record a launch with a list of arguments.

    By name are ``wp.launch(kernel, dim, bind(...), record_cmd=True)`` and
    ``tape.record_launch(kernel, dim, 0, bind(...))``.
    """
    lines, by_name = [], set()
    for node in ast.walk(ast.parse(source)):  # a call comes before its parts
        if isinstance(node, ast.ImportFrom) and node.module == "warp":
            lines += [node.lineno for alias in node.names if alias.name in NAMES]
        elif isinstance(node, ast.Attribute) and node.attr in NAMES and node not in by_name:
            if node.attr == "record_launch" or (isinstance(node.value, ast.Name) and node.value.id in ("wp", "warp")):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call):
            bound = any(isinstance(value, ast.Call) and _name(value.func) == "bind" for value in node.args)
            recorded = any(keyword.arg == "record_cmd" for keyword in node.keywords)
            if bound and (recorded or _name(node.func) == "record_launch"):
                by_name.add(node.func)
    return sorted(lines)


def _name(function: ast.expr) -> str | None:
    return getattr(function, "attr", getattr(function, "id", None))


@pytest.mark.parametrize("package", ["sim", "scenes", "examples", "bench"])
def test_no_launch_by_position(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(package)
        if path not in (LAUNCHER, COUNTER)
        for line in launches_by_position(path.read_text())
    ]
    assert not found, f"launch these by name, see sim/arrays/launch.py: {', '.join(found)}"


def test_launches_by_position_are_found() -> None:
    source = """
from warp import launch_tiled
wp.launch(kernel, 1, [x])
wp.launch(kernel, 1, inputs=[x], record_cmd=True)
wp.launch(kernel, 1, bind(kernel, self))
wp.launch(kernel, 1, bind(kernel, self), record_cmd=True)
tape.record_launch(kernel, 1, 0, [x], [], device)
tape.record_launch(kernel, 1, 0, bind(kernel, self), [], device)
run = wp.launch
launch(kernel, 1, self, device=device)
graph.launch()
"""
    assert launches_by_position(source) == [2, 3, 4, 5, 7, 9]
