"""Layout of possible tendon constraints, and the paths from root to tip on which tendons and frames act."""

from collections.abc import Iterable, Mapping

import numpy as np

from sim.errors import ModelError
from sim.model.model import Model
from warp_kernels.solver.tendons.rows import LOSS, LOWER, TIED, UPPER
from warp_kernels.types import CURRENT, FREE, MUSCLE, TORQUE

# Paths from a root on which a constraint may act: its two sides.
MOST_PATHS = 2
# What a damper on two paths belongs to.
DAMPED_TENDON, DAMPED_LINE = range(2)


def tendon_rows(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return kind, tendon, other tendon and index of the coupling, -1 for none, of each constraint [n, 4]."""
    tendons = model.tendons
    rows: list[tuple[int, int, int, int]] = []
    if tendons.names:
        for kind, name in ((LOWER, "tendon_lower_limit"), (UPPER, "tendon_upper_limit")):
            rows += [(kind, t, -1, -1) for t in _any_world(np.isfinite(parameters[name]))]
        rows += [(LOSS, t, -1, -1) for t in _any_world(parameters["tendon_friction_loss"] > 0.0)]
    pairs = zip(tendons.coupling_tendon.tolist(), tendons.coupling_other.tolist(), strict=True)
    rows += [(TIED, tendon, other, number) for number, (tendon, other) in enumerate(pairs)]
    return np.array(rows, dtype=np.int32).reshape(-1, 4)


def heavy_tendons(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the tendons with armature in any world, and the last degree of freedom that each acts on [n, 2].

    Raises:
        ModelError: naming the tendon, for one with a wrap, or that acts on more than one path.
    """
    tendons, found = model.tendons, []
    for tendon in _any_world(parameters["tendon_armature"] > 0.0) if tendons.names else ():
        if (tendons.segment_wrap[list(tendons.segments(tendon))] >= 0).any():
            raise ModelError(
                f"tendon '{tendons.names[tendon]}': armature is not supported for a tendon with a wrap; "
                "give the joints armature instead"
            )
        ends = path_ends(model, moving_dofs(model, tendon))
        if len(ends) > 1:
            raise ModelError(
                f"tendon '{tendons.names[tendon]}': its armature acts on joints of {len(ends)} branches, which end at "
                f"{_joints_at(model, ends)}, but only one branch is supported; give the joints armature instead, or "
                "split the tendon"
            )
        found.append((tendon, ends[0]))
    return np.array(found, dtype=np.int32).reshape(-1, 2)


def require_explicit_tendons(model: Model, parameters: Mapping[str, np.ndarray], integrator: str) -> None:
    """Raise ModelError for features that "implicit" and "implicitfast" integrate implicitly only in MuJoCo."""
    if len(model.drag_boxes.link):
        raise ModelError(
            f"Simulator: integrator='{integrator}' doesn't support a medium, which the model has; choose "
            "integrator='euler' or 'rk4'"
        )
    for what, has in (
        ("muscles", model.actuator_kind == MUSCLE),
        ("currents of motors", model.actuator_dynamics == CURRENT),
        ("speed-torque curves", parameters.get("actuator_stall_force", np.zeros(1)) > 0.0),
    ):
        if has.any():
            name = model.actuator_names[int(np.argwhere(has)[0][-1])]
            raise ModelError(
                f"Simulator: integrator='{integrator}' doesn't support {what}, which actuator '{name}' has; choose "
                "integrator='euler' or 'rk4'"
            )
    on_frames = model.transmissions.actuator
    for key in ("actuator_kd", "actuator_kd_per_input"):
        if len(on_frames) and np.atleast_2d(parameters[key])[:, on_frames].any():
            index = on_frames[np.atleast_2d(parameters[key])[:, on_frames].any(axis=0)][0]
            raise ModelError(
                f"Simulator: integrator='{integrator}' doesn't support velocity gains on frames, which actuator "
                f"'{model.actuator_names[index]}' has; choose integrator='euler' or 'rk4'"
            )
    tendons = model.tendons.names
    if not tendons:
        return
    heavy, free = heavy_tendons(model, parameters), free_bodies(model)
    on_free = heavy[np.isin(model.link_tree[model.dof_link[heavy[:, 1]]], free), 0]
    if integrator == "implicitfast" and len(on_free):
        raise ModelError(
            f"Simulator: integrator='{integrator}' doesn't support armature of tendons on free bodies, which tendon "
            f"'{tendons[on_free[0]]}' has; choose integrator='euler' or 'rk4'"
        )
    damping = (parameters["tendon_damping"] != 0.0) | (parameters["tendon_damping_polynomial"] != 0.0).any(axis=-1)
    damped = [f"tendon '{tendons[t]}'" for t in _any_world(damping)]
    for key in ("actuator_kd", "actuator_kd_per_input"):
        if model.nu:
            gains = _any_world((parameters[key] != 0.0) & (model.actuator_tendon >= 0))
            damped += [f"actuator '{model.actuator_names[k]}' on a tendon" for k in gains]
    if damped:
        raise ModelError(
            f"Simulator: integrator='{integrator}' doesn't support damping of tendons, which {damped[0]} has; choose "
            "integrator='euler' or 'rk4'"
        )


def free_bodies(model: Model) -> np.ndarray:
    """Return the trees whose only moving joint is a free one, at their root."""
    first = model.tree_link_start[:-1]
    dofs = np.diff(np.append(model.joint_qd_start, model.nv)[model.tree_link_start])
    return np.flatnonzero((model.joint_type[first] == FREE) & (dofs == 6))


def moving_dofs(model: Model, tendon: int) -> set[int]:
    """Return the degrees of freedom that a tendon's length may depend on."""
    found = {int(model.tendons.term_dof[term]) for term in model.tendons.terms(tendon)}
    for link in model.tendons.links(tendon):
        found |= dofs_above(model, int(model.link_tail_dof[link]))
    return found


def point_moves(model: Model) -> np.ndarray:
    """Return 1 where a degree of freedom moves a point of a tendon [num_path_points, nv]."""
    links = model.tendons.path_link.tolist()
    moves = np.zeros((len(links), model.nv), dtype=np.int32)
    for point, link in enumerate(links):
        if link >= 0:
            moves[point, list(dofs_above(model, int(model.link_tail_dof[link])))] = 1
    return moves


def tendon_paths(model: Model, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last degrees of freedom of both sides of each constraint [n, 2], and the side of each dof [n, nv].

    Entries are -1 for none.

    Raises:
        ModelError: naming the tendon, for one that acts on more than two paths.
    """
    tails = np.full((len(rows), MOST_PATHS), -1, dtype=np.int32)
    for row, (_, tendon, other, _) in enumerate(rows.tolist()):
        dofs = moving_dofs(model, tendon) | (moving_dofs(model, other) if other >= 0 else set())
        ends = path_ends(model, dofs)
        if len(ends) > MOST_PATHS:
            raise ModelError(
                f"tendon '{model.tendons.names[tendon]}': its limit, dry friction or coupling acts on joints of "
                f"{len(ends)} branches, which end at {_joints_at(model, ends)}, but at most two are supported; replace "
                "limits by a spring, or split the tendon"
            )
        tails[row, MOST_PATHS - len(ends) :] = ends
    return tails, path_sides(model, tails)


def path_sides(model: Model, tails: np.ndarray) -> np.ndarray:
    """Return the side of each degree of freedom on two paths with these ends, -1 for none [n, nv]."""
    sides = np.full((len(tails), model.nv), -1, dtype=np.int32)
    for row, ends in enumerate(tails.tolist()):
        for side, end in enumerate(ends):
            sides[row, list(dofs_above(model, end))] = side
    return sides


def dofs_above(model: Model, dof: int) -> set[int]:
    """Return a degree of freedom and all on the path to its root; none for -1."""
    found = set()
    while dof >= 0:
        found.add(dof)
        dof = int(model.dof_parent[dof])
    return found


def path_ends(model: Model, dofs: set[int]) -> list[int]:
    """Return the last of these degrees of freedom on each path."""
    paths = {dof: dofs_above(model, dof) for dof in dofs}
    return sorted(dof for dof in dofs if not any(dof in paths[below] for below in dofs - {dof}))


def acted_links(model: Model) -> set[int]:
    """Return the links on which tendons, frames with actuators or a medium act."""
    tendons, lines = model.tendons, model.transmissions
    through = [link for tendon in range(len(tendons.names)) for link in tendons.links(tendon)]
    joints = model.dof_link[tendons.term_dof].tolist()
    links = [*through, *joints, *lines.link.tolist(), *lines.reference_link.tolist(), *model.drag_boxes.link.tolist()]
    return {link for link in links if link >= 0}


def damped_tendons(model: Model) -> np.ndarray:
    """Return the tendons with joints on one path, and the last degree of freedom of each [n, 2]."""
    return _on_one_path(tendon_ends(model))


def damped_lines(model: Model) -> np.ndarray:
    """Return the actuators on frames with joints on one path, and the last degree of freedom of each [n, 2]."""
    return _on_one_path(line_ends(model))


def damper_rows(model: Model, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the tendons and frames with joints on two paths whose force may depend on their velocity in any world.

    These have dampers, or actuators that may have velocity gains. Columns are DAMPED_TENDON or DAMPED_LINE, the index
    of the tendon or of the actuator on a frame, and the last degree of freedom of each path [n, 4].
    """
    gained = np.asarray(model.actuator_law) != TORQUE
    rows = []
    if model.tendons.names:
        damped = _in_any_world(parameters["tendon_damping"] != 0.0)
        damped |= _in_any_world((parameters["tendon_damping_polynomial"] != 0.0).any(axis=-1))
        damped[model.actuator_tendon[gained & (model.actuator_tendon >= 0)]] = True
        rows += [
            (DAMPED_TENDON, t, *ends)
            for t, ends in enumerate(tendon_ends(model))
            if damped[t] and len(ends) == MOST_PATHS
        ]
    for line, ends in enumerate(line_ends(model)):
        if gained[model.transmissions.actuator[line]] and len(ends) == MOST_PATHS:
            rows.append((DAMPED_LINE, line, *ends))
    return np.array(rows, dtype=np.int32).reshape(-1, 4)


def deferred_rows(dampers: np.ndarray, kind: int, count: int) -> np.ndarray:
    """Return 1 for the tendons or the lines whose damping is a constraint [count].

    dampers: see :func:`damper_rows` [n, 4]; kind: DAMPED_TENDON or DAMPED_LINE.
    """
    deferred = np.zeros(count, dtype=np.int32)
    deferred[dampers[dampers[:, 0] == kind, 1]] = 1
    return deferred


def tendon_ends(model: Model) -> list[list[int]]:
    """Return the last degrees of freedom that each tendon acts on, one for each path."""
    return [path_ends(model, moving_dofs(model, tendon)) for tendon in range(len(model.tendons.names))]


def line_ends(model: Model) -> list[list[int]]:
    """Return the last degrees of freedom that each actuator on a frame acts on, one for each path, and none for those
    on contacts.
    """
    found, ends = model.transmissions, []
    for link, reference in zip(found.link.tolist(), found.reference_link.tolist(), strict=True):
        above, below = (dofs_above(model, int(model.link_tail_dof[n])) if n >= 0 else set() for n in (link, reference))
        # Adhesion acts on contacts, whose bodies vary.
        ends.append(path_ends(model, above ^ below) if link >= -1 else [])
    return ends


def _on_one_path(ends: list[list[int]]) -> np.ndarray:
    rows = [(row, each[0]) for row, each in enumerate(ends) if len(each) == 1]
    return np.array(rows, dtype=np.int32).reshape(-1, 2)


def _joints_at(model: Model, ends: list[int]) -> str:
    return ", ".join(f"'{model.joint_names[model.dof_link[end]]}'" for end in ends)


def _any_world(which: np.ndarray) -> Iterable[int]:
    return np.flatnonzero(_in_any_world(which)).tolist()


def _in_any_world(which: np.ndarray) -> np.ndarray:
    return np.asarray(np.atleast_2d(which).any(axis=0))
