"""Compile every kernel for a GPU that needn't be there, and read Warp's remarks about it."""

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import warp as wp

from tests.kernels.signatures import decorator, differentiable
from warp_kernels.types import INLINED

# Compute capabilities: the one whose registers are bounded, and all that kernels compile for. Warp's compiler has
# different optimisers for the two.
ARCH = 90
ARCHS = (ARCH, 120)


class Collector:
    """A Warp logger that keeps its messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def debug(self, message: str) -> None:
        self.messages.append(message)

    def info(self, message: str) -> None:
        pass

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        self.messages.append(message)

    def error(self, message: str) -> None:
        self.messages.append(message)


@contextmanager
def warp_messages() -> Iterator[list[str]]:
    """Everything that Warp says, debug messages of its code generator included."""
    collector, level = Collector(), wp.config.log_level
    wp.config.log_level = wp.LOG_DEBUG
    wp.set_logger(collector)
    try:
        yield collector.messages
    finally:
        wp.set_logger(None)
        wp.config.log_level = level


def compile_ahead(module: wp.Module, folder: Path, level: int | None = 3, arch: int = ARCH) -> Path:
    """Compile a Warp module to PTX; no GPU is needed. Raises what Warp raises if it does not compile.

    The option of names without a hash is taken back: with it, every later load of the module in this process would take
    what lies in the kernel cache under the plain name, be it of an older source with other arguments.

    Args:
        module: the module, with all its kernels defined.
        folder: where the PTX file is written.
        level: of optimisation; 3 is that of kernels that run. None only translates, in a fifth of the time or less.
        arch: compute capability, times ten.
    """
    changed = {"optimization_level": level, "mode": "release"}
    if level is None:
        # Functions that are copied into kernels are translated as often as they are called.
        preamble = module.options["extra_build_options"].extra_cuda_preamble.replace(INLINED, "")
        changed |= {"mode": "debug", "extra_build_options": wp.ModuleBuildOptions(extra_cuda_preamble=preamble)}
    before = {name: module.options[name] for name in ("strip_hash", *changed)}
    try:
        wp.set_module_options(changed, module)
        wp.compile_aot_module(module, device=None, arch=arch, module_dir=str(folder), use_ptx=True, strip_hash=True)
    finally:
        wp.set_module_options(before, module)
    (path,) = folder.glob(f"wp_{module.name}.sm{arch}.ptx")
    return path


def differentiation_warnings(messages: list[str], sources: list[str]) -> list[str]:
    """Warp's remarks that an operation is not differentiable, in code for which it generates an adjoint.

    Args:
        messages: what Warp said while it generated the code.
        sources: the texts of the kernel files; kernels with ``enable_backward=False``, functions that only they call,
            and those with an adjoint of their own (``wp.func_grad``) have no generated one that could be wrong.
    """
    differentiated = _differentiated_names(sources)
    remarks = []
    for message in messages:
        if "differentiable" in message:
            name = _named_function(message)
            if name is None or name in differentiated:
                remarks.append(message)
    return remarks


def _named_function(message: str) -> str | None:
    found = re.search(r'(?:function|kernel) "?(\w+)"? at ', message)
    return found.group(1) if found else None


def _differentiated_names(sources: list[str]) -> set[str]:
    """Names of the kernels with a generated adjoint and of all functions that they reach and that have one too."""
    calls: dict[str, set[str]] = {}
    reached: set[str] = set()
    written_by_hand: set[str] = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and decorator(node) in ("kernel", "func"):
                calls.setdefault(node.name, set()).update(_names_called(node))
                # wp.grad(f) asks for the adjoint of f, whatever kernel it stands in.
                reached |= _names_in_grad(node)
                if decorator(node) == "kernel" and differentiable(node):
                    reached.add(node.name)
            if isinstance(node, ast.FunctionDef):
                written_by_hand |= _names_in_func_grad(node)
    stack = list(reached)
    while stack:
        for name in calls.get(stack.pop(), set()) - reached - written_by_hand:
            reached.add(name)
            stack.append(name)
    return reached


def _names_called(node: ast.AST) -> set[str]:
    return {name for item in ast.walk(node) if isinstance(item, ast.Call) for name in [_last_name(item.func)] if name}


def _names_in_grad(node: ast.AST) -> set[str]:
    calls = [item for item in ast.walk(node) if isinstance(item, ast.Call) and _last_name(item.func) == "grad"]
    return {name for call in calls for argument in call.args for name in [_last_name(argument)] if name}


def _names_in_func_grad(node: ast.FunctionDef) -> set[str]:
    calls = [
        item for item in node.decorator_list if isinstance(item, ast.Call) and _last_name(item.func) == "func_grad"
    ]
    return {name for call in calls for argument in call.args for name in [_last_name(argument)] if name}


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
