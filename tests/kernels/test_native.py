"""Native functions in C++ header files: hashes of modules, constants that Python has too, lengths of argument lists."""

import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from warp_kernels import types
from warp_kernels.cpu.native import FOLDER, Native, header_source, with_headers

HEADERS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.h"))
# Python modules that have the constants of a header under the same names.
SOLVER = "warp_kernels.solver"
PYTHON = {
    "algebra/lane_arithmetic.h": ["warp_kernels.types"],
    "collision/broad_phase_groups.h": ["warp_kernels.types", "warp_kernels.collision.broad_phase"],
    "mujoco/laws.h": [
        f"{SOLVER}.mujoco.group_laws",
        f"{SOLVER}.newton.descent",
        f"{SOLVER}.newton.group.sweeps",
    ],
    "newton/adjoint_system.h": [f"{SOLVER}.newton.group.system", f"{SOLVER}.newton.group.sweeps"],
    "newton/group.h": [f"{SOLVER}.newton.group.structs"],
    "newton/factors.h": [],  # only C++ needs them
    "newton/slots.h": [],
    "newton/world.h": ["warp_kernels.types"],
    "team.h": ["warp_kernels.team"],
    "team_checks.h": ["tests.team_checks"],
    "newton/sweeps.h": [f"{SOLVER}.newton.group.sweeps", f"{SOLVER}.newton.gauss_seidel"],
}
CONSTANT = re.compile(r"^constexpr (?:int|double) (\w+) = ([^;]+);", re.MULTILINE)
SOURCE = """#pragma once
#include "lanes.h"
namespace backswing::test {{
// Add a number to a world's.
template <typename Number, int L>
BACKSWING_INLINE Number add(int world, const Array<Number>& x) {{ return x.data[world] + Number({}); }}
}} // namespace backswing::test
"""


def module(folder: Path) -> wp.Module:
    """A module with a kernel that calls a function of the header ``add.h``."""
    made = wp.Module(f"test.native.{folder.name}")
    options = with_headers(types.BUILD_OPTIONS, (), folder)
    assert options is types.BUILD_OPTIONS
    wp.set_module_options({"extra_build_options": with_headers(options, ("add.h",), folder)}, made)

    @Native(wp.float32, 8, "test").func_native()
    def add(world: int, x: wp.array(dtype=wp.float32)) -> wp.float32: ...

    @wp.kernel(module=made, enable_backward=False)
    def run(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32)):
        y[wp.tid()] = add(wp.tid(), x)

    x, y = wp.array([1.0, 2.0], dtype=wp.float32, device="cpu"), wp.zeros(2, dtype=wp.float32, device="cpu")
    wp.launch(run, 2, [x], [y], device="cpu")
    made.result = y.numpy()
    return made


def folder_with(path: Path, number: int) -> Path:
    path.mkdir()
    for header in ("arrays.h", "lanes.h"):
        shutil.copy(FOLDER / header, path)
    (path / "add.h").write_text(SOURCE.format(number))
    return path


def test_a_changed_header_makes_another_module(tmp_path: Path):
    first, again, changed = (
        folder_with(tmp_path / name, n) for name, n in (("first", 3), ("again", 3), ("changed", 4))
    )
    modules = [module(folder) for folder in (first, again, changed)]
    np.testing.assert_array_equal(modules[0].result, [4.0, 5.0])
    np.testing.assert_array_equal(modules[2].result, [5.0, 6.0])
    hashes = [made.get_module_hash() for made in modules]
    assert hashes[0] == hashes[1]  # where the headers lie doesn't matter
    assert hashes[0] != hashes[2]
    # So does a change of a header that another one includes.
    (changed / "add.h").write_text(SOURCE.format(3))
    (changed / "lanes.h").write_text((FOLDER / "lanes.h").read_text() + "// More.\n")
    header_source.cache_clear()
    assert module(changed).get_module_hash() not in hashes


def test_headers_are_part_of_the_source_once():
    source = header_source(("newton/sweeps.h", "newton/system.h"))
    assert source.count("struct Lanes {") == 1  # each once
    assert source.count("struct Acting {") == 1
    assert "#include" not in source
    assert "#pragma once" not in source
    assert '#line 1 "backswing/newton/sweeps.h"\n' in source


def test_a_header_outside_of_the_folder_is_refused(tmp_path: Path):
    folder = folder_with(tmp_path / "own", 1)
    (folder / "add.h").write_text('#include "../other.h"\n')
    (tmp_path / "other.h").write_text("")
    with pytest.raises(ValueError, match=r"other\.h"):
        header_source(("add.h",), folder)


@pytest.mark.parametrize("header", HEADERS)
def test_constants_are_those_of_python(header: str):
    constants = CONSTANT.findall((FOLDER / header).read_text())
    assert bool(constants) == (header in PYTHON)
    modules = [importlib.import_module(name) for name in PYTHON.get(header, [])]
    for name, value in constants if modules else []:
        found = next(getattr(python, name) for python in modules if hasattr(python, name))
        assert float(value) == found, name


@pytest.mark.parametrize("header", HEADERS)
def test_functions_have_few_arguments(header: str):
    text = re.sub(r"//.*", "", (FOLDER / header).read_text())
    lists = re.findall(r"BACKSWING_INLINE[^(;{]*\(([^)]*)\) (?:const )?\{", text)
    long = [
        arguments for arguments in lists if re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", arguments)).count(",") >= 12
    ]
    assert not long, long
