"""What the syntax tree of a kernel file says about its signatures: groups of arguments, and who writes to what."""

import ast
import re
from dataclasses import dataclass, field

INPUT_GROUPS = ("Model", "Parameters", "Data in", "Adjoint in")
OUTPUT_GROUPS = ("Data out", "Adjoint out")
GROUPS = INPUT_GROUPS + OUTPUT_GROUPS
ADJOINT_GROUPS = ("Adjoint in", "Adjoint out")
DIMENSIONS = {"array": 1, "array1d": 1, "array2d": 2, "array3d": 3, "array4d": 4}
# Built-in functions of Warp that write to their first argument.
WRITERS = re.compile(r"^(atomic_\w+|store|tile_store|tile_atomic_add|tile_assign)$")


@dataclass
class Writes:
    """Names written to inside one function, and the calls that may write on its behalf."""

    roots: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[str, list[str | None], int]] = field(default_factory=list)


def check_file(source: str, written_positions: dict[tuple[str, int], set[int]] | None = None) -> list[str]:
    """Problems of every kernel in a file, as lines of text.

    Args:
        source: the text of the file.
        written_positions: for ``(function name, number of arguments)``, the arguments that it writes to; see
            :func:`functions_that_write`. Default: those of this file.
    """
    tree = _parse(source)
    if written_positions is None:
        written_positions = functions_that_write([source])
    lines = source.splitlines()
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and decorator(node) == "kernel":
            problems += _check_kernel(node, lines, written_positions)
    return problems


def functions_that_write(sources: list[str]) -> dict[tuple[str, int], set[int]]:
    """For every ``@wp.func``, by name and number of arguments, the positions of the arguments that it writes to."""
    functions = [
        node
        for source in sources
        for node in ast.walk(_parse(source))
        if isinstance(node, ast.FunctionDef) and decorator(node) == "func"
    ]
    written: dict[tuple[str, int], set[int]] = {}
    changed = True
    while changed:
        changed = False
        for node in functions:
            names = [argument.arg for argument in node.args.args]
            roots = _written_names(node, written)
            positions = {k for k, name in enumerate(names) if name in roots and _dimensions(node.args.args[k])}
            known = written.setdefault((node.name, len(names)), set())
            changed |= not positions <= known
            known |= positions
    return written


def decorator(node: ast.FunctionDef) -> str | None:
    """The name of the Warp decorator of a function: "kernel", "func" ..., or None."""
    for item in node.decorator_list:
        target = item.func if isinstance(item, ast.Call) else item
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "wp":
            return target.attr
    return None


def differentiable(node: ast.FunctionDef) -> bool:
    """Whether Warp generates the adjoint of a kernel."""
    for item in node.decorator_list:
        if isinstance(item, ast.Call):
            for keyword in item.keywords:
                if keyword.arg == "enable_backward" and isinstance(keyword.value, ast.Constant):
                    return bool(keyword.value.value)
    return True


