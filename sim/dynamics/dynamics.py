"""Dynamics of a model without contact and time, as free functions: inverse and forward dynamics.

They follow the rules of :mod:`sim.dynamics` for arguments, results and gradients. Joint forces include armature,
damping, spring and dry friction, with the armature in M and gravity in c:

    tau = M(q) qdd + c(q, qd) + damping qd + stiffness (q - rest_position) + friction_loss sign(qd) - compensation(q)

where the last term is the force of the links' ``gravity_compensation``, and ``q - rest_position`` of a spherical or
free joint the displacement and the rotation vector from the reference pose. Constraints, contacts, actuators, tendons
and a medium belong to the simulator.

Dry friction is that of a joint in motion, by Coulomb's law, sign(0) = 0. At rest any force up to friction_loss may hold
the joint; neither that force nor sticking follows from state and acceleration, so that both, like limits, belong to the
simulator. The gradient in friction_loss is sign(qd); friction has no gradient in qd, not even across zero, where it
jumps.

Sources: Featherstone, *Rigid Body Dynamics Algorithms* (2014), tables 5.1 (RNEA) and 7.1 (ABA); Khalil and Dombre,
*Modeling, Identification and Control of Robots* (2002), chapter 9 (friction of joints). Reverse mode doesn't
differentiate the algorithms: with cotangent g of tau, the gradient of inverse dynamics is that of the scalar
g . ID(q, qd, qdd) (see :mod:`warp_kernels.dynamics.newton_euler`); with cotangent g of qdd and w = M^-1 g, that of
forward dynamics is w in tau, and the gradient of -w . ID(q, qd, qdd) at fixed qdd in everything else (the implicit
function theorem on ID(q, qd, qdd) = tau).

Accelerations lose more digits than other results, as many as the condition number of the mass matrix has. For a model
in float32 they are computed in float64 and rounded at the end.
"""

from typing import Any

import warp as wp

from sim.arrays.allocation import in_double, rounded
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import launch, threads_of_world
from sim.arrays.scratch import scratch_array
from sim.dynamics.bodies import Bodies
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    active_tape,
    any_leading_shape,
    batch,
    detached,
    dynamics_parameters,
    launch_last,
    on_device,
    run,
)
from sim.model.checks import require_flags
from sim.model.model import Model
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.link_forces import gravity_compensation_kernels
from warp_kernels.dynamics.pose_springs import pose_spring_kernels
from warp_kernels.dynamics.rnea import rnea_adjoint_kernels, rnea_kernels

# Parameters that ``passive=False`` omits. The armature stays: it is the inertia of rotors, a part of M.
PASSIVE_FORCES = ("damping", "stiffness", "rest_position", "friction_loss")


@any_leading_shape
def inverse_dynamics(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    qdd: Array,
    wrench: Array | None = None,
    *,
    passive: bool = True,
) -> wp.array:
    """Return the joint forces that produce an acceleration.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        qdd: joint accelerations, the time derivative of qd [num_worlds, nv].
        wrench: external moment [N m], then force [N], on each link along world axes about the origin of the link's
            frame [num_worlds, num_links, 6].
        passive: whether damping, springs, dry friction and gravity compensation are included. Without them the result
            is that of Pinocchio's ``rnea``.

    Returns:
        [num_worlds, nv].

    Raises:
        ModelError: for a wrong shape, dtype or device, and for links that came without inertial data.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> q = qd = qdd = np.zeros((2, model.nv))
        >>> sim.inverse_dynamics(model, q, qd, qdd).shape
        (2, 7)
    """
    require_flags("inverse_dynamics", passive=passive)
    m, *inputs = _arguments(model, q, qd, "qdd", qdd, wrench)
    return run(m, inverse_dynamics_operation(m.model, passive), inputs)


