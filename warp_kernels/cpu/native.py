"""Native functions of kernels, with their C++ in the header files next to this module.

A function of a kernel is declared in Python, with its arguments and no body; the C++ function of the same name is a
template over the scalar type and the number of lanes, in the namespace ``backswing`` or one within it::

    native = Native(scalar, lanes, "newton")

    @native.func_native()
    def find_square(group: int, nv: int, residual: of_worlds, shared: Group):
        '''Squared norm of the residual.'''

calls ``backswing::newton::find_square<wp::float32, 8>(group, nv, residual, shared)``. Structs of Warp arrive as C++
structs with the same fields: pass them instead of many arrays. With one lane the template has the scalar type alone.
Such functions run on GPUs too; those of several lanes only on CPUs.

``kinds.h`` isn't a file: :mod:`warp_kernels.constraints.kinds` writes it.

The module of a kernel that calls such a function names the headers (``kernel_module(...,
headers=("newton/system.h",))``). Their text, with that of the headers that they include, each once, precedes the source
of the module. Warp hashes it with everything else, so that a changed header compiles exactly the modules that contain
it, and no compiler has to find a file.
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import warp as wp

FOLDER = Path(__file__).parent
# Headers that Python writes, by name; their sources follow from tables.
WRITTEN: dict[str, str] = {}
# Headers of this folder. Those in angle brackets are Warp's, which precede the source of every module.
_INCLUDE = re.compile(r'\s*#\s*include\s+(?:"(?P<own>[^"]+)"|<[^>]+>)')
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")


@functools.cache
def header_source(headers: tuple[str, ...], folder: Path = FOLDER) -> str:
    """Return the text of headers and of those that they include, as one C++ source.

    Args:
        headers: paths relative to ``folder``.
        folder: folder of the headers.

    Raises:
        ValueError: for a header that isn't in ``folder``.
    """
    seen: set[Path] = set()
    return "".join(_expanded((folder / header).resolve(), folder.resolve(), seen) for header in headers)


def _expanded(path: Path, folder: Path, seen: set[Path]) -> str:
    """Return the text of a header, or nothing if it has been included before.

    Sources of several calls may be concatenated: a macro replaces ``#pragma once``.
    """
    if path in seen:
        return ""
    seen.add(path)
    name = path.relative_to(folder).as_posix()
    guard = "BACKSWING_HEADER_" + re.sub(r"\W", "_", name).upper()
    lines = [f'#ifndef {guard}\n#define {guard}\n#line 1 "backswing/{name}"\n']
    for number, line in enumerate(_text_of(path, name).splitlines(), 1):
        include = _INCLUDE.match(line)
        if include and include["own"]:
            lines.append(_expanded((path.parent / include["own"]).resolve(), folder, seen))
            lines.append(f'#line {number + 1} "backswing/{name}"\n')
        else:
            lines.append("\n" if include or _ONCE.match(line) else f"{line}\n")
    return "".join([*lines, "#endif\n"])


def _text_of(path: Path, name: str) -> str:
    """Return the text of a header, which Python may have written."""
    return WRITTEN[name] if name in WRITTEN else path.read_text(encoding="utf-8")


def with_headers(
    options: wp.ModuleBuildOptions, headers: tuple[str, ...], folder: Path = FOLDER
) -> wp.ModuleBuildOptions:
    """Return the options of a module whose source begins with headers as well."""
    if not headers:
        return options
    source = header_source(headers, folder) + '#line 1 "kernels"\n'
    return options.merged(wp.ModuleBuildOptions(extra_cpu_preamble=source, extra_cuda_preamble=source))


class Native:
    """C++ templates of one namespace, for one precision and number of lanes.

    Args:
        scalar: precision, first argument of the templates. None: they have none.
        lanes: worlds of a lane group, their second argument. Templates for one world have none.
        namespace: within ``backswing``, where they are.
    """

    def __init__(self, scalar: Any, lanes: int, namespace: str = ""):
        self._arguments = [f"wp::{scalar.__name__}"] if scalar else []
        if lanes > 1:
            self._arguments.append(str(lanes))
        self._scope = f"backswing::{namespace}::" if namespace else "backswing::"

    def func_native(self, *values: Any, template: str | None = None) -> Callable[[Callable[..., Any]], wp.Function]:
        """Return a decorator for a function of Warp that calls the template of its name.

        Warp finds the return type of a native function only if a decorator has this name.

        Args:
            values: further arguments of the template: bools, ints or names.
            template: its name. Default: that of the function.
        """

        def declare(function: Callable[..., Any]) -> wp.Function:
            names = inspect.signature(function).parameters
            code = self.call(
                template or function.__name__, *names, values=values, returns="return" in function.__annotations__
            )
            return wp.func_native(code)(function)

        return declare

    def call(self, template: str, *names: str, values: Sequence[Any] = (), returns: bool = False) -> str:
        """Return the body of a native function, for ``wp.func_native``.

        Needed for functions with overloads, which Warp looks up in the scope of ``wp.func_native``.

        Args:
            template: name of the C++ template.
            names: of the arguments.
            values: further arguments of the template.
            returns: whether the function returns anything.
        """
        of = ", ".join([*self._arguments, *map(_text, values)])
        name = f"{self._scope}{template}<{of}>" if of else self._scope + template
        return f"\n    {'return ' if returns else ''}{name}({', '.join(names)});\n"


def _text(value: Any) -> str:
    """Return a template argument in C++."""
    return str(value).lower() if isinstance(value, bool) else str(value)
