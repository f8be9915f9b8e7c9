"""What the syntax tree of a kernel file says about its signatures: groups of arguments, and who writes to what."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

INPUT_GROUPS = ("Model", "Parameters", "Data in", "Adjoint in")
OUTPUT_GROUPS = ("Data out", "Adjoint out")
GROUPS = INPUT_GROUPS + OUTPUT_GROUPS
ADJOINT_GROUPS = ("Adjoint in", "Adjoint out")
DIMENSIONS = {"array": 1} | {f"{kind}{n}d": n for kind in ("array", "states") for n in (1, 2, 3, 4)}
# Built-in functions of Warp that write to their first argument.
WRITERS = re.compile(r"^(atomic_\w+|store|tile_store|tile_atomic_add|tile_assign)$")


# What an argument is: the number of dimensions of an array, the fields of a struct, 0 for a value.
Type = int | dict[str, "Type"]
Structs = dict[str, dict[str, Type]]


@dataclass(frozen=True)
class Functions:
    """Every ``@wp.func`` that writes to arguments, and every struct, of some files.

    Attributes:
        written: for each function, by name and number of arguments, the names and positions of those it writes to.
        structs: for each ``@wp.struct``, by name, its fields.
    """

    written: dict[tuple[str, int], dict[str, int]]
    structs: Structs


def check_file(source: str, functions: Functions | None = None) -> list[str]:
    """Problems of every kernel in a file, as lines of text.

    Args:
        source: the text of the file.
        functions: what kernels call, and what their arguments are; see :func:`read_functions`. Default: of this file.
    """
    functions = functions or read_functions([source])
    lines = source.splitlines()
    problems = []
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.FunctionDef) and decorator(node) == "kernel":
            problems += _check_kernel(node, lines, functions)
    return problems


def read_functions(sources: Sequence[str]) -> Functions:
    """What the functions of some files write to, directly or through others, and what the structs there hold."""
    nodes = [node for source in sources for node in ast.walk(_parse(source))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and decorator(node) == "func"]
    found = Functions({}, _read_structs([node for node in nodes if isinstance(node, ast.ClassDef)]))
    changed = True
    while changed:
        changed = False
        for node in functions:
            names = [argument.arg for argument in node.args.args]
            roots = _Body(node, found).written(through_arrays=True)
            known = found.written.setdefault((node.name, len(names)), {})
            new = {name: k for k, name in enumerate(names) if name in roots and name not in known}
            known.update(new)
            changed |= bool(new)
    return found


def _read_structs(nodes: list[ast.ClassDef]) -> Structs:
    """The fields of every ``@wp.struct``; structs within structs are entered as they are found."""
    structs: Structs = {node.name: {} for node in nodes if decorator(node) == "struct"}
    for node in nodes:
        for item in node.body:
            if node.name in structs and isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                structs[node.name][item.target.id] = _type_of(item.annotation, structs)
    return structs


def decorator(node: ast.FunctionDef | ast.ClassDef) -> str | None:
    """The name of the Warp decorator of a function or class: "kernel", "func", "struct" ..., or None."""
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


@functools.cache
def _parse(source: str) -> ast.Module:
    """The syntax tree, with the names of types (``ints = wp.array(dtype=int)``) put back into annotations."""
    tree = ast.parse(source)
    named: dict[str, ast.expr] = {}
    for item in ast.walk(tree):
        if isinstance(item, ast.Assign):
            for target in item.targets:
                named.update(_assigned(target, item.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            for _ in named:
                if not (isinstance(node.annotation, ast.Name) and node.annotation.id in named):
                    break
                node.annotation = named[node.annotation.id]
    return tree


def _assigned(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """What an assignment gives to each name, ``a, b = (wp.array(dtype=x) for x in (u, v))`` included."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    names = target.elts if isinstance(target, ast.Tuple) else []
    values = value.elts if isinstance(value, ast.Tuple) else []
    if isinstance(value, ast.GeneratorExp):
        values = [value.elt] * len(names)
    pairs = zip(names, values, strict=False)
    # The dimensions may be what the generator counts: those that a name such as array2d says itself are right.
    return {name.id: given for name, given in pairs if isinstance(name, ast.Name) and name.id not in DIMENSIONS}


