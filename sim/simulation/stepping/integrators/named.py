"""The integrators by their names."""

from sim.errors import ModelError
from sim.simulation.stepping.integrators.implicit import Implicit
from sim.simulation.stepping.integrators.implicit_fast import ImplicitFast
from sim.simulation.stepping.integrators.runge_kutta import RungeKuttaStep
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.stages.damping import Damping


class ExplicitStep(Step):
    """Euler's method with explicit joint damping, as MuJoCo has it where a file disables the flag eulerdamp."""

    damping_of = Damping


class ImplicitStep(Step):
    """MuJoCo's integrator "implicit"."""

    damping_of = Implicit


class ImplicitFastStep(Step):
    """MuJoCo's integrator "implicitfast"."""

    damping_of = ImplicitFast


INTEGRATORS = {
    "euler": Step,
    "explicit": ExplicitStep,
    "implicit": ImplicitStep,
    "implicitfast": ImplicitFastStep,
    "rk4": RungeKuttaStep,
}


def require_integrator(integrator: str, by_mujoco: bool) -> None:
    """Check the name of an integrator, and what goes with it; raises ModelError."""
    if not isinstance(integrator, str) or integrator not in INTEGRATORS:
        raise ModelError(f"Simulator: integrator is {integrator!r}; it must be {' or '.join(map(repr, INTEGRATORS))}")
    if integrator != "euler" and not by_mujoco:
        raise ModelError(
            f"Simulator: integrator='{integrator}' is for MuJoCo's law of contact: choose "
            "sim.MujocoContact(), or integrator='euler', which has springs, dampers and actuators implicit"
        )
