"""Which attributes of a simulator can't be set: those by which its kernels and arrays were chosen, and parameters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.errors import ModelError

FIXED = frozenset(
    ("model", "dt", "num_worlds", "device", "contact", "integrator", "threads", "contact_sensors", "state_limit")
)


def _another(name: str) -> str:
    """A call that makes a simulator with another value of an argument."""
    if name == "model":
        return "sim.Simulator(model, dt, num_worlds)"
    if name == "num_worlds":
        return "simulator.alike(num_worlds)"
    return f"simulator.alike(simulator.num_worlds, {name}=...)"


class FixedArguments:
    """A base for what is made with arguments that hold from then on, and has parameters that a method changes."""

    _values: Mapping[str, Any]

    # Type checkers would let pass every name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name in FIXED and name in self.__dict__:
                raise ModelError(f"Simulator: {name} can't be changed; make another simulator: {_another(name)}")
            if name in self.__dict__.get("_values", ()):
                raise ModelError(f"Simulator: {name} is a parameter; call simulator.set_parameter({name!r}, value)")
            super().__setattr__(name, value)
