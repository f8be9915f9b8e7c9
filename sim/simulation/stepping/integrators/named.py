"""The integrators by their names."""

from sim.errors import ModelError
from sim.simulation.stepping.integrators.explicit import ExplicitStep
from sim.simulation.stepping.integrators.implicit import ImplicitStep
from sim.simulation.stepping.integrators.implicit_fast import ImplicitFastStep
from sim.simulation.stepping.integrators.runge_kutta import RungeKuttaStep
from sim.simulation.stepping.pipeline import Step

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
            "ContactOptions(law='mujoco'), or integrator='euler', which has springs, dampers and actuators implicit"
        )
