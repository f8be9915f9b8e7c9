"""Several kernels from one source.

A factory with flags makes one kernel for each of their values: ``if wp.static(flag)`` omits code that a variant doesn't
need. An argument that a variant doesn't read still costs time in its signature (3 to 6 % of ``solve_mass_matrix``,
which reads 14 of the arguments of ``aba``), so that it is omitted there too.
"""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import warp as wp


def used_arguments_only(function: Callable) -> Callable:
    """Remove from a kernel's signature the arguments that its body doesn't use once static branches are resolved.

    Stands between ``@wp.kernel`` and the function::

        @wp.kernel(name="aba" if moving else "solve_mass_matrix", module=module, enable_backward=False)
        @used_arguments_only
        def aba(...):
    """
    used = {node.id for part in _statements(function) for node in ast.walk(part) if isinstance(node, ast.Name)}
    signature = inspect.signature(function)
    kept = [parameter for parameter in signature.parameters.values() if parameter.name in used]
    function.__signature__ = signature.replace(parameters=kept)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    return function


def looped_over_slots(looping: bool) -> Callable[[Callable], Callable]:
    """Convert a kernel over (slot, world) to one over worlds, whose threads loop over the existing contacts.

    Most slots are empty, and a CPU, which visits them one after the other, spends more time on them than on contacts. A
    GPU has a thread for each: with a loop such kernels need more registers than it has. Stands between ``@wp.kernel``
    and a function that begins so::

        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return

    Args:
        looping: whether to loop. False returns the function unchanged.
    """
    return _looped if looping else lambda function: function


def _looped(function: Callable) -> Callable:
    """Return the loop over the function after its beginning, as a Warp function."""
    statements = list(map(ast.unparse, _statements(function)))
    if statements[:2] != _BEGINNING:
        raise ValueError(f"{function.__name__} does not begin as a kernel over (slot, world)")
    types = {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}
    body = wp.func(_compiled(function, {"slot": int, "world": int, **types}, "\n".join(statements[2:]), {}))
    # Its adjoint reruns it itself.
    body.skip_replay = True
    loop = f"world = wp.tid()\nfor slot in range(contact_count[world]):\n    in_slot(slot, world, {', '.join(types)})"
    return _compiled(function, types, loop, {"in_slot": body})


_BEGINNING = ["slot, world = wp.tid()", "if slot >= contact_count[world]:\n    return"]


def _compiled(model: Callable, types: dict[str, Any], body: str, further: dict[str, Any]) -> Callable:
    """Compile a function in the scope of another one, with arguments of these types.

    Warp reads the source of functions from Python's cache of source lines.
    """
    source = f"def {model.__name__}({', '.join(types)}):\n{textwrap.indent(body, '    ')}\n"
    file = f"<{model.__module__}.{model.__qualname__}({', '.join(types)})>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {**model.__globals__, **inspect.getclosurevars(model).nonlocals, **further}
    exec(compile(source, file, "exec"), names)
    made = names[model.__name__]
    made.__annotations__, made.__module__, made.__qualname__ = types, model.__module__, model.__qualname__
    return made


def _statements(function: Callable) -> list[ast.stmt]:
    """Return the body of a function without its docstring, with static branches resolved."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(body, ast.FunctionDef)
    branches = _StaticBranches({**function.__globals__, **inspect.getclosurevars(function).nonlocals})
    statements = body.body[1:] if ast.get_docstring(body) else body.body
    return [part for statement in statements for part in _as_list(branches.visit(statement))]


class _StaticBranches(ast.NodeTransformer):
    """Transformer that replaces each ``if wp.static(...)`` by the branch taken."""

    def __init__(self, scope: dict[str, Any]):
        self.scope = scope

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        test = node.test
        if isinstance(test, ast.Call) and ast.unparse(test.func) == "wp.static":
            taken = node.body if eval(ast.unparse(test.args[0]), self.scope) else node.orelse
            return [part for statement in taken for part in _as_list(self.visit(statement))]
        return self.generic_visit(node)


def _as_list(visited: ast.AST | list[ast.stmt]) -> list:
    return visited if isinstance(visited, list) else [visited]
