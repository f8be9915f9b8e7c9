"""Parameters of geometries, which a robot doesn't keep: a call may state them."""

from collections.abc import Mapping, Sequence

import torch

from sim.errors import ModelError
from sim.model.model import Model


def geometry_values(
    model: Model, function: str, names: Sequence[str], given: Mapping[str, torch.Tensor], like: torch.Tensor
) -> list[torch.Tensor]:
    """The parameters of a function, those of the model where they aren't given.

    Args:
        model: the model.
        function: whose parameters they are, for errors.
        names: of the parameters, in order.
        given: those of the call.
        like: a tensor of the robot's dtype on its device.

    Raises:
        ModelError: for a parameter that isn't among the names, or a model without geometries, such as one of a file
            that was read without them.
    """
    if not model.num_geometries:
        raise ModelError(
            f"{function}: the robot has no geometries; read its file with collision=True or visual=True, or make the "
            "robot of a model that has geometries"
        )
    for name in given:
        if name not in names:
            raise ModelError(f"{function}: there is no parameter '{name}'; there are {', '.join(names)}")
    return [
        given[name] if name in given else torch.as_tensor(model.parameters[name], dtype=like.dtype, device=like.device)
        for name in names
    ]
