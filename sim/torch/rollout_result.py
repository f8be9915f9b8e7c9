"""Results of a rollout and of a step: tensors by name, and as a tuple."""

from dataclasses import dataclass
from typing import Self

import torch
from torch.utils._pytree import register_pytree_node


class _NamedTensors(tuple[torch.Tensor, ...]):
    """A tuple of the tensors that are present among a dataclass's fields, except low words; a NamedTuple would hold
    all.
    """

    def __new__(cls, *given: torch.Tensor | None, **named: torch.Tensor | None) -> Self:
        """Make the tuple of the tensors that are given."""
        names = [name for name in cls.__dataclass_fields__ if name != "q_low"]  # type: ignore[attr-defined]
        given = (*given, *map(named.get, names[len(given) :]))[: len(names)]
        return super().__new__(cls, (x for x in given if x is not None))

    def __reduce__(self) -> tuple[type[Self], tuple[torch.Tensor | None, ...]]:
        """Copy and pickle by name."""
        return type(self), tuple(vars(self).values())


@dataclass(frozen=True, eq=False)
class Rollout(_NamedTensors):
    """Result of :func:`sim.torch.rollout`: a tuple of the tensors it has, in the order below, each also by name.

    ``q, qd = rollout(...)`` holds for every model without activations; names of absent tensors give None.

    Attributes:
        q: coordinates [states, num_worlds, nq], first those given.
        qd: velocities [states, num_worlds, nv].
        act: activations [states, num_worlds, na]; None if no actuator of the model has one.
        contact_force: forces [steps / hold, num_worlds, sensors, 3] on the simulator's ``contact_sensors``, along world
            axes [N]; further rows hold contacts for :class:`Sensors`. None without ``contact_forces=True``.
        readings: numbers of the sensors [steps, num_worlds, numbers] by ``sensors.slices``, in SI units and rad; None
            without ``sensors``.
        broken: 1 for constraints that have broken, otherwise 0 [states, num_worlds, n], without gradient; None if the
            model has no ``break_force``.
        q_low: low words of the last positions [num_worlds, n], to continue from in float32; see :class:`sim.State`. Not
            part of the tuple. None if there are none.

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
    broken: torch.Tensor | None = None
    q_low: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class NextState(_NamedTensors):
    """Result of :func:`sim.torch.step`: tensors as a tuple and by name, like :class:`Rollout`.

    Attributes:
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        act: activations [num_worlds, na]; None if no actuator of the model has one.
        contact_force: forces on the simulator's ``contact_sensors`` [num_worlds, sensors, 3] in the last step, as of
            :class:`Rollout`. None without ``contact_forces=True``.
        readings: numbers of the sensors in the last step [num_worlds, numbers]; None without ``sensors``.
        broken: 1 for constraints that have broken [num_worlds, n], as of :class:`Rollout`.
        q_low: low words of positions [num_worlds, n], likewise; not part of the tuple.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> state = sim.torch.step(simulator, torch.zeros(1, model.nq), torch.zeros(1, model.nv))
        >>> state.qd.shape, len(state)
        (torch.Size([1, 7]), 2)
    """

    q: torch.Tensor
    qd: torch.Tensor
    act: torch.Tensor | None = None
    contact_force: torch.Tensor | None = None
    readings: torch.Tensor | None = None
    broken: torch.Tensor | None = None
    q_low: torch.Tensor | None = None


# Lets torch.func find the tensors in a function's result.
for _result in (Rollout, NextState):
    register_pytree_node(
        _result,
        lambda result: (
            [x for x in vars(result).values() if x is not None],
            (type(result), [name for name, x in vars(result).items() if x is not None]),
        ),
        lambda tensors, context: context[0](**dict(zip(context[1], tensors, strict=True))),
        serialized_type_name=f"sim.torch.{_result.__name__}",
    )
