"""Moreau's midpoint step of the hard law: drift for half a step, change velocities there, drift for the other half."""

from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, zeros
from sim.arrays.launch import clear
from sim.model.shapes.inertia import joint_inertias, symmetry_axes
from sim.simulation.stepping.lane_groups import Copies
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.stages.forces.drag import Drag
from sim.simulation.stepping.stages.forces.rate_damping import RateDamping, rate_damping
from sim.simulation.stepping.stages.forces.tendons import HeavyTendons
from sim.simulation.stepping.stages.free_dynamics import FreeDynamics
from sim.simulation.stepping.stages.loops import LoopStage, loop_links
from sim.simulation.stepping.tendon_layout import acted_links
from warp_kernels.kinematics.half_drift import half_drift_kernels
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.solver.midpoint.joint_weights import joint_weight_kernels
from warp_kernels.solver.midpoint.kahan import kahan_kernels
from warp_kernels.types import FREE, REVOLUTE, SPHERICAL

# Joints that turn.
TURNING = (REVOLUTE, SPHERICAL, FREE)


class MiddleDynamics(FreeDynamics):
    """Free dynamics in the middle of a step, with weighted springs and dampers, and Kahan's rule for coupled trees.

    Args:
        step: workspace of the step.

    Attributes:
        coupled: 1 for trees with Kahan's rule [tree].
        joint_damping_now: damping of the velocity in the middle [world, dof].
        joint_diagonal: implicit terms on the mass matrix's diagonal besides armature [dof, ...].
        kahan_lower, kahan_upper, kahan_diagonal, kahan_mass, kahan_theta, kahan_loss, kahan_change: see
            :mod:`warp_kernels.solver.midpoint.kahan`. Without coupled trees they have no rows, nor have the others.
        loops: rows of points, welds, couplings and dampers on two paths; None in models without them.
        rates: damping by tendons and frames.
        kahan_inertia, kahan_rate, kahan_momentum, turn, kahan_weight, kahan_force, link_spin: scratch.
        middle_qd, middle_lift, change_qd, change_lift, change_weight: inputs of the adjoint of inverse dynamics.
    """

    def __init__(self, step: "MidpointStep"):
        super().__init__(step)
        model, groups = step.model, step.groups
        t = groups.types
        self.coupled = step.integers(step.coupled_trees)
        self._has_coupling = bool(step.coupled_trees.any())
        links, dofs, entries, trees = (
            count if self._has_coupling else 0
            for count in (model.num_links, model.nv, int(model.dof_depth.sum()), model.num_trees)
        )
        self.joint_damping_now = wp.zeros_like(step.qd)
        self.joint_diagonal = groups.scalars(model.nv)
        self.kahan_inertia, self.kahan_rate = (groups.of_groups(links, t.inertia) for _ in range(2))
        self.kahan_momentum, self.turn = groups.of_groups(links, t.spatial), groups.of_groups(dofs, t.spatial)
        self.kahan_lower, self.kahan_upper = (groups.of_groups(entries, t.real) for _ in range(2))
        self.kahan_diagonal, self.kahan_loss, self.kahan_change = (groups.of_groups(dofs, t.real) for _ in range(3))
        self.rates = rate_damping(step)
        on_paths = [rate for rate in self.rates if rate.on_one_path]
        heavy = [step.tendons.heavy] if step.tendons and step.tendons.heavy.count else []
        self._drag = step.link_forces.drag
        drag = [self._drag] if self._drag else []
        self._masses: list[HeavyTendons | RateDamping | Drag] = [*heavy, *on_paths] if self._has_coupling else []
        self._masses += drag
        self.kahan_mass = groups.scalars(entries if self._masses else 0)
        self.kahan_theta = groups.of_groups(trees, t.real)
        lifted = trees if len(step.floating) else 0
        self.middle_lift, self.change_lift = (groups.of_groups(lifted, t.vec3) for _ in range(2))
        scalar, device = step.scalar, step.device
        self._still = fill(
            step.structs.JointParameters,
            **{name: zeros((1, model.nv), scalar, device) for name in step.structs.JointParameters.vars},
        )
        self._no_bars = fill(step.structs.JointParameters)
        self._no_gravity = zeros((1, 1), step.device_model.types.vec3, device)
        self.loops: LoopStage | None = LoopStage(step, step.looped_trees) if step.looped_trees.any() else None

    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [self.change_lift, *(array for each in self.rates for array in each.differentiated())]

    def prepare_adjoint(self) -> None:
        """Allocate arrays of the adjoint."""
        super().prepare_adjoint()
        if self.loops:
            self.loops.prepare_adjoint()
        step, t, groups = self._step, self._step.groups.types, self._step.groups
        dofs = self.kahan_loss.shape[0]
        self.kahan_weight, self.kahan_force = (groups.of_groups(dofs, t.real) for _ in range(2))
        self.link_spin = groups.of_groups(self.kahan_inertia.shape[0], t.vec3)
        self.middle_qd, self.change_qd, self.change_weight, self._no_change = (
            wp.zeros_like(step.qd, requires_grad=False) for _ in range(4)
        )
        self._middle_velocity = groups.of_groups(self.kahan_inertia.shape[0], t.spatial)

    def accelerate(self) -> None:
        """Compute accelerations, and factors of the mass matrix with the implicit terms."""
        step = self._step
        step.launch(self._weights.weigh_joints, step.groups.num_groups, joints=step.impulses.joints)
        if step.pose_springs:
            step.pose_springs.weigh()
        diagonal = self.joint_diagonal.groups
        damping = {"link_damping": self._drag.link_damping} if self._drag else {}
        self._accelerate(dt=step.scalar(0.0), damping=self.joint_damping_now, implicit=diagonal, **damping)

    def couple(self) -> None:
        """Change accelerations by damping along rows and by Kahan's rule, with the impulses of loops."""
        for rate in self.rates:
            rate.damp()
        if self._masses:
            clear(self.kahan_mass.groups)
        for each in self._masses:
            each.write_masses(self._step)
        if not self._has_coupling:
            return
        self._step.launch(self._kahan.couple_velocities, self._trees)
        if self.loops:
            self.loops.couple()

    @property
    def free_step(self) -> dict[str, Any]:
        """Return arguments without springs and dampers, whose adjoint is :meth:`free_step_adjoint`."""
        return {"ahead": self._step.scalar(0.0), "joints": self._still, "joints_bar": self._no_bars}

    def free_step_adjoint(self) -> None:
        """Propagate the adjoint of accelerations to joint forces, springs and dampers."""
        step = self._step
        if self.loops:
            self.loops.adjoint()
        if self._has_coupling:
            step.launch(self._kahan.couple_adjoint, self._trees, lift=self._lift.groups)
        step.launch(
            self._weights.weigh_joints_adjoint,
            step.groups.num_groups,
            joints=step.impulses.joints,
            joints_bar=step.impulses.joints_bar,
        )
        if step.pose_springs:
            step.pose_springs.weigh_adjoint()
        for rate in self.rates:
            rate.adjoint()
        if self._drag:
            self._drag.damping_adjoint()

    def motion_adjoint(self, **given: Any) -> None:
        """Propagate the adjoint of accelerations to motion, forces and inertias: of inverse dynamics at v + th x, less
        those of x alone.
        """
        if not self._has_coupling:
            super().motion_adjoint(**given)
            return
        step, lift_bar = self._step, self._lift.groups.grad
        super().motion_adjoint(
            velocity=self._middle_velocity, qd=self.middle_qd, qd_bar=step.qd.grad, lift=self.middle_lift,
            lift_bar=lift_bar,
        )  # fmt: skip
        super().motion_adjoint(
            velocity=self._middle_velocity, qd=self.change_qd, qd_bar=None, qdd=self._no_change,
            gravity=self._no_gravity, gravity_bar=None, motion_weight=self.change_weight, common_wrench=None,
            common_wrench_bar=None, lift=self.change_lift, lift_bar=self.change_lift.grad,
        )  # fmt: skip
        if len(step.floating):
            step.launch(self._kahan.lift_adjoint, self._trees, lift_bar=lift_bar)

    @property
    def _lift(self) -> Copies:
        return self._step.link_forces.lift

    @property
    def _kahan(self) -> Any:
        return kahan_kernels(self._step.scalar, self._step.groups.lanes)

    @property
    def _weights(self) -> Any:
        return joint_weight_kernels(self._step.scalar, self._step.groups.lanes)


