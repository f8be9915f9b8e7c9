"""Features of a model that MJCF lacks or combines differently."""

from itertools import combinations

import numpy as np
from scipy.spatial.transform import Rotation

from sim.exporters.losses import Losses
from sim.model.model import Model
from sim.model.poses import IDENTITY
from sim.simulation.stepping.collision import may_touch
from warp_kernels import types as codes

# Displacement and angle up to which poses count as the same [m, rad]
SAME_POSE = 1e-9


def lose_values(model: Model, losses: Losses) -> None:
    """Report what is not written."""
    parameters = model.parameters
    joints = [model.joint_names[link] for link in model.dof_link]
    for key, what, owners, none in (
        ("swing_limit", "swing limits", model.joint_names, np.inf),
        ("twist_limit", "twist limits", model.joint_names, np.inf),
        ("limit_stiffness", "compliant limits", joints, np.inf),
    ):
        losses.changes_motion(what, _where(owners, parameters[key] != none))
    losses.changes_motion("negative gravity compensation without a positive one", _pulled_down(model))
    losses.changes_motion(
        "dry friction of free joints about world axes, which MJCF has about body axes", _rubbing(model)
    )
    colliding = [k for k, geometry in enumerate(model.geometries) if geometry.collides]
    names = [model.geometries[k].name for k in colliding]
    losses.changes_motion("compliant contact", _where(names, np.isfinite(parameters["contact_stiffness"][colliding])))
    losses.changes_motion("restitution", _bouncing(model, colliding))
    directed = [model.geometries[k].name for k in colliding if model.geometries[k].friction_direction is not None]
    losses.changes_motion("friction across a direction of a geometry, which becomes that along it", directed)
    losses.changes_motion("different values for the axes of a joint", _uneven(model))
    losses.changes_motion("springs of spherical and free joints that rest elsewhere than MuJoCo's", _resting(model))
    losses.leaves_out("largest velocities", _where(joints, np.isfinite(model.velocity_limit)), "they are not enforced")
    losses.changes_motion("forces at which constraints break", list(model.breaking_names))
    if len(model.parts) > 1:
        losses.leaves_out("parts", [part.name for part in model.parts], "the file is read as one part")


def _pulled_down(model: Model) -> list[str]:
    """Return links with a negative gravity compensation in a model in which no link has a positive one."""
    shares = model.parameters["gravity_compensation"] if model.compensated else np.zeros(0)
    return [] if (shares > 0.0).any() else _where(model.link_names, shares < 0.0)


def _rubbing(model: Model) -> list[str]:
    """Return free joints with dry friction about the world's axes."""
    return [
        model.joint_names[link]
        for link in np.flatnonzero(model.joint_type == codes.FREE).tolist()
        if model.parameters["friction_loss"][model.dofs_of(link)[3:]].any()
    ]


def _bouncing(model: Model, colliding: list[int]) -> list[str]:
    """Return geometries with restitution that may collide with others that have restitution."""
    restitution = model.parameters["restitution"]
    found = {
        k
        for i, j in combinations([k for k in colliding if restitution[k] > 0.0], 2)
        if may_touch(model, i, j)
        for k in (i, j)
    }
    return [model.geometries[k].name for k in sorted(found)]


def _uneven(model: Model) -> list[str]:
    """Return joints with several degrees of freedom whose properties differ between them."""
    found = []
    for link in np.flatnonzero((model.joint_type == codes.SPHERICAL) | (model.joint_type == codes.FREE)):
        dofs = np.flatnonzero(model.dof_link == link)
        if any(
            np.ptp(model.parameters[key][dofs]) > 0.0 for key in ("damping", "armature", "friction_loss", "stiffness")
        ):
            found.append(model.joint_names[link])
    return found


def _resting(model: Model) -> list[str]:
    """Return joints whose springs don't rest at zero rotation, or of free joints at the initial pose."""
    found = []
    for link in model.sprung_links.tolist():
        first = int(model.joint_q_start[link])
        free = model.joint_type[link] == codes.FREE
        pose = model.q0[first : first + 7] if free else IDENTITY
        rest = model.parameters["rest_position"][model.dofs_of(link)]
        turn = Rotation.from_rotvec(rest[-3:]).inv() * Rotation.from_quat(pose[3:])
        apart = np.concatenate([rest[:-3] - pose[:3], turn.as_rotvec()]) if free else turn.as_rotvec()
        if np.abs(apart).max() > SAME_POSE:
            found.append(model.joint_names[link])
    return found


def _where(names: list[str] | tuple[str, ...], which: np.ndarray) -> list[str]:
    return list(dict.fromkeys(names[k] for k in np.flatnonzero(which)))
