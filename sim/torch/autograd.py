"""Rollout and step for PyTorch; see :mod:`sim.torch.recorded_rollout` for their gradients."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from sim.errors import ModelError
from sim.model.checks import is_whole, require_flags, require_type
from sim.model.parameters import number_of_dims
from sim.simulation.engine.first_state import require_zero_or_one
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES, require_dense, torch_device, warp_device
from sim.torch.current_parameters import given_parameter
from sim.torch.modes import not_compiled
from sim.torch.recorded_rollout import Settings, broken_states, last_low_words, record
from sim.torch.rollout_result import NextState, Rollout
from sim.torch.sensors.readings import Sensors

COMPILED = "steps run in Warp kernels, which torch.compile can't trace"


@not_compiled(COMPILED)
def rollout(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    *,
    steps: int | None = None,
    hold: int = 1,
    checkpoint_interval: int = 1,
    keep_bytes: int = 0,
    leave_out_bad_worlds: bool = False,
    act: torch.Tensor | None = None,
    contact_forces: bool = False,
    sensors: Sensors | None = None,
    kinematic_qd: torch.Tensor | None = None,
    active: torch.Tensor | None = None,
    broken: torch.Tensor | None = None,
    q_low: torch.Tensor | None = None,
    **parameters: torch.Tensor,
) -> Rollout:
    """Simulate many steps, differentiable in state, control and the parameters given.

    Args:
        simulator: the simulator; its device and dtype are those of the tensors.
        q: coordinates [num_worlds, nq]; gradients are ambient, tangent to the unit sphere for quaternions.
        qd: velocities [num_worlds, nv].
        tau: joint forces [steps / hold, num_worlds, nv]. Default: none.
        control: inputs of the actuators [steps / hold, num_worlds, nu]. Default: zeros.
        steps: number of steps; needed where no input is given.
        hold: for how many steps each input acts. Only the states at which they change are returned.
        checkpoint_interval: k, to keep and return only the states before every k-th step and the last one. Must be 1 if
            hold isn't.
        keep_bytes: memory for the working arrays of steps [bytes]. The backward pass reads those of the first steps
            that fit, rather than running these steps again. All rollouts of this simulator whose backward pass is still
            to come together keep as much. None is kept where no input requires a gradient; not available with a
            checkpoint interval and integrator="rk4".
        leave_out_bad_worlds: set the gradients of worlds with non-finite states or gradients to zero, so that shared
            parameters keep finite gradients. :attr:`sim.Simulator.bad_worlds` marks these worlds; the loss must exclude
            them itself.
        act: activations, states of the actuators that have one [num_worlds, na]. Default: zeros.
        contact_forces: return the forces on the simulator's ``contact_sensors``, friction included, averaged over each
            step, and over the steps for which an input is held.
        sensors: sensors of this simulator to read in each step; leave hold and checkpoint_interval 1 with them. Under
            MuJoCo's law the readings use the accelerations and forces at the state before the step with all
            integrators, as MuJoCo's do. Sensors of contacts and forces must be among the ``contact_sensors``.
        kinematic_qd: velocities of the kinematic joints [steps / hold, num_worlds, nk], in the order of
            ``model.kinematic_dofs``; :func:`velocities_along` finds those of a path. Default: those of the state.
        active: points, welds and couplings that are on [steps / hold, num_worlds, n], bool, or 1 and 0, in the order
            of ``model.switch_names``. It has no gradient. Default: those of the parameters, see :func:`sim.attach`.
        broken: constraints that are broken at first [num_worlds, n], bool, or 1 and 0, of a model with a
            ``break_force``. Default: none.
        q_low: low words of q in float32 [num_worlds, n], those that the call before returned. Default: zeros.
        **parameters: values used for this call only, by the names of :data:`sim.model.parameters.PARAMETERS` such as
            ``friction``, ``[n, ...]`` shared or ``[num_worlds, n, ...]``; a single number is used for all n. On CUDA
            they stay on the device, see :attr:`sim.Simulator.parameters`. Readings use them too, so that a mass can
            be learnt from what a force sensor has measured.

    Returns:
        The tensors q and qd, act if actuators have states, contact_force and readings if asked for, and broken if
        constraints break; each has a name, see :class:`Rollout`. There are steps + 1 states, the first being the given
        one; with a checkpoint interval only those that are stored, ceil(steps / k) + 1; with ``hold`` those before each
        input and the last, which are steps / hold + 1.

    Raises:
        ModelError: for a wrong shape, dtype, device or parameter name, for ``active`` that requires a gradient, for
            steps that aren't a multiple of hold, for
            contact forces of a simulator without ``contact_sensors``, for sensors of another simulator, and for held
            inputs with sensors, or with forces of a contact sensor, since contacts have no mean.
        RuntimeError: for a second derivative, forward mode and vmap over inputs, which are not supported, and for a
            batch of gradients by ``is_grads_batched``; ``torch.func.jacrev`` takes one backward pass after the other.

    With ``warm_start=True`` of the contact, the first step is a cold start: its initial impulses are zero.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, num_worlds=2, device="cpu")
        >>> q0, qd0 = torch.zeros(2, model.nq), torch.zeros(2, model.nv)
        >>> tau = torch.zeros(10, 2, model.nv, requires_grad=True)
        >>> q, qd = sim.torch.rollout(simulator, q0, qd0, tau)
        >>> q[-1].square().sum().backward()
        >>> q.shape, tau.grad.shape
        (torch.Size([11, 2, 7]), torch.Size([10, 2, 7]))

    """
    require_type("simulator", simulator, Simulator, "a sim.Simulator")
    require_flags("rollout", leave_out_bad_worlds=leave_out_bad_worlds, contact_forces=contact_forces)
    _require_hold(hold)
    if hold > 1 and checkpoint_interval != 1:
        raise ModelError(
            f"hold is {hold} and checkpoint_interval {checkpoint_interval!r}; with hold all states are kept, so "
            "remove checkpoint_interval"
        )
    if contact_forces:
        _require_contact_sensors("rollout", simulator, hold)
    if sensors is not None:
        _require_sensors("rollout", simulator, sensors)
        if hold > 1 or checkpoint_interval != 1:
            raise ModelError("rollout: sensors read the states of all steps; remove hold and checkpoint_interval")
    given = {name: given_parameter(simulator, name, value) for name, value in parameters.items()}
    driven = {
        "tau": tau,
        "control": control,
        "kinematic_qd": kinematic_qd,
        "active": _numbers(simulator, "active", active),
    }
    settings = Settings(
        simulator, tuple(given), _number_of_steps(simulator, driven, steps, hold), checkpoint_interval,
        leave_out_bad_worlds, slice(None, None, hold), sensors is not None and sensors.needs_acceleration, keep_bytes,
    )  # fmt: skip
    inputs = _inputs(simulator, q, qd, act, driven.values(), (q_low, broken), hold, given)
    q, qd, acts, force, *further = record(settings, *inputs)
    act = acts if simulator.model.na else None
    readings = None if sensors is None else _read(settings, sensors, (q, qd, act), control, force, further, given)
    if hold > 1 and contact_forces:
        force = force.unflatten(0, (-1, hold)).mean(1)
    measured = force if contact_forces else None
    return Rollout(q, qd, act, measured, readings, broken_states(settings), last_low_words(settings))


def _read(
    settings: Settings,
    sensors: Sensors,
    states: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None],
    control: torch.Tensor | None,
    force: torch.Tensor,
    further: Sequence[torch.Tensor],
    given: Mapping[str, torch.Tensor],
) -> torch.Tensor:
    """Return the readings of sensors from states, inputs and other results of a recorded rollout."""
    simulator, (q, qd, act) = settings.simulator, states
    acceleration = (further[0] - qd[:-1]) / simulator.dt if settings.keeps_solved else None
    if settings.leave_out_bad_worlds:
        bad = ~(q.isfinite().all(2) & qd.isfinite().all(2)).all(0)
        given = {name: _of_good_worlds(name, value, bad) for name, value in given.items()}
    measured = force if simulator.contact_sensors else None
    return sensors(q, qd, control, measured, acceleration, act, **given)


def _of_good_worlds(name: str, value: torch.Tensor, bad: torch.Tensor) -> torch.Tensor:
    """Return a per-world parameter whose gradient is zero in bad worlds [num_worlds], whatever their sensors read."""
    shared = value.dim() == number_of_dims(name)
    each = value.expand(len(bad), *value.shape) if shared else value.clone()
    if each.requires_grad:
        each.register_hook(lambda slope: slope.masked_fill(bad.view(-1, *[1] * (slope.dim() - 1)), 0.0))
    return each


def _require_hold(hold: int) -> None:
    if not is_whole(hold, 1):
        raise ModelError(f"hold is {hold!r}; it must be a whole number of at least 1")


def _require_sensors(said: str, simulator: Simulator, sensors: Sensors) -> None:
    """Check that sensors are those of the simulator."""
    require_type(f"{said}: sensors", sensors, Sensors, "a sim.torch.Sensors")
    if sensors.simulator is not simulator:
        raise ModelError(f"{said}: sensors are of another simulator; make them with sim.torch.Sensors(simulator)")


def _require_contact_sensors(said: str, simulator: Simulator, hold: int) -> None:
    """Check that the simulator measures contact forces, and that they have a mean over held inputs."""
    if not simulator.contact_sensors:
        raise ModelError(
            f"{said}: contact_forces needs sensors; name geometries in Simulator(..., contact_sensors=[...])"
        )
    contact_sensors = simulator.engine.shards[0].step.collision.contact_slots
    if hold > 1 and contact_sensors:
        raise ModelError(
            f"{said}: hold is {hold}, and sensor '{next(iter(contact_sensors))}' reads contacts, which have no mean "
            "over steps; repeat each input instead, or remove it from contact_sensors"
        )


def _sizes(simulator: Simulator) -> dict[str, int]:
    """Return the sizes of the inputs of a step, by name."""
    model = simulator.model
    return {"tau": model.nv, "control": model.nu, "kinematic_qd": model.nk, "active": len(model.switch_names)}


def _numbers(simulator: Simulator, name: str, switches: torch.Tensor | None) -> torch.Tensor | None:
    """Return switches as numbers of the model's dtype if they are bool."""
    if switches is None:
        return None
    _require_tensor(name, switches)
    if switches.requires_grad:
        raise ModelError(f"{name} requires a gradient, but switches have none; give {name}.detach()")
    return switches.to(TORCH_DTYPES[simulator.model.dtype]) if switches.dtype == torch.bool else switches


