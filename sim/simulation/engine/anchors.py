"""Point and weld constraints of a step, read on the host: the distances of their anchors, and their forces."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim.simulation.stepping.pipeline import Step
from warp_kernels.constraints.kinds import ORIENTATION, POINT


def anchor_distances(step: Step) -> np.ndarray:
    """Return the distances of the two anchors at the beginning of the last step [worlds, anchors], m.

    They are zero for constraints that are switched off.
    """
    model, parameters = step.model, step.device_model.parameters
    if not model.equalities.anchor_names:
        return np.zeros((step.num_worlds, 0))
    pose, origin = (
        array.numpy().astype(float) for array in (step.kinematics.pose.worlds, step.kinematics.origin.worlds)
    )
    positions = []
    for links, name in ((model.equalities.anchor_link_a, "anchor_a"), (model.equalities.anchor_link_b, "anchor_b")):
        points = parameters[name].numpy().astype(float)[..., :3]  # shared, or per world
        position = np.repeat(points, step.num_worlds // len(points), axis=0)
        for row, link in enumerate(links):
            if link >= 0:
                turned = Rotation.from_quat(pose[link, :, 3:]).apply(position[:, row])
                position[:, row] = origin[model.link_tree[link]] + pose[link, :, :3] + turned
        positions.append(position)
    distances: np.ndarray = np.linalg.norm(positions[1] - positions[0], axis=-1)
    if model.switches:
        distances[step.constraint_stage.switch_on.numpy()[: distances.shape[1]].T == 0] = 0.0
    return distances


def anchor_forces(step: Step) -> np.ndarray:
    """Return the forces and torques on the second links in the last step [worlds, anchors, 6], see
    :attr:`sim.Simulator.constraint_force`.
    """
    anchors = len(step.model.equalities.anchor_names)
    found = np.zeros((step.num_worlds, anchors, 2, 3))
    if anchors:
        listed, solved = step.constraint_stage.constraints, step.constraint_stage.impulse.numpy()
        kind, item, frame = (array.numpy() for array in (listed.kind, listed.item, step.errors.anchor_frame))
        of_anchors = ((kind == POINT) | (kind == ORIENTATION)) & (np.arange(len(kind))[:, None] < listed.count.numpy())
        constraint, world = np.nonzero(of_anchors)
        anchor, part = item[constraint, world], kind[constraint, world] - POINT
        frames = frame[2 * anchor + part, world].astype(np.float64)
        found[world, anchor, part] = np.einsum("nij,ni->nj", frames, solved[constraint, world]) / float(step.dt)
    return found.reshape(step.num_worlds, anchors, 6)