def _parse(source: str) -> ast.Module:
    """The syntax tree, with the names of array types (``ints = wp.array(dtype=int)``) put back into the signatures."""
    tree = ast.parse(source)
    named = {
        target.id: item.value
        for item in ast.walk(tree)
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id in named:
            node.annotation = named[node.annotation.id]
    return tree


def _check_kernel(node: ast.FunctionDef, lines: list[str], written: dict[tuple[str, int], set[int]]) -> list[str]:
    problems = []
    group_of: dict[str, str] = {}
    headers = []
    arguments = sorted(node.args.args, key=lambda a: (a.lineno, a.col_offset))
    for number in range(node.lineno, node.body[0].lineno):
        text = lines[number - 1].strip()
        if text.startswith("#"):
            headers.append((number, text[1:].strip()))
    for number, name in headers:
        if name not in GROUPS:
            problems.append(
                f"line {number}: kernel {node.name}: '# {name}' is no group; the groups are {', '.join(GROUPS)}"
            )
    names = [name for _, name in headers]
    for name in {name for name in names if names.count(name) > 1}:
        problems.append(f"line {node.lineno}: kernel {node.name}: group '# {name}' stands twice")
    for argument in arguments:
        above = [name for number, name in headers if number < argument.lineno]
        if not above:
            problems.append(f"line {argument.lineno}: kernel {node.name}: argument {argument.arg} belongs to no group")
        else:
            group_of[argument.arg] = above[-1]
    for argument in arguments:
        group = group_of.get(argument.arg)
        if argument.arg.endswith("_bar") and group is not None and group not in ADJOINT_GROUPS:
            problems.append(
                f"line {argument.lineno}: kernel {node.name}: {argument.arg} is an adjoint under '# {group}'"
            )
    for name, number in _written_names(node, written).items():
        if group_of.get(name) in INPUT_GROUPS:
            problems.append(f"line {number}: kernel {node.name}: writes to {name}, an input ('# {group_of[name]}')")
    return problems


def _written_names(node: ast.FunctionDef, written: dict[tuple[str, int], set[int]]) -> dict[str, int]:
    """Arguments of a function that its body writes to, with the line, aliases and calls followed."""
    arrays = {a.arg: _dimensions(a) for a in node.args.args}
    alias = {name: name for name in arrays}
    roots: dict[str, int] = {}

    def note(name: str | None, line: int) -> None:
        if name in alias:
            roots.setdefault(alias[name], line)

    for item in ast.walk(node):
        if isinstance(item, ast.Assign):
            value = _view_of(item.value, arrays, alias)
            for target in item.targets:
                if isinstance(target, ast.Name) and value is not None and target.id not in arrays:
                    alias[target.id] = value
    for item in ast.walk(node):
        if isinstance(item, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            for target in targets:
                for leaf in ast.walk(target):
                    if isinstance(leaf, ast.Subscript | ast.Attribute) and isinstance(leaf.ctx, ast.Store):
                        note(_root(leaf), item.lineno)
                    elif isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store) and leaf.id in arrays:
                        note(leaf.id, item.lineno)
        elif isinstance(item, ast.Call):
            name, builtin = _called(item)
            if builtin and name and WRITERS.match(name) and item.args:
                note(_root(item.args[0]), item.lineno)
            elif name:
                for position in written.get((name, len(item.args)), ()):
                    note(_root(item.args[position]), item.lineno)
    return roots


def _view_of(value: ast.expr, arrays: dict[str, int], alias: dict[str, str]) -> str | None:
    """The argument of which an expression is the array itself or a slice of it; None for values read from it."""
    if isinstance(value, ast.Name):
        return alias.get(value.id) if arrays.get(alias.get(value.id, ""), 0) else None
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        name = alias.get(value.value.id)
        indices = len(value.slice.elts) if isinstance(value.slice, ast.Tuple) else 1
        return name if name and 0 < indices < arrays.get(name, 0) else None
    return None


def _root(node: ast.expr) -> str | None:
    """``x`` of ``x``, ``x[i]``, ``x[i].v[0]``; None for anything else, such as ``wp.adjoint[x][i]``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id != "wp" else None


def _called(call: ast.Call) -> tuple[str | None, bool]:
    """The name of a called function, and whether it is Warp's own."""
    if isinstance(call.func, ast.Name):
        return call.func.id, False
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        return call.func.attr, isinstance(owner, ast.Name) and owner.id == "wp"
    return None, False


def _dimensions(argument: ast.arg) -> int:
    """Number of dimensions of an argument's array type; 0 where it is none."""
    note = argument.annotation
    if isinstance(note, ast.Call) and isinstance(note.func, ast.Attribute):
        for keyword in note.keywords:
            if keyword.arg == "ndim" and isinstance(keyword.value, ast.Constant):
                return int(keyword.value.value)
        return DIMENSIONS.get(note.func.attr, 0)
    return 0
