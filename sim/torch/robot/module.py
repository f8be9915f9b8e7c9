"""Robot model as a PyTorch module: names, limits, parameters and learnt quantities."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import warp as wp

from sim.arrays.device_model import find_device
from sim.dynamics.differentiable_op import dynamics_parameters
from sim.errors import ModelError
from sim.exporters.urdf.changes import update_urdf
from sim.model.checks import require_names, require_type
from sim.model.compile.compiler import dtype_name
from sim.model.model import Model
from sim.model.shapes.inertia import DECISIVE, check_mass_matrix, check_masses
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.modes import not_compiled
from sim.torch.robot.arguments import check_shared
from sim.torch.robot.learning import (
    PARAMETER_ALIASES,
    QUANTITIES,
    QUANTITY_ALIASES,
    find_link,
    present_value,
    with_learnt,
)
from sim.torch.robot.parametrisations import Parametrisation
from sim.version import warn_deprecated

LIMITS = ("lower_limit", "upper_limit", "velocity_limit", "effort_limit")


class RobotModule(torch.nn.Module):
    """The parameters of a model as buffers and parameters of a module. See :class:`sim.torch.Robot`.

    Args:
        model: the model.
        source: the file that it came from, or None.
        dtype: torch.float32 or torch.float64.
        device: initial device of the parameters.
    """

    mass: torch.Tensor
    com: torch.Tensor
    inertia: torch.Tensor
    joint_placement: torch.Tensor
    damping: torch.Tensor
    armature: torch.Tensor
    stiffness: torch.Tensor
    rest_position: torch.Tensor
    friction_loss: torch.Tensor
    gravity: torch.Tensor
    gravity_compensation: torch.Tensor  # if the model has it
    lower_limit: torch.Tensor
    upper_limit: torch.Tensor
    velocity_limit: torch.Tensor
    effort_limit: torch.Tensor

    def __init__(
        self,
        model: Model,
        source: Path | None,
        dtype: torch.dtype | str,
        device: torch.device | wp.Device | str | None,
    ):
        super().__init__()
        dtype = TORCH_DTYPES[dtype_name(dtype)]
        buffer_device = wp.device_to_torch(find_device(str(torch.get_default_device() if device is None else device)))
        self.model, self._source = model, source
        values = {name: model.parameters[name] for name in (*dynamics_parameters(model), *LIMITS[:2])}
        values |= {name: getattr(model, name) for name in LIMITS[2:]}
        for name, value in values.items():
            self.register_buffer(name, torch.tensor(value, dtype=dtype, device=buffer_device))
        self.learnt = torch.nn.ModuleDict()
        self._weighed, self._regular = not model.massless_links, False

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.model.nv

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of the links [num_links]."""
        return self.model.link_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move, in the order of their coordinates."""
        return tuple(name for link, name in enumerate(self.model.joint_names) if self.model.dofs_of(link))

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames, those of links among them."""
        return tuple(frame.name for frame in self.model.frames)

    def initial_coordinates(self) -> torch.Tensor:
        """Return the model's initial coordinates [nq]; quaternions are of unit length."""
        return torch.tensor(self.model.q0, dtype=self._like.dtype, device=self._like.device)

    def learn(self, *names: str) -> Self:
        """Make parameters trainable: they become parameters of the module. Returns the robot."""
        for name in map(self._parameter, names):
            if name in self._buffers:
                value = self._buffers.pop(name)
                assert value is not None
                self.register_parameter(name, torch.nn.Parameter(value.detach().clone()))
            self._parameters[name].requires_grad_(True)  # type: ignore[union-attr]
        return self

    def freeze(self, *names: str) -> Self:
        """Make parameters buffers again, with their present values. Returns the robot."""
        for name in map(self._parameter, names):
            if name in self._parameters:
                value = self._parameters.pop(name)
                assert value is not None
                self.register_buffer(name, value.detach().clone())
        return self

    def learn_quantity(self, name: str, quantity: str, module: torch.nn.Module | None = None) -> torch.nn.Module:
        """Let one quantity of a link or joint be learnt, starting at its present value.

        Args:
            name: the link, or the joint that carries it.
            quantity: "mass", "com" (or "centre_of_mass"), "inertia", "inertial" (these three together), "translation"
                or "rotation" of the joint's placement, "damping", "friction" (or "friction_loss", dry friction),
                "armature", "stiffness" or "rest_position".
            module: a :class:`sim.torch.Parametrisation`, or any module whose ``forward()`` gives the value (for
                "rotation" a quaternion xyzw, for "inertial" mass, com and inertia). Default: Positive, Unconstrained,
                PositiveDefinite, PhysicalInertia or Rotation, depending on the quantity.

        Returns:
            the module, which is now a part of the robot: its parameters are the robot's.

        Raises:
            ModelError: for an unknown name or quantity, a value that the parametrisation can't represent, a wrong
                shape, and for a parameter with a value for each row.
        """
        require_names("learn_quantity", name=name, quantity=quantity)
        quantity = QUANTITY_ALIASES.get(quantity, quantity)
        link = find_link(self.model, name, quantity)
        names = QUANTITIES[quantity][0]
        check_shared(self.model, {key: getattr(self, key) for key in names}, f"learning {quantity} of '{name}'")
        module = QUANTITIES[quantity][1]() if module is None else module
        if not isinstance(module, torch.nn.Module):
            raise ModelError(f"{quantity} of '{name}': module is {module!r}; make one, such as sim.torch.Positive()")
        for other in QUANTITIES:
            shared = set(QUANTITIES[other][0]) & set(QUANTITIES[quantity][0]) - {"joint_placement"}
            if other != quantity and shared and f"{other}_{link}" in self.learnt:
                raise ModelError(f"{quantity} of '{name}': its {other} is learnt already; learn one of them")
        if isinstance(module, Parametrisation):
            value = present_value(self.model, dict(zip(names, self._values(names), strict=True)), link, quantity)
            try:
                with torch.no_grad():
                    module.start(value)
            except ModelError as error:
                raise ModelError(f"{quantity} of '{name}': {error}") from None
        with_learnt(self.model, {(link, quantity): module}, {key: getattr(self, key) for key in names})
        self.learnt[f"{quantity}_{link}"] = module
        return module

    def make_learnable(self, name: str, quantity: str, module: torch.nn.Module | None = None) -> torch.nn.Module:
        """Deprecated: call :meth:`learn_quantity`."""
        warn_deprecated("Robot.make_learnable(...)", "call Robot.learn_quantity(...)", "0.3")
        return self.learn_quantity(name, quantity, module)

    def learnable(self, name: str, quantity: str) -> torch.nn.Module:
        """Return the module that :meth:`learn_quantity` registered. Raises ModelError if there is none."""
        require_names("learnable", name=name, quantity=quantity)
        quantity = QUANTITY_ALIASES.get(quantity, quantity)
        key = f"{quantity}_{find_link(self.model, name, quantity)}"
        if key not in self.learnt:
            raise ModelError(f"{quantity} of '{name}' is not learnt; call learn_quantity first")
        return self.learnt[key]

    def set_values(self, values: Mapping[str, torch.Tensor]) -> None:
        """Set parameters to new values [n, ...]. Quantities that were learnt of them stay at these values.

        Raises:
            ModelError: for an unknown name, a shape other than the model's, and a parameter with a value for each row.
        """
        require_type("set_values: values", values, Mapping, "a dictionary of tensors by name")
        given = {self._parameter(name): value for name, value in values.items()}
        for each in (given, {name: getattr(self, name) for name in given}):
            check_shared(self.model, each, "a new value")
        quantities = {key: QUANTITIES[key.rsplit("_", 1)[0]][0] for key in self.learnt}
        over = [key for key, names in quantities.items() if not given.keys().isdisjoint(names)]
        with torch.no_grad():
            present = {name: self.value(name) for key in over for name in quantities[key]}
            for key in over:
                del self.learnt[key]
            for name, value in {**present, **given}.items():
                getattr(self, name).copy_(value)

    def save_urdf(self, path: str | os.PathLike[str]) -> None:
        """Write the robot as a URDF file: its source file with the present values.

        Only elements whose values have changed are edited. URDF can hold masses, centres of mass, inertias, placements
        of joints, damping and dry friction. Meshes keep their file names, which may be relative to the folder of the
        source file.

        Args:
            path: the file to write.

        Raises:
            ModelError: for a robot that isn't from a URDF file or had its fixed joints merged, for a parameter with a
                value for each row, for a change that URDF can't hold, and for values that the reader would reject, such
                as a negative damping. Nothing is written then.
        """
        if self._source is None:
            raise ModelError("the robot was made from a model, so there is no URDF file to edit; make it from a file")
        with torch.no_grad():
            tensors = {name: self.value(name) for name in dynamics_parameters(self.model)}
        check_shared(self.model, tensors, "a file")
        values = {name: tensor.double().numpy(force=True) for name, tensor in tensors.items()}
        # Rounding to float32, now or earlier, doesn't count as a change.
        first = {name: self.model.parameters[name] for name in values}
        single = {name: value.astype(np.float32).astype(float) for name, value in first.items()}
        before = {name: np.where(values[name] == single[name], single[name], first[name]) for name in values}
        update_urdf(self._source, path, self.model, {name: (before[name], values[name]) for name in values})

    def value(self, name: str) -> torch.Tensor:
        """Return a parameter as the methods see it [n, ...], with the quantities that are learnt."""
        return self._values((self._parameter(name),))[0]

    def _values(self, names: Sequence[str]) -> list[torch.Tensor]:
        # Faster than getattr, which searches these dictionaries last.
        stored: dict[str, Any] = {**self._parameters, **self._buffers}
        values = [stored[name] if name in stored else getattr(self, name) for name in names]
        if "learnt" not in self._modules or not self._modules["learnt"]:
            return values
        parts = [key.rsplit("_", 1) for key in self.learnt]
        learnt = {(int(link), quantity): self.learnt[f"{quantity}_{link}"] for quantity, link in parts}
        return list(with_learnt(self.model, learnt, dict(zip(names, values, strict=True))).values())

    @not_compiled("numbers of parameters are outside of what torch.compile can see")
    def _require_masses(self) -> None:
        """Check, until it succeeds, that all links have a mass; in a transform of torch.func there are no values to
        check.
        """
        mass = self.value("mass")
        # The call rejects a wrong shape by name.
        if not torch._C._are_functorch_transforms_active() and mass.shape[-1:] == self.model.parameters["mass"].shape:
            check_masses(self.model, mass.numpy(force=True))
            self._weighed = True

    @not_compiled("numbers of parameters are outside of what torch.compile can see")
    def _require_regular_mass_matrix(self) -> None:
        """Check the mass matrix once, at the first call that inverts it; later changes of a parameter aren't
        checked.
        """
        # In a transform of torch.func the parameters have no values to check.
        if torch._C._are_functorch_transforms_active():
            return
        if not self._weighed:
            self._require_masses()
        values = dict(zip(DECISIVE, self._values(DECISIVE), strict=True))
        own = self.model.parameters
        if any(value.shape[-own[name].ndim :] != own[name].shape for name, value in values.items()):
            return  # the call rejects them by name
        check_mass_matrix(self.model, {name: value.numpy(force=True) for name, value in values.items()}, dt=0.0)
        self._regular = True

    @property
    def _like(self) -> torch.Tensor:
        """Parameter that defines the robot's dtype and device."""
        mass = self._buffers.get("mass")
        return self.mass if mass is None else mass

    def _parameter(self, name: str) -> str:
        """Return a parameter's canonical name. Raises ModelError for an unknown one."""
        if not isinstance(name, str):
            raise ModelError(
                f"{name!r} is not a parameter's name; pass names as separate arguments, such as 'mass', 'com'"
            )
        name = PARAMETER_ALIASES.get(name, name)
        names = dynamics_parameters(self.model)
        if name not in names:
            raise ModelError(f"unknown parameter '{name}'; kinematics and dynamics depend on {', '.join(names)}")
        return name

    def extra_repr(self) -> str:
        """Return the module's settings on one line, for ``repr``."""
        return f"{self.model.num_links} links, nq={self.nq}, nv={self.nv}, {self._like.dtype}, {self._like.device}"