def inverse_dynamics_operation(model: Model, passive: bool = True) -> DifferentiableOp:
    """Return the operation of :func:`inverse_dynamics`."""

    def forward(
        m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array, qdd: wp.array, wrench: wp.array | None = None
    ) -> None:
        bodies = Bodies(m, q, lanes=m.lanes)
        joints, gravity = _joint_parameters(m, passive), m.parameters["gravity"]
        put_joint_forces(bodies, joints, gravity, q, qd, qdd, wrench, tau, passive=passive)
        if passive:
            _add_pose_springs(m, q, tau)

    def backward(
        m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array, qdd: wp.array, wrench: wp.array | None = None
    ) -> None:
        tape, bodies = taped_bodies(m, q)
        _add_gradient(bodies, tape, passive, q, qd, qdd, wrench, tau.grad)

    return DifferentiableOp((model.nv,), forward, backward, _parameter_names(model, passive))


@any_leading_shape
def forward_dynamics(
    model: Model | DeviceModel,
    q: Array,
    qd: Array,
    tau: Array,
    wrench: Array | None = None,
    *,
    passive: bool = True,
) -> wp.array:
    """Return the joint accelerations under joint forces: the inverse of :func:`inverse_dynamics`.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        tau: joint forces [num_worlds, nv].
        wrench: as for :func:`inverse_dynamics`.
        passive: as for :func:`inverse_dynamics`. Without passive forces the result is that of Pinocchio's ``aba``.

    Returns:
        [num_worlds, nv], the time derivative of qd.

    Raises:
        ModelError: as :func:`inverse_dynamics`, and if the mass matrix is singular, naming the joint.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", dtype="float64")
        >>> q, qd, qdd = (np.full((2, model.nv), x) for x in (0.3, 0.1, 1.0))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd)
        >>> bool(np.allclose(sim.forward_dynamics(model, q, qd, tau).numpy(), qdd))
        True
    """
    require_flags("forward_dynamics", passive=passive)
    m, *inputs = _arguments(model, q, qd, "tau", tau, wrench)
    m.require_regular_mass_matrix()
    return run(m, forward_dynamics_operation(m.model, passive), inputs)


def forward_dynamics_operation(model: Model, passive: bool = True) -> DifferentiableOp:
    """Return the operation of :func:`forward_dynamics`."""

    def forward(
        m: DeviceModel, qdd: wp.array, q: wp.array, qd: wp.array, tau: wp.array, wrench: wp.array | None = None
    ) -> None:
        exact = m.in_double()
        q, qd, tau = (in_double(array) for array in (q, qd, tau))
        bodies = Bodies(exact, q, lanes=m.lanes)
        if passive and len(model.sprung_links):
            tau = _with_pose_springs(exact, q, tau)
        common_wrench = _common_wrench(bodies, None if wrench is None else in_double(wrench), passive)
        with rounded(qdd) as result:
            joints, gravity = _joint_parameters(exact, passive), exact.parameters["gravity"]
            _run_articulated_body(bodies, joints, gravity, q, qd, tau, common_wrench, result)

    def backward(
        m: DeviceModel, qdd: wp.array, q: wp.array, qd: wp.array, tau: wp.array, wrench: wp.array | None = None
    ) -> None:
        tape, bodies = taped_bodies(m, q)
        w = _mass_matrix_solution(bodies, q, qdd.grad)
        minus_w = scratch_array(w.shape, w.dtype, m.device)
        kernel = aba_kernels(m.types.scalar, bodies.lanes).forward_dynamics_adjoint
        launch(kernel, bodies.groups, device=m.device, w=w, tau_bar=tau.grad, minus_w=minus_w)
        _add_gradient(bodies, tape, passive, q, qd, detached(qdd), wrench, minus_w)

    return DifferentiableOp((model.nv,), forward, backward, _parameter_names(model, passive), needs_result=True)


def _arguments(
    model: Model | DeviceModel, q: Array, qd: Array, name: str, third: Array, wrench: Array | None
) -> tuple[DeviceModel, wp.array, wp.array, wp.array, wp.array | None]:
    m = on_device(model, q, qd, third, wrench)
    m.require_masses()
    q = batch(m, "q", q, (m.model.nq,))
    worlds = q.shape[0]
    qd = batch(m, "qd", qd, (m.model.nv,), worlds)
    third = batch(m, name, third, (m.model.nv,), worlds)
    if wrench is not None:
        wrench = batch(m, "wrench", wrench, (m.model.num_links, 6), worlds)
    return m, q, qd, third, wrench


