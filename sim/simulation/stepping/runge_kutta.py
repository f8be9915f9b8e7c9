"""The classical Runge-Kutta method as in MuJoCo: four stages, each of which computes an acceleration."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from sim.arrays.launch import clear, run_backward
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.stages.forces.damping import Damping
from sim.simulation.stepping.stages.stages import shared_gradients
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.actuators.activation import activation_kernels
from warp_kernels.kinematics.runge_kutta import runge_kutta_kernels
from warp_kernels.rollout.checkpoint import KEPT_STAGES, checkpoint_kernels

# Fraction of a step from the first stage to each, with the rate and the change of the previous stage.
SHARES = (0.0, 0.5, 0.5, 1.0)


@dataclass(frozen=True)
class Stage:
    """State and result of a stage.

    Attributes:
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        rate: rate of coordinates, as a rotation vector since the first stage for a quaternion [num_worlds, nv].
        change: change of velocities by a step with the acceleration of this stage, along the axes of links
            [num_worlds, nv].
        act: states of actuators [num_worlds, na].
        act_rate: rates of these states [num_worlds, na].
    """

    q: wp.array
    qd: wp.array
    rate: wp.array
    change: wp.array
    act: wp.array
    act_rate: wp.array


class StageDamping(Damping):
    """No damping after the constraints, since damping is explicit; solved velocities of a stage aren't the next
    ones.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.qd_solved = wp.zeros_like(step.qd_next)


