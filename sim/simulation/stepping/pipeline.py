"""One time step of a shard, forward and back: the stages of the physics in their order.

A step never sees a trajectory: kernels load the state before it and store that after it through a table of pointers
(see :mod:`warp_kernels.checkpoint`). What each stage launches stands in ``stages``, the solvers in ``solvers``,
other integrators in ``integrators``.
"""

from typing import Any

import warp as wp

from sim.arrays.launch import run_back
from sim.simulation.stepping.stages.stages import Stages
from warp_kernels.checkpoint import checkpoint_kernels


class Step(Stages):
    """A step of semi-implicit Euler and its adjoint, by both laws and all solvers.

    Attributes:
        kept_stages: how many stages before the last one a trajectory keeps, see :class:`RungeKuttaStep`.
    """

    kept_stages = 0

    def forward(self) -> None:
        """From (q, qd, tau, control) to (q_next, qd_next)."""
        self.to_next_velocity()
        self.kinematics.integrate()

    def to_next_velocity(self) -> None:
        """From (q, qd, tau, control) to qd_next, and to the velocity qd_path along which positions move.

        Kernels with Warp's own adjoint are recorded on an active tape.
        """
        self.activations.activate(self)
        self.kinematics.find()
        self.actuation.find()
        if self.tendons:
            self.tendons.pull(self)
        self.link_forces.find()
        self.dynamics.accelerate()
        if self.tendons:
            self.tendons.add_armature(self)
        self.contact_stage.find()
        if self.transmissions:
            self.transmissions.push(self)
        self.errors.find()
        self.constraint_stage.find()
        self.solver.solve()
        self.impulses.apply()
        self.joint_damping.damp()
        self.impact_times.find_path()

    def velocity_adjoint(self) -> None:
        """From the adjoints of qd_next and qd_path to those of q, qd, tau, control and the parameters.

        Of kinematics, gyroscopic forces, contacts and errors it reaches the results; the tape goes on from there.
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

        The adjoint leaves what it reads of the step as it is, so that it can be applied again.
        """
        self.to_next_velocity()
        self.solver.find_responses()
        reached = [self.q, self.qd, self.tau, self.kinematics.subspace.worlds, self.qd_path, self.control]
        tape.record_func(self.velocity_adjoint, [array for array in reached if array.size])

    def record(self, tape: wp.Tape) -> None:
        """Run the step on the active tape, with its adjoint, but for the last stage: nothing reads what it gives."""
        self.record_velocity(tape)
        tape.record_func(self.kinematics.integrate_adjoint, [self.q, self.qd_path])

    def run_adjoint(self) -> None:
        """Run the step on a tape and walk back, from the gradients of q_next and qd_next to those of its inputs."""
        with wp.Tape() as tape:
            self.record(tape)
        run_back(tape)

    def forward_step(self, **reports: Any) -> None:
        """Take the step at the cursor, and move the cursor on.

        Args:
            reports: see :meth:`store`.
        """
        self.load()
        self.forward()
        self.store(**reports)

    def backward_step(self) -> None:
        """Move the cursor back, run the step there again on a tape, and apply its adjoint."""
        kernels = checkpoint_kernels(self.scalar)
        self.launch(kernels.move_cursor, 1, by=-1)
        self.clear_adjoints()
        self.load()
        self.launch(kernels.load_adjoint, self.num_worlds)
        self.activations.load_adjoint(self)
        self.run_adjoint()
        self.launch(kernels.store_adjoint, self.num_worlds, control_bar=self.given_control.grad)
        self.activations.store_adjoint(self)

    def load(self) -> None:
        """Read the state and the control at the cursor."""
        kernels = checkpoint_kernels(self.scalar)
        self.launch(kernels.load_state, self.num_worlds, control=self.given_control)
        self.activations.load(self)
        self.warm_start.load()

    def store(self, **reports: Any) -> None:
        """Write the next state and move the cursor on.

        Args:
            reports: ``largest_residual`` and ``total_overflow``, where the residual and the contacts beyond
                max_contacts are added; by default those of this step.
        """
        kernels = checkpoint_kernels(self.scalar)
        self.launch(kernels.store_state, self.num_worlds, **reports)
        self.activations.store(self)
        self.warm_start.store()
        self.store_readings()
        self.launch(kernels.move_cursor, 1, by=1)

    def store_readings(self) -> None:
        """Write what sensors read of the step at the cursor."""
        if self.sensors:
            self.sensors.store()

    def readings_adjoint(self) -> None:
        """From the adjoint of the readings to those of the impulses and the frames of contacts."""
        if self.sensors:
            self.sensors.adjoint()

    def solved_adjoint(self) -> None:
        """Add to the adjoint of qd_solved what sensors read of it."""
        if self.sensors:
            self.sensors.solved_adjoint()

    def find_stages(self) -> None:
        """Nothing, but in a step of several stages: see :class:`RungeKuttaStep`."""

    def show_contacts(self) -> None:
        """See to it that the working arrays hold the contacts at the state before the last step, as they do here."""
