"""The result of a rollout: tensors by name, and as a tuple."""

from dataclasses import dataclass

import torch
from torch.utils._pytree import register_pytree_node


@dataclass(frozen=True, eq=False)
class Rollout(tuple[torch.Tensor, ...]):
    """The result of :func:`sim.torch.rollout`: a tuple of the tensors it has, in the order below, each also by name.

    A NamedTuple has a fixed length; this tuple leaves out absent tensors, so that ``q, qd = rollout(...)`` holds for
    every model without activations, and their names give None.

    Attributes:
        q: coordinates [states, num_worlds, nq], first those given.
        qd: velocities [states, num_worlds, nv].
        act: activations [states, num_worlds, na]; None if no actuator of the model has one.
        contact_force: forces [steps / hold, num_worlds, sensors, 3] on the simulator's ``contact_sensors``, along world
            axes [N]; rows behind these hold contacts for :class:`Sensors`. None without ``contact_forces=True``.
        readings: numbers of the sensors [steps, num_worlds, numbers] by ``sensors.slices``, in SI units and rad; None
            without ``sensors``.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_ground()
        >>> _ = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.1), name="box")
        >>> _ = scene.add_sensor("imu", "accelerometer", "box")
        >>> model = scene.finalize("float64")
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu", contact_sensors=["box/geometry"])
        >>> sensors = sim.torch.Sensors(simulator)
        >>> q0, qd0 = torch.as_tensor(model.q0[None]), torch.zeros(1, model.nv, dtype=torch.float64)
        >>> motion = sim.torch.rollout(simulator, q0, qd0, steps=240, contact_forces=True, sensors=sensors)
        >>> motion.contact_force.shape, round(float(motion.contact_force[-1, 0, 0, 2]), 2)  # the weight of the box [N]
        (torch.Size([240, 1, 1, 3]), 19.62)
        >>> motion.readings.shape, round(float(motion.readings[-1, 0, 2]), 2)  # at rest [m/s^2]
        (torch.Size([240, 1, 3]), 9.81)
    """

    q: torch.Tensor
    qd: torch.Tensor
    act: torch.Tensor | None = None
    contact_force: torch.Tensor | None = None
    readings: torch.Tensor | None = None

    def __new__(
        cls,
        q: torch.Tensor,
        qd: torch.Tensor,
        act: torch.Tensor | None = None,
        contact_force: torch.Tensor | None = None,
        readings: torch.Tensor | None = None,
    ) -> "Rollout":
        """Make the tuple of the tensors that are given."""
        return super().__new__(cls, (x for x in (q, qd, act, contact_force, readings) if x is not None))

    def __reduce__(self) -> tuple[type["Rollout"], tuple[torch.Tensor | None, ...]]:
        """Copy and pickle by name."""
        return Rollout, tuple(vars(self).values())


# So that torch.func finds the tensors in what a function returns.
register_pytree_node(
    Rollout,
    lambda result: (list(result), tuple(name for name, tensor in vars(result).items() if tensor is not None)),
    lambda tensors, names: Rollout(**dict(zip(names, tensors, strict=True))),
    serialized_type_name="sim.torch.Rollout",
)
