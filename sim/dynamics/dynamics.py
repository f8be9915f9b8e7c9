"""Dynamics of a model without contact and time, as free functions: inverse and forward dynamics.

They follow the rules of :mod:`sim.dynamics` for arguments, results and gradients. Joint forces include armature,
damping, spring and dry friction, with the armature in M and gravity in c:

    tau = M(q) qdd + c(q, qd) + damping qd + stiffness (q - rest_position) + friction_loss sign(qd)

Dry friction is that of a joint in motion, by Coulomb's law, sign(0) = 0. At rest any force up to friction_loss may
hold, and which one follows from state and acceleration no more than whether the joint sticks: that belongs to the
simulator, and so do limits. The gradient in friction_loss is sign(qd); in qd friction has none, also across zero, where
it jumps.

Sources: Featherstone, *Rigid Body Dynamics Algorithms* (2014), tables 5.1 (RNEA) and 7.1 (ABA); Khalil and Dombre,
*Modeling, Identification and Control of Robots* (2002), chapter 9 (friction of joints). Reverse mode goes through none
of the algorithms: with cotangent g of tau, the gradient of inverse dynamics is that of the scalar g . ID(q, qd, qdd)
(see :mod:`warp_kernels.dynamics.rnea_adjoint`); with cotangent g of qdd and w = M^-1 g, that of forward dynamics is w
in tau, and the gradient of -w . ID(q, qd, qdd) at fixed qdd in everything else (the implicit function theorem on
ID(q, qd, qdd) = tau).

Accelerations lose more digits than anything else, as many as the condition number of the mass matrix has: for a model
in float32 they are worked out in float64 and rounded at the end.
"""

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.arrays.precision import in_double, rounded
from sim.arrays.scratch import scratch_array
from sim.dynamics.differentiable_op import (
    DYNAMICS_PARAMETERS,
    Array,
    Bodies,
    DifferentiableOp,
    active_tape,
    batch,
    detached,
    lanes_of,
    on_device,
    run,
)
from sim.model.model import Model
from warp_kernels.dynamics.aba import aba_kernels
from warp_kernels.dynamics.rnea import rnea_kernels
from warp_kernels.dynamics.rnea_adjoint import rnea_adjoint_kernels

PASSIVE = ("damping", "armature", "stiffness", "rest_position", "friction_loss")


def inverse_dynamics(
    model: Model | DeviceModel, q: Array, qd: Array, qdd: Array, wrench: Array | None = None
) -> wp.array:
    """Joint forces that produce an acceleration.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        qdd: joint accelerations, the time derivative of qd [num_worlds, nv].
        wrench: external moment [N m], then force [N], on each link along world axes about the origin of the link's
            frame [num_worlds, num_links, 6].

    Returns:
        [num_worlds, nv].

    Raises:
        ModelError: for a wrong shape, dtype or device, and for links that came without inertial data.
    """
    m, *inputs = _arguments(model, q, qd, "qdd", qdd, wrench)
    return run(m, inverse_dynamics_operation(m.model), inputs)


def inverse_dynamics_operation(model: Model) -> DifferentiableOp:
    """See :func:`inverse_dynamics`."""

    def forward(
        m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array, qdd: wp.array, wrench: wp.array | None = None
    ) -> None:
        bodies = Bodies(m, q, lanes=lanes_of(m))
        _passive_force(bodies, q, qd, qdd, tau)
        add_rigid_body_force(bodies, m.parameters["gravity"], qd, qdd, wrench, tau)

    def backward(
        m: DeviceModel, tau: wp.array, q: wp.array, qd: wp.array, qdd: wp.array, wrench: wp.array | None = None
    ) -> None:
        tape, bodies = taped_bodies(m, q)
        _add_gradient(bodies, tape, q, qd, qdd, wrench, tau.grad)

    return DifferentiableOp((model.nv,), forward, backward, DYNAMICS_PARAMETERS)


def forward_dynamics(
    model: Model | DeviceModel, q: Array, qd: Array, tau: Array, wrench: Array | None = None
) -> wp.array:
    """Joint accelerations under joint forces: the inverse of :func:`inverse_dynamics`.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        tau: joint forces [num_worlds, nv].
        wrench: as for :func:`inverse_dynamics`.

    Returns:
        [num_worlds, nv], the time derivative of qd.

    Raises:
        ModelError: as :func:`inverse_dynamics`.
    """
    m, *inputs = _arguments(model, q, qd, "tau", tau, wrench)
    return run(m, forward_dynamics_operation(m.model), inputs)


