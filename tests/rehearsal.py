"""A pytest plugin: ``--rehearse`` runs tests on the CPU in the way of a GPU.

    python -m pytest --quick --rehearse            # threads in a shuffled order
    python -m pytest --rehearse=reversed tests/contact

Kernels are launched in the shapes of a GPU: as many threads for a world as share its work there, one world for each
group of lanes, all worlds at once. The threads of a launch run in another order than that of their numbers, so that one
that reads what another one writes in the same launch is found. Working memory holds NaN and large numbers before it is
used, so that what is read must have been written. Indices are compared with the shapes of arrays, see
:mod:`tests.index_checks`. Results are held to the tests' own bounds, which leave room for another order of sums.

The order is written into the loop that Warp generates around a kernel; what is compiled has a cache of its own.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp
from warp._src import codegen  # Warp has no public name for its templates

import sim.simulation.engine.shards
from bench.traffic import as_on_a_gpu
from sim.arrays import host_memory
from sim.simulation.engine import recording, rollout
from sim.simulation.engine.shard import Shard
from tests.listed import require_all_listed
from warp_kernels.solver.newton.group.structs import MOST_DOFS

# Which thread is next, in C++. Any prime beyond the number of threads makes a permutation.
ORDERS = {
    "reversed": "dim->size - 1 - task_index",
    "shuffled": "(task_index * 1000003 + 12345) % dim->size",
}
LARGE = 2**30
# What a step finds as it was made: tables of the model and of the trajectory, and what stays zero for some links or
# with one of the solvers.
CONSTANT = {
    "q0", "table", "cursor", "cursor_step", "candidate_bits", "turning_link", "floating_link", "floating", "cone_link",
    "cone_kind", "drag_link", "drag_size", "drag_placement", "constrained", "paths", "trees", "constraint_overflow",
    "common_wrench", "lift", "path_acceleration", "_adjoint_memory", "no_acceleration", "_no_rate", "_no_change",
    "_no_weight", "joint_inertia", "symmetry", "spinning_tree", "least_inverse_mass",
    "problem.least_inverse_mass", "levels",
}  # fmt: skip
# What stays zero where there is no room for it.
COUNTS = {
    "contact_count": "max_contacts",
    "contact_overflow": "max_contacts",
    "constraints.count": "max_constraints",
    "total_overflow": "max_constraints",
}
# What only a large system finds anew in every step.
PACKED = {"system.row_start", "system.is_packed"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rehearse", nargs="?", const="shuffled", choices=list(ORDERS), help="launch as on a GPU, in another order"
    )


def pytest_configure(config: pytest.Config) -> None:
    order = config.getoption("--rehearse")
    if order is not None:
        patches = contextlib.ExitStack()
        config.add_cleanup(patches.close)
        patches.enter_context(as_on_a_gpu())
        patch = patches.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sim.simulation.engine.shards, "MAX_SHARDS", 1)
        reorder_threads(patch, order)
        poison_working_memory(patch)
        require_all_listed(patch)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--rehearse") is not None:
        left_out = [item for item in items if item.get_closest_marker("cpu_shapes")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def reorder_threads(patch: pytest.MonkeyPatch, order: str) -> None:
    """Run the threads of every launch in this order, in kernels with a cache of their own."""
    for name in ("cpu_module_template_forward", "cpu_module_template_backward"):
        template = getattr(codegen, name)
        before, after = "dim, task_index,", f"dim, {ORDERS[order]},"
        if before not in template:
            raise pytest.UsageError(f"--rehearse: this version of Warp has another {name}")
        patch.setattr(codegen, name, template.replace(before, after))
    # A first run takes a fifth less than at Warp's own level; at level 0 kernels run too slowly.
    patch.setattr(wp.config, "optimization_level", 1)
    folder = Path(str(wp.config.kernel_cache_dir)) / order
    folder.mkdir(exist_ok=True)
    patch.setattr(wp.config, "kernel_cache_dir", str(folder))


def poison_working_memory(patch: pytest.MonkeyPatch) -> None:
    """Fill memory that isn't set, and the working arrays of a step before its first replay."""
    empty = wp.empty

    def poisoned(*arguments: Any, **options: Any) -> wp.array:
        array = empty(*arguments, **options)
        poison(array)
        return array

    patch.setattr(wp, "empty", poisoned)
    new_rows = host_memory.new_rows

    def poisoned_rows(*arguments: Any) -> host_memory.AnyArray:
        made = new_rows(*arguments)
        poison(made)
        return made

    for module in (recording, rollout):
        patch.setattr(module, "new_rows", poisoned_rows)
    for name in ("record_forward", "record_backward", "record_rows"):
        patch.setattr(Shard, name, _poisoning(getattr(Shard, name)))


def _poisoning(record: Any) -> Any:
    """A method that records launches, and poisons what is new among the working arrays."""

    def recorded(shard: Shard, *arguments: Any) -> None:
        record(shard, *arguments)
        seen = shard.__dict__.setdefault("poisoned", set())
        for name, array in working_arrays(shard.step):
            if name not in seen:
                seen.add(name)
                poison(array)

    return recorded


def working_arrays(step: Any) -> Iterator[tuple[str, wp.array]]:
    """The arrays that a step writes before it reads them, with those in structs and lists."""
    for name, array in every_array(step):
        constant = name in CONSTANT or name.partition(".")[0] in CONSTANT
        constant = constant or (name in PACKED and step.model.nv <= MOST_DOFS)
        if not constant and (name not in COUNTS or getattr(step, COUNTS[name])):
            yield name, array


def every_array(step: Any) -> Iterator[tuple[str, wp.array]]:
    """All arrays that hang on a step, by name."""
    for name, value in vars(step).items():
        fields = {name: value}
        if isinstance(value, list):
            fields = {f"{name}.{k}": each for k, each in enumerate(value)}
        elif hasattr(value, "_cls"):
            fields = {f"{name}.{field}": getattr(value, field) for field in value._cls.vars}
        yield from ((name, array) for name, array in fields.items() if isinstance(array, wp.array))


def poison(array: host_memory.AnyArray) -> None:
    """Fill an array on the CPU with NaN or large numbers."""
    if array.size and array.device.is_cpu:
        values = array.numpy()
        # Bytes that numbers share are those of NaN.
        values[...] = np.nan if values.dtype.kind == "f" else min(LARGE, np.iinfo(values.dtype).max)
