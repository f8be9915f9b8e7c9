"""Which law a model has where its user names none."""

import warnings

import numpy as np

from sim.errors import MJCFWarning
from sim.model.model import MujocoOptions
from sim.model.specs import WORLD, WorldSpec


def own_law(world: WorldSpec) -> MujocoOptions | None:
    """How MuJoCo steps a world that is wholly from MJCF files which agree; None for any other.

    What of such files hard contact doesn't use is then said in a warning.
    """
    stated = {part.mujoco for part in world.parts} - {None}
    if world.from_mujoco == world.elements() and len(stated) == 1 and not _is_hard(world):
        return stated.pop()
    for note in world.soft_notes:
        warnings.warn(note, MJCFWarning, stacklevel=5)
    return None


def _is_hard(world: WorldSpec) -> bool:
    """Return whether a geometry or a joint has a property that hard contact alone has."""
    shapes = [spec for spec in world.geometries.values() if spec.geometry.collides]
    # The restitution of what doesn't move leaves that of a pair to the other body.
    given = any(
        np.isfinite(spec.contact_stiffness) or (spec.restitution > 0.0 and spec.link != WORLD) for spec in shapes
    )
    return given or any(np.isfinite(joint.limit_stiffness) for joint in world.joints.values())
