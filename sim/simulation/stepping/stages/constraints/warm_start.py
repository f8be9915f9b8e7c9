"""Warm start of a step: impulses of the previous step, matched by the keys of constraints."""

import warp as wp

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.rollout.checkpoint import checkpoint_kernels
from warp_kernels.solver.warm_start import warm_start_kernels


class WarmStart(Stage):
    """Initial guess of the impulses; its arrays have no rows without ``warm_start=True``.

    Args:
        step: workspace of the step.

    Attributes:
        start: initial guess [constraint, world].
        start_source: constraint of the previous step that each continues, -1 for none.
        constraint_key, previous_key: keys of the constraints of this step and of the previous one.
        previous_impulse: impulses of the previous step.
        accumulated_impulse_bar: their adjoint, from the step that the backward pass has just left.
    """

    accumulated_impulse_bar: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        constraints, vec3 = step.max_constraints if step.warm else 0, step.device_model.types.vec3
        self.start, self.previous_impulse = (step.worlds_last(constraints, vec3) for _ in range(2))
        self.constraint_key, self.previous_key = (step.worlds_last(constraints, wp.vec4i) for _ in range(2))
        self.start_source = step.worlds_last(constraints, wp.int32)
        self._every = (step.max_constraints, step.num_worlds)

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        self.accumulated_impulse_bar = wp.zeros_like(self.start)

    def load(self) -> None:
        """Read the impulses of the previous step."""
        if self._step.warm:
            self._step.launch(checkpoint_kernels(self._step.scalar).load_impulses, self._every)

    def store(self) -> None:
        """Write the impulses of this step for the next one."""
        if self._step.warm:
            self._step.launch(checkpoint_kernels(self._step.scalar).store_impulses, self._every)

    def match(self) -> None:
        """Compute the initial guess."""
        step = self._step
        if not step.warm:
            return
        kernels, identity = warm_start_kernels(step.scalar), step.contact_stage.identity()
        if step.threads_per_world > 1:
            step.launch_over_constraints(kernels.match_each_constraint, slot_identity=identity)
        else:
            step.launch(kernels.match_constraints, step.num_worlds, slot_identity=identity)

    def adjoint(self) -> None:
        """Add the adjoint of the next step's initial guess to that of the impulses."""
        step = self._step
        if step.warm:
            kernel = checkpoint_kernels(step.scalar).add_impulse_adjoint
            impulse_bar = step.constraint_stage.further_impulse_bar if step.newton else step.solver.impulse_bar
            step.launch(kernel, self._every, impulse_bar=impulse_bar)

    def clear_accumulated(self) -> None:
        """Clear the accumulated adjoint: nothing depends on the impulses of the last step."""
        if self._step.warm:
            self.accumulated_impulse_bar.zero_()

    def store_accumulated(self, total: wp.array) -> None:
        """Write the adjoint of the initial impulses to these worlds' part of [num_worlds, max_constraints, 3]."""
        step = self._step
        if step.warm:
            by_world: wp.array = wp.array(
                ptr=total.ptr, shape=total.shape[:2], dtype=step.device_model.types.vec3, device=step.device, copy=False
            )
            step.launch(warm_start_kernels(step.scalar).store_impulse_adjoint, self._every, impulse_bar=by_world)
