"""Array access without tests of negative indices on a GPU: compiled for one, and the same functions run on a CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

from tests.kernels.ahead import compile_ahead
from warp_kernels.cpu.array_access import cuda_access_functions
from warp_kernels.types import kernel_module

TYPES = [wp.float32, wp.float64, wp.int32, wp.uint8, wp.vec3d, wp.mat33, wp.quat, wp.transformd]


def copy_kernel(module: wp.Module, dtype: Any) -> wp.Kernel:
    """A kernel that copies an entry of an array of each number of dimensions."""

    @wp.kernel(module=module, enable_backward=False)
    def copy(
        one: wp.array(dtype=dtype),
        two: wp.array2d(dtype=dtype),
        three: wp.array3d(dtype=dtype),
        four: wp.array4d(dtype=dtype),
        index: wp.array(dtype=int),
        found: wp.array(dtype=dtype),
    ):
        i, j, k, n = index[0], index[1], index[2], index[3]
        found[0] = one[i]
        found[1] = two[i, j]
        found[2] = three[i, j, k]
        found[3] = four[i, j, k, n]

    return copy


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
def test_entries_of_strided_arrays(dtype):
    module = wp.Module(f"tests.array_access.{dtype.__name__}")
    options = wp.ModuleBuildOptions(extra_cpu_preamble=cuda_access_functions())
    wp.set_module_options({"extra_build_options": options}, module)
    size = wp.types.type_size_in_bytes(dtype) // wp.types.type_size_in_bytes(getattr(dtype, "_wp_scalar_type_", dtype))
    numbers = np.arange(6 * 5 * 4 * 3 * size) % 251
    shape = (6, 5, 4, 3, size) if size > 1 else (6, 5, 4, 3)
    four: Any = wp.array(numbers.reshape(shape), dtype=dtype, device="cpu")
    views = [four[1::2, 2, 1, 1], four[1::2, 2, ::2, 1], four[1::2, :, ::2, 1], four[1::2, 1:, ::2, :]]
    found = wp.zeros(4, dtype=dtype, device="cpu")
    index = wp.array([2, 1, 1, 2], dtype=wp.int32, device="cpu")
    wp.launch(copy_kernel(module, dtype), 1, [*views, index, found], device="cpu")
    expected = [view.numpy()[(2, 1, 1, 2)[: view.ndim]] for view in views]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_no_index_is_tested_on_a_gpu(tmp_path: Path):
    made = {}
    modules = {
        "tested": wp.get_module("tests.array_access.tested"),
        "untested": kernel_module("tests.array_access.untested", wp.float32),
        "inlined": kernel_module("tests.array_access.inlined", wp.float32, inlined=True),
    }
    for name, module in modules.items():
        copy_kernel(module, wp.vec3)
        text = compile_ahead(module, tmp_path).read_text(errors="replace")
        made[name] = text.count("setp.lt.s32") + text.count("shr.s32") + text.count("selp")
    assert made.pop("tested") > 5
    assert made == {"untested": 0, "inlined": 0}
