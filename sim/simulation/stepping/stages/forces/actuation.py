"""Forces of actuators on joints."""

from typing import Any

import warp as wp

from sim.arrays.allocation import fill
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.actuators.actuators import actuator_kernels
from warp_kernels.actuators.motors import motor_kernels

# Fields of the kernels' struct, with the parameters that they hold.
GAINS = {
    "gear": "actuator_gear",
    "kp": "actuator_kp",
    "kd": "actuator_kd",
    "gain": "actuator_gain",
    "offset": "actuator_offset",
    "kp_per_input": "actuator_kp_per_input",
    "kd_per_input": "actuator_kd_per_input",
    "force_centre": "actuator_force_centre",
    "force_limit": "actuator_force_limit",
    "control_lower": "actuator_control_lower",
    "control_upper": "actuator_control_upper",
}


class Actuation(Stage):
    """Stage that computes joint forces and their implicit part on the mass matrix's diagonal.

    Args:
        step: workspace of the step.

    Attributes:
        joint_force: given forces plus those of actuators, tendons, and springs of spherical and free joints [world,
            dof]; the given array without any.
        implicit: terms on the diagonal besides inertia, armature and damping [dof, ...]; no rows without actuators.
        range_centre, range_limit: ranges of forces at the present velocity [world, actuator]; None without motors.
        actuator_row: right-hand side of a bounded actuator's constraint [actuator, world].
        actuator_row_bar: its adjoint.
    """

    actuator_row_bar: wp.array

    def __init__(self, step: Workspace):
        super().__init__(step)
        model = step.model
        further = bool(model.nu or step.tendons or len(model.sprung_links))
        self.joint_force = wp.zeros_like(step.tau) if further else step.tau
        self.implicit = step.groups.scalars(model.nv if model.nu else 0)
        self.range_centre: wp.array | None = None
        self.range_limit: wp.array | None = None
        if "actuator_stall_force" in step.parameters:
            self.range_centre, self.range_limit = (wp.zeros_like(step.control) for _ in range(2))
        self.actuator_row = step.worlds_last(model.nu, step.device_model.types.vec3)

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return list(self._ranges.values())

    def prepare_adjoint(self) -> None:
        """Allocate the adjoint of rows. The adjoint of given forces is that of all joint forces."""
        if self.joint_force is not self._step.tau:
            self.joint_force.grad = self._step.tau.grad
        self.actuator_row_bar = self._step.worlds_last(self._step.model.nu, self._step.device_model.types.vec3)

    def find(self) -> None:
        """Compute the forces of actuators."""
        if self._ranges:
            step = self._step
            kernel, dim = motor_kernels(step.scalar).force_ranges, (step.model.nu, step.num_worlds)
            step.launch(kernel, dim, self, tape=True)
        if self._step.model.nu:
            kernel = actuator_kernels(self._step.scalar, self._step.weighted).actuate
            self._step.launch(kernel, self._step.num_worlds, dt=self._step.ahead)

    def adjoint(self) -> None:
        """Propagate the adjoint of joint forces to states, inputs and gains."""
        if self._step.model.nu:
            kernel = actuator_kernels(self._step.scalar, self._step.weighted).actuator_adjoint
            self._step.launch(kernel, self._step.num_worlds, dt=self._step.ahead)

    @property
    def _ranges(self) -> dict[str, wp.array]:
        """Return the ranges of forces by field of the kernels' struct; empty without motors."""
        if self.range_centre is None or self.range_limit is None:
            return {}
        return {"force_centre": self.range_centre, "force_limit": self.range_limit}

    @property
    def gains(self) -> Any:
        """Return the parameters of the actuators."""
        step = self._step
        arrays = {field: step.parameters[name] for field, name in GAINS.items()}
        return fill(step.structs.Gains, **{**arrays, **self._ranges, **step.activations.unbounded})

    @property
    def gains_bar(self) -> Any:
        """Return the gradients of these parameters, without rows if none is requested."""
        step = self._step
        names = {field: name for field, name in GAINS.items() if field not in step.activations.unbounded}
        found = step.parameter_gradients_of(step.structs.Gains, names)
        for field, array in self._ranges.items():
            setattr(found, field, array.grad)
        return found