class MidpointStep(Step):
    """Moreau's midpoint step, of second order for smooth motion.

    Positions move with the velocity before the step for half of it; all stages are those of the middle; positions move
    with the velocity after the step for the other half. So contacts see the middles of steps, which move by the
    velocities after the constraints as the states of Euler's method do. q and qd are those of the middle.

    Attributes:
        first_q, first_q_low, first_qd: the state before the step [world, ...].
        qd_drift: velocity of the second half, if contacts bounce; see :func:`reflect_velocity`.
        symmetry: axes about which links are symmetric [dof]; see :mod:`warp_kernels.solver.midpoint.kahan`.
        joint_inertia: inertias that weigh springs and dampers [dof]; see
            :mod:`warp_kernels.solver.midpoint.joint_weights`.
    """

    dynamics_of = MiddleDynamics
    drifts_first = True
    weighted = True

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.drift_time = self.scalar(0.5 * float(self.dt))
        self.first_q, self.first_qd = wp.zeros_like(self.q), wp.zeros_like(self.qd)
        self.first_q_low = wp.zeros_like(self.kinematics.q_low)
        self.joint_inertia: wp.array = wp.array(joint_inertias(self.model), dtype=self.scalar, device=self.device)
        self.symmetry: wp.array = wp.array(symmetry_axes(self.model), dtype=self.scalar, device=self.device)
        self._half_drift = half_drift_kernels(self.scalar)

    @cached_property
    def looped_trees(self) -> np.ndarray:
        """Return a mask of the trees with points, welds, couplings and dampers on two paths."""
        model = self.model
        trees = np.zeros(model.num_trees, dtype=bool)
        trees[model.link_tree[loop_links(model)]] = True
        if self.tendons:
            trees[model.link_tree[model.dof_link[self.tendons.dampers[:, 2:]]]] = True
        return trees

    @cached_property
    def coupled_trees(self) -> np.ndarray:
        """Return a mask of the trees with Kahan's rule: those with loops, and those of several degrees of freedom, at
        least one of which turns, except single free bodies, whose own rule keeps their energy where no tendon, frame,
        spring or medium acts on them.
        """
        model = self.model
        starts = np.append(model.joint_qd_start, model.nv)[model.tree_link_start]
        links = np.diff(model.tree_link_start)
        kinds = np.asarray(model.joint_type)
        turns = np.array([np.isin(part, TURNING).any() for part in np.split(kinds, model.tree_link_start[1:-1])])
        alone = (links == 1) & (kinds[model.tree_link_start[:-1]] == FREE)
        alone[model.link_tree[[*acted_links(model), *model.sprung_links.tolist()]]] = False
        return np.asarray(self.looped_trees | ((np.diff(starts) > 1) & turns & ~alone))

    def _find_free_bases(self) -> None:
        super()._find_free_bases()
        coupled = self.coupled_trees[self.model.link_tree]
        free = self.turning[np.asarray(self.model.joint_type)[self.turning] == FREE]
        self.turning, self.lifted = free[~coupled[free]], self.floating[coupled[self.floating]]

    @cached_property
    def qd_drift(self) -> wp.array:
        """Velocity of the second half of a step in which contacts may bounce."""
        return wp.zeros_like(self.qd_next)

    @property
    def drift_velocity(self) -> wp.array:
        """The velocity along which positions move after the constraints."""
        return self.qd_drift if self.bouncing else self.qd_path

    @property
    def equality_options(self) -> Any:
        """Return options without recovery time: the errors of loops in the middles of steps are removed at once."""
        options = self.options
        options.recovery_time = self.device_model.none(self.scalar)
        return options

    def load(self) -> None:
        """Read the state and the control at the cursor, and move to the middle of the step."""
        super().load()
        threads = self.link_threads
        self.launch(
            integrate_kernels(self.scalar).integrate, (threads, self.num_worlds), threads=threads, dt=self.drift_time,
            q=self.first_q, q_low=self.first_q_low, qd=self.first_qd, q_next=self.q, q_low_next=self.kinematics.q_low,
        )  # fmt: skip
        self.launch(self._half_drift.begin_middle, self.num_worlds)

    def load_state(self, **state: Any) -> None:
        """Read the state before the step, and the inputs."""
        super().load_state(q=self.first_q, q_low=self.first_q_low, qd=self.first_qd, **state)

    def stop(self) -> None:
        """Change velocities as :class:`Step`, and compute that of the second half; recorded on an active tape."""
        super().stop()
        if self.bouncing:
            self.launch(self._half_drift.reflect_velocity, (self.model.nv, self.num_worlds), tape=True)

    def prepare_backward(self) -> None:
        """Allocate the arrays of the backward pass, and the gradients of the state before the step."""
        super().prepare_backward()
        self.first_q.requires_grad = self.first_qd.requires_grad = True

    def _differentiated(self) -> list[wp.array]:
        return [*super()._differentiated(), *([self.qd_drift] if self.bouncing else [])]

    def store_adjoint(self, **state: Any) -> None:
        """Propagate the adjoint of the middle to the state before the step, and write that and those of the inputs."""
        self.launch(self._half_drift.begin_middle_adjoint, self.num_worlds)
        threads, bars = self.link_threads, {"q_bar": self.first_q.grad, "qd_bar": self.first_qd.grad}
        self.launch(
            integrate_kernels(self.scalar).integrate_adjoint, (threads, self.num_worlds), threads=threads,
            dt=self.drift_time, q=self.first_q, qd=self.first_qd, q_next_bar=self.q.grad, **bars,
        )  # fmt: skip
        super().store_adjoint(**bars, **state)
