"""Kernels are launched by the names of their arguments: Warp's own launch, by position, is called in one file alone."""

import ast

import pytest

from tests.layout.imports import ROOT, python_files

LAUNCHER = ROOT / "sim" / "arrays" / "launch.py"


def launches_by_position(source: str) -> list[int]:
    """The lines of a file that call Warp's own launch, or record a launch with a list of arguments.

    ``tape.record_launch(kernel, dim, max_blocks, bind(...), ...)`` is by name.
    """
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("launch", "launch_tiled"):
            if isinstance(node.value, ast.Name) and node.value.id in ("wp", "warp"):
                lines.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module == "warp":
            lines += [node.lineno for alias in node.names if alias.name in ("launch", "launch_tiled")]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "record_launch":
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            lines += [node.lineno for value in given if any(isinstance(part, ast.List) for part in ast.walk(value))]
    return sorted(set(lines))


@pytest.mark.parametrize("package", ["sim", "scenes", "examples", "bench"])
def test_no_launch_by_position(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(package)
        if path != LAUNCHER
        for line in launches_by_position(path.read_text())
    ]
    assert not found, f"launch these by name, see sim/arrays/launch.py: {', '.join(found)}"


def test_launches_by_position_are_found() -> None:
    source = """
from warp import launch_tiled
wp.launch(kernel, 1, [x])
wp.launch(kernel, 1, inputs=[x], record_cmd=True)
tape.record_launch(kernel, 1, 0, [x], [], device)
tape.record_launch(kernel, 1, 0, bind(kernel, self), (), device)
run = wp.launch
launch(kernel, 1, self, device=device)
graph.launch()
"""
    assert launches_by_position(source) == [2, 3, 4, 5, 7]