def _number_of_steps(
    simulator: Simulator, driven: Mapping[str, torch.Tensor | None], steps: int | None, hold: int
) -> int | None:
    """Return the number of steps: checked against the inputs, or as given; None if all are missing."""
    for name, value in driven.items():
        if value is not None:
            require_dense(name, value, 1)
    lengths = [(name, len(value)) for name, value in driven.items() if value is not None]
    for name, count in lengths[1:]:
        if steps is None and count != lengths[0][1]:
            raise ModelError(f"rollout: {lengths[0][0]} has {lengths[0][1]} steps, but {name} {count}")
    for (name, size), value in zip(_sizes(simulator).items(), driven.values(), strict=True):
        if value is None:
            continue
        _require_tensor(name, value)
        if value.dim() != 3:
            raise ModelError(f"{name} has shape {tuple(value.shape)}; expected (steps, {simulator.num_worlds}, {size})")
        _tensor(simulator, name, value[0] if len(value) else value.new_zeros(value.shape[1:]), size)
        if steps is not None and steps != hold * len(value):
            raise ModelError(f"rollout: steps is {steps}, but {name} has {len(value)} steps, each held for {hold}")
        steps = hold * len(value)
    if steps is not None and is_whole(steps, 0) and steps % hold:
        raise ModelError(f"steps is {steps}, which is no multiple of hold, {hold}")
    return steps


