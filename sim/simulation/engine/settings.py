"""Settings of a simulator: the arguments that decide its kernels and arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import warp as wp

from sim.arrays.device_model import find_device
from sim.cores import usable_cores
from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole, require_type
from sim.model.model import Model
from sim.simulation.options import ContactMethod, ModelContact, MujocoContact, checked_state_limit
from sim.simulation.stepping.integrators import require_integrator
from sim.simulation.stepping.sensors import chosen_sensors
from sim.simulation.stepping.solvers.choose import require_teams

LONGEST_STEP = 1e6  # [s]; squares of longer ones overflow single precision soon


@dataclass(frozen=True, eq=False)
class Settings:
    """Fixed arguments of :class:`sim.Simulator`.

    Attributes:
        contact: contact method of the steps, never the one that follows the model.
        contact_sensors: names.
    """

    model: Model
    dt: float
    num_worlds: int
    device: wp.Device
    contact: ContactMethod
    integrator: str
    threads: int
    contact_sensors: tuple[int | str, ...]
    state_limit: tuple[float, float]
    threads_per_world: int

    @property
    def by_mujoco(self) -> bool:
        """Return whether the contact law is MuJoCo's."""
        return isinstance(self.contact, MujocoContact)

    @property
    def keeps_on_device(self) -> bool:
        """Return whether values and gradients of parameters stay on the device, without synchronisation."""
        return not self.device.is_cpu


FIXED = frozenset(field.name for field in fields(Settings))


def checked_settings(
    model: Model,
    dt: float,
    num_worlds: int,
    device: wp.DeviceLike,
    contact: ContactMethod | None,
    integrator: str | None,
    threads: int | None,
    contact_sensors: Sequence[str | int],
    state_limit: Sequence[float],
    threads_per_world: int,
) -> Settings:
    """Return the settings for the arguments of a simulator.

    Raises:
        ModelError: for arguments of a wrong type or value, and for a model without a moving joint.
    """
    contact = ModelContact() if contact is None else contact
    require_type("Simulator: model", model, Model, "a sim.Model")
    require_type("Simulator: contact", contact, ContactMethod, "a sim.ContactMethod, such as sim.HardContact()")
    if not is_positive(dt) or not dt <= LONGEST_STEP:
        raise ModelError(f"Simulator: dt is {dt!r}; it must be a positive number of seconds, at most {LONGEST_STEP:g}")
    for name, number in (("num_worlds", num_worlds), ("threads", 1 if threads is None else threads)):
        if not is_whole(number, 1):
            raise ModelError(f"Simulator: {name} is {number!r}; it must be a whole number of at least 1")
    if model.nv == 0:
        raise ModelError("Simulator: the model has no moving joint; add one to simulate it")
    if integrator is None:
        stated = model.mujoco if isinstance(contact, ModelContact) else None
        integrator = "euler" if stated is None else stated.integrator
    contact = contact.resolved(model)
    require_integrator(integrator, isinstance(contact, MujocoContact))
    require_teams(threads_per_world, model, contact)
    return Settings(
        model,
        float(dt),
        int(num_worlds),
        find_device(device),
        contact,
        integrator,
        threads or len(usable_cores()),
        chosen_sensors(model, contact_sensors),
        checked_state_limit("Simulator", state_limit),
        int(threads_per_world),
    )
