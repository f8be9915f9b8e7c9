"""Every Warp module compiles for compute capability 9.0, with or without a GPU, and has no adjoint that Warp doubts."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import warp as wp

from tests.kernels.ahead import (
    ARCH,
    Resources,
    compile_ahead,
    differentiation_warnings,
    find_ptxas,
    parse_report,
    resources,
    table,
    warp_messages,
)
from warp_kernels.registry import all_kernels, all_modules

ROOT = Path(__file__).parents[2]
SCALARS = [wp.float32, wp.float64]


@dataclass
class Build:
    """What came of compiling all modules of one precision."""

    ptx: dict[str, Path] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def compiled(scalar: type, folder: Path) -> Build:
    result = Build()
    with warp_messages() as messages:
        for module in all_modules(scalar):
            try:
                result.ptx[module.name] = compile_ahead(module, folder)
            except Exception as error:  # Warp raises many kinds; all belong in one list
                result.errors[module.name] = f"{type(error).__name__}: {error}"
        result.messages = list(messages)
    return result


def test_registry_finds_the_kernels() -> None:
    names = {kernel.key.split("__")[-1] for kernel in all_kernels(wp.float64)}
    assert {"kinematics", "aba", "solve_mass_matrix"} <= names


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.__name__)
def test_every_module_compiles(scalar: type, tmp_path: Path) -> None:
    """Compiled once for all that is to be seen of it, which takes a minute."""
    build = compiled(scalar, tmp_path)
    assert not build.errors, "\n".join(f"{name}: {text}" for name, text in build.errors.items())
    for path in build.ptx.values():
        assert f".target sm_{ARCH}" in path.read_text(errors="replace")
    sources = [path.read_text() for path in (ROOT / "warp_kernels").rglob("*.py")]
    remarks = differentiation_warnings(build.messages, sources)
    assert not remarks, "\n".join(remarks)
    write_resources(build)


def write_resources(build: Build) -> None:
    """Assemble all kernels and write their registers and spills to out/sm90_<precision>.txt; no bound is asserted."""
    ptxas = find_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas here; the package nvidia-cuda-nvcc has it")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda path: resources(ptxas, path), build.ptx.values()))
    rows = [(name, row) for name, report in zip(build.ptx, reports, strict=True) for row in report]
    assert {row.kernel.rsplit(" ", 1)[-1] for _, row in rows} >= {"forward"}
    precision = next(iter(build.ptx)).rsplit(".", 1)[-1]
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    (out / f"sm{ARCH}_{precision}.txt").write_text(table(rows))


def test_report_is_read() -> None:
    report = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'aba_kernels__locals__aba_cuda_kernel_forward' for 'sm_90'
ptxas info    : Function properties for aba_kernels__locals__aba_cuda_kernel_forward
    208 bytes stack frame, 120 bytes spill stores, 124 bytes spill loads
ptxas info    : Used 164 registers, used 0 barriers, 208 bytes cumulative stack size, 720 bytes cmem[0]
"""
    assert parse_report(report) == [Resources("aba forward", 164, 208, 120, 124)]


# A loop with a bound known at run time only, and a local carried through it non-linearly: the adjoint is wrong.
DOUBTFUL = """
import warp as wp

module = wp.get_module("{name}")

@wp.kernel(module=module{option})
def product(
    # Data in
    x: wp.array(dtype=float),
    # Data out
    y: wp.array(dtype=float),
):
    p = float(1.0)
    for i in range(x.shape[0]):
        p = p * x[i]
    y[0] = p
"""


@pytest.mark.parametrize(("option", "count"), [("", 1), (", enable_backward=False", 0)])
def test_doubtful_adjoint_is_found(option: str, count: int, tmp_path: Path) -> None:
    source = DOUBTFUL.format(option=option, name=f"doubtful_{count}")
    path = tmp_path / "doubtful.py"
    path.write_text(source)
    names: dict[str, wp.Module] = {}
    exec(compile(source, str(path), "exec"), names)
    with warp_messages() as messages:
        compile_ahead(names["module"], tmp_path)
    assert len(differentiation_warnings(messages, [source])) == count
    assert not names["module"].options["strip_hash"], "later loads would ignore changes of the source"


HAND_WRITTEN = """
@wp.func
def root(x: float):
    return x

{decorator}
def adjoint_root(x: float, bar: float):
    wp.adjoint[x] += bar

@wp.kernel
def use(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = root(x[0])
"""


@pytest.mark.parametrize(("decorator", "count"), [("@wp.func", 1), ("@wp.func_grad(root)", 0)])
def test_hand_written_adjoint_is_not_doubted(decorator: str, count: int) -> None:
    message = 'detected mutated variable x in function "root" at a.py:1: this may not be a differentiable operation.'
    assert len(differentiation_warnings([message], [HAND_WRITTEN.format(decorator=decorator)])) == count