@not_compiled(COMPILED)
def step(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    tau: torch.Tensor | None = None,
    control: torch.Tensor | None = None,
    *,
    hold: int = 1,
    keep_bytes: int = 0,
    leave_out_bad_worlds: bool = False,
    act: torch.Tensor | None = None,
    contact_forces: bool = False,
    sensors: Sensors | None = None,
    kinematic_qd: torch.Tensor | None = None,
    active: torch.Tensor | None = None,
    broken: torch.Tensor | None = None,
    q_low: torch.Tensor | None = None,
    **parameters: torch.Tensor,
) -> NextState:
    """Take one differentiable step, or several with the same inputs, like :func:`rollout`.

    In a loop of steps, the autograd graph is the list of checkpoints.

    Args:
        simulator: the simulator.
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        tau: joint forces [num_worlds, nv]. Default: zeros.
        control: inputs of the actuators [num_worlds, nu]. Default: zeros.
        hold: number of steps, all with these inputs.
        keep_bytes: memory for the working arrays of steps [bytes], as for :func:`rollout`.
        leave_out_bad_worlds: as for :func:`rollout`.
        act: states of actuators that have one [num_worlds, na].
        contact_forces: return the forces on the simulator's ``contact_sensors`` in the last step.
        sensors: sensors of this simulator to read in the last step, as for :func:`rollout`.
        kinematic_qd: velocities of the kinematic joints [num_worlds, nk]. Default: those of the state.
        active: points, welds and couplings that are on [num_worlds, n], as for :func:`rollout`.
        broken: constraints that are broken [num_worlds, n], as the step before returned them.
        q_low: low words of q, likewise.
        **parameters: as for :func:`rollout`.

    Returns:
        q [num_worlds, nq] and qd [num_worlds, nv] after the last step, as a tuple and by name; for a model whose
        actuators have states also act [num_worlds, na]; contact_force and readings if asked for; broken if constraints
        break. See :class:`NextState`.

    Raises:
        ModelError: as :func:`rollout`, with a warm start, without act where actuators have states, and without broken
            where constraints break.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> q, qd = torch.zeros(1, model.nq), torch.zeros(1, model.nv)
        >>> tau = torch.zeros(1, model.nv, requires_grad=True)
        >>> for _ in range(3):
        ...     q, qd = sim.torch.step(simulator, q, qd, tau)
        >>> qd.sum().backward()
        >>> tau.grad.shape
        torch.Size([1, 7])
    """
    require_type("simulator", simulator, Simulator, "a sim.Simulator")
    _require_hold(hold)
    require_flags("step", leave_out_bad_worlds=leave_out_bad_worlds, contact_forces=contact_forces)
    if contact_forces:
        _require_contact_sensors("step", simulator, hold=1)
    if sensors is not None:
        _require_sensors("step", simulator, sensors)
    if simulator.contact.warm_start:
        raise ModelError("sim.torch.step can't warm-start the next step; use rollout, or warm_start=False")
    if simulator.model.na and act is None:
        raise ModelError(
            "sim.torch.step: actuators of the model have states; give act (zeros at first), then the act that step "
            "returned"
        )
    if simulator.model.breaks and broken is None:
        raise ModelError(
            "sim.torch.step: constraints of the model break; give broken (zeros at first), then the broken that step "
            "returned"
        )
    every = tau, control, kinematic_qd, _numbers(simulator, "active", active)
    driven = [
        None if value is None else _tensor(simulator, name, value, size)
        for (name, size), value in zip(_sizes(simulator).items(), every, strict=True)
    ]
    given = {name: given_parameter(simulator, name, value) for name, value in parameters.items()}
    settings = Settings(
        simulator, tuple(given), hold, 1, leave_out_bad_worlds, None if sensors is None else slice(-2, None),
        sensors is not None and sensors.needs_acceleration, keep_bytes,
    )  # fmt: skip
    q, qd, acts, force, *further = record(
        settings, *_inputs(simulator, q, qd, act, driven, (q_low, broken), hold, given)
    )
    last, act = force[-1] if contact_forces else None, acts if simulator.model.na else None
    torn, low = broken_states(settings), last_low_words(settings)
    if sensors is None:
        return NextState(q, qd, act, last, None, torn, low)
    held = None if driven[1] is None else driven[1][None]
    readings = _read(settings, sensors, (q, qd, act), held, force[-1:], [each[-1:] for each in further], given)
    torn = None if torn is None else torn[-1]
    return NextState(q[-1], qd[-1], None if act is None else act[-1], last, readings[0], torn, low)


