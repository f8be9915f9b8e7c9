"""Contact stage of a step: broad phase, contact generation, and evaluation of the contacts."""

import functools
from typing import Any

import warp as wp

from sim.arrays.allocation import fill, gradients_of
from sim.arrays.launch import active_tape
from sim.model.parameters import OF_PAIRS
from sim.simulation.options import hard_options
from sim.simulation.stepping.workspace import Stage, Workspace
from warp_kernels.collision.broad_phase import BYTES, WORD, broad_phase_kernels
from warp_kernels.collision.broad_phase_groups import broad_phase_group_kernels
from warp_kernels.collision.convex.identity import identity_kernels
from warp_kernels.collision.detect import OF_TEAMS, TEAM, detect_kernels
from warp_kernels.collision.detect_boxes import detect_box_kernels
from warp_kernels.collision.directions import direction_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.grid.cells import cell_kernels
from warp_kernels.collision.grid.search import grid_kernels
from warp_kernels.collision.materials import material_kernels
from warp_kernels.collision.pairs import BOXES, CONVEX_SHAPES, FAMILIES, ON_PLANE
from warp_kernels.collision.plane.adjoint import on_plane_adjoint_kernels
from warp_kernels.collision.plane.contact import ARRIVAL
from warp_kernels.collision.stated import stated_kernels
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.motions import slot_motion_kernels
from warp_kernels.contact_adjoints import contact_adjoint_kernels
from warp_kernels.team import lanes_of_team

# Number of pairs up to which lane groups skip the broad phase.
MANY_FOR_LANES = 8


