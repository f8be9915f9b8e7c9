"""That the dtype of a model can hold its numbers."""

from collections.abc import Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.model import Model
from sim.model.parameters import MAY_BE_INFINITE, PARAMETERS
from sim.model.tendons.tendons import owners_of


def check_range(model: Model) -> None:
    """Raise ModelError, naming link, joint or geometry, for a number that isn't finite in the model's dtype."""
    largest = np.finfo(model.dtype).max
    for name, values in model.parameters.items():
        fits = np.abs(values) <= largest
        if name in MAY_BE_INFINITE:
            fits |= np.isinf(values)
        if not fits.all():
            wrong = np.argwhere(~fits)[0]
            value = values[tuple(wrong)]
            hint = "; use dtype='float64' or other numbers" if np.isfinite(value) else ""
            raise ModelError(
                f"{_owner(model, PARAMETERS[name].per, int(wrong[0]))}: {name} is {value}, which is not a finite "
                f"{model.dtype}{hint}"
            )


def _owner(model: Model, per: str, index: int) -> str:
    """Whose a value is, by what its parameter is counted by."""
    if per == "dof":
        return f"joint '{model.joint_names[model.dof_link[index]]}'"
    names: dict[str, Sequence[str]] = {
        "link": model.link_names,
        "geometry": [geometry.name for geometry in model.geometries],
        "anchor": model.equalities.anchor_names,
        "coupling": model.equalities.coupling_names,
        "actuator": model.actuator_names,
        "tendon": model.tendons.names,
        "tendon_coupling": model.tendons.coupling_names,
        **{f"tendon_{part}": owners_of(model.tendons, part) for part in ("term", "point", "wrap")},
    }
    kind = {
        "anchor": "constraint",
        "coupling": "coupling of joint",
        "tendon_coupling": "constraint",
        "tendon_term": "tendon",
        "tendon_point": "tendon",
        "tendon_wrap": "tendon",
    }.get(per, per)
    return f"{kind} '{names[per][index]}'" if per in names else {"world": "the world", "height": "a heightfield"}[per]
