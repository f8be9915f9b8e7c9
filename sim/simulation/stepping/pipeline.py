"""One time step of a shard, forward and backward: the stages of the physics in order.

A step doesn't know the trajectory: kernels load the state before it and store the state after it through a table of
pointers (see :mod:`warp_kernels.rollout.checkpoint`). Each stage launches its kernels in ``stages``; solvers are in
``solvers``, other integrators in ``integrators``.
"""

from typing import Any

import warp as wp

from sim.arrays.launch import run_backward
from sim.simulation.stepping.stages.stages import Stages
from warp_kernels.kinematics.runge_kutta import runge_kutta_kernels
from warp_kernels.rollout.checkpoint import checkpoint_kernels


class Step(Stages):
    """A step of semi-implicit Euler and its adjoint, for both laws and all solvers.

    Attributes:
        kept_stages: number of stages before the last one that a trajectory stores, see :class:`RungeKuttaStep`.
        drifts_first: whether positions move before the stages, see :class:`MidpointStep`.
    """

    kept_stages = 0
    drifts_first = False

    def forward(self) -> None:
        """Compute (q_next, qd_next) from (q, qd, tau, control)."""
        self.to_next_velocity()
        self.stop()
        self.kinematics.integrate()

    def to_next_velocity(self) -> None:
        """Compute qd_next from (q, qd, tau, control), and qd_path, the velocity with which positions are integrated.

        Kernels with Warp's own adjoint are recorded on an active tape.
        """
        self.activations.activate(self)
        self.kinematics.find()
        self.actuation.find()
        if self.tendons:
            self.tendons.pull(self)
        if self.pose_springs:
            self.pose_springs.pull()
        self.link_forces.find()
        self.dynamics.accelerate()
        if self.tendons:
            self.tendons.add_armature(self)
        self.contact_stage.find()
        if self.surfaces:
            self.surfaces.find()
        if self.transmissions:
            self.transmissions.push(self)
        self.errors.find()
        self.dynamics.couple()
        self.constraint_stage.find()
        self.solver.solve()
        self.impulses.apply()
        self.joint_damping.damp()
        self.impact_times.find_path()

    def stop(self) -> None:
        """Reduce qd_next and qd_path that would carry a body or limb through a mesh; recorded on an active tape."""
        if self.stops:
            self.stops.find()

    def velocity_adjoint(self) -> None:
        """Propagate the adjoints of qd_next and qd_path to q, qd, tau, control and the parameters.

        For kinematics, gyroscopic forces, contacts and errors it stops at their results; the tape propagates them
        further.
        """
        self.contact_stage.clear_adjoints()
        self.readings_adjoint()
        self.impact_times.path_adjoint()
        self.joint_damping.adjoint()
        self.solved_adjoint()
        self.impulses.begin_adjoint()
        self.warm_start.adjoint()
        self.solver.adjoint()
        self.impact_times.bounce_adjoint()
        self.impulses.finish_adjoint()
        self.dynamics.free_step_adjoint()
        if self.tendons:
            self.tendons.armature_adjoint(self)
        self.constraint_stage.adjoint()
        self.dynamics.mass_adjoint()
        self.actuation.adjoint()
        self.dynamics.motion_adjoint()
        self.link_forces.adjoint()
        self.joint_damping.motion_adjoint()

    def record_velocity(self, tape: wp.Tape) -> None:
        """Run the stages up to qd_next and qd_path on the active tape, with their adjoint.

        The adjoint doesn't change what it reads of the step, so that it can be applied repeatedly.
        """
        self.to_next_velocity()
        self.solver.find_responses()
        reached = [self.q, self.qd, self.tau, self.kinematics.subspace.worlds, self.qd_path, self.control]
        tape.record_func(self.velocity_adjoint, [array for array in reached if array.size])
        self.stop()

    def record(self, tape: wp.Tape) -> None:
        """Run the step on the active tape, with its adjoint, except for the last stage, whose result the adjoint
        ignores.
        """
        self.record_velocity(tape)
        tape.record_func(self.kinematics.integrate_adjoint, [self.q, self.drift_velocity])

    def run_adjoint(self) -> None:
        """Run the step on a tape and its backward pass, from the gradients of q_next and qd_next to those of its
        inputs.
        """
        with wp.Tape() as tape:
            self.record(tape)
        run_backward(tape)

    def forward_step(self, **reports: Any) -> None:
        """Take the step at the cursor, and move the cursor on.

        Args:
            reports: see :meth:`store`.
        """
        self.load()
        self.forward()
        self.store(**reports)

    def kept_step(self) -> wp.Tape:
        """Take the step at the cursor as :meth:`forward_step`, and return its tape for :meth:`kept_adjoint`."""
        self.load()
        with wp.Tape() as tape:
            self.record(tape)
        # The last stage turns the velocities that the adjoint reads into those of the next state.
        found, aside = (self.q_next, self.qd_next), (self.q_aside, self.qd_aside)
        self._copy_states(found, aside)
        self.kinematics.integrate()
        self.store()
        self._copy_states(aside, found)
        return tape

    def _copy_states(self, source: tuple[wp.array, wp.array], target: tuple[wp.array, wp.array]) -> None:
        """Copy coordinates and velocities."""
        kernel, (q, qd), (q_to, qd_to) = runge_kutta_kernels(self.scalar).copy_state, source, target
        self.launch(kernel, self.num_worlds, q_from=q, qd_from=qd, q_to=q_to, qd_to=qd_to)

    def kept_adjoint(self, tape: wp.Tape) -> None:
        """Move the cursor back, and apply the adjoint of the step there, whose working arrays are as it left them."""
        self._begin_adjoint()
        self._load_adjoint()
        run_backward(tape)
        self._end_adjoint()

    def backward_step(self) -> None:
        """Move the cursor back, recompute the step there on a tape, and apply its adjoint."""
        self._begin_adjoint()
        self.load()
        self._load_adjoint()
        self.run_adjoint()
        self._end_adjoint()

    def _begin_adjoint(self) -> None:
        self.launch(checkpoint_kernels(self.scalar).move_cursor, 1, by=-1)
        self.clear_adjoints()

    def _load_adjoint(self) -> None:
        self.launch(checkpoint_kernels(self.scalar).load_adjoint, self.num_worlds)
        self.activations.load_adjoint(self)

    def _end_adjoint(self) -> None:
        self.store_adjoint()
        self.activations.store_adjoint(self)

    def store_adjoint(self, **state: Any) -> None:
        """Write the adjoints of the state and the inputs.

        Args:
            state: adjoints of the state before the step, where they aren't those of q and qd.
        """
        kernel = checkpoint_kernels(self.scalar).store_adjoint
        self.launch(kernel, self.num_worlds, control_bar=self.given_control.grad, **state)

    def load(self) -> None:
        """Read the state and the control at the cursor."""
        self.load_state()
        self.activations.load(self)
        self.warm_start.load()

    def load_state(self, **state: Any) -> None:
        """Read coordinates, velocities and inputs at the cursor, into other arrays than q and qd where they are
        given.
        """
        self.launch(checkpoint_kernels(self.scalar).load_state, self.num_worlds, control=self.given_control, **state)

    def store(self, **reports: Any) -> None:
        """Write the next state and move the cursor on.

        Args:
            reports: ``largest_residual`` and ``total_overflow``, accumulators for the residual and for dropped
                contacts; by default those of this step.
        """
        kernels = checkpoint_kernels(self.scalar)
        self.launch(kernels.store_state, self.num_worlds, **reports)
        self.activations.store(self)
        self.warm_start.store()
        self.constraint_stage.break_loaded()
        self.store_readings()
        self.launch(kernels.move_cursor, 1, by=1)

    def store_readings(self) -> None:
        """Write sensor readings of the step at the cursor."""
        if self.sensors:
            self.sensors.store()

    def readings_adjoint(self) -> None:
        """Propagate the adjoint of the readings to the impulses and the frames of contacts."""
        if self.sensors:
            self.sensors.adjoint()

    def solved_adjoint(self) -> None:
        """Add the adjoint of sensor readings to that of qd_solved."""
        if self.sensors:
            self.sensors.solved_adjoint()

    def find_stages(self) -> None:
        """Recompute intermediate stages. No-op except for Runge-Kutta, see :class:`RungeKuttaStep`."""

    def show_contacts(self) -> None:
        """Make the working arrays hold the contacts at the state before the last step. No-op except for Runge-Kutta."""
