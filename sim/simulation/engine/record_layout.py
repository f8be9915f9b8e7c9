"""Layout of the records from which the backward pass recomputes steps: for their fingerprint, and to check arrays that
were given by hand.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from warp.types import type_size_in_bytes

from sim.arrays.host_memory import AnyArray, HostArray
from sim.errors import ModelError
from sim.simulation.stepping.pipeline import Step
from warp_kernels.rollout.checkpoint import KEPT_STAGES
from warp_kernels.rollout.records import Records
from warp_kernels.rollout.trajectory import hashed_rows


@dataclass(frozen=True)
class RecordLayout:
    """Layout of one record.

    Attributes:
        label: its name in a trajectory.
        shape: shape of a world's numbers in a row.
        dtype: Warp's scalar type.
        rows_per_step: number of rows for each step; 0 for a row for each stored state.
        required: whether a trajectory must have it.
    """

    label: str
    shape: tuple[int, ...]
    dtype: Any
    rows_per_step: int = 0
    required: bool = False

    def rows(self, steps: int, interval: int) -> int:
        """Return the number of rows for a number of steps, with that between stored states."""
        return self.rows_per_step * steps if self.rows_per_step else -(-steps // interval) + 1


def record_layouts(step: Step) -> dict[str, RecordLayout]:
    """Return the layouts by the names of records, with the capacity for constraints of this step."""
    model, scalar, most, warm = step.model, step.scalar, step.max_constraints, step.warm
    switches = (len(model.switch_names),)
    return {
        "q": RecordLayout("q", (model.nq,), scalar, required=True),
        "qd": RecordLayout("qd", (model.nv,), scalar, required=True),
        "act": RecordLayout("act", (model.na,), scalar, required=model.na > 0),
        "q_low": RecordLayout("q_low", (step.kinematics.q_low.shape[1],), scalar),
        "impulse": RecordLayout("impulses.value", (most, 3), scalar, required=warm),
        "key": RecordLayout("impulses.key", (most, 4), wp.int32, required=warm),
        "broken": RecordLayout("broken", switches, scalar),
        "tau": RecordLayout("tau", (model.nv,), scalar, 1),
        "control": RecordLayout("control", (model.nu,), scalar, 1),
        "kinematic_qd": RecordLayout("kinematic_qd", (model.nk,), scalar, 1),
        "active": RecordLayout("active", switches, scalar, 1),
        "stages": RecordLayout("stages", (model.nv,), scalar, KEPT_STAGES),
    }


def hashed_records(step: Step) -> np.ndarray:
    """Return the argument ``hashed_records`` of the fingerprint, over all records of :func:`record_layouts`.

    Keys are hashed as scalars: four integers have the bits of two or four of them.
    """
    rows = []
    for name, layout in record_layouts(step).items():
        size = math.prod(layout.shape) * type_size_in_bytes(layout.dtype) // type_size_in_bytes(step.scalar)
        rows.append((name, size, layout.rows_per_step))
    return hashed_rows(rows)


def require_records(records: Records[AnyArray], step: Step, total_worlds: int, steps: int, interval: int) -> None:
    """Check arrays of a trajectory, which kernels access by address.

    Raises:
        ModelError: naming an array that is missing, or that has another type, device, shape or order in memory.
    """
    for name, layout in record_layouts(step).items():
        array: Any = getattr(records, name)
        if array is None:
            if layout.required:
                raise ModelError(f"backward: the trajectory has no {layout.label}; give it that of a rollout")
        elif not isinstance(array, HostArray):
            shape = (layout.rows(steps, interval), total_worlds, *layout.shape)
            _require_array(f"backward: {layout.label} of the trajectory", array, shape, layout.dtype, step.device)


def _require_array(where: str, array: Any, shape: tuple[int, ...], dtype: Any, device: wp.Device) -> None:
    if not isinstance(array, wp.array):
        raise ModelError(f"{where} is a {type(array).__name__}; it must be a Warp array")
    if array.dtype is not dtype or array.device != device:
        expected = f"{dtype.__name__} on {device}"
        raise ModelError(f"{where} is {array.dtype.__name__} on {array.device}; expected {expected}")
    if tuple(array.shape) != shape:
        raise ModelError(f"{where} has shape {tuple(array.shape)}; expected {shape}")
    if array.size and not array.is_contiguous:
        raise ModelError(f"{where} is not contiguous; give a copy, array.contiguous()")
