"""Mass properties of the bodies of a USD file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pxr import Gf, Sdf, Usd, UsdPhysics, UsdShade
from scipy.spatial.transform import Rotation

from sim.importers.usd.prims import Shape
from sim.importers.usd.schemas.mujoco_masses import Solid, bounded, is_massless, solids_of
from sim.importers.usd.schemas.mujoco_scene import MassRules, mass_rules
from sim.importers.usd.stage import Scene
from sim.model.poses import IDENTITY
from sim.model.shapes.inertia import joined_solids
from sim.usd.annotations import agreed, kept
from sim.usd.physics.physics import NO_MASS

# UsdPhysics expresses a reflection as one along all axes, and a body's pose here as one along the first: the frames of
# a mirrored body differ by half a turn.
MIRRORED = np.diag([1.0, -1.0, -1.0])


Properties = tuple[float, np.ndarray, np.ndarray]
WATER = 1000.0  # density of bodies without one [kg/m^3]


def all_masses(
    scene: Scene, bodies: Iterable[Sdf.Path], shapes: Callable[[Sdf.Path], Mapping[Sdf.Path, list[Shape]]]
) -> dict[Sdf.Path, Properties | None]:
    """Return the mass properties of bodies: those of :func:`mass_properties`, in files of MuJoCo by its rules.

    Args:
        scene: the file.
        bodies: the bodies.
        shapes: shapes of the colliders of a body.
    """
    rules = mass_rules(scene)
    found = {body: mass_properties(scene, body, shapes(body), rules) for body in bodies}
    total = sum(each[0] for each in found.values() if each is not None)
    if rules.total is None or not total > 0.0:
        return found
    factor = rules.total / total
    return {
        body: None if each is None else (factor * each[0], each[1], factor * each[2]) for body, each in found.items()
    }


def mass_properties(
    scene: Scene, body: Sdf.Path, shapes: Mapping[Sdf.Path, list[Shape]], rules: MassRules
) -> Properties | None:
    """Return mass [kg], centre of mass [m] and inertia about it [kg m^2] in the axes of the body.

    By the rules of UsdPhysics: the values of the body, otherwise the sum of those of its colliders, otherwise computed
    from their volumes and the density of collider, material or body, 1000 kg/m^3 if none is given.

    Args:
        scene: the file.
        body: the body.
        shapes: shapes of each of its colliders, poses in the body.
        rules: MuJoCo's rules for masses.

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
    massive = {path: own for path, own in shapes.items() if not is_massless(scene, scene.prim(path), rules)}
    alone = not (_states_any(scene, prim) or any(_states_any(scene, scene.prim(path), True) for path in massive))
    mass, com, inertia = (_of_colliders if alone else _by_usdphysics)(scene, prim, massive)
    if not np.isfinite([mass, *com, *inertia.ravel()]).all():
        raise scene.error(
            body, f"its mass properties come to {mass} kg, {com.tolist()}, {inertia.tolist()}; they must be finite"
        )
    api = UsdPhysics.MassAPI(prim) if prim.HasAPI(UsdPhysics.MassAPI) else None
    if not authored and mass and _states_zero_mass(api):
        scene.notes.append(
            f"prim '{body}': mass 0 means that it is computed from the colliders, {mass:.6g} kg; state a mass"
        )
    full = scene.stated(prim, "newton:inertia")
    if full is not None and len(full) == 6:
        inertia = _symmetric(full) * scene.mass * scene.length**2
    exact = kept(prim, "inertia", 9)
    if exact is not None and api is not None and authored > 0.0 and not any(api.GetDiagonalInertiaAttr().Get()):
        # An unphysical inertia, as in some published robots, can't be stated as principal moments.
        inertia = exact.reshape(3, 3)
    mass, inertia = bounded(float(agreed(prim, "mass", mass)), agreed(prim, "inertia", inertia), rules)
    return mass, agreed(prim, "com", com), inertia


def _of_colliders(scene: Scene, body: Usd.Prim, shapes: Mapping[Sdf.Path, list[Shape]]) -> Properties:
    """Return the sum of the mass properties of colliders, in double precision and SI units."""
    parts: list[tuple[Solid, np.ndarray]] = []
    for path, own in shapes.items():
        prim = scene.prim(path)
        volume, centre, inertia = joined_solids(solids_of(scene, prim, own))
        mass = _number(prim, "mass") * scene.mass or volume * _density(scene, body, prim)
        if mass:
            gyration = inertia / volume if volume else np.zeros((3, 3))
            parts.append(((mass, centre, gyration), IDENTITY))
    return joined_solids(parts)


