"""Readings of sensors of contacts, forces of constraints and accelerations."""

from typing import Any

from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.sensors.contact_force import contact_force_kernels
from warp_kernels.sensors.contacts import contact_sensor_kernels
from warp_kernels.sensors.forces import FORCE, force_sensor_kernels
from warp_kernels.sensors.wrenches import wrench_sensor_kernels


class SensorStage(Stage):
    """The kernels that read a step for its sensors, and their adjoints; their results are arrays of the trajectory.

    Args:
        step: the step's workspace.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        scalar, sensed = step.scalar, step.collision
        kinds = sensed.force_sensors.kind.numpy()
        # Forward and adjoint by what there is. The first one clears what the others write.
        self._kernels: list[tuple[Any, Any]] = []
        if sensed.num_sensors:
            kernels = contact_force_kernels(scalar)
            self._kernels.append((kernels.store_contact_forces, kernels.contact_force_adjoint))
        if (kinds < FORCE).any():
            kernels = force_sensor_kernels(scalar)
            self._kernels.append((kernels.store_sensor_forces, kernels.sensor_force_adjoint))
        if (kinds >= FORCE).any():
            kernels = wrench_sensor_kernels(scalar)
            self._kernels.append((kernels.store_wrenches, kernels.wrench_adjoint))
        if sensed.contact_sensors.place.shape[0]:
            kernels = contact_sensor_kernels(scalar)
            self._kernels.append((kernels.store_contact_readings, kernels.contact_reading_adjoint))

    def store(self) -> None:
        """Write readings at the cursor, and the velocities from which sensors take their accelerations."""
        step = self._step
        if step.accelerating:
            step.launch(checkpoint_kernels(step.scalar).store_solved, step.num_worlds)
        for forward, _ in self._kernels:
            step.launch(forward, step.num_worlds)

    def adjoint(self) -> None:
        """From the adjoint of the readings to those of the impulses, the frames of contacts and poses."""
        for _, backward in self._kernels:
            self._step.launch(backward, self._step.num_worlds)

    def solved_adjoint(self) -> None:
        """Add to the adjoint of qd_solved what sensors read of it."""
        if self._step.accelerating:
            self._step.launch(checkpoint_kernels(self._step.scalar).add_solved_adjoint, self._step.num_worlds)


def sensor_stage(step: Workspace) -> SensorStage | None:
    """Return the stage of a step whose forces or accelerations sensors read, otherwise None."""
    return SensorStage(step) if step.num_sensors or step.accelerating else None
