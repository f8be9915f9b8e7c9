"""Mass properties of the bodies of a USD file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pxr import Gf, Sdf, Usd, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.importers.usd.prims import Shape
from sim.importers.usd.stage import Scene
from sim.model.inertia import joined_solids, solid_properties
from sim.usd.annotations import agreed, kept
from sim.usd.physics import NO_MASS

# UsdPhysics expresses a reflection as one along all axes, and a body's pose here as one along the first: the frames of
# a mirrored body differ by half a turn.
MIRRORED = np.diag([1.0, -1.0, -1.0])


def mass_properties(
    scene: Scene, body: Sdf.Path, shapes: Mapping[Sdf.Path, list[Shape]]
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Return mass [kg], centre of mass [m] and inertia about it [kg m^2] in the axes of the body.

    By the rules of UsdPhysics: the values of the body, otherwise the sum of those of its colliders, otherwise computed
    from their volumes and the density of collider, material or body, 1000 kg/m^3 if none is given.

    Args:
        scene: the file.
        body: the body.
        shapes: shapes of each of its colliders, poses in the body.

    Returns:
        The properties; None for a body with neither mass nor colliders.

    Raises:
        ImportFileError: naming the body or collider, for a mass or density that is negative, or properties that are
            not finite.
    """
    prim = scene.prim(body)
    for one in (prim, *(scene.prim(path) for path in shapes if path != body)):
        _refuse_negative(scene, one)
    authored = float(UsdPhysics.MassAPI(prim).GetMassAttr().Get() or 0.0) if prim.HasAPI(UsdPhysics.MassAPI) else 0.0
    exact = kept(prim, "mass", 1)
    if exact is not None and authored * scene.mass <= 2.0 * NO_MASS and not exact.any():
        inertia = kept(prim, "inertia", 9)  # such as that of a rotor without mass
        return 0.0, np.zeros(3), np.zeros((3, 3)) if inertia is None else inertia.reshape(3, 3)
    if authored <= 0.0 and not shapes:
        return None

    turn = MIRRORED if np.linalg.det(scene.placed(prim)[1]) < 0.0 else np.eye(3)

    def information(collider: Usd.Prim) -> UsdPhysics.RigidBodyAPI.MassInformation:
        return _information(shapes.get(collider.GetPath(), []), scene.length, turn)

    mass, moments, com, axes = UsdPhysics.RigidBodyAPI(prim).ComputeMassProperties(information)
    api = UsdPhysics.MassAPI(prim) if prim.HasAPI(UsdPhysics.MassAPI) else None
    if api is not None and any(api.GetDiagonalInertiaAttr().Get()):
        # ComputeMassProperties ignores moments near zero, such as those of a finger in kg m^2.
        moments, axes = api.GetDiagonalInertiaAttr().Get(), api.GetPrincipalAxesAttr().Get()
    if not np.isfinite([mass, *moments, *com, *axes.GetImaginary(), axes.GetReal()]).all():
        raise scene.error(body, f"its mass properties come to {mass} kg, {moments}, {com}, {axes}; they must be finite")
    if not authored and _states_zero_mass(api):
        scene.notes.append(
            f"prim '{body}': mass 0 means that it is computed from the colliders, {mass * scene.mass:.6g} kg; "
            f"state a mass"
        )
    inertia = _tensor(moments, axes) * scene.mass * scene.length**2
    full = scene.stated(prim, "newton:inertia")
    if full is not None and len(full) == 6:
        inertia = _symmetric(full) * scene.mass * scene.length**2
    exact = kept(prim, "inertia", 9)
    if exact is not None and api is not None and authored > 0.0 and not any(api.GetDiagonalInertiaAttr().Get()):
        # An unphysical inertia, as in some published robots, can't be stated as principal moments.
        inertia = exact.reshape(3, 3)
    return (
        float(agreed(prim, "mass", mass * scene.mass)),
        agreed(prim, "com", turn @ np.array(com, dtype=np.float64) * scene.length),
        agreed(prim, "inertia", turn @ inertia @ turn),
    )


def _refuse_negative(scene: Scene, prim: Usd.Prim) -> None:
    if prim.HasAPI(UsdPhysics.MassAPI):
        api = UsdPhysics.MassAPI(prim)
        for name, value in (("mass", api.GetMassAttr().Get()), ("density", api.GetDensityAttr().Get())):
            if value is not None and value < 0.0:
                raise scene.error(prim, f"{name} is {value}; it must be positive, or 0 to have it computed")


def _states_zero_mass(api: UsdPhysics.MassAPI | None) -> bool:
    """Return whether a body states a mass of zero, without a density from which to compute it."""
    return api is not None and api.GetMassAttr().HasAuthoredValue() and not api.GetDensityAttr().Get()


def _tensor(moments: Gf.Vec3f, axes: Gf.Quatf) -> np.ndarray:
    """Return the inertia [3, 3] of principal moments and axes; the zero quaternion means the axes of the body."""
    imaginary = np.array(axes.GetImaginary(), dtype=np.float64)
    principal = np.diag(np.array(moments, dtype=np.float64))
    if not imaginary.any():
        return principal
    turn = Rotation.from_quat([*imaginary, axes.GetReal()]).as_matrix()
    return turn @ principal @ turn.T


def _symmetric(values: Sequence[float]) -> np.ndarray:
    """Return the tensor [3, 3] of its entries xx, yy, zz, xy, xz, yz."""
    xx, yy, zz, xy, xz, yz = (float(value) for value in values)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _information(shapes: list[Shape], length: float, frame: np.ndarray) -> UsdPhysics.RigidBodyAPI.MassInformation:
    """Return volume, centre and inertia at unit density of a collider, in the units of the stage.

    ``frame`` [3, 3] rotates the frame of its body to that of UsdPhysics.
    """
    turn = Rotation.from_matrix(frame)
    solids = (
        (
            solid_properties(shape.type, shape.size, shape.mesh),
            np.concatenate([frame @ shape.pose[:3], (turn * Rotation.from_quat(shape.pose[3:])).as_quat()]),
        )
        for shape in shapes
    )
    volume, centre, central = joined_solids(solids)
    information = UsdPhysics.RigidBodyAPI.MassInformation()
    information.volume = volume / length**3
    information.centerOfMass = Gf.Vec3f(0.0)
    information.localPos = Gf.Vec3f(*(centre / length).tolist())
    information.localRot = Gf.Quatf(1.0)
    information.inertia = Gf.Matrix3f(*(central / length**5).ravel().tolist())
    return information
