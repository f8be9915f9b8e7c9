"""Present values of a simulator's parameters, on the host or on the device, shared or per world."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.device_values import DeviceValue, DeviceValues, is_on_device, shared_scalars
from sim.arrays.host_memory import AnyArray, as_warp
from sim.errors import ModelError
from sim.model.checks import as_numbers, on_host
from sim.model.parameters import check_parameter, number_of_dims
from sim.simulation.engine.parameter_checks import ConsistencyChecks, require_useful
from sim.simulation.engine.settings import Settings
from sim.simulation.stepping.constraint_layout import DECISIVE

# Value of a parameter, on the host or on the device where a caller had it.
Value = np.ndarray | DeviceValue
# Parameters that the host reads even if they are given on the device.
ON_HOST = (*DECISIVE, "limit_stiffness", "regularisation", "solref", "solimp")


class Parameters:
    """All parameters of the worlds of a simulator.

    Args:
        settings: settings of the simulator.
        given: values that differ from the model's, by name.

    Attributes:
        values: present values by name; the mapping is replaced as a whole and never written to.
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
        """Return the present values with some replaced; the present mapping itself if nothing differs.

        Args:
            given: values by name, as for :attr:`sim.Simulator.parameters`.
            worlds: worlds that get them, likewise.

        Raises:
            ModelError: for invalid values, alone or in combination.
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
        """Return the present value of a parameter on the host; do not write to it.

        Raises:
            ModelError: for an unknown name.
        """
        if not isinstance(name, str) or name not in self.values:
            raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self.values)}")
        value = self.values[name]
        return value.numbers if isinstance(value, DeviceValue) else value

    def all_numbers(self) -> dict[str, np.ndarray]:
        """Return the present values of all parameters on the host; do not write to them."""
        return {name: self.numbers(name) for name in self.values}

    def first_numbers(self, name: str) -> np.ndarray:
        """Return the present value if it is on the host, otherwise one of its shape, until the shards copy it."""
        value = self.values[name]
        if isinstance(value, np.ndarray):
            return value
        first = self._first[name]
        single = first[0] if first.ndim > number_of_dims(name) else first
        return np.broadcast_to(single, value.shape)

    def per_world(self, name: str) -> bool:
        """Return whether a parameter has values per world."""
        return self.values[name].ndim > number_of_dims(name)

    def names(self, wanted: Iterable[str]) -> frozenset[str]:
        """Return the requested parameter names, checked.

        Raises:
            ModelError: for an unknown name, and for a string instead of a list.
        """
        if isinstance(wanted, str):
            raise ModelError(f"parameters is the string {wanted!r}; give a list of names")
        names = frozenset(wanted)
        for name in names:
            if name not in self.values:
                raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(self.values)}")
        return names

    def out_of_range(self) -> dict[str, int]:
        """Return the count of numbers of each parameter that were out of range.

        See :attr:`sim.SimulatorParameters.out_of_range`.
        """
        counts = {name: int(count.numpy()[0]) for name, count in self._on_device.outside.items()}
        return {name: count for name, count in counts.items() if count}

    def spoil_worlds(self, q: AnyArray) -> None:
        """Write NaN to the initial coordinates [1 or more, num_worlds, nq] of worlds with parameters out of range."""
        if self._settings.keeps_on_device:
            for value in self.values.values():
                if isinstance(value, DeviceValue):
                    value.spoil(as_warp(q)[0])

    def _given(self, name: str, value: Any) -> "np.ndarray | wp.array":
        """Return a caller's value as numbers, or as an array of scalars if it stays on the device."""
        stays = self._settings.keeps_on_device and name in self.values and name not in ON_HOST
        if stays and not getattr(value, "requires_grad", False) and is_on_device(value, self._settings.device):
            array = shared_scalars(value)
            if array.dtype == self._settings.model.scalar:
                return array
        return as_numbers(f"parameter '{name}'", value)

    def _with_worlds(self, name: str, value: "np.ndarray | wp.array", worlds: npt.ArrayLike) -> "np.ndarray | wp.array":
        """Return the present values of all worlds, with another value in some of them."""
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
        # NumPy may broadcast other shapes over links, joints or axes.
        if chosen is None or value.shape not in ((), present.shape[1:], (len(chosen), *present.shape[1:])):
            raise ModelError(
                f"parameter '{name}': worlds of shape {np.shape(worlds)} and a value of shape {value.shape} don't "
                f"match {count} worlds, whose values have shape {present.shape}"
            )
        present[chosen] = value
        return present

    def _accepted(self, name: str, value: "np.ndarray | wp.array") -> Value:
        """Return a value that was checked, or is being checked on the device; the present one if equal."""
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
