"""Recording of a rollout, and its backward pass: states are stored, everything else is recomputed.

If all states are stored, so are the velocities found by all but the last stages of Runge-Kutta steps, from which each
stage can be recomputed on its own.

If only every k-th state is stored, the backward pass first recomputes the states of an interval of k steps; they
overwrite those of the interval before.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.graphs import require_no_capture
from sim.arrays.host_memory import AnyArray, HostArray, as_warp, copy_rows, new_rows
from sim.arrays.launch import launch
from sim.dynamics.differentiable_op import paused_tape
from sim.simulation.engine.engine import Engine
from sim.simulation.engine.keeping import KeptRollout
from sim.simulation.engine.record_layout import require_records
from warp_kernels.rollout.checkpoint import checkpoint_kernels
from warp_kernels.rollout.records import STATE, Records, StateArrays, state_arrays
from warp_kernels.rollout.trajectory import trajectory_kernels


def add_to(total: AnyArray, value: AnyArray) -> None:
    """Add a contiguous array to another of the same shape: total += value."""
    kernel = checkpoint_kernels(total.dtype).accumulate
    arrays = {"value": as_warp(value).flatten(), "total": as_warp(total).flatten()}
    launch(kernel, total.size, arrays, device=total.device, record_tape=False)


def clear_worlds(
    left_out: AnyArray, of_worlds: Iterable[AnyArray | None], of_steps: Iterable[AnyArray | None] = ()
) -> None:
    """Set gradients of dropped worlds to zero.

    Args:
        left_out: not negative for these worlds [num_worlds].
        of_worlds: gradients [num_worlds, ...], or None.
        of_steps: gradients [steps, num_worlds, n], or None.
    """
    # Mostly no world is dropped; on CUDA the check would wait for the device.
    if isinstance(left_out, HostArray) and (left_out.numpy() < 0).all():
        return
    worlds = left_out.shape[0]
    first = [as_warp(rows).reshape((1, worlds, -1)) for rows in of_worlds if rows is not None]
    for values in [*first, *(as_warp(rows) for rows in of_steps if rows is not None)]:
        kernel, arrays = trajectory_kernels(values.dtype).clear_worlds, {"left_out": as_warp(left_out)}
        launch(kernel, worlds, arrays, values=values, device=values.device, record_tape=False)


def rows_like(array: AnyArray, rows: int) -> AnyArray:
    """Return an uninitialised array with ``rows`` rows in the shape of those of ``array``."""
    return new_rows((rows, *array.shape[1:]), array.dtype, array.device)


def begun_with(first: StateArrays[AnyArray], rows: int) -> Records[AnyArray]:
    """Return records with slots for ``rows`` states, of which the first is ``first`` and the others uninitialised."""

    def begun(array: AnyArray) -> AnyArray:
        several = new_rows((rows, *array.shape), array.dtype, array.device)
        copy_rows(several, array)
        return several

    arrays: list[Any] = [None if array is None else begun(array) for array in state_arrays(first)]
    return Records(*arrays)


@dataclass(eq=False, slots=True)
class LossGradient:
    """Derivative of a loss in the results of a rollout.

    Attributes:
        last_q: derivative in the last coordinates [num_worlds, nq]; None if ``q`` is given.
        last_qd: derivative in the last velocities, likewise.
        q: derivative in all stored coordinates, in their shape; the others likewise, as :class:`Records` names them.
    """

    last_q: AnyArray | None
    last_qd: AnyArray | None
    q: AnyArray | None
    qd: AnyArray | None
    impulse: AnyArray | None = None
    act: AnyArray | None = None
    contact_force: AnyArray | None = None
    solved: AnyArray | None = None


@dataclass(eq=False, slots=True)
class Adjoints:
    """Results of a backward pass; :class:`sim.Gradients` describes each of them."""

    q: AnyArray
    qd: AnyArray
    tau: AnyArray | None
    control: AnyArray | None
    parameters: dict[str, Any]
    impulses: AnyArray | None
    act: AnyArray | None
    kinematic_qd: AnyArray | None


@dataclass(eq=False, slots=True)
class Recording:
    """States and inputs of a rollout.

    Attributes:
        engine: engine that takes the steps.
        records: arrays of the rollout.
        steps: number of steps.
        interval: number of steps between stored states.
        parameters: values of the parameters during the steps.
        kept: steps whose working arrays are kept, or None.
    """

    engine: Engine
    records: Records[AnyArray]
    steps: int
    interval: int
    parameters: Mapping[str, Any]
    kept: KeptRollout | None = None

    def with_room(self) -> Records[AnyArray]:
        """Return the records with slots for the states between two stored ones and for stages, if needed."""
        records, room = self.records, min(self.interval, self.steps) - 1
        if room > 0 or self._finds_stages:
            records = copy(records)
        if room > 0:
            for name, array in zip(STATE, state_arrays(records), strict=True):
                setattr(records, f"{name}_between", None if array is None else rows_like(array, room))
        if self._finds_stages:
            steps = 1 if self.interval > 1 else self.steps
            records.stages = rows_like(records.qd, steps * self.engine.kept_stages)
        return records

    def fingerprint(self) -> AnyArray:
        """Return a hash of the states and inputs of each world [num_worlds]; on CUDA without waiting for the device."""
        engine, records = self.engine, copy(self.records)
        records.fingerprint = new_rows((engine.settings.num_worlds,), wp.uint64, engine.settings.device)
        with self._own_parameters():
            with paused_tape():
                for shard in engine.shards:
                    shard.record_fingerprint()
            engine.run_beside(lambda shard: shard.find_fingerprint(records, self.steps, self.interval))
        return records.fingerprint

    def require_arrays(self) -> None:
        """Check the arrays from which steps are recomputed; see :func:`require_records`."""
        engine = self.engine
        with self._own_parameters():
            step = engine.shards[0].step
            require_records(self.records, step, engine.settings.num_worlds, self.steps, self.interval)

    @property
    def _finds_stages(self) -> bool:
        """Return whether the backward pass recomputes the stages of Runge-Kutta steps."""
        return self.engine.kept_stages > 0 and self.records.stages is None

    def gradients(self, loss: LossGradient, names: frozenset[str], leave_out_bad_worlds: bool = False) -> Adjoints:
        """Return the gradients of a loss; see :meth:`sim.Trajectory.backward`."""
        left_out = self.records.bad_state if leave_out_bad_worlds else None
        found = self.walk_back(loss, names, left_out=left_out)
        if left_out is not None:
            if names or self.engine.check_finite or not self.engine.settings.keeps_on_device:
                left_out = self._more_left_out(left_out)
                if left_out is not None:
                    found = self.walk_back(loss, names, left_out=left_out)
            else:
                # Without shared parameters bad worlds spoil no sum; on CUDA the check would wait for the device.
                (more,) = self.engine.reports.last_bad_steps()
                inputs = (found.tau, found.control, found.kinematic_qd)
                clear_worlds(more, (found.q, found.qd, found.impulses, found.act), inputs)
        if self.engine.check_finite:
            self._raise_for_bad_gradient(found)
        return found

    def walk_back(
        self, loss: LossGradient, names: frozenset[str], norms: wp.array | None = None, left_out: AnyArray | None = None
    ) -> Adjoints:
        """Run one backward pass for :meth:`gradients`.

        Args:
            loss: derivative of the loss.
            names: parameters whose gradients to compute.
            norms: output for the norms of the adjoints of q and qd [steps + 1, num_worlds, 2]; the first row is not
                written.
            left_out: not negative for worlds to drop [num_worlds].
        """
        engine = self.engine
        require_no_capture(engine.settings.device)
        tau_bar, control_bar, kinematic_qd_bar = (
            None if array is None else new_rows(array.shape, array.dtype, array.device)
            for array in (self.records.tau, self.records.control, self.records.kinematic_qd)
        )
        records = copy(self.with_room())
        records.bad_state = records.contact_force = records.solved = None  # without gradient
        records.q_bar, records.qd_bar, records.impulse_bar, records.act_bar = loss.q, loss.qd, loss.impulse, loss.act
        records.contact_force_bar, records.solved_bar = loss.contact_force, loss.solved
        records.tau_bar, records.control_bar, records.kinematic_qd_bar = tau_bar, control_bar, kinematic_qd_bar
        records.norms, records.left_out = norms, left_out
        with self._own_parameters():
            self._record(names)
            with paused_tape():
                kept = self.kept.prepared(engine.shards, names) if self.kept else {}
            last, length = (loss.last_q, loss.last_qd), (self.steps, self.interval, self._finds_stages)
            try:
                engine.run_backward(lambda shard: shard.run_backward(names, records, last, *length, kept.get(shard)))
            finally:
                if self.kept:
                    self.kept.release()
            steps = [shard.step for shard in engine.shards]
            q_bar = self._accumulated([step.accumulated_q_bar for step in steps], self.records.q, loss.q)
            qd_bar = self._accumulated([step.accumulated_qd_bar for step in steps], self.records.qd, loss.qd)
            impulse_bar = self._accumulated_impulses(loss.impulse)
            act_bar = None
            if self.records.act is not None:
                act_bars = [step.activations.accumulated_act_bar for step in steps]
                act_bar = self._accumulated(act_bars, self.records.act, loss.act)
            parameter_bars = {name: engine.parameter_gradient(name) for name in names}
        if left_out is not None:
            clear_worlds(left_out, (q_bar, qd_bar, impulse_bar, act_bar))
        return Adjoints(q_bar, qd_bar, tau_bar, control_bar, parameter_bars, impulse_bar, act_bar, kinematic_qd_bar)

    def _own_parameters(self) -> contextlib.AbstractContextManager[None]:
        if self.engine.parameters.values is self.parameters:
            return contextlib.nullcontext()
        return self.engine.with_values(self.parameters)

    def _record(self, names: frozenset[str]) -> None:
        with paused_tape():
            for shard in self.engine.shards:
                shard.record_backward(names)
                if self.interval > 1:
                    shard.record_again()
                if self._finds_stages:
                    shard.record_stages()

    def _accumulated(self, accumulated: Sequence[wp.array], like: AnyArray, direct: AnyArray | None) -> AnyArray:
        """Return the adjoint of a part of the initial state: that of the steps, plus the direct one of the loss.

        ``like`` is the record of that part.
        """
        total = new_rows(like.shape[1:], like.dtype, like.device)
        first = 0
        for part in accumulated:
            copy_rows(total, part, to_row=first)
            first += part.shape[0]
        if direct is not None:
            add_to(total, as_warp(direct)[0])
        return total

    def _accumulated_impulses(self, direct: AnyArray | None) -> wp.array | None:
        like = self.records.impulse
        if like is None:
            return None
        total: wp.array = wp.zeros(tuple(like.shape[1:]), dtype=like.dtype, device=like.device)
        for shard in self.engine.shards:
            shard.step.warm_start.store_accumulated(total)
        if direct is not None:
            add_to(total, as_warp(direct)[0])
        return total

    def _more_left_out(self, left_out: AnyArray) -> wp.array | None:
        """Return ``left_out`` with the worlds whose gradients aren't finite either; None if there are none."""
        steps = self._last_bad_steps()
        if not (steps >= 0).any():
            return None
        return wp.array(np.maximum(left_out.numpy(), steps), dtype=wp.int32, device=left_out.device)

    def _last_bad_steps(self) -> np.ndarray:
        return np.concatenate([steps.numpy() for steps in self.engine.reports.last_bad_steps()])

    def _raise_for_bad_gradient(self, found: Adjoints) -> None:
        steps = self._last_bad_steps()
        if (steps >= 0).any():
            world = int(np.argmax(steps))
            raise FloatingPointError(
                f"backward: the gradient of step {int(steps[world])} in world {world} is not finite, "
                "unlike those of later steps"
            )
        finite = np.isfinite(found.q.numpy()).all(axis=1) & np.isfinite(found.qd.numpy()).all(axis=1)
        if not finite.all():
            world = int(np.argmin(finite))
            raise FloatingPointError(
                f"backward: the derivative of the loss in the initial state of world {world} is not finite, "
                "unlike the gradients of all steps"
            )
