"""The working arrays of one time step of a block of worlds, and what its launches share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.model.model import Model
from sim.simulation.collision import CollisionModel
from sim.simulation.constraint_layout import RowLayout
from sim.simulation.options import ContactOptions
from warp_kernels.checkpoint import STEP, TABLE_SIZE
from warp_kernels.collision.near import WORD
from warp_kernels.solver.delassus import Couplings
from warp_kernels.solver.rows.limits import limit_functions
from warp_kernels.solver.rows.shared import row_functions

LIMITS = {
    "lower": "lower_limit",
    "upper": "upper_limit",
    "margin": "limit_margin",
    "stiffness": "limit_stiffness",
    "damping": "limit_damping",
}
ACTUATORS = ("actuator_gear", "actuator_kp", "actuator_kd", "actuator_force_limit")

# Room for the blocks that act on a block where there are several trees, itself included, on average over a world.
COUPLINGS_PER_BLOCK = 128


class Workspace:
    """Arrays that live for one step of a block of the worlds of a trajectory.

    Args:
        device_model: the model's arrays, with parameters of these worlds.
        collision: the collision arrays of the same model and device.
        layout: which rows there may be.
        options: contact options.
        dt: time step [s].
        place: number of worlds in the trajectory's arrays, and the place of this block's first world there.
        max_contacts: room for contacts per world.
    """

    def __init__(
        self,
        device_model: DeviceModel,
        collision: CollisionModel,
        layout: RowLayout,
        options: ContactOptions,
        dt: float,
        place: tuple[int, int],
        max_contacts: int,
    ):
        self.model: Model = device_model.model
        self.device_model = device_model
        self.collision = collision
        self.options = options
        self.device = device_model.device
        self.num_worlds = device_model.num_worlds
        self.place = place
        self.scalar = self.model.scalar
        self.dt = self.scalar(dt)
        self.max_contacts = max_contacts
        self.layout = layout
        self.max_blocks = layout.max_blocks(max_contacts)
        # Threads that share a world's blocks and degrees of freedom: a CPU runs them one after the other anyway.
        self.block_threads = 1 if self.device.is_cpu else min(self.max_blocks, 16)
        self.dof_threads = 1 if self.device.is_cpu else self.model.nv
        self.kernel_options = _kernel_options(self.scalar, options, dt)
        self.limited_dof = self._integers(layout.limited)
        self.cone_link, self.cone_twists = (self._integers(column) for column in layout.cones.T)
        self.cone_dof = self._integers(self.model.joint_qd_start[layout.cones[:, 0]])
        self.lossy_dof = self._integers(layout.lossy)
        equalities = self.model.equalities
        self.coupling_dof = self._integers(equalities.coupling_dof)
        self.coupling_other = self._integers(equalities.coupling_other)
        self.anchor_link_a = self._integers(equalities.anchor_link_a)
        self.anchor_link_b = self._integers(equalities.anchor_link_b)
        self.anchor_welded = self._integers(equalities.anchor_welded)
        self.dof_tree = self._integers(self.model.link_tree[self.model.dof_link])
        tree_dof_start = np.append(self.model.joint_qd_start, self.model.nv)[self.model.tree_link_start]
        self.tree_dof_start = self._integers(tree_dof_start)
        self.max_tree_dofs = int(np.diff(tree_dof_start).max())
        # Of few pairs each is looked at without a first test.
        self.many_pairs = collision.num_pairs > WORD
        # A block touches one tree or two, and where there is one, all of them.
        trees = self.model.num_trees
        self.max_incidences = min(trees, 2) * self.max_blocks
        self.max_couplings = self.max_blocks**2
        if trees > 1:
            self.max_couplings = min(self.max_couplings, COUPLINGS_PER_BLOCK * self.max_blocks)
        self._allocate()

    def _allocate(self) -> None:
        t = self.device_model.types
        m, n, scalar = self.model, self.num_worlds, self.scalar
        blocks, nv = self.max_blocks, m.nv

        def worlds_last(count: int, dtype: Any) -> wp.array:
            return wp.zeros((count, n), dtype=dtype, device=self.device)

        def per_world(dtype: Any) -> wp.array:
            return wp.zeros(n, dtype=dtype, device=self.device)

        self.table = wp.zeros(TABLE_SIZE, dtype=wp.uint64, device=self.device)
        self.cursor = wp.zeros(3, dtype=wp.int32, device=self.device)
        self.cursor_step = self.cursor[STEP : STEP + 1]
        self.largest_residual, self.adjoint_residual = (per_world(scalar) for _ in range(2))
        self.total_overflow = per_world(wp.int32)
        self.last_bad_step = per_world(wp.int32)
        self.q, self.q_next = (wp.zeros((n, m.nq), dtype=scalar, device=self.device) for _ in range(2))
        self.qd, self.qd_next, self.tau, self.qdd = (
            wp.zeros((n, nv), dtype=scalar, device=self.device) for _ in range(4)
        )
        self.control: wp.array = wp.zeros((n, m.nu), dtype=scalar, device=self.device)
        # Without actuators the joint forces are tau itself, and nothing else stands on the mass matrix's diagonal.
        self.joint_force = wp.zeros_like(self.tau) if m.nu else self.tau
        self.implicit = worlds_last(nv, scalar) if m.nu else self.device_model.none(scalar)
        self.actuator_row = worlds_last(m.nu, t.vec3)
        self.q.assign(np.tile(m.q0, (n, 1)))
        self.pose = worlds_last(m.num_links, t.transform)
        self.origin = worlds_last(m.num_trees, t.vec3)
        self.subspace = worlds_last(nv, t.spatial)
        self.link_inertia = worlds_last(m.num_links, t.inertia)
        # With one lane the adjoint needs no buffer.
        no_buffer = wp.empty(0, dtype=t.scalar, device=self.device)
        self.kinematics_scratch = [*(worlds_last(m.num_links, t.vec3) for _ in range(2)), no_buffer]
        self.velocity, self.acceleration, self.bias_force = (worlds_last(m.num_links, t.spatial) for _ in range(3))
        self.articulated = worlds_last(m.num_links, t.articulated)
        self.factor_u = worlds_last(nv, t.spatial)
        self.factor_d = worlds_last(nv, scalar)
        self.innovation = worlds_last(nv, scalar)
        self.factor_l = worlds_last(int(m.dof_depth.sum()), scalar)
        self.near = self.collision.all_near(n)
        self.geometry_centre, self.geometry_ball = (
            worlds_last(m.num_geometries if self.many_pairs else 0, t.vec3) for _ in range(2)
        )
        self.slot_pair, self.slot_feature = (worlds_last(self.max_contacts, wp.int32) for _ in range(2))
        convex_slots = self.max_contacts if self.collision.has_convex_pairs else 0
        self.slot_identity = worlds_last(convex_slots, wp.int32)
        self.slot_details = [worlds_last(convex_slots, dtype) for dtype in (wp.vec3i, wp.vec3i, t.vec3)]
        self.contact_count, self.contact_overflow, self.block_count, self.block_overflow = (
            per_world(wp.int32) for _ in range(4)
        )
        self.contact_point = worlds_last(self.max_contacts, t.vec3)
        self.contact_frame = worlds_last(self.max_contacts, t.mat33)
        self.contact_distance, self.contact_friction, self.contact_restitution = (
            worlds_last(self.max_contacts, scalar) for _ in range(3)
        )
        self.contact_spring = worlds_last(self.max_contacts if self.layout.compliant else 0, t.vec2)
        self.contact_resistance = worlds_last(self.max_contacts if self.layout.resisting else 0, t.vec2)
        counts = m.counts
        self.coupling_bias = worlds_last(counts["coupling"], scalar)
        self.anchor_point, self.anchor_bias, self.anchor_turn = (
            worlds_last(counts["anchor"], t.vec3) for _ in range(3)
        )
        self.cone_gap = worlds_last(len(self.layout.cones), scalar)
        self.cone_row = worlds_last(len(self.layout.cones), t.vec3)
        self.block_kind, self.block_item, self.block_reference = (worlds_last(blocks, wp.int32) for _ in range(3))
        self.block_tail = worlds_last(2 * blocks, wp.int32)
        self.row = worlds_last(2 * blocks * m.max_depth, t.vec3)
        self.rhs, self.scale, self.impulse = (worlds_last(blocks, t.vec3) for _ in range(3))
        self.bound, self.softness, self.approach = (worlds_last(blocks, scalar) for _ in range(3))
        self.matrix = worlds_last(self.max_couplings, t.mat33)
        self.couplings = self._couplings()
        self.impulse_history, self.value_history = (worlds_last(0, t.vec3) for _ in range(2))
        # What a warm start keeps; empty without one.
        warm = blocks if self.options.warm_start else 0
        self.start, self.previous_impulse = (worlds_last(warm, t.vec3) for _ in range(2))
        self.block_key, self.previous_key = (worlds_last(warm, wp.vec2i) for _ in range(2))
        self.start_source = worlds_last(warm, wp.int32)
        self.residual = per_world(scalar)
        self.sweep_count = per_world(wp.int32)
        self.response = worlds_last(nv, scalar)

    @property
    def _trees(self) -> tuple[int, int]:
        return (self.model.num_trees, self.num_worlds)

    @property
    def _blocks(self) -> tuple[int, int]:
        return (self.block_threads, self.num_worlds)

    @property
    def warm(self) -> bool:
        """Whether a step begins with the impulses of the one before."""
        return self.options.warm_start and self.max_blocks > 0

    @property
    def _warm_blocks(self) -> tuple[int, int]:
        return (self.max_blocks, self.num_worlds)

    @property
    def _paths(self) -> list[wp.array]:
        d = self.device_model
        return [d.dof_depth, d.dof_row_start, d.ancestor]

    @property
    def _actuator_arrays(self) -> list[Any]:
        d = self.device_model
        return [d.actuator_kind, d.actuator_dof, d.dof_q, self.dt, *(d.parameters[name] for name in ACTUATORS)]

    @property
    def _contact_arrays(self) -> list[wp.array]:
        return [
            self.contact_point, self.contact_frame, self.contact_distance, self.contact_friction,
            self.contact_restitution, self.contact_spring,
        ]  # fmt: skip

    @property
    def _equality_arrays(self) -> list[wp.array]:
        return [self.coupling_bias, self.anchor_point, self.anchor_bias, self.anchor_turn]

    @property
    def _cone_arrays(self) -> list[wp.array]:
        return [self.cone_gap, self.cone_row]

    def _limits(self, arrays: Mapping[str, wp.array]) -> Any:
        """The parameters of joint limits, or their adjoints, as one argument of a kernel."""
        struct = limit_functions(self.scalar).Limits()
        for field, name in LIMITS.items():
            setattr(struct, field, arrays[name])
        return struct

    def _couplings(self) -> Any:
        c = Couplings()

        def integers(count: int, dtype: Any = wp.int32) -> wp.array:
            return wp.zeros((count, self.num_worlds), dtype=dtype, device=self.device)

        blocks, trees = self.max_blocks, self.model.num_trees
        c.tree_start = integers(trees + 1)
        c.incidence_block = integers(self.max_incidences)
        c.block_incidence = integers(2 * blocks)
        c.row = integers(blocks, wp.vec4i)
        c.run = integers(blocks if trees == 1 else self.max_couplings, wp.vec2i)
        c.mirror = integers(self.max_couplings)
        c.cursor = integers(blocks)
        return c

    def _integers(self, values: np.ndarray) -> wp.array:
        return wp.array(np.asarray(values, dtype=np.int32), dtype=wp.int32, device=self.device)

    def _launch(self, kernel: wp.Kernel, dim: Any, inputs: list, outputs: list, tape: bool = False) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self.device, record_tape=tape)


def _kernel_options(scalar: Any, options: ContactOptions, dt: float) -> Any:
    struct = row_functions(scalar).Options()
    struct.dt = scalar(dt)
    struct.erp = scalar(options.erp)
    struct.cfm = scalar(options.cfm)
    struct.max_correction = scalar(options.max_correction)
    struct.restitution_threshold = scalar(options.restitution_threshold)
    struct.limit_margin = scalar(options.margin)
    return struct
