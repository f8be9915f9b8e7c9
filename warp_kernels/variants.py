"""Several kernels from one source.

A factory that takes flags makes one kernel for each of their values: ``if wp.static(flag)`` leaves out what a variant has no
use for. An argument that a variant doesn't read still costs time in its signature (3 to 6 % of ``solve_mass_matrix``, which
reads 14 of the arguments of ``aba``), so that it is left out there too.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def used_arguments_only(function: Callable) -> Callable:
    """Leave out of a kernel's signature the arguments that its body doesn't use once static branches are resolved.

    Stands between ``@wp.kernel`` and the function::

        @wp.kernel(name="aba" if moving else "solve_mass_matrix", module=module, enable_backward=False)
        @used_arguments_only
        def aba(...):
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(body, ast.FunctionDef)
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    used = {
        node.id
        for statement in body.body
        for branch in [_StaticBranches(scope).visit(statement)]
        for part in (branch if isinstance(branch, list) else [branch])
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }
    signature = inspect.signature(function)
    kept = [parameter for parameter in signature.parameters.values() if parameter.name in used]
    function.__signature__ = signature.replace(parameters=kept)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    return function


class _StaticBranches(ast.NodeTransformer):
    """Puts the branch that is taken in place of each ``if wp.static(...)``."""

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
