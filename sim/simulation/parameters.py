"""Parameters of a simulator as a mapping from names to values."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.arrays.critical_sections import sole_use
from sim.model.checks import require_type

if TYPE_CHECKING:
    from sim.simulation.engine.engine import Engine


class SimulatorParameters(Mapping[str, np.ndarray]):
    """Present parameters of a simulator, as :attr:`sim.Simulator.parameters`.

    Reading an entry returns a copy of its value, in the shape in which it was given. Names, shapes and units are those
    of :mod:`sim.model.parameters`. A value is ``[n, ...]``, shared by all worlds, or ``[num_worlds, n, ...]``.

    A Warp array or PyTorch tensor of the model's dtype on the simulator's CUDA device stays there. It is copied and
    checked without synchronisation. A number out of range makes its worlds bad from the first state on
    (:attr:`sim.Simulator.bad_worlds`) and is replaced by the simulator's first value; :attr:`out_of_range` counts such
    numbers. Parameters that decide which constraints exist (limits, dry friction, restitution) are copied to the host
    nevertheless.

    Args:
        engine: engine of the simulator.

    Example:
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, num_worlds=2, device="cpu")
        >>> simulator.parameters["damping"] = 0.2
        >>> simulator.parameters.update({"damping": 0.5}, worlds=[1])
        >>> simulator.parameters["damping"][:, 0]
        array([0.2, 0.5])
    """

    def __init__(self, engine: "Engine"):
        self._engine = engine

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a copy of a parameter.

        Raises:
            ModelError: for an unknown name.
        """
        return self._engine.parameters.numbers(name).copy()

    def __setitem__(self, name: str, value: npt.ArrayLike) -> None:
        """Set a parameter in all worlds, see :meth:`update`."""
        self.update({name: value})

    def __iter__(self) -> Iterator[str]:
        return iter(self._engine.parameters.values)

    def __len__(self) -> int:
        return len(self._engine.parameters.values)

    def __contains__(self, name: object) -> bool:
        return name in self._engine.parameters.values

    def get(self, name: str, default: Any = None) -> Any:
        """Return a copy of a parameter, or a default for an unknown name."""
        if name not in self:
            return default
        return self[name]

    def __repr__(self) -> str:
        return f"SimulatorParameters({', '.join(self)})"

    def update(self, values: Mapping[str, npt.ArrayLike], worlds: npt.ArrayLike | None = None) -> None:
        """Set several parameters at once. Only the result must be consistent, such as lower and upper limits.

        Args:
            values: values by name, ``[n, ...]`` or ``[num_worlds, n, ...]``.
            worlds: worlds that get the values, as a mask [num_worlds] or as indices [k]; ``[n, ...]`` is then one value
                for them all, ``[k, n, ...]`` one for each. The others keep theirs. Default: all worlds.

        Raises:
            ModelError: for an unknown name, a wrong shape, a value that is not finite or out of its range, an
                indefinite inertia, limits that cross, and masses that leave the mass matrix singular. No parameter has
                then changed.
        """
        require_type("parameters.update: values", values, Mapping, "a dictionary, from names to values")
        with sole_use():
            self._engine.use(self._engine.parameters.changed(values, worlds))

    def using(self, values: Mapping[str, npt.ArrayLike]) -> contextlib.AbstractContextManager[None]:
        """Use other values inside a ``with`` block; the previous ones are restored at its end, even after an error.

        Raises:
            ModelError: see :meth:`update`.
        """
        return self._engine.with_parameters(values)

    @property
    def out_of_range(self) -> dict[str, int]:
        """Return the count of numbers out of range that each parameter was given on a CUDA device.

        It counts from the construction of the simulator on, and waits for the device. Values given on the host are
        checked at once.
        """
        return self._engine.parameters.out_of_range()
