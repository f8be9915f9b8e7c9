"""Readings of sensors of contacts, forces of constraints and accelerations."""

from typing import Any

from sim.arrays.allocation import fill, integer_array
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.rollout.checkpoint import checkpoint_kernels
from warp_kernels.sensors.readings import sensor_kernels
from warp_kernels.sensors.structs import sensor_structs


class SensorStage(Stage):
    """Stage of sensor readings and their adjoints; results are arrays of the trajectory.

    Args:
        step: workspace of the step.
    """

    def store(self) -> None:
        """Write readings at the cursor, and the velocities from which accelerometers are read."""
        step = self._step
        if step.accelerating:
            step.launch(checkpoint_kernels(step.scalar).store_solved, step.num_worlds)
        if step.num_sensors:
            self._launch(sensor_kernels(step.scalar).store_sensor_readings)

    def adjoint(self) -> None:
        """Propagate the adjoint of the readings to impulses, contacts and poses."""
        step = self._step
        if step.num_sensors:
            kinematics = step.kinematics
            sensed_bar = fill(
                sensor_structs(step.scalar).Sensed,
                pose=kinematics.pose.worlds.grad,
                motions=kinematics.motions_bar,
                contacts=step.contact_stage.contacts_bar,
                impulse=step.constraint_stage.further_impulse_bar,
            )
            self._launch(sensor_kernels(step.scalar).sensor_reading_adjoint, sensed_bar=sensed_bar)

    def solved_adjoint(self) -> None:
        """Add the adjoint of sensor readings to that of qd_solved."""
        if self._step.accelerating:
            self._step.launch(checkpoint_kernels(self._step.scalar).add_solved_adjoint, self._step.num_worlds)

    def _launch(self, kernel: Any, **named: Any) -> None:
        step, kinematics, stage = self._step, self._step.kinematics, self._step.constraint_stage
        sensed = fill(
            sensor_structs(step.scalar).Sensed,
            limit_margin=step.options.limit_margin,
            **{name: getattr(step.collision, name) for name in ("pair_a", "pair_b")},
            slot_pair=step.contact_stage.slot_pair,
            link_tree=step.device_model.link_tree,
            row_tendon=step.tendons.tendon_rows.tendon if step.tendons else integer_array([], step.device),
            pose=kinematics.pose.worlds,
            motions=kinematics.motions,
            contacts=step.contact_stage.contacts,
            constraints=stage.constraints,
            impulse=stage.impulse,
        )
        step.launch(kernel, step.num_worlds, sensors=step.collision.sensors, sensed=sensed, **named)


def sensor_stage(step: Workspace) -> SensorStage | None:
    """Return the sensor stage of a step, or None if no sensor reads its forces or accelerations."""
    return SensorStage(step) if step.num_sensors or step.accelerating else None
