"""Every Warp module compiles for compute capabilities 9.0 and 12.0, with or without a GPU, and has no adjoint that Warp
doubts.
"""

from pathlib import Path

import pytest
import warp as wp

from tests.kernels.ahead import ARCH, ARCHS, compile_ahead, differentiation_warnings, warp_messages
from tests.kernels.compiled import changed, faults, identity, read_record
from tests.kernels.registers import (
    BOUNDS,
    Resources,
    bounds_file,
    find_ptxas,
    grown,
    merged,
    parse_report,
    read_table,
    resources,
    table,
)
from warp_kernels.registry import all_kernels, all_modules
from warp_kernels.types import INLINED

SCALARS = [wp.float32, wp.float64]
# Each is a test of its own, so that several processes share the work.
PARTS = 4


def has_adjoints_by_warp(module: wp.Module) -> bool:
    """Whether Warp generates adjoints of its kernels."""
    return any(kernel.options.get("enable_backward", True) for kernel in module.kernels.values())


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.__name__)
def test_adjoints_are_copied_into_kernels(scalar: type) -> None:
    """No version of the compiler may call them: see ``INLINED`` in :mod:`warp_kernels.types`."""
    with_adjoints = [module for module in all_modules(scalar) if has_adjoints_by_warp(module)]
    assert len(with_adjoints) > 30
    for module in with_adjoints:
        inlined = INLINED in module.options["extra_build_options"].extra_cuda_preamble
        assert inlined, f"{module.name}: kernel_module needs inlined=True"


def test_registry_finds_the_kernels() -> None:
    names = {kernel.key.split("__")[-1] for kernel in all_kernels(wp.float64)}
    assert {"kinematics", "aba", "solve_mass_matrix"} <= names


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.__name__)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_module_compiles(arch: int, scalar: type, part: int, tmp_path: Path) -> None:
    """Those that the record lists as they are have compiled."""
    left = changed(all_modules(scalar), read_record(arch))
    found = faults(left[part::PARTS], tmp_path, arch)
    assert not found, "\n".join(f"{name}: {text}" for name, text in found.items())


def test_a_module_that_changes_is_compiled_again() -> None:
    first, second = all_modules(wp.float32)[:2]
    record = {first.name: identity(first), second.name: identity(first)}
    assert changed([first, second], record) == [second]
    assert changed([first], {first.name: identity(first).replace(wp.config.version, "1.0.0")}) == [first]


def test_the_record_is_the_same_for_all_processors() -> None:
    module = all_modules(wp.float32)[0]
    flags, mine = module.options["cpu_compiler_flags"], identity.__wrapped__(module)
    assert module.options["cpu_compiler_flags"] == flags
    for options, same in (({"cpu_compiler_flags": "-march=native"}, True), ({"max_unroll": 3}, False)):
        before = {name: module.options[name] for name in options}
        wp.set_module_options(options, module)
        try:
            assert (identity.__wrapped__(module) == mine) == same
        finally:
            wp.set_module_options(before, module)


def test_a_module_that_does_not_compile_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    names: dict[str, wp.Module] = {}
    exec(compile(WRONG, str(path), "exec"), names)
    assert list(faults([names["module"]], tmp_path, ARCH)) == ["wrong"]


def test_registers_of_a_module(tmp_path: Path) -> None:
    ptxas = find_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas here; the package nvidia-cuda-nvcc has it")
    (module,) = (module for module in all_modules(wp.float32) if module.name == "backswing.integrate.float32")
    found = {row.kernel: row for row in resources(ptxas, compile_ahead(module, tmp_path))}
    assert all(0 < row.registers <= 255 for row in found.values())
    assert "integrate forward" in found


def test_bounds_of_other_modules_are_kept() -> None:
    first, second = (module.name for module in all_modules(wp.float32)[:2])
    old = [(name, Resources("old forward", 8, 0, 0, 0)) for name in (first, second, "backswing.gone.float32")]
    new = [(second, Resources("new forward", 16, 0, 0, 0))]
    assert merged(read_table(table(old)), new, wp.float32) == [old[0], new[0]]


def test_report_is_read() -> None:
    report = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'aba_kernels__locals__aba_cuda_kernel_forward' for 'sm_90'
ptxas info    : Function properties for aba_kernels__locals__aba_cuda_kernel_forward
    208 bytes stack frame, 120 bytes spill stores, 124 bytes spill loads
ptxas info    : Used 164 registers, used 0 barriers, 208 bytes cumulative stack size, 720 bytes cmem[0]
"""
    assert parse_report(report) == [Resources("aba forward", 164, 208, 120, 124)]


def test_kernels_that_take_more_are_named() -> None:
    before = Resources("aba forward", 160, 208, 120, 124)
    rows = [
        ("a", Resources("aba forward", 158, 208, 100, 100)),
        ("b", Resources("aba forward", 161, 208, 120, 124)),
        ("c", Resources("aba forward", 160, 208, 120, 128)),
        ("d", Resources("new forward", 255, 999, 9, 9)),
    ]
    bounds = read_table(table([(module, before) for module in "abc"]))
    assert bounds["a", "aba forward"] == before
    assert [line.partition(",")[0] for line in grown(bounds, rows)] == ["b", "c"]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.__name__)
def test_every_kernel_has_a_bound(scalar: type) -> None:
    """A kernel that has none was made since ``make registers ARGS=--accept`` ran."""
    bounds = read_table((BOUNDS / bounds_file(scalar)).read_text())
    named = {(kernel.module.name, kernel.key.split("__")[-1]) for kernel in all_kernels(scalar)}
    assert named == {(module, kernel.rpartition(" ")[0]) for module, kernel in bounds}


# Native code that names a function that isn't there.
WRONG = """
import warp as wp

module = wp.get_module("wrong")

@wp.func_native(snippet="return absent(x);")
def wrong(x: float) -> float:
    ...

@wp.kernel(module=module, enable_backward=False)
def apply(
    # Data out
    y: wp.array(dtype=float),
):
    y[0] = wrong(1.0)
"""

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
