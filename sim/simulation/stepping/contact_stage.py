"""The contact stage of a step: which pairs are near, which contacts they have, and where these are."""

import functools
from typing import Any

import warp as wp

from sim.arrays.launch import active_tape, launch
from sim.simulation.stepping.workspace import Workspace
from warp_kernels.collision.convex.identity import identity_kernels
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.grid.cells import cell_kernels
from warp_kernels.collision.grid.near import grid_kernels
from warp_kernels.collision.materials import material_kernels
from warp_kernels.collision.near import near_kernels
from warp_kernels.collision.near_groups import near_group_kernels
from warp_kernels.collision.pairs import CONVEX_SHAPES, FAMILIES, ON_PLANE
from warp_kernels.collision.plane.adjoint import on_plane_adjoint_kernels
from warp_kernels.collision.plane.lever import ARRIVAL
from warp_kernels.collision.touch.motions import slot_motion_kernels


def run_contacts(step: Workspace) -> None:
    """Fill the slots of the contacts and evaluate them; evaluation is recorded on an active tape."""
    if not step.max_contacts:
        return
    if step.collision.by_grid:
        _find_near_bodies(step)
    elif step.many_pairs:
        _find_near_pairs(step)
    _detect(step)
    if step.slot_time.shape[0]:
        _launch(step, slot_motion_kernels(step.scalar, step.looping).slot_motions, step.slots)
    _evaluate(step)
    _combine_materials(step)


def contact_identity(step: Workspace) -> wp.array:
    """What each contact is known by from one step to the next, int32 [max_contacts, num_worlds]."""
    if not step.collision.has_pairs(CONVEX_SHAPES):
        return step.slot_feature
    kernel = identity_kernels(step.scalar, step.looping).contact_identity
    _launch(step, kernel, step.slots, record_tape=False, pairs=step.collision.pairs[CONVEX_SHAPES])
    return step.slot_identity


def _find_near_pairs(step: Workspace) -> None:
    groups = step.groups
    if groups.lanes == 1:
        _bound_geometries(step)
        _launch(step, near_kernels(step.scalar).near_pairs, step.near.shape, record_tape=False)
        return
    kernels, margin = near_group_kernels(step.scalar, groups.lanes), _margin(step)
    sources = (groups, step, step.device_model, step.parameters, step.collision)
    bounded = (step.collision.colliding.shape[0], groups.num_groups)
    launch(kernels.bound_geometries, bounded, *sources, device=step.device, record_tape=False, **margin)
    words = (step.near.shape[0], groups.num_groups)
    launch(kernels.near_pairs, words, *sources, device=step.device, record_tape=False)


def _find_near_bodies(step: Workspace) -> None:
    """Find the pairs of a crowd, see :class:`sim.simulation.stepping.body_grid.GridCollision`."""
    _bound_geometries(step)
    cells, members = cell_kernels(step.scalar), (step.collision.colliding.shape[0], step.num_worlds)
    _launch(step, cells.clear_cells, step.collision.cells.head.shape, record_tape=False)
    _launch(step, cells.fill_cells, members, record_tape=False)
    _launch(step, grid_kernels(step.scalar).near_bodies, members, record_tape=False)


def _bound_geometries(step: Workspace) -> None:
    dim = (step.collision.colliding.shape[0], step.num_worlds)
    _launch(step, near_kernels(step.scalar).bound_geometries, dim, record_tape=False, **_margin(step))


def _margin(step: Workspace) -> dict[str, Any]:
    """The distance within which contacts are looked for, and the time in which pairs may come as near.

    Under MuJoCo's law what is within its margin is in contact, and nothing else however fast it approaches.
    """
    margin, dt = (step.contact_options.margin, step.dt) if step.law is None else (step.law.largest_margin, 0.0)
    return {"margin": step.scalar(margin), "dt": step.scalar(dt)}


def _detect(step: Workspace) -> None:
    reach = _margin(step)
    for family in FAMILIES:
        # The first family sets the number of contacts, the others add to it.
        if family == FAMILIES[0] or step.collision.has_pairs(family):
            kernel = detect_kernels(step.scalar, step.collision.kernels_of(family)).detect
            pairs = step.collision.pairs[family]
            _launch(step, kernel, step.num_worlds, record_tape=False, pairs=pairs, **reach)


def _evaluate(step: Workspace) -> None:
    mujoco_pyramids = int(step.by_mujoco and step.contact_options.friction == "pyramid")
    arrival = step.scalar(0.0 if step.by_mujoco else ARRIVAL * step.contact_options.margin)
    for family in FAMILIES:
        if step.collision.has_pairs(family):
            kernel = evaluate_kernels(step.scalar, step.collision.kernels_of(family), step.looping).evaluate
            named = {
                "pairs": step.collision.pairs[family],
                "mujoco_pyramids": mujoco_pyramids,
                "lever_arrival": arrival,
            }
            _launch(step, kernel, step.slots, record_tape=family != ON_PLANE, **named)
            tape = active_tape()
            if tape is not None and family == ON_PLANE:
                back = on_plane_adjoint_kernels(step.scalar, step.looping).evaluate_on_plane_adjoint
                launch_back = functools.partial(_launch, step, back, step.slots, record_tape=False, **named)
                tape.record_func(launch_back, [step.pose, step.origin, step.contact_point])


def _combine_materials(step: Workspace) -> None:
    kernels = material_kernels(step.scalar, step.looping)
    if step.layout.compliant:
        _launch(step, kernels.pair_spring, step.slots)
    if step.layout.resisting:
        _launch(step, kernels.pair_resistance, step.slots)


def _launch(
    step: Workspace, kernel: wp.Kernel, dim: int | tuple[int, ...], record_tape: bool = True, **named: Any
) -> None:
    sources = (step, step.device_model, step.parameters, step.collision)
    launch(kernel, dim, *sources, device=step.device, record_tape=record_tape, **named)
