"""Kernels group their arguments and never write to an input; imports run one way. Checked over the syntax tree."""

import ast
from pathlib import Path

import pytest

from tests.kernels.signatures import check_file, functions_that_write

ROOT = Path(__file__).parents[2]
KERNEL_FILES = sorted((ROOT / "warp_kernels").rglob("*.py"))
# Each may import those below it.
LAYERS = {"warp_kernels": 0, "sim": 1, "scenes": 2, "examples": 3, "bench": 4, "tests": 5}

HEAD = "import warp as wp\n\n"
GOOD = (
    HEAD
    + """
@wp.func
def accumulate(total: wp.array2d(dtype=float), i: int, x: float):
    total[i, 0] += x

@wp.func
def bump(v: wp.vec3):
    v[0] = 1.0
    return v

@wp.kernel(module=module)
def good(
    # Model
    parent: wp.array(dtype=int),
    # Data in
    q: wp.array2d(dtype=float),
    v: wp.array(dtype=wp.vec3),
    # Data out
    qdd: wp.array2d(dtype=float),
    total: wp.array2d(dtype=float),
):
    i = wp.tid()
    x = q[i, 0]
    x += 1.0
    u = v[i]
    u[0] = 2.0
    row = qdd[i]
    row[0] = x
    wp.atomic_add(total, i, 0, x)
    accumulate(total, i, x)
    bump(v[i])
"""
)


def kernel(
    body: str, groups: str = "# Data in\n    q: wp.array2d(dtype=float),\n    # Data out\n    y: wp.array(dtype=float),"
) -> str:
    return HEAD + f"@wp.kernel\ndef bad(\n    {groups}\n):\n    i = wp.tid()\n    {body}\n"


def test_checker_accepts_good_kernel() -> None:
    assert check_file(GOOD) == []


@pytest.mark.parametrize(
    "body",
    [
        "q[i, 0] = 1.0",
        "q[i, 0] += 1.0",
        "q[i, 0], y[i] = 1.0, 2.0",
        "q[i, 0].v[1] = 1.0",
        "wp.atomic_add(q, i, 0, 1.0)",
        "wp.atomic_max(q, i, 0, 1.0)",
        "wp.tile_store(q, tile)",
        "row = q[i]\n    row[0] = 1.0",
        "row = q\n    row[i, 0] = 1.0",
        "q = y",
        "for k in range(3):\n        if k > 1:\n            q[i, k] = 0.0",
    ],
)
def test_checker_finds_write_to_input(body: str) -> None:
    (problem,) = check_file(kernel(body))
    assert "writes to q" in problem


def test_checker_finds_write_through_functions() -> None:
    functions = (
        "floats = wp.array(dtype=float)\n\n"
        "@wp.func\ndef inner(a: floats, x: float):\n    a[0] = x\n\n"
        "@wp.func\ndef outer(x: float, b: wp.array(dtype=float)):\n    inner(b, x)\n\n"
    )
    (problem,) = check_file(HEAD + functions + kernel("outer(1.0, q)"))
    assert "writes to q" in problem
    (problem,) = check_file(kernel("tools.outer(1.0, q)"), functions_that_write([HEAD + functions]))
    assert "writes to q" in problem


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("q: wp.array(dtype=float),\n    # Data out\n    y: wp.array(dtype=float),", "belongs to no group"),
        ("# Inputs\n    q: wp.array(dtype=float),\n    # Data out\n    y: wp.array(dtype=float),", "is no group"),
        ("# Data in\n    q: wp.array(dtype=float),\n    # Data in\n    y: wp.array(dtype=float),", "stands twice"),
    ],
)
def test_checker_finds_missing_groups(groups: str, message: str) -> None:
    assert any(message in problem for problem in check_file(kernel("x = q[i]", groups)))


def test_checker_finds_adjoints_among_the_data() -> None:
    groups = "# Data in\n    q_bar: wp.array(dtype=float),\n    # Data out\n    y: wp.array(dtype=float),"
    (problem,) = check_file(kernel("y[i] = q_bar[i]", groups))
    assert "q_bar is an adjoint under '# Data in'" in problem
    assert check_file(kernel("y[i] = q_bar[i]", groups.replace("# Data in", "# Adjoint in"))) == []


def test_kernel_files_are_found() -> None:
    names = {path.name for path in KERNEL_FILES}
    assert {"kinematics.py", "aba.py"} <= names
    assert sum("@wp.kernel" in path.read_text() for path in KERNEL_FILES) >= 2


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_kernel_signatures(path: Path) -> None:
    writers = functions_that_write([file.read_text() for file in KERNEL_FILES])
    assert check_file(path.read_text(), writers) == []


def imported(source: str) -> set[str]:
    """Top-level packages that a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", [name for name in LAYERS if name != "tests"])
def test_imports_run_one_way(package: str) -> None:
    allowed = {name for name, layer in LAYERS.items() if layer < LAYERS[package]} | {package}
    for path in sorted((ROOT / package).rglob("*.py")):
        wrong = (imported(path.read_text()) & set(LAYERS)) - allowed
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_import_check_sees_imports_inside_functions() -> None:
    assert imported("def f():\n    from sim.model.model import Model\n    import scenes.throw\n") == {"sim", "scenes"}


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_kernel_files_keep_annotations(path: Path) -> None:
    # With annotations as strings, Warp can't see the types that a factory closes over.
    assert "from __future__ import annotations" not in path.read_text()
