"""Modules that are known to compile for a GPU, by the hashes of their sources.

``python -m tests.kernels.compiled`` compiles every module that has changed since, or that another version of Warp
compiled, for each compute capability, and writes ``sm90_compiled.txt`` and ``sm120_compiled.txt`` beside this file. The
tests compile what the files don't list.
"""

import functools
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import warp as wp

from tests.kernels.ahead import ARCHS, compile_ahead, differentiation_warnings, warp_messages
from warp_kernels.registry import all_modules

RECORDS = {arch: Path(__file__).parent / f"sm{arch}_compiled.txt" for arch in ARCHS}
KERNELS = Path(__file__).parents[2] / "warp_kernels"
SCALARS = (wp.float32, wp.float64)


@functools.cache
def identity(module: wp.Module) -> str:
    """Return the hash of a module's source and options, with the version of Warp.

    It is the same on all machines: the compiler's flags for a CPU depend on the processor, see
    :mod:`warp_kernels.cpu.processor`, and are left out.
    """
    flags = module.options["cpu_compiler_flags"]
    wp.set_module_options({"cpu_compiler_flags": ""}, module)
    try:
        return f"{wp.config.version}-{module.get_module_hash().hex()[:16]}"
    finally:
        wp.set_module_options({"cpu_compiler_flags": flags}, module)


def read_record(arch: int) -> dict[str, str]:
    """Return the identity of each module that compiled for a compute capability."""
    path = RECORDS[arch]
    return dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}


def changed(modules: Iterable[wp.Module], record: dict[str, str]) -> list[wp.Module]:
    """Return the modules that the record doesn't list as they are."""
    return [module for module in modules if record.get(module.name) != identity(module)]


def faults(modules: Sequence[wp.Module], folder: Path, arch: int) -> dict[str, str]:
    """Compile modules for a compute capability; return errors by name, and what Warp doubts of generated adjoints.

    Translation finds all errors, in a fifth of the time that optimisation takes or less.
    """
    found = {}
    with warp_messages() as messages:
        for module in modules:
            try:
                text = compile_ahead(module, folder, None, arch).read_text(errors="replace")
                if f".target sm_{arch}" not in text:
                    found[module.name] = f"not compiled for sm_{arch}"
            except Exception as error:  # Warp raises many kinds; all belong in one list
                found[module.name] = f"{type(error).__name__}: {error}"
    doubts = [message for message in messages if "differentiable" in message]
    if doubts:
        sources = [path.read_text() for path in KERNELS.rglob("*.py")]
        doubts = differentiation_warnings(doubts, sources)
    return found | ({"adjoints": "\n".join(doubts)} if doubts else {})


def main() -> None:
    """Compile what has changed, and write the record after each module; see the module docstring."""
    modules = [module for scalar in SCALARS for module in all_modules(scalar)]
    for arch in ARCHS:
        update_record(modules, arch)


def update_record(modules: Sequence[wp.Module], arch: int) -> None:
    """Compile what has changed for one compute capability."""
    record = read_record(arch)
    left = changed(modules, record)
    with tempfile.TemporaryDirectory() as folder:
        for at, module in enumerate(left):
            print(f"sm_{arch}, {at + 1} of {len(left)}: {module.name}", flush=True)
            found = faults([module], Path(folder), arch)
            if found:
                sys.exit("\n".join(f"{name}: {text}" for name, text in found.items()))
            record[module.name] = identity(module)
            RECORDS[arch].write_text("".join(f"{m.name} {record[m.name]}\n" for m in modules if m.name in record))


if __name__ == "__main__":
    main()