def _density(scene: Scene, body: Usd.Prim, collider: Usd.Prim) -> float:
    """Return the density of a collider [kg/m^3]: its own, that of its body, of its material, or that of water."""
    material, _ = UsdShade.MaterialBindingAPI(collider).ComputeBoundMaterial("physics")
    of_material = UsdPhysics.MaterialAPI(material.GetPrim()).GetDensityAttr().Get() if material else None
    stated = _number(collider, "density") or _number(body, "density") or float(of_material or 0.0)
    return stated * scene.mass / scene.length**3 if stated > 0.0 else WATER


def _number(prim: Usd.Prim, name: str) -> float:
    """Return mass or density that a prim states; zero without one."""
    if not prim.HasAPI(UsdPhysics.MassAPI):
        return 0.0
    api = UsdPhysics.MassAPI(prim)
    return float((api.GetMassAttr() if name == "mass" else api.GetDensityAttr()).Get() or 0.0)


def _states_any(scene: Scene, prim: Usd.Prim, collider: bool = False) -> bool:
    """Return whether a prim states a centre of mass or an inertia; a body, also whether it states a mass."""
    if not prim.HasAPI(UsdPhysics.MassAPI):
        return scene.stated(prim, "newton:inertia") is not None
    api = UsdPhysics.MassAPI(prim)
    stated = api.GetCenterOfMassAttr().HasAuthoredValue() or any(api.GetDiagonalInertiaAttr().Get())
    return bool(stated or scene.stated(prim, "newton:inertia") or (not collider and _number(prim, "mass")))


def _by_usdphysics(scene: Scene, prim: Usd.Prim, shapes: Mapping[Sdf.Path, list[Shape]]) -> Properties:
    """Return the mass properties of a body that states some of them, by UsdPhysics, in SI units."""
    turn = MIRRORED if np.linalg.det(scene.placed(prim)[1]) < 0.0 else np.eye(3)

    def information(collider: Usd.Prim) -> UsdPhysics.RigidBodyAPI.MassInformation:
        own = shapes.get(collider.GetPath(), [])
        return _information(solids_of(scene, collider, own) if own else [], scene.length, turn)

    mass, moments, com, axes = UsdPhysics.RigidBodyAPI(prim).ComputeMassProperties(information)
    api = UsdPhysics.MassAPI(prim) if prim.HasAPI(UsdPhysics.MassAPI) else None
    if api is not None and any(api.GetDiagonalInertiaAttr().Get()):
        # ComputeMassProperties ignores moments near zero, such as those of a finger in kg m^2.
        moments, axes = api.GetDiagonalInertiaAttr().Get(), api.GetPrincipalAxesAttr().Get()
    if not np.isfinite([mass, *moments, *com, *axes.GetImaginary(), axes.GetReal()]).all():
        raise scene.error(prim, f"its mass properties come to {mass} kg, {moments}, {com}, {axes}; they must be finite")
    inertia = _tensor(moments, axes) * scene.mass * scene.length**2
    return mass * scene.mass, turn @ np.array(com, dtype=np.float64) * scene.length, turn @ inertia @ turn


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


def _information(
    solids: list[tuple[Solid, np.ndarray]], length: float, frame: np.ndarray
) -> UsdPhysics.RigidBodyAPI.MassInformation:
    """Return volume, centre and inertia at unit density of a collider, in the units of the stage.

    ``frame`` [3, 3] rotates the frame of its body to that of UsdPhysics.
    """
    turn = Rotation.from_matrix(frame)
    turned = (
        (solid, np.concatenate([frame @ pose[:3], (turn * Rotation.from_quat(pose[3:])).as_quat()]))
        for solid, pose in solids
    )
    volume, centre, central = joined_solids(turned)
    information = UsdPhysics.RigidBodyAPI.MassInformation()
    information.volume = volume / length**3
    information.centerOfMass = Gf.Vec3f(0.0)
    information.localPos = Gf.Vec3f(*(centre / length).tolist())
    information.localRot = Gf.Quatf(1.0)
    information.inertia = Gf.Matrix3f(*(central / length**5).ravel().tolist())
    return information
