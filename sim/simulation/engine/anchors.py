"""Constraints of a step, read on the host: distances of anchors, and forces of points, welds, couplings and tendons."""

import numpy as np

from sim.model.conventions import rotate
from sim.simulation.stepping.pipeline import Step
from warp_kernels.constraints.kinds import COUPLING, KINDS, Family, numbers_of
from warp_kernels.solver.tendons.rows import TIED, UPPER


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
                turned = rotate(pose[link, :, 3:], position[:, row])
                position[:, row] = origin[model.link_tree[link]] + pose[link, :, :3] + turned
        positions.append(position)
    distances: np.ndarray = np.linalg.norm(positions[1] - positions[0], axis=-1)
    if model.switches:
        distances[step.constraint_stage.switch_on.numpy()[: distances.shape[1]].T == 0] = 0.0
    return distances


def constraint_forces(step: Step) -> dict[str, np.ndarray]:
    """Return the forces in the last step by name, see :attr:`sim.Simulator.constraint_force`."""
    equalities = step.model.equalities
    world, _, item, impulse = _listed(step, COUPLING)
    forces = {
        "constraint": dict(zip(equalities.anchor_names, _anchor_forces(step).swapaxes(0, 1), strict=True)),
        "joint": {
            name: _summed(step, world[item == number], impulse[item == number, 0])
            for number, name in enumerate(equalities.coupling_names)
        },
        **(_tendon_forces(step) if step.tendons else {}),
    }
    taken = {name for named in forces.values() for name in named}
    found: dict[str, np.ndarray] = {}
    for kind, named in forces.items():
        for name, force in named.items():
            key = name
            while key in found or (key != name and key in taken):
                key = f"{kind}/{key}"
            found[key] = force
    return found


def _listed(step: Step, *kinds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return world, kind, item and impulse [n, 3] of the constraints of some kinds."""
    constraints, impulse = step.constraint_stage.constraints, step.constraint_stage.impulse.numpy()
    kind, item = constraints.kind.numpy(), constraints.item.numpy()
    there = np.isin(kind, kinds) & (np.arange(len(kind))[:, None] < constraints.count.numpy())
    row, world = np.nonzero(there)
    return world, kind[row, world], item[row, world], impulse[row, world].astype(np.float64)


def _summed(step: Step, world: np.ndarray, impulse: np.ndarray) -> np.ndarray:
    """Return the sum of impulses [n] by world, as a force [worlds]."""
    return np.bincount(world, impulse, minlength=step.num_worlds) / float(step.dt)


def _tendon_forces(step: Step) -> dict[str, dict[str, np.ndarray]]:
    """Return the forces along tendons: of couplings, and of limits and dry friction, by the names of couplings and
    tendons.
    """
    assert step.tendons is not None
    rows, tendons = step.tendons.tendon_rows, step.model.tendons
    kind, tendon, coupling = (getattr(rows, name).numpy() for name in ("kind", "tendon", "coupling"))
    world, _, item, impulse = _listed(step, *numbers_of(Family.TENDON))
    named = item < len(kind)  # the rest are dampers
    world, item, impulse = world[named], item[named], impulse[named]
    along = np.where(kind[item] == UPPER, -1.0, 1.0) * impulse[:, 0]

    def by_name(names: tuple[str, ...], owner: np.ndarray, own: np.ndarray) -> dict[str, np.ndarray]:
        found = {}
        for number in np.unique(owner[own]).tolist():
            chosen = own[item] & (owner[item] == number)
            found[names[number]] = _summed(step, world[chosen], along[chosen])
        return found

    return {
        "tendon_coupling": by_name(tendons.coupling_names, coupling, kind == TIED),
        "tendon": by_name(tendons.names, tendon, kind != TIED),
    }


def _anchor_forces(step: Step) -> np.ndarray:
    """Return the forces and torques on the second links [worlds, anchors, 6]."""
    anchors = len(step.model.equalities.anchor_names)
    found = np.zeros((step.num_worlds, anchors, 2, 3))
    if anchors:
        world, kind, anchor, impulse = _listed(step, *numbers_of(Family.ANCHOR))
        second = np.array([KINDS[number].second for number in kind], dtype=int)
        frames = step.errors.anchor_frame.numpy()[2 * anchor + second, world].astype(np.float64)
        found[world, anchor, second] = np.einsum("nij,ni->nj", frames, impulse) / float(step.dt)
    return found.reshape(step.num_worlds, anchors, 6)
