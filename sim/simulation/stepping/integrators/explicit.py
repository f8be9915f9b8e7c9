"""A step of Euler's method with explicit joint damping, as MuJoCo takes it where a file disables the flag eulerdamp."""

from typing import Any

from sim.simulation.stepping.pipeline import Step


class ExplicitDampingStep(Step):
    """What the integrators share that leave joint damping among the forces."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        # Damping has no share in the mass matrix of a step's end.
        self.damping_loss = self.damping_weight = self.device_model.none(self.scalar)

    def damp(self) -> None:
        """Nothing: damping is among the forces."""

    def damping_adjoint(self) -> None:
        """Nothing: what reaches qd_solved is its adjoint."""


class ExplicitStep(ExplicitDampingStep):
    """Under MuJoCo's law: the velocities that the constraints leave are those of the next state."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.qd_solved = self.qd_next
