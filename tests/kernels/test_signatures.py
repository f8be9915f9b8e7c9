"""Kernels group their arguments and never write to an input. Checked over the syntax tree."""

import re
from pathlib import Path

import pytest

from tests.kernels.signatures import Functions, check_file, read_functions

ROOT = Path(__file__).parents[2]
KERNEL_FILES = sorted((ROOT / "warp_kernels").rglob("*.py"))
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
    (problem,) = check_file(kernel("tools.outer(1.0, q)"), read_functions([HEAD + functions]))
    assert "writes to q" in problem


STRUCTS = """
floats = wp.array(dtype=float)

@wp.struct
class Surface:
    grip: floats

@wp.struct
class Contacts:
    point: wp.array2d(dtype=wp.vec3)
    count: wp.array(dtype=int)
    surface: Surface
    reach: float

@wp.struct
class Frame:
    x: wp.vec3

@wp.func
def grip_of(surface: Surface, i: int):
    return surface.grip[i]

@wp.func
def clear(contacts: Contacts, i: int):
    contacts.point[i, 0] = wp.vec3(0.0)

@wp.func
def clear_all(contacts: Contacts):
    clear(contacts, 0)

@wp.func
def set_grip(grips: floats, i: int):
    grips[i] = 1.0

@wp.func
def turned(frame: Frame):
    frame.x[0] = 1.0
    frame.x = wp.vec3(0.0)
    return frame

"""
STRUCT_GROUPS = "# Data in\n    contacts: Contacts,\n    t_contacts: types.Contacts,\n    # Data out\n    y: Contacts,"


@pytest.mark.parametrize(
    "body",
    [
        "contacts.point[i, 0] = wp.vec3(0.0)",
        "contacts.point[i, 0][1] += 1.0",
        "contacts.reach = 1.0",
        "contacts.surface.grip[i] = 1.0",
        "wp.atomic_add(contacts.count, i, 1)",
        "c = contacts\n    c.count[i] = 1",
        "points = contacts.point\n    row = points[i]\n    row[0] = wp.vec3(0.0)",
        "surface = contacts.surface\n    surface.grip[i] = 1.0",
        "clear(contacts, i)",
        "clear(contacts=contacts, i=i)",
        "clear_all(t_contacts)",
        "tools.set_grip(contacts.surface.grip, i)",
        "grips = contacts.surface.grip\n    set_grip(grips, i)",
    ],
)
def test_checker_finds_write_to_struct(body: str) -> None:
    (problem,) = check_file(HEAD + STRUCTS + kernel(body, STRUCT_GROUPS))
    assert "contacts, an input" in problem
    to_output = re.sub(r"\b(t_)?contacts\b(?!=)", "y", body)
    assert check_file(HEAD + STRUCTS + kernel(to_output, STRUCT_GROUPS)) == []


@pytest.mark.parametrize(
    "body",
    [
        "y.surface.grip[i] = grip_of(contacts.surface, i)",
        "y.point[i, 0] = contacts.point[i, 0]",
        "p = contacts.point[i, 0]\n    p[0] = 1.0\n    y.point[i, 0] = p",
        "frame = Frame()\n    frame.x = contacts.point[i, 0]\n    y.point[i, 0] = turned(frame).x",
    ],
)
def test_checker_accepts_reads_of_structs(body: str) -> None:
    assert check_file(HEAD + STRUCTS + kernel(body, STRUCT_GROUPS)) == []


def test_names_of_types_are_followed() -> None:
    functions = (
        "floats, states2d = wp.array(dtype=float), t.states2d\n"
        "array2d, matrices = (wp.array(dtype=mat33, ndim=n) for n in (2, 3))\n\n"
        "@wp.func\ndef put(a: floats, x: vec3, b: states2d, c: array2d, d: matrices):\n"
        "    a[0] = x[0]\n    x[0] = 0.0\n    b[0, 0] = 0.0\n    row = c[0]\n    row[1] = m\n    d[0, 0, 0] = m\n\n"
    )
    assert read_functions([HEAD + functions]) == Functions({("put", 5): {"a": 0, "b": 2, "c": 3, "d": 4}}, {})


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


def test_kernel_signatures() -> None:
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in KERNEL_FILES}
    functions = read_functions(list(sources.values()))
    problems = [f"{name}: {problem}" for name, source in sources.items() for problem in check_file(source, functions)]
    assert not problems, "\n".join(problems)


def test_kernel_files_keep_annotations() -> None:
    # With annotations as strings, Warp can't see the types that a factory closes over.
    assert [path for path in KERNEL_FILES if "from __future__ import annotations" in path.read_text()] == []
