"""The contact stage of a step: which pairs are near, which contacts they have, and where these are."""

import warp as wp

from sim.arrays.launch import launch
from sim.simulation.workspace import Workspace
from warp_kernels.collision.convex.detect import detect_convex_kernels
from warp_kernels.collision.convex.evaluate import evaluate_convex_kernels
from warp_kernels.collision.convex.identity import identity_kernels
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.field.detect import detect_field_kernels
from warp_kernels.collision.field.detect_hull import detect_field_hull_kernels
from warp_kernels.collision.field.evaluate import evaluate_field_kernels
from warp_kernels.collision.field.evaluate_hull import evaluate_field_hull_kernels
from warp_kernels.collision.materials import material_kernels
from warp_kernels.collision.near import near_kernels


def run_contacts(step: Workspace) -> None:
    """Fill the slots of the contacts and evaluate them; evaluation is recorded on an active tape."""
    if not step.max_contacts:
        return
    if step.many_pairs:
        _near_pairs(step)
    _find_contacts(step)
    _evaluate_contacts(step)
    _contact_materials(step)


def contact_identity(step: Workspace) -> wp.array:
    """What each contact is known by from one step to the next, int32 [max_contacts, num_worlds]."""
    c = step.collision
    if not c.has_convex_pairs:
        return step.slot_feature
    inputs = [
        *c.convex_identity, step.device_model.parameters["geometry_placement"], step.pose, step.origin,
        step.slot_pair, step.slot_feature, step.contact_point, step.contact_count,
    ]  # fmt: skip
    kernel = identity_kernels(step.scalar).contact_identity
    _launch(step, kernel, (step.max_contacts, step.num_worlds), inputs, [step.slot_identity])
    return step.slot_identity


def _find_contacts(step: Workspace) -> None:
    p, c = step.device_model.parameters, step.collision
    placed = [p["geometry_placement"], p["geometry_size"]]
    motion = [step.pose, step.origin, step.velocity]
    reach = [step.scalar(step.contact_options.margin), step.dt]
    outputs = [step.slot_pair, step.slot_feature, step.contact_count, step.contact_overflow]
    inputs = [*c.arrays, *placed, *motion, step.near, *reach]
    _launch(step, detect_kernels(step.scalar).detect, step.num_worlds, inputs, outputs)
    if c.has_convex_pairs:
        kernel = detect_convex_kernels(step.scalar).detect_convex
        inputs = [*c.convex_detection, *placed, *motion, step.near, *reach]
        _launch(step, kernel, step.num_worlds, inputs, [*outputs[:2], *step.slot_details, *outputs[2:]])
    over_field = [*placed, p["height"], *motion, *reach]
    if c.has_round_field_pairs:
        kernel = detect_field_kernels(step.scalar).detect_field
        _launch(step, kernel, step.num_worlds, [*c.field_detection, *over_field], outputs)
    if c.has_hull_field_pairs:
        kernel = detect_field_hull_kernels(step.scalar).detect_field_hull
        _launch(step, kernel, step.num_worlds, [*c.field_hull_detection, *over_field], outputs)


def _evaluate_contacts(step: Workspace) -> None:
    p, c = step.device_model.parameters, step.collision
    placed, material = [p["geometry_placement"], p["geometry_size"]], [p["friction"], p["restitution"]]
    state = [step.pose, step.origin, step.slot_pair, step.slot_feature, step.contact_count]
    outputs = [
        step.contact_point, step.contact_frame, step.contact_distance, step.contact_friction, step.contact_restitution,
    ]  # fmt: skip
    dim = (step.max_contacts, step.num_worlds)
    inputs = [*c.arrays, *placed, *material, *state]
    _launch(step, evaluate_kernels(step.scalar).evaluate, dim, inputs, outputs, tape=True)
    if c.has_convex_pairs:
        kernel = evaluate_convex_kernels(step.scalar).evaluate_convex
        inputs = [*c.convex_evaluation, *placed, *material, *state[:-1], *step.slot_details, state[-1]]
        _launch(step, kernel, dim, inputs, outputs, tape=True)
    over_field = [*placed, p["height"], *material, *state]
    if c.has_round_field_pairs:
        kernel = evaluate_field_kernels(step.scalar).evaluate_field
        _launch(step, kernel, dim, [*c.field_evaluation, *over_field], outputs, tape=True)
    if c.has_hull_field_pairs:
        kernel = evaluate_field_hull_kernels(step.scalar).evaluate_field_hull
        _launch(step, kernel, dim, [*c.field_hull_evaluation, *over_field], outputs, tape=True)


def _contact_materials(step: Workspace) -> None:
    kernels, dim = material_kernels(step.scalar), (step.max_contacts, step.num_worlds)
    sources = (step, step.collision, step.device_model.parameters)
    if step.layout.compliant:
        launch(kernels.pair_spring, dim, *sources, device=step.device)
    if step.layout.resisting:
        launch(kernels.pair_resistance, dim, *sources, device=step.device)


def _near_pairs(step: Workspace) -> None:
    p, c = step.device_model.parameters, step.collision
    kernels = near_kernels(step.scalar)
    inputs = [
        c.colliding, c.geometry_link, c.geometry_type, c.link_tree, c.hull_radius, p["geometry_placement"],
        p["geometry_size"], step.pose, step.origin, step.velocity, step.scalar(step.contact_options.margin), step.dt,
    ]  # fmt: skip
    outputs = [step.geometry_centre, step.geometry_ball]
    _launch(step, kernels.bound_geometries, (c.colliding.shape[0], step.num_worlds), inputs, outputs)
    inputs = [
        c.pair_a, c.pair_b, c.geometry_link, c.geometry_type, p["geometry_placement"], step.pose, *outputs
    ]  # fmt: skip
    _launch(step, kernels.near_pairs, step.near.shape, inputs, [step.near])


def _launch(
    step: Workspace, kernel: wp.Kernel, dim: int | tuple[int, ...], inputs: list, outputs: list, tape: bool = False
) -> None:
    wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=step.device, record_tape=tape)