def _parameter_names(model: Model, passive: bool) -> tuple[str, ...]:
    names = dynamics_parameters(model)
    return tuple(name for name in names if passive or name not in (*PASSIVE_FORCES, "gravity_compensation"))


def _joint_parameters(m: DeviceModel, passive: bool) -> dict[str, wp.array]:
    """Return the joint parameters; without passive forces zeros replace theirs, which then have no gradients."""
    if passive:
        return m.parameters
    return {**m.parameters, **dict.fromkeys(PASSIVE_FORCES, zeros(m, (1, m.model.nv)))}


def _add_passive_gradient(
    bodies: Bodies, parameters: dict[str, wp.array], q: wp.array, qd: wp.array, qdd: wp.array, weight: wp.array
) -> None:
    """Add the gradient of weight . the forces of rotors, dampers, springs and dry friction."""
    m = bodies.model
    kernel = rnea_kernels(m.types.scalar, bodies.lanes).passive_force_adjoint
    _launch_over_dofs(kernel, bodies, parameters, q=q, qd=qd, qdd=qdd, tau_bar=weight)


def _launch_over_dofs(kernel: wp.Kernel, bodies: Bodies, *sources: Any, **named: Any) -> None:
    """Launch a kernel whose threads share out the degrees of freedom of a lane group."""
    m = bodies.model
    threads = threads_of_world(m.device, m.model.nv)
    launch(kernel, (threads, bodies.groups), m, *sources, device=m.device, threads=threads, **named)


def _add_pose_springs(m: DeviceModel, q: wp.array, tau: wp.array, sign: float = -1.0) -> None:
    """Add ``sign`` times the forces of springs of spherical and free joints to tau; an active tape only records it."""
    count = len(m.model.sprung_links)
    if count:
        kernel, dim = pose_spring_kernels(m.types.scalar).pose_spring_forces, (count, q.shape[0])
        sources, sign = (m, m.parameters), m.types.scalar(sign)
        launch_last(kernel, dim, *sources, device=m.device, sign=sign, q=q, joint_force=tau)


def _with_pose_springs(m: DeviceModel, q: wp.array, tau: wp.array) -> wp.array:
    """Return joint forces with those of springs of spherical and free joints."""
    total = scratch_array(tau.shape, tau.dtype, tau.device)
    wp.copy(total, tau)
    _add_pose_springs(m, q, total, sign=1.0)
    return total


def _common_wrench(bodies: Bodies, wrench: wp.array | None, passive: bool) -> wp.array:
    """Return wrenches about the trees' origins [num_links, groups]; an array without entries if there are none.

    They are external ones and, if passive forces are included, those of gravity compensation. Their adjoint is recorded
    on the active tape.
    """
    m, tape = bodies.model, active_tape()
    compensated = passive and m.model.compensated
    if wrench is None and not compensated:
        return m.none(bodies.types.spatial)
    dim = (m.model.num_links, bodies.groups)
    common = bodies.scratch(m.model.num_links, bodies.types.spatial)
    arrays = {"wrench": wrench, "common_wrench": common}

    def run_kernel(kernel: wp.Kernel) -> None:
        launch(kernel, dim, bodies, arrays, m.parameters, device=m.device, record_tape=False)

    def run_kernels(forward: wp.Kernel, adjoint: wp.Kernel) -> None:
        run_kernel(forward)
        if tape is not None:
            tape.record_func(lambda: run_kernel(adjoint), [common])

    if wrench is None:
        common.zero_()
    else:
        kernels = rnea_kernels(m.types.scalar, bodies.lanes)
        run_kernels(kernels.wrench_to_common_frame, kernels.wrench_to_common_frame_adjoint)
    if compensated:
        kernels = gravity_compensation_kernels(m.types.scalar, bodies.lanes)
        run_kernels(kernels.compensate_gravity, kernels.compensate_gravity_adjoint)
    return common