def forward_dynamics_operation(model: Model) -> DifferentiableOp:
    """See :func:`forward_dynamics`."""

    def forward(
        m: DeviceModel, qdd: wp.array, q: wp.array, qd: wp.array, tau: wp.array, wrench: wp.array | None = None
    ) -> None:
        exact = m.in_double()
        q, qd, tau = (in_double(array) for array in (q, qd, tau))
        bodies = Bodies(exact, q, lanes=lanes_of(m))
        parameters = [exact.parameters[name] for name in (*PASSIVE, "gravity")]
        external = _common_wrench(bodies, None if wrench is None else in_double(wrench))
        with rounded(qdd) as result:
            _run_articulated_body(bodies, parameters, q, qd, tau, external, result)

    def backward(
        m: DeviceModel, qdd: wp.array, q: wp.array, qd: wp.array, tau: wp.array, wrench: wp.array | None = None
    ) -> None:
        tape, bodies = taped_bodies(m, q)
        w = _mass_matrix_solution(bodies, q, qdd.grad)
        minus_w = scratch_array(w.shape, w.dtype, m.device)
        wp.launch(
            aba_kernels(m.types.scalar, bodies.lanes).forward_dynamics_adjoint,
            dim=bodies.blocks,
            inputs=[w],
            outputs=[tau.grad, minus_w],
            device=m.device,
        )
        _add_gradient(bodies, tape, q, qd, detached(qdd), wrench, minus_w)

    return DifferentiableOp((model.nv,), forward, backward, DYNAMICS_PARAMETERS, needs_result=True)


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


def _passive_force(bodies: Bodies, q: wp.array, qd: wp.array, qdd: wp.array, tau: wp.array) -> None:
    m = bodies.model
    wp.launch(
        rnea_kernels(m.types.scalar, bodies.lanes).passive_force,
        dim=bodies.blocks,
        inputs=[m.dof_q, *(m.parameters[name] for name in PASSIVE), q, qd, qdd],
        outputs=[tau],
        device=m.device,
    )


def _add_passive_gradient(bodies: Bodies, q: wp.array, qd: wp.array, qdd: wp.array, weight: wp.array) -> None:
    """Add the gradient of weight . :func:`_passive_force`."""
    m = bodies.model
    wp.launch(
        rnea_kernels(m.types.scalar, bodies.lanes).passive_force_adjoint,
        dim=bodies.blocks,
        inputs=[m.dof_q, *(m.parameters[name] for name in PASSIVE[:-1]), q, qd, qdd, weight],
        outputs=[*m.parameter_bars(*PASSIVE), q.grad, qd.grad, qdd.grad],
        device=m.device,
    )


def _common_wrench(bodies: Bodies, wrench: wp.array | None) -> wp.array:
    """External wrenches about the trees' origins [num_links, blocks]; an array without entries stands for none.

    Its adjoint hangs on the active tape.
    """
    m, tape = bodies.model, active_tape()
    if wrench is None:
        return m.none(bodies.types.spatial)
    kernels, dim = rnea_kernels(m.types.scalar, bodies.lanes), (m.model.num_links, bodies.blocks)
    common = bodies.scratch(m.model.num_links, bodies.types.spatial)
    given = [bodies.pose, wrench]
    wp.launch(kernels.wrench_to_common_frame, dim, given, [common], device=m.device, record_tape=False)
    if tape is not None:
        adjoint, bars = kernels.wrench_to_common_frame_adjoint, [bodies.pose.grad, wrench.grad]
        tape.record_func(
            lambda: wp.launch(adjoint, dim, [*given, common.grad], bars, device=m.device, record_tape=False), [common]
        )
    return common


def add_rigid_body_force(
    bodies: Bodies, gravity: wp.array, qd: wp.array, qdd: wp.array, wrench: wp.array | None, tau: wp.array
) -> None:
    """Add the joint forces that move the links, without rotors, dampers, springs and dry friction, to tau."""
    m = bodies.model
    scratch = [bodies.scratch(m.model.num_links, bodies.types.spatial) for _ in range(3)]
    wp.launch(
        rnea_kernels(m.types.scalar, bodies.lanes).rnea,
        dim=(m.model.num_trees, bodies.blocks),
        inputs=[
            m.tree_link_start, m.link_parent, m.joint_type, m.joint_qd_start, gravity, qd, qdd,
            _common_wrench(bodies, wrench), bodies.subspace, bodies.link_inertia,
        ],
        outputs=[*scratch, tau],
        device=m.device,
    )  # fmt: skip


