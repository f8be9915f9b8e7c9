"""Registers, stack and spills of every kernel on a GPU that needn't be there, beside what they were.

``python -m tests.kernels.registers`` compiles all kernels for compute capability 9.0 in both precisions, assembles them
with ptxas, writes ``out/sm90_float32.txt`` and ``out/sm90_float64.txt``, and fails where a kernel takes more than the
files of the same names beside this one say. ``--accept`` writes those. It takes some minutes. ``--modules team_newton``
does so for the modules whose names contain one of the words, and keeps the other bounds.
"""

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

from tests.kernels.ahead import ARCH, compile_ahead
from warp_kernels.registry import all_modules

BOUNDS = Path(__file__).parent
OUT = Path(__file__).parents[2] / "out"
UNIT = 8  # a GPU allocates registers in multiples of this
SCALARS = (wp.float32, wp.float64)


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes on the GPU: registers per thread, bytes per thread of the rest."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int

    @property
    def spills(self) -> int:
        """Both together."""
        return self.spill_stores + self.spill_loads


def find_ptxas() -> str | None:
    """NVIDIA's assembler, from the package nvidia-cuda-nvcc or a CUDA toolkit on the PATH; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


def bounds_file(scalar: Any) -> str:
    """Return the name of the file of a precision."""
    return f"sm{ARCH}_{scalar.__name__}.txt"


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


def read_table(text: str) -> dict[tuple[str, str], Resources]:
    """What :func:`table` wrote, by module and kernel."""
    found = {}
    for line in text.splitlines()[1:]:
        module, *words = line.split()
        *name, registers, stack, stores, loads = words
        kernel = " ".join(name)
        found[module, kernel] = Resources(kernel, int(registers), int(stack), int(stores), int(loads))
    return found


def grown(bounds: dict[tuple[str, str], Resources], rows: list[tuple[str, Resources]]) -> list[str]:
    """The kernels that take more than their bounds, in words. A new one has none."""
    lines = []
    for module, row in rows:
        bound = bounds.get((module, row.kernel), row)
        more = -(-row.registers // UNIT) > -(-bound.registers // UNIT)
        if more or row.stack > bound.stack or row.spills > bound.spills:
            lines.append(f"{module}, {row.kernel}: {_amounts(row)}; before {_amounts(bound)}")
    return lines


def _amounts(row: Resources) -> str:
    return f"{row.registers} registers, {row.stack} bytes of stack, {row.spills} of spills"


def _groups(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no '{pattern}' in: {text[:500]}")
    return found.groups()


Rows = list[tuple[str, Resources]]


def measure(ptxas: str, scalar: Any, words: list[str]) -> Rows:
    """Return the rows of all modules, or of those whose names contain one of the words."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            (module.name, row)
            for module in all_modules(scalar)
            if not words or any(word in module.name for word in words)
            for row in resources(ptxas, compile_ahead(module, Path(folder)))
        ]


def merged(bounds: dict[tuple[str, str], Resources], rows: Rows, scalar: Any) -> Rows:
    """Return the rows of all modules, in their order: the new ones, and the bounds of modules that have none."""
    new = {name for name, _ in rows}
    old = [(module, row) for (module, _), row in bounds.items() if module not in new]
    order = {module.name: at for at, module in enumerate(all_modules(scalar))}
    return sorted((row for row in rows + old if row[0] in order), key=lambda row: order[row[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="make bounds of what kernels take now")
    parser.add_argument("--modules", nargs="+", default=[], help="parts of the names of modules; default: all")
    options = parser.parse_args()
    ptxas = find_ptxas()
    if ptxas is None:
        sys.exit("error: there is no ptxas; the package nvidia-cuda-nvcc has it")
    OUT.mkdir(exist_ok=True)
    more: list[str] = []
    for scalar in SCALARS:
        rows = measure(ptxas, scalar, options.modules)
        name = bounds_file(scalar)
        bounds = read_table((BOUNDS / name).read_text())
        more += grown(bounds, rows)
        for folder in (OUT, BOUNDS) if options.accept else (OUT,):
            (folder / name).write_text(table(merged(bounds, rows, scalar)))
            print(f"wrote {folder / name}")
    if more and not options.accept:
        sys.exit("these kernels take more than they did:\n" + "\n".join(more))


if __name__ == "__main__":
    main()