def put_joint_forces(
    bodies: Bodies,
    joints: dict[str, wp.array] | None,
    gravity: wp.array,
    q: wp.array,
    qd: wp.array,
    qdd: wp.array,
    wrench: wp.array | None,
    tau: wp.array,
    *,
    passive: bool = False,
) -> None:
    """Fill tau, an array of zeros, with the joint forces of a motion.

    Args:
        bodies: forward kinematics.
        joints: parameters of rotors, dampers, springs and dry friction; None for the forces that move the links.
        gravity: of each world.
        q, qd, qdd: the motion.
        wrench: external wrenches, or None.
        tau: output.
        passive: whether gravity compensation is included.
    """
    m, scratch = bodies.model, _motion_scratch(bodies, "velocity", "acceleration", "force")
    given = {
        "gravity": gravity, "q": q, "qd": qd, "qdd": qdd, "tau": tau,
        "common_wrench": _common_wrench(bodies, wrench, passive),
    }  # fmt: skip
    if bodies.teams is not None:
        joints = joints or dict.fromkeys((*PASSIVE_FORCES, "armature"), zeros(m, (1, m.model.nv)))
        bodies.launch_teams(bodies.teams.rnea, given, scratch, joints, lift=None)
        return
    kernels = rnea_kernels(m.types.scalar, bodies.lanes)
    if joints is not None:
        _launch_over_dofs(kernels.passive_force, bodies, joints, q=q, qd=qd, qdd=qdd, tau=tau)
    launch(kernels.rnea, (m.model.num_trees, bodies.groups), given, bodies, m, scratch, device=m.device)


def _motion_scratch(bodies: Bodies, *names: str) -> dict[str, wp.array]:
    """Return scratch for motions or forces of each link, by name."""
    return {name: bodies.scratch(bodies.model.model.num_links, bodies.types.spatial) for name in names}


def _articulated_scratch(bodies: Bodies) -> dict[str, wp.array]:
    """Return scratch for the articulated-body algorithm, by name."""
    t, size = bodies.types, bodies.model.model
    per_dof = {"factor_u": t.spatial, "factor_d": t.real, "innovation": t.real}
    arrays = {name: bodies.scratch(size.nv, dtype) for name, dtype in per_dof.items()}
    return {"articulated": bodies.scratch(size.num_links, t.articulated), **arrays}


def _run_articulated_body(
    bodies: Bodies,
    joints: dict[str, wp.array],
    gravity: wp.array,
    q: wp.array,
    qd: wp.array,
    tau: wp.array,
    common_wrench: wp.array,
    qdd: wp.array,
) -> dict[str, wp.array]:
    """Fill qdd with accelerations; return the factors as :func:`solve_mass_matrix`."""
    m = bodies.model
    scratch = {**_motion_scratch(bodies, "velocity", "acceleration", "bias_force"), **_articulated_scratch(bodies)}
    given = {
        "gravity": gravity, "q": q, "qd": qd, "tau": tau, "common_wrench": common_wrench, "qdd": qdd,
        "dt": m.types.scalar(0.0), "implicit": None, "lift": None,
    }  # fmt: skip
    if bodies.teams is not None:
        scratch["factor_l"] = bodies.scratch(m.ancestor.shape[0], bodies.types.real)
        bodies.launch_teams(bodies.teams.aba, given, joints, scratch)
        return scratch
    kernel, dim = aba_kernels(m.types.scalar, bodies.lanes).aba, (m.model.num_trees, bodies.groups)
    launch(kernel, dim, given, bodies, m, joints, scratch, device=m.device)
    return scratch


def taped_bodies(m: DeviceModel, q: wp.array) -> tuple[wp.Tape, Bodies]:
    """Return forward kinematics with the tape that recorded them."""
    with wp.Tape() as tape:
        bodies = Bodies(m, q, lanes=m.lanes)
    return tape, bodies


