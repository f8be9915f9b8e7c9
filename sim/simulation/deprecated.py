"""Deprecated form of contact methods, and deprecated attributes of a simulator."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from sim.errors import ModelError
from sim.simulation.options import ContactMethod, HardContact, ModelContact, MujocoContact, PgsContact
from sim.simulation.rollout import unguarded_rollout
from sim.version import warn_deprecated

# Keywords in order, with their defaults.
KEYWORDS: Mapping[str, Any] = {
    "solver": "newton", "law": None, "sweeps": 50, "friction": None, "regularisation": 1e-3, "recovery_time": 0.02,
    "iterations": 100, "erp": 1.0, "cfm": 0.0, "margin": 0.02, "max_correction": None, "restitution_threshold": 0.1,
    "max_contacts": None, "adjoint": "unrolled", "tolerance": 0.0, "gradient_smoothing": 0.0, "solref": None,
    "solimp": None, "impratio": None, "noslip_iterations": None, "noslip_tolerance": None, "warm_start": False,
}  # fmt: skip
CLASSES: Mapping[tuple[str, str | None], type[ContactMethod]] = {
    ("newton", "hard"): HardContact,
    ("newton", "mujoco"): MujocoContact,
    ("newton", None): ModelContact,
    ("pgs", "hard"): PgsContact,
    ("pgs", None): PgsContact,
}


class ContactOptions:
    """Deprecated: use the class that has the options, such as :class:`sim.HardContact`.

    It accepts the keywords of earlier releases and returns a :class:`sim.ContactMethod`.

    Raises:
        ModelError: for options that no class combines.
    """

    def __new__(cls, *values: Any, **options: Any) -> Any:
        """Choose the class, and pass it the options that aren't at their defaults."""
        options = {**dict(zip(KEYWORDS, values, strict=False)), **options}
        if len(values) > len(KEYWORDS) or not options.keys() <= KEYWORDS.keys():
            raise TypeError(f"ContactOptions takes {', '.join(KEYWORDS)}")
        changed = {name: value for name, value in options.items() if not _is_default(name, value)}
        solver, law = changed.pop("solver", "newton"), changed.pop("law", None)
        if (solver, law) not in CLASSES:
            raise ModelError(f"ContactOptions: solver={solver!r} is not available with law={law!r}")
        chosen = CLASSES[solver, law]
        if chosen is ModelContact and not changed.keys() <= ModelContact.__dataclass_fields__.keys():
            chosen = HardContact
        for name in changed:
            if name not in chosen.__dataclass_fields__:
                raise ModelError(f"ContactOptions: sim.{chosen.__name__} has no option '{name}'; remove it")
        method = chosen(**changed)
        given = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        warn_deprecated("sim.ContactOptions(...)", f"call sim.{chosen.__name__}({given})", "0.3")
        return method


def _is_default(name: str, value: object) -> bool:
    return value is KEYWORDS[name] or (isinstance(value, str | float | int) and value == KEYWORDS[name])


def _set_parameter(simulator: Any, name: str, value: Any, worlds: Any = None) -> None:
    simulator.parameters.update({name: value}, worlds)


INTERNAL = "use bad_worlds, rollout or Trajectory.backward; simulator.engine may change with any version"
# Deprecated attributes of a simulator: what to do instead, and how to find their value.
RENAMED: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "alike": ("call simulator.replace", attrgetter("replace")),
    "bad_state": (INTERNAL, attrgetter("engine.reports.bad_state")),
    "keeps_on_device": (INTERNAL, attrgetter("engine.settings.keeps_on_device")),
    "open_constraint": (INTERNAL, attrgetter("engine.reports.open_constraint")),
    "parameter": ("read simulator.parameters[name]", attrgetter("parameters.__getitem__")),
    "parameter_gradient": (INTERNAL, attrgetter("engine.parameter_gradient")),
    "parameter_values": ("read simulator.parameters", lambda simulator: lambda: dict(simulator.parameters)),
    "parameters_out_of_range": ("read simulator.parameters.out_of_range", attrgetter("parameters.out_of_range")),
    "problems_of": (INTERNAL, attrgetter("engine.reports.problems_of")),
    "run_back": (INTERNAL, attrgetter("engine.run_backward")),
    "run_forward": (INTERNAL, attrgetter("engine.run_forward")),
    "set_parameter": ("set simulator.parameters[name] = value", lambda simulator: partial(_set_parameter, simulator)),
    "set_parameters": ("call simulator.parameters.update", attrgetter("parameters.update")),
    "shards": (INTERNAL, attrgetter("engine.shards")),
    "sweeps": ("read simulator.solver_iterations", attrgetter("solver_iterations")),
    "unguarded_rollout": (INTERNAL, lambda simulator: partial(unguarded_rollout, simulator)),
    "with_parameters": ("call simulator.parameters.using", attrgetter("parameters.using")),
}
