"""Stage of moving surfaces: conveyor belts and turntables, which friction sees in contacts."""

import warp as wp

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.constraints.surface_motion import surface_row_kernels, surface_velocity_kernels


class SurfaceMotion(Stage):
    """Velocities of surfaces relative to their geometries, in the contacts of a model that has them.

    Args:
        step: workspace of the step.

    Attributes:
        contact_surface_velocity: velocity of b's surface relative to that of a: spin about the normal, and velocities
            along both tangents [slot, world].
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        self.contact_surface_velocity = step.worlds_last(step.max_contacts, step.device_model.types.vec3)

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.contact_surface_velocity]

    def find(self) -> None:
        """Compute the velocities of surfaces in contacts; recorded on an active tape."""
        step = self._step
        kernels = surface_velocity_kernels(step.scalar, step.looping)
        step.launch(kernels.contact_surface_velocities, step.slot_threads, tape=True)

    def add_to_rows(self) -> None:
        """Add these velocities to the right-hand sides of the contacts' rows."""
        self._step.launch_over_constraints(surface_row_kernels(self._step.scalar).surface_rows)

    def rows_adjoint(self) -> None:
        """Propagate the adjoint of these right-hand sides to the velocities of surfaces."""
        step = self._step
        step.launch(surface_row_kernels(step.scalar).surface_row_adjoint, step.num_worlds)


def surface_motion(step: Workspace) -> SurfaceMotion | None:
    """Return the stage; None in models without moving surfaces or contacts."""
    return SurfaceMotion(step) if step.model.moving_surfaces and step.max_contacts else None
