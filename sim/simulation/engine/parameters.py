"""The present values of a simulator's parameters: on the host or on the device, shared or of each world, checked."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.device_values import DeviceValue, DeviceValues, is_on_device, shared_scalars
from sim.arrays.host_memory import Rows, as_warp
from sim.errors import ModelError
from sim.model.checks import as_numbers, on_host
from sim.model.parameters import check_parameter, number_of_dims
from sim.simulation.engine.parameter_checks import ConsistencyChecks, require_useful
from sim.simulation.engine.settings import Settings
from sim.simulation.stepping.constraint_layout import DECISIVE

# A value of a parameter: on the host, or where a caller had it.
Value = np.ndarray | DeviceValue
# Parameters that are looked at on the host, wherever they are given.
ON_HOST = (*DECISIVE, "limit_stiffness", "regularisation", "solref", "solimp")


class Parameters:
    """All parameters of the worlds of a simulator.

    Args:
        settings: of the simulator.
        given: values that differ from the model's, by name.

    Attributes:
        values: the present value of each, by name; a mapping that is replaced as a whole and never written to.
    """

    def __init__(self, settings: Settings, given: Mapping[str, npt.ArrayLike]):
        self._settings = settings
        model, contact = settings.model, settings.contact
        values = {name: np.array(value) for name, value in {**model.parameters, **contact.parameters}.items()}
        self._shared_shapes = {name: value.shape for name, value in values.items()}
        for name, value in given.items():
            values[name] = as_numbers(f"parameter '{name}'", value)
        self._first = {name: self._checked(name, value) for name, value in values.items()}
        self._require_consistent = ConsistencyChecks(model, settings.by_mujoco, settings.dt)
        self._require_consistent({*given, "mass"}, self._first)
        self.values: Mapping[str, Value] = self._first
        self._on_device = DeviceValues(model, settings.num_worlds, settings.device, self._first)

    def changed(self, given: Mapping[str, Any], worlds: npt.ArrayLike | None = None) -> Mapping[str, Value]:
        """Return the present values with others in place of some; the present ones themselves where nothing differs.

        Args:
            given: values by name, as for :meth:`sim.Simulator.set_parameter`.
            worlds: which worlds get them, likewise.

        Raises:
            ModelError: for values that can't be used, alone or together.
        """
        accepted = {}
        for name, value in given.items():
            numbers = self._given(name, value)
            if worlds is not None:
                numbers = self._with_worlds(name, numbers, worlds)
            accepted[name] = self._accepted(name, numbers)
        new = {name for name, value in accepted.items() if value is not self.values[name]}
        if not new:
            return self.values
        chosen = {**self.values, **accepted}
        on_host = {name: value for name, value in chosen.items() if isinstance(value, np.ndarray)}
        self._require_consistent(new & on_host.keys(), on_host)
        return chosen

    def numbers(self, name: str) -> np.ndarray:
        """Return the present value of a parameter on the host, not to be written to.

        Raises:
            ModelError: for an unknown name.
        """
        if not isinstance(name, str) or name not in self.values:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self.values)}")
        value = self.values[name]
        return value.numbers if isinstance(value, DeviceValue) else value

    def all_numbers(self) -> dict[str, np.ndarray]:
        """Return the present values of all parameters on the host, not to be written to."""
        return {name: self.numbers(name) for name in self.values}

    def first_numbers(self, name: str) -> np.ndarray:
        """Return the present value where it is on the host; else one of its shape, until the shards take it."""
        value = self.values[name]
        if isinstance(value, np.ndarray):
            return value
        first = self._first[name]
        single = first[0] if first.ndim > number_of_dims(name) else first
        return np.broadcast_to(single, value.shape)

    def per_world(self, name: str) -> bool:
        """Return whether each world has a value of its own."""
        return self.values[name].ndim > number_of_dims(name)

    def names(self, wanted: Iterable[str]) -> frozenset[str]:
        """Return the names of parameters whose gradient is wanted, checked.

        Raises:
            ModelError: for an unknown name, and for a text in place of a list.
        """
        if isinstance(wanted, str):
            raise ModelError(f"parameters is the text {wanted!r}; give a list of names")
        names = frozenset(wanted)
        for name in names:
            if name not in self.values:
                raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self.values)}")
        return names

    def out_of_range(self) -> dict[str, int]:
        """Return how many numbers of each parameter were out of range; see
        :attr:`sim.Simulator.parameters_out_of_range`.
        """
        counts = {name: int(count.numpy()[0]) for name, count in self._on_device.outside.items()}
        return {name: count for name, count in counts.items() if count}

    def spoil_worlds(self, q: Rows) -> None:
        """Write NaN to the first coordinates [1 or more, num_worlds, nq] of worlds with parameters out of range."""
        if self._settings.keeps_on_device:
            for value in self.values.values():
                if isinstance(value, DeviceValue):
                    value.spoil(as_warp(q)[0])

    def _given(self, name: str, value: Any) -> "np.ndarray | wp.array":
        """Return a caller's value as numbers, or as an array of scalars on the device where it stays there."""
        stays = self._settings.keeps_on_device and name in self.values and name not in ON_HOST
        if stays and not getattr(value, "requires_grad", False) and is_on_device(value, self._settings.device):
            array = shared_scalars(value)
            if array.dtype == self._settings.model.scalar:
                return array
        return as_numbers(f"parameter '{name}'", value)

    def _with_worlds(self, name: str, value: "np.ndarray | wp.array", worlds: npt.ArrayLike) -> "np.ndarray | wp.array":
        """Return the present value of each world, with another one in some of them."""
        if isinstance(value, wp.array):
            return self._on_device.with_worlds(self.values[name], name, value, worlds)
        worlds, count = on_host(worlds), self._settings.num_worlds
        present = self.numbers(name).copy()
        if not self.per_world(name):
            present = np.repeat(present[None], count, axis=0)
        try:
            chosen = np.arange(count)[np.asarray(worlds) if np.size(worlds) else []]
        except (IndexError, ValueError):
            chosen = None
        # Other shapes NumPy may repeat over links, joints or axes.
        if chosen is None or value.shape not in ((), present.shape[1:], (len(chosen), *present.shape[1:])):
            raise ModelError(
                f"parameter '{name}': worlds of shape {np.shape(worlds)} and a value of shape {value.shape} don't fit "
                f"{count} worlds, whose values together have shape {present.shape}"
            )
        present[chosen] = value
        return present

    def _accepted(self, name: str, value: "np.ndarray | wp.array") -> Value:
        """Return a value that has been checked, or is being checked on the device; the present one if equal."""
        if isinstance(value, wp.array):
            return self._on_device.value(name, value)
        present = self.values.get(name)
        if isinstance(present, np.ndarray) and np.array_equal(present, value):
            return present
        return self._checked(name, value)

    def _checked(self, name: str, value: np.ndarray) -> np.ndarray:
        if name not in self._shared_shapes:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self._shared_shapes)}")
        model = self._settings.model
        check_parameter(name, value, model.counts, self._settings.num_worlds)
        if value.ndim == 0:
            value = np.full(self._shared_shapes[name], float(value))
        require_useful(model, self._settings.by_mujoco, name, value)
        return value