def _mass_matrix_solution(bodies: Bodies, q: wp.array, right: wp.array) -> wp.array:
    """Return M(q)^-1 right [num_worlds, nv], computed in float64."""
    result = scratch_array(right.shape, right.dtype, right.device)
    m = bodies.model.in_double()
    if m is not bodies.model:
        q, right = in_double(q), in_double(right)
        bodies = Bodies(m, q, lanes=bodies.lanes)
    with rounded(result) as solution:
        solve_mass_matrix(bodies, right, solution)
    return result


def solve_mass_matrix(bodies: Bodies, right: wp.array, solution: wp.array) -> dict[str, wp.array]:
    """Fill ``solution`` with M^-1 right [num_worlds, nv]; return the factors U and 1 / D, factor_u and factor_d. Teams
    of threads return the accelerations of bodies at rest, and L, factor_l, too.
    """
    m = bodies.model
    if bodies.teams is not None:
        still = zeros(m, right.shape)
        joints, none = _joint_parameters(m, passive=False), m.none(bodies.types.spatial)
        q = zeros(m, (right.shape[0], m.model.nq))
        return _run_articulated_body(bodies, joints, weightless(m), q, still, right, none, solution)
    scratch = _articulated_scratch(bodies)
    # Forces propagate to the roots, then accelerations to the leaves.
    motion = bodies.scratch(m.model.num_links, bodies.types.spatial)
    launch(
        aba_kernels(m.types.scalar, bodies.lanes).solve_mass_matrix, (m.model.num_trees, bodies.groups), bodies, m,
        m.parameters, scratch, device=m.device, tau=right, bias_force=motion, acceleration=motion, qdd=solution,
    )  # fmt: skip
    return scratch


def weightless(m: DeviceModel) -> wp.array:
    """Return a gravity of zero."""
    gravity = scratch_array((1, 1), m.types.vec3, m.device)
    gravity.zero_()
    return gravity


def zeros(m: DeviceModel, shape: tuple[int, ...]) -> wp.array:
    """Return a scratch array of scalars, all zero, without a gradient."""
    array = scratch_array(shape, m.types.scalar, m.device)
    array.zero_()
    return array


def _add_gradient(
    bodies: Bodies,
    tape: wp.Tape,
    passive: bool,
    q: wp.array,
    qd: wp.array,
    qdd: wp.array,
    wrench: wp.array | None,
    weight: wp.array,
) -> None:
    """Add the gradient of weight . ID(q, qd, qdd) to those of the arguments and of the parameters."""
    _add_passive_gradient(bodies, _joint_parameters(bodies.model, passive), q, qd, qdd, weight)
    if passive and len(bodies.model.model.sprung_links):
        force = detached(weight)
        force.grad = weight
        with tape:
            _add_pose_springs(bodies.model, q, force)
    add_rigid_body_gradient(bodies, tape, bodies.model.parameters["gravity"], qd, qdd, wrench, weight, passive=passive)


def add_rigid_body_gradient(
    bodies: Bodies,
    tape: wp.Tape,
    gravity: wp.array,
    qd: wp.array,
    qdd: wp.array,
    wrench: wp.array | None,
    weight: wp.array,
    *,
    passive: bool = False,
) -> None:
    """Add the gradient of weight . :func:`put_joint_forces`, with the backward pass of the bodies' tape."""
    m = bodies.model
    with tape:
        common_wrench = _common_wrench(bodies, wrench, passive)
    names = ("velocity", "acceleration", "direction", "velocity_bar", "acceleration_bar", "force")
    scratch = _motion_scratch(bodies, *names)
    given = {
        "gravity": gravity, "qd": qd, "qdd": qdd, "common_wrench": common_wrench, "lift": None, "motion_weight": weight,
    }  # fmt: skip
    if bodies.teams is not None:
        bodies.launch_teams(bodies.teams.rnea_adjoint, given, scratch)
    else:
        kernel, dim = (
            rnea_adjoint_kernels(m.types.scalar, bodies.lanes).rnea_adjoint,
            (m.model.num_trees, bodies.groups),
        )
        launch(kernel, dim, given, bodies, m, scratch, device=m.device)
    tape.backward()
