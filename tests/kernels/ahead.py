"""Compile every kernel for a GPU that needn't be there, and read what the compiler says about it."""

import ast
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import warp as wp

from tests.kernels.signatures import decorator, differentiable

ARCH = 90


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes on the GPU: registers per thread, bytes per thread of the rest."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


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


def compile_ahead(module: wp.Module, folder: Path) -> Path:
    """Compile a Warp module to PTX; no GPU is needed. Raises what Warp raises if it does not compile.

    The option of names without a hash is taken back: with it, every later load of the module in this process would take
    what lies in the kernel cache under the plain name, be it of an older source with other arguments.
    """
    before = module.options["strip_hash"]
    try:
        wp.compile_aot_module(module, device=None, arch=ARCH, module_dir=str(folder), use_ptx=True, strip_hash=True)
    finally:
        wp.set_module_options({"strip_hash": before}, module)
    (path,) = folder.glob(f"wp_{module.name}.sm{ARCH}.ptx")
    return path


def find_ptxas() -> str | None:
    """NVIDIA's assembler, from the package nvidia-cuda-nvcc or a CUDA toolkit on the PATH; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


def resources(ptxas: str, ptx: Path) -> list[Resources]:
    """Assemble a PTX file and read registers and spills of every kernel in it."""
    source = ptx.with_suffix(".stripped.ptx")
    source.write_bytes(ptx.read_bytes().rstrip(b"\0"))
    command = [ptxas, "-v", f"-arch=sm_{ARCH}", str(source), "-o", str(ptx.with_suffix(".cubin"))]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return parse_report(report)


def parse_report(report: str) -> list[Resources]:
    """Read the output of ``ptxas -v``."""
    found = []
    for part in report.split("Compiling entry function '")[1:]:
        # Warp names the entry after factory, kernel and direction: f_kernels__locals__name_cuda_kernel_forward.
        name = part[: part.index("'")].split("__locals__")[-1].replace("_cuda_kernel_", " ")
        stack, stores, loads = map(
            int, _groups(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        )
        (registers,) = map(int, _groups(r"Used (\d+) registers", part))
        found.append(Resources(name, registers, stack, stores, loads))
    return found


def table(rows: list[tuple[str, Resources]]) -> str:
    """Rows of (module, resources) as text."""
    lines = [f"{'module':40} {'kernel':40} {'registers':>9} {'stack':>7} {'spill stores':>12} {'spill loads':>11}"]
    for module, row in rows:
        lines.append(
            f"{module:40} {row.kernel:40} {row.registers:9} {row.stack:7} {row.spill_stores:12} {row.spill_loads:11}"
        )
    return "\n".join(lines) + "\n"


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


def _groups(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no '{pattern}' in: {text[:500]}")
    return found.groups()
