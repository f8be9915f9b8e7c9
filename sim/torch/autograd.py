"""The rollout and the step for PyTorch; see :mod:`sim.torch.recorded_rollout` for their gradients."""

from typing import Any

import torch
import warp as wp

from sim.errors import ModelError
from sim.model.parameters import PARAMETERS
from sim.simulation.simulator import Simulator
from sim.torch.arrays import DTYPES
from sim.torch.recorded_rollout import RecordedRollout, Settings

_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def rollout(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    *,
    steps: int | None = None,
    checkpoint_interval: int = 1,
    leave_out_bad_worlds: bool = False,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Many steps, differentiable in state, control and the parameters given.

    Args:
        simulator: the simulator; its device and dtype are those of the tensors.
        q: coordinates [num_worlds, nq]; gradients are ambient, tangent to the unit sphere for quaternions.
        qd: velocities [num_worlds, nv].
        tau: joint forces [steps, num_worlds, nv]; None for none.
        control: inputs of the actuators [steps, num_worlds, nu]; None for zeros.
        steps: number of steps; needed where neither tau nor control is given.
        checkpoint_interval: k, to keep and return only the states before every k-th step and the last one.
        leave_out_bad_worlds: give gradients of zero to worlds whose states or gradients aren't finite, so that they
            don't spoil those of the parameters that all worlds share. :attr:`sim.Simulator.bad_worlds` says which they
            are; the loss must leave them out itself.
        **parameters: values used for this call only, by the names of :data:`sim.model.parameters.PARAMETERS` such as
            ``friction``, ``[n, ...]`` shared or ``[num_worlds, n, ...]``; a single number is used for all n.

    Returns:
        q [steps + 1, num_worlds, nq] and qd [steps + 1, num_worlds, nv], the first entry being the given state; with a
        checkpoint interval only the states that are stored, ceil(steps / k) + 1.

    Raises:
        ModelError: for a wrong shape, dtype, device or parameter name.
        RuntimeError: for a second derivative, forward mode and vmap over inputs, which are not supported, and for a
            batch of gradients by ``is_grads_batched``; ``torch.func.jacrev`` takes one way back after the other.

    With ``ContactOptions(warm_start=True)`` the first step begins with zero impulses.
    """
    names = tuple(parameters)
    values = tuple(_parameter(simulator, name, value) for name, value in parameters.items())
    q = _tensor(simulator, "q", q, simulator.model.nq)
    qd = _tensor(simulator, "qd", qd, simulator.model.nv)
    for name, given, size in (("tau", tau, simulator.model.nv), ("control", control, simulator.model.nu)):
        if given is not None:
            _require_tensor(name, given)
            if given.dim() != 3:
                shape = (simulator.num_worlds, size)
                raise ModelError(f"{name} has shape {tuple(given.shape)}; expected (steps, {shape[0]}, {shape[1]})")
            _tensor(simulator, name, given[0] if len(given) else q.new_zeros(simulator.num_worlds, size), size)
            steps = given.shape[0] if steps is None else steps
    settings = Settings(simulator, names, steps, checkpoint_interval, leave_out_bad_worlds)
    states = RecordedRollout.apply(settings, q, qd, tau, control, *values)
    return states[0], states[1]


def step(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    *,
    leave_out_bad_worlds: bool = False,
    **parameters: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step, differentiable like :func:`rollout`; the autograd graph of a loop of steps is then the list of
    checkpoints.

    Args:
        simulator: the simulator.
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        tau: joint forces [num_worlds, nv]; None for none.
        control: inputs of the actuators [num_worlds, nu]; None for zeros.
        leave_out_bad_worlds: as for :func:`rollout`.
        **parameters: as for :func:`rollout`.

    Returns:
        the next q [num_worlds, nq] and qd [num_worlds, nv].
    """
    for name, given in (("tau", tau), ("control", control)):
        if given is not None:
            _require_tensor(name, given)
    if simulator.contact.warm_start:
        raise ModelError("sim.torch.step doesn't carry the impulses of a warm start; use rollout, or warm_start=False")
    forces, inputs = (None if given is None else given.unsqueeze(0) for given in (tau, control))
    q_all, qd_all = rollout(
        simulator, q, qd, forces, inputs, steps=1, checkpoint_interval=1, leave_out_bad_worlds=leave_out_bad_worlds,
        **parameters,
    )  # fmt: skip
    return q_all[1], qd_all[1]


def _tensor(simulator: Simulator, name: str, value: torch.Tensor, size: int) -> torch.Tensor:
    _require_tensor(name, value)
    shape = (simulator.num_worlds, size)
    if value.dim() == 1 and value.shape[0] == size:
        value = value.expand(shape)
    if tuple(value.shape) != shape:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
    dtype = _TORCH_DTYPES[simulator.model.dtype]
    if value.dtype != dtype:
        raise ModelError(f"{name} has dtype {value.dtype}, but the model has {dtype}; convert one of them")
    if str(wp.device_from_torch(value.device)) != str(simulator.device):
        raise ModelError(
            f"{name} is on device {value.device}, but the simulator is on {simulator.device}; move one of them"
        )
    return value


def _require_tensor(name: str, value: object) -> None:
    if not isinstance(value, torch.Tensor):
        raise ModelError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")


def _parameter(simulator: Simulator, name: str, value: Any) -> torch.Tensor:
    own = simulator.parameter_values()
    if name not in own:
        raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(own)}")
    tensor = torch.as_tensor(value)
    if tensor.dim() == 0 and not PARAMETERS[name].shape and PARAMETERS[name].per != "world":
        tensor = tensor.expand(simulator.model.counts[PARAMETERS[name].per])
    return tensor
