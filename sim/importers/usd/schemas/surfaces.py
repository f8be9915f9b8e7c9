"""Moving surfaces of PhysX: PhysxSurfaceVelocityAPI of a body, or of a collider of the world."""

from __future__ import annotations

import numpy as np
from pxr import Usd
from scipy.spatial.transform import Rotation

from sim.importers.usd.prims import Shape
from sim.importers.usd.stage import Scene
from sim.usd.annotations import agreed, kept
from sim.usd.physics.surfaces import HEAD


def surface_motion(scene: Scene, prim: Usd.Prim, shape: Shape) -> dict[str, np.ndarray | None]:
    """Return velocity and spin of the surface of a shape in its own frame, as fields of :class:`sim.Surface`.

    Args:
        scene: the scene.
        prim: the collider.
        shape: its shape, or one of its pieces.

    Raises:
        ImportFileError: naming the prim, for values that are not finite.
    """
    body = scene.body_of(prim.GetPath())
    for source in (prim, *(() if body is None else (scene.prim(body),))):
        stated = _stated(scene, source)
        if stated is not None:
            velocity, spin, pivot = stated
            if body is not None:
                turn = Rotation.from_quat(scene.placed(scene.prim(body))[0][3:]).inv()
                velocity, spin = turn.apply(velocity), turn.apply(spin)
                pivot = scene.relative(body, np.concatenate([pivot, [0.0, 0.0, 0.0, 1.0]]))[:3]
            own = Rotation.from_quat(shape.pose[3:]).inv()
            velocity = own.apply(velocity + np.cross(spin, shape.pose[:3] - pivot))
            return {
                "velocity": agreed(prim, "surface_velocity", velocity),
                "spin": agreed(prim, "surface_spin", own.apply(spin)),
            }
    return {name: kept(prim, f"surface_{name}", 3) for name in ("velocity", "spin")}


def _stated(scene: Scene, prim: Usd.Prim) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return velocity, spin and pivot of a surface in the world, z up; None if the prim has none."""
    values = [scene.stated(prim, HEAD + name) for name in ("Velocity", "AngularVelocity")]
    enabled, local = (scene.stated(prim, HEAD + name) for name in ("VelocityEnabled", "VelocityLocalSpace"))
    if enabled is False or (values[0] is None and values[1] is None):
        return None
    linear, angular = (np.zeros(3) if value is None else np.array(value, dtype=np.float64) for value in values)
    if linear.shape != (3,) or angular.shape != (3,) or not np.isfinite([linear, angular]).all():
        raise scene.error(
            prim, f"its surface velocities are {linear.tolist()} and {angular.tolist()}; they must be finite"
        )
    pose, stretch = scene.placed(prim)
    if local is False:
        return scene.up.apply(linear) * scene.length, scene.up.apply(np.radians(angular)), pose[:3]
    turn = Rotation.from_quat(pose[3:])
    return turn.apply(stretch @ linear), turn.apply(np.radians(angular)), pose[:3]