class RungeKuttaStep(Step):
    """A step under MuJoCo's law with explicit joint damping. Each stage has its contacts; forces are those of the
    first.

    The stages share the working arrays of the step. The trajectory stores the velocities found by all but the last
    stage, so that the backward pass restores the state of each without solving for it, and recomputes each once.
    """

    kept_stages = KEPT_STAGES
    damping_of = StageDamping

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._kernels = runge_kutta_kernels(self.scalar)
        self._stage_adjoints: wp.array | None = None
        self._going_back_on = 0
        act = self.activations.act
        like = (self.q, self.qd, self.qd, self.qd, act, act)
        self.stages = [Stage(*(wp.zeros_like(x) for x in like)) for _ in SHARES]
        self.mean_act_rate, self._no_input = wp.zeros_like(act), wp.zeros_like(self.control)
        self._no_rate = wp.zeros_like(self.qd)
        self.mean_rate, self.mean_change = (wp.zeros_like(self.qd) for _ in range(2))
        self.stage_residual = wp.zeros_like(self.residual)
        self.stage_contact_overflow, self.stage_constraint_overflow = (
            wp.zeros_like(self.last_bad_step) for _ in range(2)
        )

    def forward(self) -> None:
        """Run all stages, then the step; q and qd are restored."""
        self._run_stages()
        self._combine_stages()
        self._copy_state(self.stages[0], self)

    def store(self, **reports: Any) -> None:
        """Write the next state as :class:`Step`, with the largest residual and the dropped contacts of all stages."""
        of_stages = {
            name: getattr(self, f"stage_{name}") for name in ("residual", "contact_overflow", "constraint_overflow")
        }
        super().store(**of_stages, **reports)

    def prepare_backward(self) -> None:
        """Allocate the arrays of the backward pass, and the gradients of the stages."""
        super().prepare_backward()
        if self._stage_adjoints is None:
            self._tau_total, self._control_total = wp.zeros_like(self.tau), wp.zeros_like(self.control)
            parts = [array for stage in self.stages for array in vars(stage).values()]
            means = (self.mean_rate, self.mean_change, self.mean_act_rate)
            self._stage_adjoints = shared_gradients([*parts, *means], self.device)

    def run_adjoint(self) -> None:
        """Restore the states of all stages, and run the backward pass through one after the other."""
        assert self._stage_adjoints is not None, "prepare_backward comes first"
        for array in (self._stage_adjoints, self._tau_total, self._control_total):
            clear(array)
        self._copy_state(self, self.stages[0])
        for number in range(KEPT_STAGES):
            self._recall_stage(number)
        self._go_to_stage(KEPT_STAGES)
        recorded = self._record_stage(KEPT_STAGES)
        with wp.Tape() as tape:
            self._combine_stages()
        run_backward(tape)
        if self.model.na:
            clear(self.activations.act_next.grad)  # next states of stages are not read
        self._stage_adjoint(KEPT_STAGES, recorded)
        for number in reversed(range(KEPT_STAGES)):
            self._stage_adjoint(number, self._record_stage(number))
        first = self.stages[0]
        found = (first.q.grad, first.qd.grad, self._tau_total, self._control_total, first.act.grad)
        self.clear_adjoints()
        self._add_adjoint(found, self._input_adjoints)

    def find_stages(self) -> None:
        """Recompute the stages of the step before the cursor, for a trajectory that doesn't store them."""
        kernel = checkpoint_kernels(self.scalar).move_cursor
        self.launch(kernel, 1, by=-1)
        self.load()
        self._copy_state(self, self.stages[0])
        for number in range(KEPT_STAGES):
            self._run_stage(number)
        self.launch(kernel, 1, by=1)

    def show_contacts(self) -> None:
        """Recompute the first stage of the last step, whose contacts are those of the state before it."""
        self.launch(checkpoint_kernels(self.scalar).move_cursor, 1, by=-1)
        self.load()
        self.to_next_velocity()

    def _run_stages(self) -> None:
        for array in (self.stage_residual, self.stage_contact_overflow, self.stage_constraint_overflow):
            clear(array)
        self._copy_state(self, self.stages[0])
        for number in range(len(SHARES)):
            self._run_stage(number)
            self.launch(self._kernels.add_reports, self.num_worlds)

    def _run_stage(self, number: int) -> None:
        self._begin_stage(number)
        self.to_next_velocity()
        if number < KEPT_STAGES:
            self.launch(checkpoint_kernels(self.scalar).store_stage, self.num_worlds, number=number)
        if number == 0:
            super().store_readings()
        self._keep_stage(number)

    def _recall_stage(self, number: int) -> None:
        """Restore the state of a stage from its stored result, as :meth:`_run_stage` computes it."""
        self._begin_stage(number)
        self.activations.activate(self)
        self.launch(checkpoint_kernels(self.scalar).load_stage, self.num_worlds, number=number)
        self._keep_stage(number)

    def _begin_stage(self, number: int) -> None:
        if number > 0:
            self._go_to_stage(number)
            self._copy_state(self.stages[number], self)

    def _record_stage(self, number: int) -> wp.Tape:
        """Run a stage at its state, recorded on a tape for :meth:`_stage_adjoint`."""
        self._copy_state(self.stages[number], self)
        with wp.Tape() as tape:
            self.record_velocity(tape)
            self._keep_stage(number)
        return tape

    def _stage_adjoint(self, number: int, recorded: wp.Tape) -> None:
        """Propagate the adjoints of a stage's rate and change to its state and the stages before."""
        stage, self._going_back_on = self.stages[number], number
        self.clear_adjoints()
        clear(self.joint_damping.qd_solved.grad)
        run_backward(recorded)
        totals = (stage.q.grad, stage.qd.grad, self._tau_total, self._control_total, stage.act.grad)
        self._add_adjoint(self._input_adjoints, totals)
        if number > 0:
            with wp.Tape() as tape:
                self._go_to_stage(number)
            run_backward(tape)

    def store_readings(self) -> None:
        """Do nothing: the first stage has written its readings, which MuJoCo's sensors show too."""

    def readings_adjoint(self) -> None:
        """Propagate the adjoint of readings to the first stage, whose forces are stored."""
        if self._going_back_on == 0:
            super().readings_adjoint()

    def solved_adjoint(self) -> None:
        """Add the adjoint of sensor readings to the first stage, whose velocities are stored."""
        if self._going_back_on == 0:
            super().solved_adjoint()

    def _keep_stage(self, number: int) -> None:
        stage = self.stages[number]
        rates = {"rate_before": self.stages[number - 1].rate if number else self._no_rate, "rate": stage.rate}
        share = self.scalar(SHARES[number])
        self.launch(self._kernels.keep_stage, self._links, tape=True, share=share, change=stage.change, **rates)
        if self.model.na:
            self._copy_activations(self.activations.act_rate, stage.act_rate, tape=True)

    def _go_to_stage(self, number: int) -> None:
        stage, before = self.stages[number], self.stages[number - 1]
        self._advance(SHARES[number], before.rate, before.change, stage.q, stage.qd)
        if self.model.na:
            arrays = {"act_first": self.stages[0].act, "act_rate": before.act_rate, "act_there": stage.act}
            kernel, share = activation_kernels(self.scalar).advance_activations, self.scalar(SHARES[number])
            self.launch(kernel, self._states, tape=True, share=share, **arrays)

    def _combine_stages(self) -> None:
        means = {"rate": self.mean_rate, "change": self.mean_change}
        means |= {"act_rate": self.mean_act_rate} if self.model.na else {}
        for name, mean in means.items():
            parts = dict(zip(("first", "second", "third", "fourth"), (vars(s)[name] for s in self.stages), strict=True))
            dim = (mean.shape[1], self.num_worlds)
            self.launch(self._kernels.combine, dim, tape=True, mean=mean, **parts)
        self._advance(1.0, self.mean_rate, self.mean_change, self.q_next, self.qd_next)
        self.activations.finish(self, self.stages[0].act, self.mean_act_rate, self._no_input)

    def _advance(self, share: float, rate: wp.array, change: wp.array, q: wp.array, qd: wp.array) -> None:
        first = self.stages[0]
        begun = {"q_first": first.q, "rate_first": first.rate, "rate": rate, "change": change}
        kernel = self._kernels.advance
        self.launch(kernel, self._links, tape=True, share=self.scalar(share), q_there=q, qd_there=qd, **begun)

    def _copy_state(self, source: Any, target: Any) -> None:
        arrays = {"q_from": source.q, "qd_from": source.qd, "q_to": target.q, "qd_to": target.qd}
        self.launch(self._kernels.copy_state, self.num_worlds, **arrays)
        if self.model.na:
            self._copy_activations(_act(source), _act(target))

    def _copy_activations(self, source: wp.array, target: wp.array, tape: bool = False) -> None:
        kernel = activation_kernels(self.scalar).copy_activations
        self.launch(kernel, self._states, tape=tape, act_from=source, act_to=target)

    def _add_adjoint(self, found: tuple[wp.array, ...], totals: tuple[wp.array, ...]) -> None:
        names = ("q", "qd", "tau", "control")
        arrays: dict[str, Any] = {f"{name}_bar": bar for name, bar in zip(names, found, strict=False)}
        arrays |= {f"{name}_total": total for name, total in zip(names, totals, strict=False)}
        self.launch(self._kernels.add_adjoint, self.num_worlds, **arrays)
        if self.model.na:
            kernel = checkpoint_kernels(self.scalar).accumulate
            self.launch(kernel, found[-1].size, value=found[-1].flatten(), total=totals[-1].flatten())

    @property
    def _input_adjoints(self) -> tuple[wp.array, ...]:
        """Return the adjoints of q, qd, tau, control and act in the working arrays."""
        return self.q.grad, self.qd.grad, self.tau.grad, self.given_control.grad, self.activations.act.grad

    @property
    def _states(self) -> tuple[int, int]:
        return (self.model.na, self.num_worlds)

    @property
    def _links(self) -> tuple[int, int]:
        return (self.model.num_links, self.num_worlds)


def _act(of: Any) -> wp.array:
    """Return the states of actuators of a step or of one of its stages."""
    return of.act if isinstance(of, Stage) else of.activations.act
