"""Learnt quantities of single links and joints, and their slices of a robot's parameters."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch

from sim.arrays.device_values import unused_entries
from sim.errors import ModelError
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.torch.modes import in_own_precision
from sim.torch.robot.arguments import check_like
from sim.torch.robot.parametrisations import (
    Parametrisation,
    PhysicalInertia,
    Positive,
    PositiveDefinite,
    Rotation,
    Unconstrained,
)

# Parameters and default parametrisation of each quantity.
OF_LINKS: dict[str, tuple[tuple[str, ...], type[Parametrisation]]] = {
    "mass": (("mass",), Positive),
    "com": (("com",), Unconstrained),
    "inertia": (("inertia",), PositiveDefinite),
    "inertial": (("mass", "com", "inertia"), PhysicalInertia),
    "translation": (("joint_placement",), Unconstrained),
    "rotation": (("joint_placement",), Rotation),
}
OF_JOINTS: dict[str, tuple[tuple[str, ...], type[Parametrisation]]] = {
    "damping": (("damping",), Positive),
    "friction": (("friction_loss",), Positive),
    "armature": (("armature",), Positive),
    "stiffness": (("stiffness",), Positive),
    "rest_position": (("rest_position",), Unconstrained),
}
OF_SPRINGS = ("stiffness", "rest_position")
QUANTITIES = {**OF_LINKS, **OF_JOINTS}
# Other names: that of the method for the whole robot, and that of the parameter.
PARAMETER_ALIASES = {"centre_of_mass": "com"}
QUANTITY_ALIASES = {"centre_of_mass": "com", "friction_loss": "friction"}
Values = dict[str, torch.Tensor]


def find_link(model: Model, name: str, quantity: str) -> int:
    """Return the link that a quantity belongs to, by the link's name or that of the joint that carries it.

    Raises:
        ModelError: for an unknown quantity or name, and for a joint that has no such quantity.
    """
    if quantity not in QUANTITIES:
        raise ModelError(f"unknown quantity '{quantity}'; learnable quantities are {', '.join(QUANTITIES)}")
    if name in model.link_names:
        link = model.link(name)
    elif name in model.joint_names:
        link = model.joint(name)
    elif name in [frame.name for frame in model.frames]:
        raise ModelError(f"'{name}' was merged into another link; load the robot with collapse_fixed=False")
    else:
        raise ModelError(
            f"no link or joint named '{name}'; there are the links {', '.join(model.link_names)}, and the joints "
            f"{', '.join(model.joint_names)}"
        )
    if quantity in OF_JOINTS and not len(model.dofs_of(link)):
        raise ModelError(f"joint '{model.joint_names[link]}' is fixed and has no {quantity}")
    if quantity in OF_SPRINGS and unused_entries("stiffness", model)[model.dofs_of(link)].any():
        kind = JOINT_TYPES[int(model.joint_type[link])].name
        raise ModelError(
            f"joint '{model.joint_names[link]}' has no {quantity}; give the {kind} joint a sim.Spring with a stiffness"
        )
    return link


def present_value(model: Model, values: Mapping[str, torch.Tensor], link: int, quantity: str) -> Any:
    """Return the present value of a quantity: a tensor, or mass, com and inertia for "inertial"."""
    if quantity in OF_JOINTS:
        (name,) = OF_JOINTS[quantity][0]
        value = values[name][model.dofs_of(link)]
        return value[0] if len(value) == 1 else value
    if quantity == "inertial":
        return tuple(values[name][link] for name in ("mass", "com", "inertia"))
    if quantity == "translation":
        return values["joint_placement"][link, :3]
    if quantity == "rotation":
        return values["joint_placement"][link, 3:]
    return values[quantity][link]


@in_own_precision
def with_learnt(model: Model, learnt: Mapping[tuple[int, str], torch.nn.Module], values: Values) -> Values:
    """Return parameters with the learnt quantities inserted, and the others unchanged.

    Args:
        model: the model.
        learnt: modules whose ``forward()`` gives a quantity, by link and quantity.
        values: parameters ``[n, ...]`` by name.

    Raises:
        ModelError: if a module gives a wrong number of values, shape, dtype or device, or a parameter has a value for
            each row.
    """
    rows: dict[str, dict[int, torch.Tensor]] = defaultdict(dict)
    for (link, quantity), module in learnt.items():
        names = QUANTITIES[quantity][0]
        if not any(name in values for name in names):
            continue
        for name in names:
            if name in values and values[name].dim() != model.parameters[name].ndim:
                raise ModelError(f"parameter '{name}' has a value for each row and can't have learnt entries as well")
        given = module()
        if quantity in ("translation", "rotation"):
            row = rows["joint_placement"].get(link, values["joint_placement"][link])
            given = _reshaped(model, link, quantity, given, row[:3] if quantity == "translation" else row[3:])
            parts = (given, row[3:]) if quantity == "translation" else (row[:3], given)
            rows["joint_placement"][link] = torch.cat(parts)
        elif quantity in OF_JOINTS:
            dofs = model.dofs_of(link)
            own = _reshaped(model, link, quantity, given, values[names[0]][..., dofs])
            rows[names[0]].update(zip(dofs, own, strict=True))
        else:
            parts = tuple(given) if quantity == "inertial" else (given,)
            if len(parts) != len(names):
                found = f"{_module(model, link, quantity)} gives {len(parts)} values"
                raise ModelError(f"{found}; expected mass, com and inertia")
            for name, value in zip(names, parts, strict=True):
                if name in values:
                    rows[name][link] = _reshaped(model, link, quantity, value, values[name][link])
    result = dict(values)
    for name, changed in rows.items():
        index = torch.tensor(list(changed), device=values[name].device)
        result[name] = values[name].index_copy(0, index, torch.stack(list(changed.values())))
    return result


def _reshaped(model: Model, link: int, quantity: str, value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Reshape a module's value to the present one's shape. Raises ModelError for a wrong number of entries, dtype or
    device.
    """
    module = _module(model, link, quantity)
    if not isinstance(value, torch.Tensor) or value.numel() != like.numel():
        found = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise ModelError(f"{module} gives {found}; expected {tuple(like.shape)}")
    check_like(f"what {module} gives", value, like)
    return value.reshape(like.shape)


def _module(model: Model, link: int, quantity: str) -> str:
    return f"the module for {quantity} of '{model.link_names[link]}'"
