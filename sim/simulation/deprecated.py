"""Deprecated form of contact methods."""

from collections.abc import Mapping
from typing import Any

from sim.errors import ModelError
from sim.simulation.options import ContactMethod, HardContact, ModelContact, MujocoContact, PgsContact
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
