"""Actuator forces along a rollout, as differentiable functions of its states and inputs."""

from collections.abc import Collection

import numpy as np
import torch

from sim.errors import ModelError
from sim.model.checks import require_type
from sim.model.model import Model
from sim.simulation.options import MujocoContact
from sim.simulation.simulator import Simulator
from sim.torch.actuation.muscles import muscle_forces, muscle_rates
from sim.torch.actuation.tendon_paths import TendonPaths
from sim.torch.arrays import require_dense, require_tensor
from sim.torch.current_parameters import CurrentRobot, current_parameter
from sim.torch.modes import PARAMETERS, in_own_precision, not_compiled
from warp_kernels.types import CURRENT, EXACT_FILTER, INTEGRATOR, MUSCLE, MUSCLE_FILTER, PID, POSITION, TORQUE, VELOCITY

LEAST_TIME_CONSTANT = 1e-15  # as in MuJoCo [s]


@not_compiled(PARAMETERS)
@in_own_precision
def actuator_forces(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    control: torch.Tensor,
    act: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the forces of actuators in each step of a rollout, clamped to their limits.

    An actuator's force acts on its joint or tendon times the gear; see :mod:`warp_kernels.actuators.actuators` for the
    law. :class:`sim.torch.JointForces` gives the resulting joint forces.

    Args:
        simulator: the one that made the rollout; its present gains, gears and limits are used, without gradient.
        q: coordinates [steps + 1, num_worlds, nq], as :func:`sim.torch.rollout` returns them.
        qd: velocities [steps + 1, num_worlds, nv].
        control: the inputs [steps, num_worlds, nu].
        act: states of actuators that have one [steps + 1, num_worlds, na].

    Returns:
        forces [steps, num_worlds, nu], N or N m.

    Raises:
        ModelError: if the numbers of steps are inconsistent, such as those of a rollout with ``hold``, or act is
            missing.

    Example:
        >>> import torch
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_urdf("scenes/robots/manipulator.urdf", self_collision=False)
        >>> for joint in model.joint_names[:2]:
        ...     _ = scene.add_actuator(joint, "position", gains=sim.Gains(kp=10.0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
        >>> q0, control = torch.zeros(1, 7), torch.full((10, 1, 2), 0.1)
        >>> q, qd = sim.torch.rollout(simulator, q0, torch.zeros(1, 7), control=control)
        >>> sim.torch.actuator_forces(simulator, q, qd, control).shape
        torch.Size([10, 1, 2])
    """
    require_type("actuator_forces: simulator", simulator, Simulator, "a sim.Simulator")
    for name, given in (("q", q), ("qd", qd), ("control", control)):
        require_dense(f"actuator_forces: {name}", given, 2)
    if not len(q) == len(qd) == len(control) + 1:
        raise ModelError(
            f"actuator_forces: q has {len(q)} states, qd {len(qd)} and control {len(control)} inputs; give all "
            "states, one more than inputs"
        )
    require_joints_and_tendons(simulator.model, "actuator_forces")
    tendons = None
    if (simulator.model.actuator_tendon >= 0).any():
        robot = CurrentRobot(simulator)(q)
        tendons = TendonPaths(simulator, robot)(q[:-1])
    return forces_of_actuators(simulator, q, qd, control, act, tendons)


def forces_of_actuators(
    simulator: Simulator,
    q: torch.Tensor,
    qd: torch.Tensor,
    control: torch.Tensor,
    act: torch.Tensor | None,
    tendons: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Compute :func:`actuator_forces` from the tendon state before each step
    (:class:`sim.torch.actuation.tendon_paths.TendonPaths`).

    The values for actuators on frames and on contacts are undefined.

    Args:
        tendons: lengths and slopes; may be None where no actuator acts on a tendon.
    """
    shape = (len(q) - 1, q.shape[1])
    require_tensor("forces of actuators: control", control, (*shape, simulator.model.nu))
    gear, kp, kd, gain, offset, kp_per_input, kd_per_input, centre, limit = (
        current_parameter(simulator, f"actuator_{name}", q)
        for name in (
            "gear", "kp", "kd", "gain", "offset", "kp_per_input", "kd_per_input", "force_centre", "force_limit",
        )
    )  # fmt: skip
    model = simulator.model
    position, velocity = moved_by_actuators(simulator, q[:-1], qd[:-1], tendons)
    control = _acted_on(simulator, control, act, gear * position, gear * velocity)
    if "actuator_stall_force" in simulator.parameters:
        centre, limit = _speed_limited(simulator, gear * velocity, centre, limit)
    muscle = torch.as_tensor(model.actuator_kind == MUSCLE, device=q.device)
    if muscle.any():
        forces = muscle_forces(simulator, control, gear * position, gear * velocity)
        control = torch.where(muscle, forces, control)
    kind = torch.as_tensor(model.actuator_law, device=q.device)
    # Gains that a kind of actuator lacks are zero.
    kp, kd = kp + kp_per_input * control, kd + kd_per_input * control
    push = torch.where(kind == TORQUE, control, torch.where(kind == VELOCITY, kd * control, gain * control + offset))
    asked = torch.where(kind == POSITION, kp * (control - gear * position), push - kp * gear * position)
    ahead = 0.0 if isinstance(simulator.contact, MujocoContact) else simulator.dt
    damping = kd + ahead * kp
    # Damping acts on the velocity at the end of the step; for tendons, and always under MuJoCo's law, on the velocity
    # before it.
    on_joint = torch.as_tensor(model.actuator_tendon < 0, device=q.device)
    damping = torch.where(on_joint, damping, kd)
    at_end = qd[1:, :, model.actuator_dof.clip(min=0)]
    velocity = torch.where(on_joint & (ahead * damping > 0.0), at_end, velocity)
    force = _within_sums(simulator, asked - gear * damping * velocity)
    return torch.clamp(force, centre - limit, centre + limit)


def _within_sums(simulator: Simulator, force: torch.Tensor) -> torch.Tensor:
    """Return forces with those on each tendon multiplied so that their sum is in its range, as in
    :mod:`warp_kernels.actuators.tendon_sums`.
    """
    model = simulator.model
    if not model.bounds_sums:
        return force
    pulls = np.flatnonzero(model.actuator_tendon >= 0)
    tendon = torch.as_tensor(model.actuator_tendon[pulls], dtype=torch.long, device=force.device)
    total = force.new_zeros(*force.shape[:-1], len(model.tendons.names)).index_add(-1, tendon, force[..., pulls])
    lower, upper = (current_parameter(simulator, f"tendon_force_{side}", force) for side in ("lower", "upper"))
    bounded = ((total < lower) | (total > upper)) & (total != 0.0)
    nonzero = torch.where(bounded, total, torch.ones_like(total))
    share = torch.where(bounded, total.clamp(lower, upper) / nonzero, torch.ones_like(total))
    every = torch.ones_like(force)
    every[..., pulls] = share[..., tendon]
    return every * force


def _speed_limited(
    simulator: Simulator, velocity: torch.Tensor, centre: torch.Tensor, limit: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ranges of forces of motors at their velocities, as in :mod:`warp_kernels.actuators.motors`."""
    stall, fastest = (
        current_parameter(simulator, f"actuator_{name}", velocity) for name in ("stall_force", "no_load_speed")
    )
    share = velocity / fastest.clamp(min=LEAST_TIME_CONSTANT)
    upper, lower = ((stall * (sign - share)).clamp(centre - limit, centre + limit) for sign in (1.0, -1.0))
    limited = stall > 0.0
    return torch.where(limited, (upper + lower) / 2.0, centre), torch.where(limited, (upper - lower) / 2.0, limit)


def _acted_on(
    simulator: Simulator,
    control: torch.Tensor,
    act: torch.Tensor | None,
    position: torch.Tensor,
    velocity: torch.Tensor,
) -> torch.Tensor:
    """Return the inputs clamped to their range, or the states: the arguments of the laws in
    :mod:`warp_kernels.actuators.activation`.
    """
    model, dt = simulator.model, simulator.dt
    if model.na:
        act = _states(model, control.shape[:2], act)
        control = _delayed(simulator, control, act)
    lower, upper = (current_parameter(simulator, f"actuator_control_{end}", control) for end in ("lower", "upper"))
    control = control.clamp(lower, upper)
    if act is None or not (model.actuator_state >= 0).any():
        return control
    before = act[:-1, :, model.actuator_state.clip(min=0)]
    constant, act_lower, act_upper = (
        current_parameter(simulator, f"actuator_{name}", control)
        for name in ("time_constant", "act_lower", "act_upper")
    )
    constant = constant.clamp(min=LEAST_TIME_CONSTANT)
    rate = _rates(simulator, control, before, constant, (position, velocity))
    has_state, early, exact, integral = (
        torch.as_tensor(each, device=control.device)
        for each in (
            model.actuator_state >= 0, model.actuator_early == 1,
            np.isin(model.actuator_dynamics, (EXACT_FILTER, CURRENT)), model.actuator_dynamics == PID,
        )
    )  # fmt: skip
    time = torch.where(exact, -constant * torch.expm1(-dt / constant), dt)
    after = (before + time * rate).clamp(act_lower, act_upper)
    state = torch.where(early, after, before)
    if integral.any():
        kp, ki = (current_parameter(simulator, f"actuator_{name}", control) for name in ("kp", "ki"))
        state = torch.where(integral, control + ki / kp.clamp(min=LEAST_TIME_CONSTANT) * state, state)
    return torch.where(has_state, state, control)


def _rates(
    simulator: Simulator,
    control: torch.Tensor,
    act: torch.Tensor,
    constant: torch.Tensor,
    motion: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Return the rates of the states of actuators; each argument has a column for each actuator.

    Args:
        simulator: the simulator.
        control: inputs, clamped.
        act: states.
        constant: time constants.
        motion: positions and velocities of the actuators.
    """
    position, velocity = motion
    kind = torch.as_tensor(simulator.model.actuator_dynamics, device=control.device)
    rate = torch.where(kind == INTEGRATOR, control, (control - act) / constant)
    if (kind == MUSCLE_FILTER).any():
        fall, width = (current_parameter(simulator, f"actuator_{name}", control) for name in ("fall_time", "smoothing"))
        rate = torch.where(kind == MUSCLE_FILTER, muscle_rates(control, act, constant, fall, width), rate)
    if (kind == CURRENT).any():
        gain, ohm = (current_parameter(simulator, f"actuator_{name}", control) for name in ("gain", "resistance"))
        steady = (control - gain * velocity) / ohm.clamp(min=LEAST_TIME_CONSTANT)
        rate = torch.where(kind == CURRENT, (steady - act) / constant, rate)
    if (kind == PID).any():
        most = current_parameter(simulator, "actuator_integral_limit", control)
        error = control - position
        error = torch.where(act >= most, error.clamp(max=0.0), error)
        error = torch.where(act <= -most, error.clamp(min=0.0), error)
        rate = torch.where(kind == PID, error, rate)
    return rate


def _delayed(simulator: Simulator, control: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
    """Return the inputs after their delays, as in :mod:`warp_kernels.actuators.delays`."""
    model = simulator.model
    found = list(control.unbind(-1))
    for k in np.flatnonzero(model.delay_samples).tolist():
        first, count = int(model.delay_state[k]), int(model.delay_samples[k])
        known = torch.cat([control[..., k : k + 1], act[:-1, :, first : first + count]], dim=-1)
        steps = (current_parameter(simulator, "actuator_delay", control)[..., k] / simulator.dt).clamp(0.0, count)
        steps = steps.expand(control.shape[:-1])[..., None]
        whole = steps.floor().clamp(max=count - 1).long()
        later, earlier = known.gather(-1, whole), known.gather(-1, whole + 1)
        found[k] = (later + (steps - whole) * (earlier - later))[..., 0]
    return torch.stack(found, dim=-1)


def _states(model: Model, shape: tuple[int, ...], act: torch.Tensor | None) -> torch.Tensor:
    """Return the states of actuators. Raises ModelError unless they are those of all states of a rollout [steps,
    worlds].
    """
    count = shape[0] + 1
    if act is None or len(act) != count:
        has_state = (model.actuator_state >= 0) | (model.delay_samples > 0)
        name = model.actuator_names[int(np.argmax(has_state))]
        given = "none" if act is None else f"{len(act)} states"
        raise ModelError(
            f"forces of actuators: '{name}' has a state; give act as sim.torch.rollout returns it, {count} states, "
            f"here {given}"
        )
    require_tensor("forces of actuators: act", act, (count, shape[1], model.na))
    return act


def require_joints_and_tendons(model: Model, where: str, actuators: Collection[int] | None = None) -> None:
    """Raise ModelError if one of these actuators (None: any of the model) acts on a frame or on contacts."""
    for number in model.transmissions.actuator:
        if actuators is None or number in actuators:
            name = model.actuator_names[number]
            kind = "acts on a frame or on contacts"
            raise ModelError(f"{where}: actuator '{name}' {kind}; its forces are not available here")


def moved_by_actuators(
    simulator: Simulator, q: torch.Tensor, qd: torch.Tensor, tendons: tuple[torch.Tensor, torch.Tensor] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions of the joints and lengths of the tendons that actuators act on, and their rates [..., nu]."""
    model = simulator.model
    dof, tendon = model.actuator_dof, model.actuator_tendon
    on_joint = dof.clip(min=0)
    position, velocity = q[..., model.dof_q[on_joint]], qd[..., on_joint]
    if tendons is None:
        return position, velocity
    length, slope = tendons
    rate = (slope @ qd[..., None])[..., 0]
    pulls, at = torch.as_tensor(tendon >= 0, device=q.device), tendon.clip(min=0)
    return torch.where(pulls, length[..., at], position), torch.where(pulls, rate[..., at], velocity)


def on_joints(
    simulator: Simulator, force: torch.Tensor, tendons: tuple[torch.Tensor, torch.Tensor] | None
) -> torch.Tensor:
    """Map actuator forces [steps, num_worlds, nu] to the degrees of freedom [steps, num_worlds, nv]."""
    model = simulator.model
    pull = force * current_parameter(simulator, "actuator_gear", force)
    joint, tendon = (np.flatnonzero(each >= 0) for each in (model.actuator_dof, model.actuator_tendon))
    dofs = torch.as_tensor(model.actuator_dof[joint], dtype=torch.long, device=force.device)
    result = force.new_zeros(*force.shape[:-1], model.nv).index_add(-1, dofs, pull[..., joint])
    if tendons is None or not len(tendon):
        return result
    return result + (tendons[1][..., model.actuator_tendon[tendon], :] * pull[..., tendon, None]).sum(dim=-2)
