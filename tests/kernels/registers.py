"""Registers and spills of every kernel on a GPU that needn't be there.

``python -m tests.kernels.registers`` compiles all kernels for compute capability 9.0 in both precisions, assembles them
with ptxas and writes ``out/sm90_float32.txt`` and ``out/sm90_float64.txt``. It takes some minutes.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import warp as wp

from tests.kernels.ahead import ARCH, compile_ahead
from warp_kernels.registry import all_modules

OUT = Path(__file__).parents[2] / "out"


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes on the GPU: registers per thread, bytes per thread of the rest."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


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


def _groups(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"no '{pattern}' in: {text[:500]}")
    return found.groups()


def main() -> None:
    ptxas = find_ptxas()
    if ptxas is None:
        sys.exit("error: there is no ptxas; the package nvidia-cuda-nvcc has it")
    OUT.mkdir(exist_ok=True)
    for scalar in (wp.float32, wp.float64):
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                (module.name, row)
                for module in all_modules(scalar)
                for row in resources(ptxas, compile_ahead(module, Path(folder)))
            ]
        path = OUT / f"sm{ARCH}_{scalar.__name__}.txt"
        path.write_text(table(rows))
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
