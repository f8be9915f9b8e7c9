"""Shard: worlds that one thread steps, with their captured graphs."""

import time
from collections.abc import Callable

import warp as wp

from sim.arrays.critical_sections import check
from sim.arrays.graphs import Graph, capture, is_listed
from sim.arrays.host_memory import AnyArray, HostNumbers, copy_rows
from sim.arrays.kernels import load_modules
from sim.arrays.launch import launch, load_kernels, load_launched
from sim.simulation.engine.kept_steps import KeptBlock, KeptMemory
from sim.simulation.engine.record_layout import hashed_records
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.step_rows import StepRows
from warp_kernels.denormals import denormal_kernels
from warp_kernels.rollout.checkpoint import checkpoint_kernels
from warp_kernels.rollout.records import Records, addresses
from warp_kernels.rollout.replay import replay_kernels
from warp_kernels.rollout.trajectory import trajectory_kernels

# Maximum number of steps per launch, and the duration [s] above which the next launch has fewer: signals wait for its
# end. Launched singly, Python's overhead would be a tenth of the time of a single robot's steps.
STEPS_AT_ONCE, LONG_LAUNCH = 16, 0.01


class Shard:
    """Worlds that are stepped by replaying captured graphs.

    Args:
        step: working arrays and stages of these worlds.

    Attributes:
        overflow: dropped contacts, summed over the steps of the last rollout [num_worlds].
        low: low words of positions after the last step [num_worlds, n].
        kept: memory of kept steps.
        stopped: whether its thread is to stop at the next launch, because its caller has ended.
    """

    def __init__(self, step: Step):
        self.step = step
        self.stopped = False
        self._forward: Graph | None = None
        self._again: Graph | None = None
        self._stages: Graph | None = None
        self._set_aside: dict[str, wp.array] = {}
        self._backward: dict[frozenset[str], Graph] = {}
        self.kept = KeptMemory(step)
        self._last_kept: KeptBlock | None = None
        self._rows: StepRows | None = None
        self._row_graphs: list[Graph] = []
        self._fingerprint: Graph | None = None
        self._table, self._cursor = HostNumbers(step.table), HostNumbers(step.cursor)
        self.overflow = HostNumbers(step.total_overflow)
        self._forward_reports = [HostNumbers(step.largest_residual), self.overflow]
        self._control = wp.zeros(1, dtype=wp.uint64, device=step.device)
        self.low = HostNumbers(step.kinematics.q_low_next)
        self._bad_step, self._left = HostNumbers(step.last_bad_step), HostNumbers(step.adjoint_residual)

    def record_forward(self, names: frozenset[str] | None = None) -> None:
        """Capture the forward step, unless that was done. Call it from one thread only.

        Args:
            names: parameters of a backward pass to follow, whose kernels are then compiled together with these.
        """
        if self._forward is None:
            if names is not None:
                self.step.prepare_backward()
                self.step.watch_parameters(names)
            load_launched(self.step.forward_step if names is None else self._both_passes, self.step.device)
            self._try(self.step.forward)
            self._forward = self._capture(self.step.forward_step)

    def record_again(self) -> None:
        """Capture the forward step as the backward pass recomputes it, without reports. Call it from one thread
        only.
        """
        if self._again is None:
            names = ("largest_residual", "total_overflow")
            self._set_aside = {name: wp.zeros_like(getattr(self.step, name)) for name in names}
            self._again = self._capture(lambda: self.step.forward_step(**self._set_aside))

    def record_stages(self) -> None:
        """Capture the stages of a step, for trajectories that don't store them. Call it from one thread only."""
        if self._stages is None:
            load_launched(self.step.find_stages, self.step.device)
            self._stages = self._capture(self.step.find_stages)

    def record_backward(self, names: frozenset[str]) -> None:
        """Capture the backward step with the gradients of these parameters. Call it from one thread only."""
        step = self.step
        step.prepare_backward()
        step.watch_parameters(names)
        if names not in self._backward:
            load_launched(step.backward_step, step.device)
            self._try(step.run_adjoint)
            self._backward[names] = self._capture(step.backward_step)

    def record_kept(self, names: frozenset[str]) -> bool:
        """Capture steps that are kept, and their adjoints with the gradients of these parameters. Call it from one
        thread only.

        Returns:
            as :meth:`KeptMemory.record`.
        """
        self.step.prepare_backward()
        self.step.watch_parameters(names)
        return self.kept.record(names, self._capture)

    def prepare_kept(self, names: frozenset[str], block: KeptBlock) -> None:
        """Capture the kept steps of some memory, after :meth:`record_kept`. Call it from one thread only."""
        self.kept.graphs(names).prepare(block, self._capture)

    def record_rows(self, copies: int) -> None:
        """Capture the launches that compute the matrices of a step, see :class:`StepRows`. Call it from one thread
        only.
        """
        if self._row_graphs:
            return
        step = self.step
        step.prepare_backward()
        step.watch_parameters(())
        # Kept alive, since the graphs read and write its arrays.
        self._rows = StepRows(step, copies)
        stages = (self._rows.begin, self._rows.find_row, self._rows.end)
        for stage in stages:
            load_launched(stage, step.device)
        self._try(step.run_adjoint)
        # In this order: each row runs the backward pass on the tape of the first graph.
        self._row_graphs = [self._capture(stage) for stage in stages]

    def record_fingerprint(self) -> None:
        """Capture the launch that computes the hashes of a trajectory. Call it from one thread only."""
        if self._fingerprint is None:
            step, kernel = self.step, trajectory_kernels(self.step.scalar).find_fingerprint
            hashed: wp.array = wp.array(hashed_records(step), dtype=int, device=step.device)
            # A CPU reads memory in its order; on a GPU each world has a thread.
            each = step.num_worlds if step.device.is_cpu else 1

            def find_fingerprint() -> None:
                step.launch(kernel, step.num_worlds // each, hashed_records=hashed, worlds_of_thread=each)

            load_launched(find_fingerprint, step.device)
            self._fingerprint = self._capture(find_fingerprint)

    def find_fingerprint(self, records: Records[AnyArray], steps: int, interval: int) -> None:
        """Compute the record ``fingerprint`` of a trajectory, which is given."""
        assert self._fingerprint is not None, "record_fingerprint comes first"
        self._bind(records, (0, interval, steps))
        self._replay((self._fingerprint,), 1)

    def run_forward(
        self,
        records: Records[AnyArray],
        steps: int,
        interval: int,
        kept: KeptBlock | None = None,
        names: frozenset[str] = frozenset(),
    ) -> None:
        """Compute the states after the initial one of a trajectory.

        Args:
            records: states and inputs of the trajectory, with slots for the states between two stored ones.
            steps: number of steps.
            interval: number of steps between stored states.
            kept: memory for the first steps, which are kept; None for none.
            names: parameters for whose gradients kept steps have been captured.
        """
        assert self._forward is not None, "record_forward comes first"
        self._bind(records, (0, interval, steps))
        for report in self._forward_reports:
            report.write(0)
        if kept:
            graph = self.kept.graphs(names).forward
            graph.begin_at(kept.addresses[0])
            self._replay((graph,), kept.steps)
        count = kept.steps if kept else 0
        self._last_kept = kept if count == steps else None
        self._replay((self._forward,), steps - count)

    def show_last_step(self) -> None:
        """Make the working arrays hold what the last step of the last rollout computed, if it was kept."""
        if self._last_kept:
            self._last_kept.show(self._last_kept.steps - 1)
            self._last_kept = None

    def run_backward(
        self,
        names: frozenset[str],
        records: Records[AnyArray],
        last: tuple[AnyArray | None, AnyArray | None],
        steps: int,
        interval: int,
        finds_stages: bool,
        kept: KeptBlock | None = None,
    ) -> None:
        """Run the backward pass of a trajectory; the step's carried_... arrays then hold the adjoint of the initial
        state.

        Args:
            names: parameters whose gradients to compute.
            records: states and inputs of the trajectory, slots for the states between two stored ones, derivatives of
                the loss in every stored state (those in the first are ignored), and outputs for gradients of inputs and
                norms.
            last: derivative of the loss in the last q and qd [num_worlds, nq or nv], or None.
            steps: number of steps.
            interval: number of steps between stored states.
            finds_stages: whether stages are recomputed because the records don't have them, see :meth:`record_stages`.
            kept: memory of the first steps, if they are kept.
        """
        step = self.step
        self._bind(records, (steps, interval, steps))
        for accumulated, array in ((step.accumulated_q_bar, last[0]), (step.accumulated_qd_bar, last[1])):
            if array is None:
                accumulated.zero_()
            else:
                copy_rows(accumulated, array, from_row=step.first_world)
        step.activations.accumulated_act_bar.zero_()
        step.warm_start.clear_accumulated()
        self._bad_step.write(-1)
        self._left.write(0)
        for name in names:
            step.parameter_gradients[name].zero_()
        graphs: tuple[Graph, ...] = (self._backward[names],)
        if finds_stages:
            assert self._stages is not None, "record_stages comes first"
            graphs = (self._stages, *graphs)
        if interval == 1:
            self._replay(graphs, steps - (kept.steps if kept else 0))
            if kept:
                graph = self.kept.graphs(names).backward
                graph.begin_at(kept.addresses[-1])
                self._replay((graph,), kept.steps)
            return
        for first in reversed(range(0, steps, interval)):
            count = min(interval, steps - first)
            if count > 1:
                self._fill_stretch(first, count)
            self._replay(graphs, count)

    def run_rows(self, records: Records[AnyArray], passes: int) -> None:
        """Compute the matrices of one step.

        Args:
            records: its state and inputs, and the matrices.
            passes: number of times that its adjoint is applied.
        """
        assert self._row_graphs, "record_rows comes first"
        self._bind(records, (0, 1, 1))
        self._left.write(0)
        for graph, times in zip(self._row_graphs, (1, passes, 1), strict=True):
            self._replay((graph,), times)

    def _fill_stretch(self, first: int, count: int) -> None:
        """Recompute the states inside an interval of steps, and leave the cursor at its end."""
        assert self._again is not None, "record_again comes first"
        self.step.cursor_step.fill_(first)
        self._replay((self._again,), count - 1)
        self.step.cursor_step.fill_(first + count)

    def _replay(self, graphs: tuple[Graph, ...], times: int) -> None:
        """Launch graphs repeatedly, one after the other.

        If it ends early, nothing remains that the next call would read.
        """
        most, at_once, left = STEPS_AT_ONCE if len(graphs) == 1 else 1, 1, times
        while left > 0 and not self.stopped:
            check()
            start = time.perf_counter()
            for graph in graphs:
                graph.launch(min(at_once, left))
            left -= at_once
            if at_once < most and time.perf_counter() - start < LONG_LAUNCH:
                at_once *= 2

    def _both_passes(self) -> None:
        self.step.forward_step()
        self.step.backward_step()

    def _try(self, work: Callable[[], None]) -> None:
        """Run work once while Warp captures it, to load remaining modules, which a capture must not do.

        The work sees no trajectory: the last one bound may be gone, and its cursor is past its last step.
        """
        if not is_listed(self.step.device):
            self._bind(None, (0, 1, 0))
            work()

    def _capture(self, work: Callable[[], None], make: Callable[[Callable[[], None]], Graph] | None = None) -> Graph:
        """Capture launches as a graph, of another kind than usual by ``make``. Their kernels must have been loaded."""
        device = self.step.device
        make = make or (lambda work: capture(work, device))
        load_modules([checkpoint_kernels(self.step.scalar).module], device)
        if not device.is_cpu:
            return make(work)
        kernels, replaying = denormal_kernels(), replay_kernels()
        of_graphs = [replaying.replay, replaying.move_pointers]
        load_kernels([kernels.flush_denormals, kernels.restore_denormals, *of_graphs], device)

        def without_denormals() -> None:
            launch(kernels.flush_denormals, 1, device=device, control=self._control)
            work()
            launch(kernels.restore_denormals, 1, device=device, control=self._control)

        return make(without_denormals)

    def _bind(self, records: Records[AnyArray] | None, cursor: tuple[int, int, int]) -> None:
        self._table.write_only({} if records is None else addresses(records))
        self._cursor.write(cursor)