class ContactStage(Stage):
    """Stage that generates the contacts of a step, and evaluates them.

    Args:
        step: workspace of the step.

    Attributes:
        candidate_bits: candidate pairs, as bits [word, world].
        many_pairs: whether there is a broad phase.
        geometry_centre, geometry_ball, geometry_axis: bounds of geometries [geometry, world]; no rows if lane groups
            have them.
        slot_pair, slot_feature, slot_gap: pair, feature id and distance of each contact when generated [slot, world].
        slot_codes_a, slot_codes_b, slot_witness, slot_identity: of convex pairs [slot, world]; no rows without.
        slots: their struct, without the motions below.
        slot_time, slot_lead, slot_motion_a, slot_motion_b: time of impact within the step and motion of turning pairs
            [slot, world]; no rows without. MuJoCo's law has only contacts at the beginning of a step.
        contact_count, contact_overflow: number of contacts, and of dropped ones [world].
        contact_point, contact_frame ...: see ``Contacts`` in :mod:`warp_kernels.solver.structs` [slot, world].
        contacts, contacts_bar: their struct, and that of their gradients.
    """

    def __init__(self, step: Workspace):
        super().__init__(step)
        collision, worlds, t = step.collision, step.worlds_last, step.device_model.types
        self.candidate_bits = (
            collision.candidates.bits if collision.by_grid else collision.all_candidates(step.num_worlds)
        )
        # For few pairs the broad phase costs more than the narrow phase, in lane groups above all.
        self.many_pairs = collision.num_pairs > (WORD if step.groups.lanes == 1 else MANY_FOR_LANES)
        self._allocate_bounds()
        self._scratch = wp.zeros((step.num_worlds, 0), dtype=step.scalar, device=step.device)
        room = step.max_contacts
        self.slot_pair, self.slot_feature = (worlds(room, wp.int32) for _ in range(2))
        convex = room if collision.has_pairs(CONVEX_SHAPES) else 0
        self.slot_identity = worlds(convex, wp.int32)
        self.slot_codes_a, self.slot_codes_b = (worlds(convex, wp.vec3i) for _ in range(2))
        self.slot_witness = worlds(convex, t.vec3)
        turning = room if collision.has_turning_pairs and not step.by_mujoco else 0
        self.slot_time, self.slot_lead = worlds(turning), worlds(turning, wp.int32)
        self.slot_motion_a, self.slot_motion_b = (worlds(turning, t.spatial) for _ in range(2))
        self.contact_count, self.contact_overflow = (
            wp.zeros(step.num_worlds, dtype=wp.int32, device=step.device) for _ in range(2)
        )
        self.slot_gap = worlds(room)
        slots = collision_structs(step.scalar).Slots
        self.slots: Any = fill(slots, **{field: getattr(self, f"slot_{field}") for field in slots.vars})
        self.contact_point = worlds(room, t.vec3)
        self.contact_apart = worlds(turning, t.vec3)
        # With directions of friction, torsional and rolling friction have frames of their own.
        self.contact_frame = worlds(room if collision.directions is None else 2 * room, t.mat33)
        self.contact_distance, self.contact_friction, self.contact_restitution = (worlds(room) for _ in range(3))
        self.contact_spring = worlds(room if step.layout.compliant else 0, t.vec2)
        self.contact_resistance = worlds(room if step.layout.resisting else 0, t.vec2)
        self.contacts: Any = self._gathered()
        self.contacts_bar: Any = None

    def _allocate_bounds(self) -> None:
        step, groups, t = self._step, self._step.groups, self._step.device_model.types
        singly = step.collision.by_grid or groups.lanes == 1
        bounded = step.model.num_geometries if self.many_pairs or step.collision.by_grid else 0
        own, of_groups = (bounded, 0) if singly else (0, bounded)
        self.geometry_centre, self.geometry_ball, self.geometry_axis = (step.worlds_last(own, t.vec3) for _ in range(3))
        bounds = ("geometry_centre", "geometry_ball", "geometry_axis")
        self._bounds_of_groups = {name: groups.of_groups(of_groups, groups.types.vec3) for name in bounds}

    def of_contacts(self) -> list[wp.array]:
        """Return the arrays of contacts whose gradients kernels add to."""
        contacts = [getattr(self, f"contact_{field}") for field in self._step.structs.Contacts.vars]
        return [*contacts, self.contact_resistance, self.slot_motion_a, self.slot_motion_b]

    def clear_adjoints(self) -> None:
        """Clear the adjoints of the present contacts."""
        step = self._step
        if step.max_contacts:
            step.launch(contact_adjoint_kernels(step.scalar, step.looping).clear_contacts, step.slot_threads)

    def gather(self) -> None:
        """Gather the structs anew, because the arrays now have gradients."""
        self.contacts = self._gathered()
        self.contacts_bar = gradients_of(self.contacts)

    def _gathered(self) -> Any:
        struct = self._step.structs.Contacts
        return fill(struct, **{field: getattr(self, f"contact_{field}") for field in struct.vars})

    def find(self) -> None:
        """Generate the contacts and evaluate them; evaluation is recorded on an active tape."""
        step = self._step
        if not step.max_contacts:
            return
        if step.collision.by_grid:
            self._search_grid()
        elif self.many_pairs:
            self._find_candidates()
        self._detect()
        if self.slot_time.shape[0]:
            step.launch(slot_motion_kernels(step.scalar, step.looping).slot_motions, step.slot_threads, tape=True)
        self._evaluate()
        if step.model.pair_frictions:
            step.launch(stated_kernels(step.scalar, step.looping).state_friction, step.slot_threads, tape=True)
        if step.collision.directions is not None:
            self._direct_friction()
        self._combine_materials()

    def identity(self) -> wp.array:
        """Return ids by which the next step recognises each contact, int32 [max_contacts, num_worlds]."""
        step = self._step
        if not step.collision.has_pairs(CONVEX_SHAPES):
            return self.slot_feature
        kernel = identity_kernels(step.scalar, step.looping).contact_identity
        step.launch(kernel, step.slot_threads, pairs=step.collision.pairs[CONVEX_SHAPES])
        return self.slot_identity

    def _find_candidates(self) -> None:
        step = self._step
        groups = step.groups
        if groups.lanes == 1:
            self._bound_geometries()
            bits, threads = self.candidate_bits, step.word_threads
            shape, strides = (*bits.shape, BYTES), (*bits.strides, 1)
            as_bytes: wp.array = wp.array(
                ptr=bits.ptr, dtype=wp.uint8, shape=shape, strides=strides, device=bits.device, copy=False
            )
            dim = (threads * bits.shape[0], bits.shape[1])
            kernel = broad_phase_kernels(step.scalar).find_candidates
            step.launch(kernel, dim, bytes=BYTES // threads, candidate_bytes=as_bytes)
            return
        kernels, margin = broad_phase_group_kernels(step.scalar, groups.lanes), self._margin()
        bounded = (step.collision.colliding.shape[0], groups.num_groups)
        step.launch(kernels.bound_geometries, bounded, self._bounds_of_groups, **margin)
        step.launch(kernels.find_candidates, (self.candidate_bits.shape[0], groups.num_groups), self._bounds_of_groups)

    def _search_grid(self) -> None:
        """Find the candidate pairs of a crowd, see :class:`sim.simulation.stepping.body_grid.GridCollision`."""
        step = self._step
        self._bound_geometries()
        cells, members = cell_kernels(step.scalar), (step.collision.colliding.shape[0], step.num_worlds)
        step.launch(cells.clear_cells, step.collision.cells.head.shape)
        step.launch(cells.fill_cells, members)
        step.launch(grid_kernels(step.scalar).search_grid, members)

    def _bound_geometries(self) -> None:
        step = self._step
        dim = (step.collision.colliding.shape[0], step.num_worlds)
        step.launch(broad_phase_kernels(step.scalar).bound_geometries, dim, **self._margin())

    def _margin(self) -> dict[str, Any]:
        """Return the distance within which contacts are generated, and the time within which pairs may come so close.

        Under MuJoCo's law contacts are exactly those within the margin, however fast other pairs approach.
        """
        step = self._step
        if step.law is None:
            margin, dt = hard_options(step.contact_options).margin, step.dt
        else:
            margin, dt = step.law.largest_margin, 0.0
        return {"margin": step.scalar(margin), "dt": step.scalar(dt)}

    def _detect(self) -> None:
        step = self._step
        margin = self._margin()
        for name, pairs in step.collision.searched.items():
            if name == BOXES:
                kernel = detect_box_kernels(step.scalar).detect_boxes
                step.launch(kernel, step.num_worlds, pairs=pairs, margin=margin["margin"])
            # The first family sets the number of contacts; the others add to it.
            elif name == FAMILIES[0] or pairs.first < pairs.end:
                self._generate(step.collision.kernels_of(name), pairs=pairs, **margin)

    def _generate(self, kernels: str, **named: Any) -> None:
        """Launch the narrow phase of some pairs, by teams if several threads share a world."""
        step = self._step
        if step.threads_per_world > 1 and kernels in OF_TEAMS:
            threads = step.num_worlds * lanes_of_team(step.device, TEAM)
            step.launch(detect_kernels(step.scalar, kernels, TEAM).detect, threads, scratch=self._scratch, **named)
        else:
            step.launch(detect_kernels(step.scalar, kernels).detect, step.num_worlds, **named)

    def _evaluate(self) -> None:
        step = self._step
        mujoco_pyramids = int(step.by_mujoco and step.contact_options.friction == "pyramid")
        arrival = step.scalar(0.0 if step.by_mujoco else ARRIVAL * hard_options(step.contact_options).margin)
        for name, pairs in step.collision.evaluated.items():
            if pairs.first < pairs.end:
                kernel = evaluate_kernels(step.scalar, step.collision.kernels_of(name), step.looping).evaluate
                named = {
                    "pairs": pairs,
                    "mujoco_pyramids": mujoco_pyramids,
                    "lever_arrival": arrival,
                    "pair_friction": step.collision.no_friction,
                }
                step.launch(kernel, step.slot_threads, tape=name != ON_PLANE, **named)
                tape = active_tape()
                if tape is not None and name == ON_PLANE:
                    back = on_plane_adjoint_kernels(step.scalar, step.looping).evaluate_on_plane_adjoint
                    poses = step.kinematics
                    launch_back = functools.partial(step.launch, back, step.slot_threads, **named)
                    tape.record_func(launch_back, [poses.pose.worlds, poses.origin.worlds, self.contact_point])

    def _direct_friction(self) -> None:
        """Replace frame and friction of contacts whose friction differs along two tangents."""
        step = self._step
        kernels = direction_kernels(step.scalar, step.looping)
        without = {} if step.model.pair_frictions else dict.fromkeys(OF_PAIRS, step.worlds_last(0))
        launch = functools.partial(step.launch, directions=step.collision.directions, by_mujoco=int(step.by_mujoco))
        launch(kernels.direct_friction, step.slot_threads, without)
        tape = active_tape()
        if tape is not None:
            back = functools.partial(launch, kernels.direct_friction_adjoint, step.slot_threads, without)
            tape.record_func(back, [step.kinematics.pose.worlds, self.contact_frame, self.contact_friction])

    def _combine_materials(self) -> None:
        step = self._step
        kernels = material_kernels(step.scalar, step.looping)
        if step.layout.compliant:
            step.launch(kernels.pair_spring, step.slot_threads, tape=True)
        if step.layout.resisting:
            step.launch(kernels.pair_resistance, step.slot_threads, tape=True)
            if step.model.pair_frictions:
                kernel = stated_kernels(step.scalar, step.looping).state_resistance
                step.launch(kernel, step.slot_threads, tape=True, by_mujoco=int(step.by_mujoco))