def _inputs(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    act: torch.Tensor | None,
    driven: Iterable[torch.Tensor | None],
    carried: tuple[torch.Tensor | None, torch.Tensor | None],
    hold: int,
    given: Mapping[str, torch.Tensor],
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors that a rollout takes; inputs of steps [steps / hold, num_worlds, n] are already checked.

    ``carried`` are low words and broken constraints at the start.
    """
    q = _tensor(simulator, "q", q, simulator.model.nq)
    qd = _tensor(simulator, "qd", qd, simulator.model.nv)
    low, broken = carried
    if low is not None:
        _require_tensor("q_low", low)
        low = _tensor(simulator, "q_low", low.detach(), simulator.engine.num_low)
    return (
        q, qd, _act(simulator, act, qd), *(_held(value, hold) for value in driven), low,
        _broken(simulator, broken, qd), *given.values(),
    )  # fmt: skip


def _act(simulator: Simulator, act: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """Return the activations at the start; None if no actuator has one."""
    if act is None:
        return like.new_zeros(simulator.num_worlds, simulator.model.na) if simulator.model.na else None
    if not simulator.model.na:
        raise ModelError("act is given, but no actuator of the model has a state; remove it")
    return _tensor(simulator, "act", act, simulator.model.na)


def _broken(simulator: Simulator, broken: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """Return which constraints are broken at the start; None if none of the model breaks."""
    size = len(simulator.model.switch_names)
    if broken is None:
        return like.new_zeros(simulator.num_worlds, size) if simulator.model.breaks else None
    if not simulator.model.breaks:
        raise ModelError("broken is given, but no constraint of the model has a break_force; remove it")
    numbers = _numbers(simulator, "broken", broken)
    assert numbers is not None
    broken = _tensor(simulator, "broken", numbers, size)
    require_zero_or_one("broken", broken.numpy(force=True))
    return broken


def _held(value: torch.Tensor | None, hold: int) -> torch.Tensor | None:
    """Repeat inputs of intervals [n, num_worlds, size], or of one [num_worlds, size], for all of their steps."""
    if value is None or hold == 1:
        return value
    return value.repeat_interleave(hold, dim=0) if value.dim() == 3 else value.expand(hold, *value.shape)


def _tensor(simulator: Simulator, name: str, value: torch.Tensor, size: int) -> torch.Tensor:
    _require_tensor(name, value)
    shape = (simulator.num_worlds, size)
    if value.dim() == 1 and value.shape[0] == size:
        value = value.expand(shape)
    if tuple(value.shape) != shape:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected {shape}")
    dtype = TORCH_DTYPES[simulator.model.dtype]
    if value.dtype != dtype:
        raise ModelError(f"{name} has dtype {value.dtype}, but the model has {dtype}; convert one of them")
    if value.device != torch_device(simulator.device):
        there = warp_device(value.device)
        raise ModelError(f"{name} is on device {there}, but the simulator is on {simulator.device}; move one of them")
    return value


def _require_tensor(name: str, value: object) -> None:
    require_dense(name, value)