def _run_articulated_body(
    bodies: Bodies,
    parameters: list[wp.array],
    q: wp.array,
    qd: wp.array,
    tau: wp.array,
    wrench: wp.array,
    qdd: wp.array,
) -> None:
    """The articulated-body algorithm; ``parameters`` from damping to gravity."""
    m, t = bodies.model, bodies.types
    links, dofs = m.model.num_links, m.model.nv
    per_link = [bodies.scratch(links, dtype) for dtype in (*[t.spatial] * 3, t.articulated)]
    per_dof = [bodies.scratch(dofs, dtype) for dtype in (t.spatial, t.real, t.real)]
    wp.launch(
        aba_kernels(t.scalar, bodies.lanes).aba,
        dim=(m.model.num_trees, bodies.blocks),
        inputs=[
            m.tree_link_start, m.link_parent, m.joint_type, m.joint_qd_start, m.dof_q, t.scalar(0.0), *parameters,
            q, qd, tau, m.none(t.real), wrench, bodies.subspace, bodies.link_inertia,
        ],
        outputs=[*per_link, *per_dof, qdd],
        device=m.device,
    )  # fmt: skip


def taped_bodies(m: DeviceModel, q: wp.array) -> tuple[wp.Tape, Bodies]:
    """Forward kinematics with the tape that recorded them."""
    with wp.Tape() as tape:
        bodies = Bodies(m, q, lanes=lanes_of(m))
    return tape, bodies


def _mass_matrix_solution(bodies: Bodies, q: wp.array, right: wp.array) -> wp.array:
    """M(q)^-1 right [num_worlds, nv], worked out in float64."""
    result = scratch_array(right.shape, right.dtype, right.device)
    m = bodies.model.in_double()
    if m is not bodies.model:
        q, right = in_double(q), in_double(right)
        bodies = Bodies(m, q, lanes=bodies.lanes)
    with rounded(result) as solution:
        solve_mass_matrix(bodies, right, solution)
    return result


def solve_mass_matrix(bodies: Bodies, right: wp.array, solution: wp.array) -> tuple[wp.array, wp.array]:
    """Fill ``solution`` with M^-1 right [num_worlds, nv]; return the factors U and 1 / D on the way there."""
    m, t = bodies.model, bodies.types
    per_link = [bodies.scratch(m.model.num_links, dtype) for dtype in (t.articulated, t.spatial)]
    per_dof = [bodies.scratch(m.model.nv, dtype) for dtype in (t.spatial, t.real, t.real)]
    wp.launch(
        aba_kernels(t.scalar, bodies.lanes).solve_mass_matrix,
        dim=(m.model.num_trees, bodies.blocks),
        inputs=[
            m.tree_link_start, m.link_parent, m.joint_qd_start, m.parameters["armature"], right, bodies.subspace,
            bodies.link_inertia,
        ],
        outputs=[*per_link, *per_dof, solution],
        device=m.device,
    )  # fmt: skip
    return per_dof[0], per_dof[1]


def weightless(m: DeviceModel) -> wp.array:
    """A gravity of zero."""
    gravity = scratch_array((1, 1), m.types.vec3, m.device)
    gravity.zero_()
    return gravity


def zeros(m: DeviceModel, shape: tuple[int, ...]) -> wp.array:
    """A scratch array of scalars, all zero, without a gradient."""
    array = scratch_array(shape, m.types.scalar, m.device)
    array.zero_()
    return array


def _add_gradient(
    bodies: Bodies,
    tape: wp.Tape,
    q: wp.array,
    qd: wp.array,
    qdd: wp.array,
    wrench: wp.array | None,
    weight: wp.array,
) -> None:
    """Add the gradient of weight . ID(q, qd, qdd) to those of the arguments and of the parameters."""
    _add_passive_gradient(bodies, q, qd, qdd, weight)
    add_rigid_body_gradient(bodies, tape, bodies.model.parameters["gravity"], qd, qdd, wrench, weight)


def add_rigid_body_gradient(
    bodies: Bodies,
    tape: wp.Tape,
    gravity: wp.array,
    qd: wp.array,
    qdd: wp.array,
    wrench: wp.array | None,
    weight: wp.array,
) -> None:
    """Add the gradient of weight . :func:`add_rigid_body_force`; the tape is that of the bodies, and is walked back."""
    m, t = bodies.model, bodies.types
    with tape:
        external = _common_wrench(bodies, wrench)
    scratch = [bodies.scratch(m.model.num_links, t.spatial) for _ in range(6)]
    wp.launch(
        rnea_adjoint_kernels(t.scalar, bodies.lanes).rnea_adjoint,
        dim=(m.model.num_trees, bodies.blocks),
        inputs=[
            m.tree_link_start, m.link_parent, m.joint_type, m.joint_qd_start, gravity, qd, qdd, external,
            bodies.subspace, bodies.link_inertia, weight,
        ],
        outputs=[
            *scratch, gravity.grad, qd.grad, qdd.grad, external.grad, bodies.subspace.grad, bodies.link_inertia.grad
        ],
        device=m.device,
    )  # fmt: skip
    tape.backward()