def _check_kernel(node: ast.FunctionDef, lines: list[str], functions: Functions) -> list[str]:
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
    for name, number in _Body(node, functions).written().items():
        if group_of.get(name) in INPUT_GROUPS:
            problems.append(f"line {number}: kernel {node.name}: writes to {name}, an input ('# {group_of[name]}')")
    return problems


class _Body:
    """The body of a function or kernel: which of its arguments it writes to, aliases and calls followed."""

    def __init__(self, node: ast.FunctionDef, functions: Functions):
        self.node = node
        self.functions = functions
        self.arguments = {a.arg: _type_of(a.annotation, functions.structs) for a in node.args.args}
        self.types = dict(self.arguments)  # of local names too, as far as they are views of arguments
        self.alias = {name: name for name in self.arguments}
        for item in ast.walk(node):
            if isinstance(item, ast.Assign):
                kind, root = self._type(item.value), _root(item.value)
                for target in item.targets:
                    if isinstance(target, ast.Name) and kind and root in self.alias and target.id not in self.arguments:
                        self.types[target.id], self.alias[target.id] = kind, self.alias[root]

    def written(self, through_arrays: bool = False) -> dict[str, int]:
        """Arguments that the body writes to, with the line.

        Args:
            through_arrays: leave out what the caller doesn't see, such as a field of a struct set to something else.
        """
        roots: dict[str, int] = {}
        for target, line in self._targets():
            root = self.alias.get(_root(target) or "")
            if root and (self._through_array(target) if through_arrays else self._is_write(target)):
                roots.setdefault(root, line)
        return roots

    def _targets(self) -> Iterator[tuple[ast.expr, int]]:
        """Every expression that is stored to, here or by what is called here."""
        for item in ast.walk(self.node):
            if isinstance(item, ast.Assign | ast.AugAssign | ast.AnnAssign):
                for target in item.targets if isinstance(item, ast.Assign) else [item.target]:
                    for leaf in ast.walk(target):
                        if isinstance(getattr(leaf, "ctx", None), ast.Store):
                            yield leaf, item.lineno
            elif isinstance(item, ast.Call):
                for given in self._arguments_written_by(item):
                    yield given, item.lineno

    def _arguments_written_by(self, call: ast.Call) -> list[ast.expr]:
        name, builtin = _called(call)
        if builtin:
            return call.args[:1] if name and WRITERS.match(name) else []
        written = self.functions.written.get((name or "", len(call.args) + len(call.keywords)), {})
        by_position = [call.args[k] for k in written.values() if k < len(call.args)]
        return by_position + [keyword.value for keyword in call.keywords if keyword.arg in written]

    def _is_write(self, target: ast.expr) -> bool:
        """Whether an argument is stored to, be it a value; a local that was a view of one may become something else."""
        return not isinstance(target, ast.Name) or isinstance(target.ctx, ast.Load) or target.id in self.arguments

    def _through_array(self, target: ast.expr) -> bool:
        """Whether a store reaches memory that the caller sees: through an index, or by a function that is handed it."""
        if isinstance(target, ast.Name | ast.Attribute) and not isinstance(target.ctx, ast.Store):
            return bool(self._type(target))
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
            kind = self._type(target)
            if isinstance(kind, int) and kind > 0:
                return True
        return False

    def _type(self, value: ast.expr) -> Type:
        """What an expression is, as far as it is an argument, or a field or slice of one."""
        if isinstance(value, ast.Name):
            return self.types.get(value.id, 0)
        if isinstance(value, ast.Attribute):
            owner = self._type(value.value)
            return owner.get(value.attr, 0) if isinstance(owner, dict) else 0
        if isinstance(value, ast.Subscript):
            owner = self._type(value.value)
            indices = len(value.slice.elts) if isinstance(value.slice, ast.Tuple) else 1
            return max(owner - indices, 0) if isinstance(owner, int) else 0
        return 0


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


def _type_of(note: ast.expr | None, structs: Structs) -> Type:
    """What an annotation says: ``wp.array2d(dtype=...)``, ``t.states2d`` or a struct; 0 for values."""
    if isinstance(note, ast.Call) and isinstance(note.func, ast.Attribute):
        for keyword in note.keywords:
            if keyword.arg == "ndim" and isinstance(keyword.value, ast.Constant):
                return int(keyword.value.value)
        return DIMENSIONS.get(note.func.attr, 0)
    name = note.attr if isinstance(note, ast.Attribute) else note.id if isinstance(note, ast.Name) else ""
    return structs.get(name) or DIMENSIONS.get(name, 0)
