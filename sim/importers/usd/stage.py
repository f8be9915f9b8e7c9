"""An open USD file: its units, the poses of its prims, and the objects that UsdPhysics finds in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.errors import ImportFileError
from sim.importers.pictures import Budget
from sim.importers.usd.layers import open_stage, readable
from sim.model.looks.looks import Texture
from sim.model.poses import compose, inverse

SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
# Rotation from Y up to Z up
Y_UP = Rotation.from_euler("x", 90.0, degrees=True)
Kind = UsdPhysics.ObjectType


@dataclass(frozen=True)
class Scene:
    """An open stage, in metres with z up, at its first time.

    Attributes:
        path: the file.
        stage: the stage.
        length: metres per unit of the stage; mass: kilograms per unit.
        up: rotation from the axes of the stage to those with z up.
        found: the descriptions of UsdPhysics, by kind.
        order: index of each prim in the order of the stage.
        bodies: the bodies that move, with their descriptions, in the order of the stage.
        kinematic: bodies with prescribed motion.
        notes: warnings to issue at the end.
        read: the properties of other simulators' schemas that were read.
        textures: the images that were read, by their paths in the file.
        pictures: limit on their pixels.
    """

    path: Path
    stage: Usd.Stage
    length: float
    mass: float
    up: Rotation
    found: dict[Any, list[Any]]
    order: dict[Sdf.Path, int]
    bodies: dict[Sdf.Path, Any] = field(default_factory=dict)
    kinematic: set[Sdf.Path] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    read: set[Sdf.Path] = field(default_factory=set)
    textures: dict[str, Texture | None] = field(default_factory=dict)
    pictures: Budget = field(default_factory=Budget)
    cache: UsdGeom.XformCache = field(default_factory=lambda: UsdGeom.XformCache(Usd.TimeCode.EarliestTime()))
    _placed: dict[Sdf.Path, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    _undone: dict[Sdf.Path, np.ndarray] = field(default_factory=dict)
    _axes: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def of(self, *kinds: Any) -> list[Any]:
        """Return descriptions of these kinds in the order of the stage."""
        found = [description for kind in kinds for description in self.found.get(kind, [])]
        return sorted(found, key=lambda description: self.order.get(description.primPath, len(self.order)))

    def prim(self, path: Sdf.Path) -> Usd.Prim:
        """Return the prim at a path."""
        return self.stage.GetPrimAtPath(path)

    def stated(self, prim: Usd.Prim, name: str) -> Any:
        """Return the value of an attribute stated in a file, or None; it counts as read."""
        attribute = prim.GetAttribute(name)
        if not attribute or not attribute.HasAuthoredValue():
            return None
        self.read.add(attribute.GetPath())
        return attribute.Get()

    def number(self, prim: Usd.Prim, name: str) -> float | None:
        """Return a number as :meth:`stated` does.

        Raises:
            ImportFileError: naming the prim, for a value that isn't a number.
        """
        value = self.stated(prim, name)
        if value is not None and not isinstance(value, int | float):
            raise self.error(prim, f"{name} is {value!r}; it must be a number")
        return None if value is None else float(value)

    def numbers(self, prim: Usd.Prim, name: str, default: Sequence[float]) -> np.ndarray:
        """Return several numbers as :meth:`stated` does [len(default)]; the default if they aren't stated.

        Raises:
            ImportFileError: naming the prim, for another count, and values that aren't finite numbers.
        """
        value = self.stated(prim, name)
        if value is None:
            return np.array(default, dtype=np.float64)
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.full(1, np.nan)
        if found.shape != (len(default),) or not np.isfinite(found).all():
            raise self.error(prim, f"{name} is {value!r}; it must be {len(default)} finite numbers")
        return found

    def has_schema(self, prim: Usd.Prim, name: str) -> bool:
        """Return whether a schema is applied to a prim, be it unknown to the USD library."""
        return name in {str(applied) for applied in prim.GetPrimTypeInfo().GetAppliedAPISchemas()}

    def mujoco_position(self, prim: Usd.Prim, name: str, angular: bool) -> float | None:
        """Return a coordinate in MuJoCo's schema [rad or m]; in degrees unless the file's scene says otherwise."""
        value, scenes = self.number(prim, name), self.of(Kind.Scene)
        top = self.prim(scenes[0].primPath) if scenes else None
        angles = "degree" if top is None else self.choice(top, "mjc:compiler:angle", ("degree", "radian"))
        if value is None:
            return None
        if angular:
            return value if angles == "radian" else float(np.radians(value))
        return value * self.length

    def mujoco_range(self, prim: Usd.Prim, limits: str, limited: str) -> tuple[float, float] | None:
        """Return a range in MuJoCo's schema; None without one.

        Args:
            prim: the prim.
            limits: name of the attributes of its ends, without ``:min`` and ``:max``.
            limited: name of the attribute that says whether it holds: "true", "false", or "auto" if the ends ascend.

        Raises:
            ImportFileError: naming the prim, for other values, and for a range that holds without ascending.
        """
        lower, upper = (self.number(prim, f"{limits}:{end}") or 0.0 for end in ("min", "max"))
        holds = self.choice(prim, limited, ("auto", "true", "false"))
        if holds == "true" and not lower < upper:
            raise self.error(prim, f"{limited} is true, but {limits} is ({lower:g}, {upper:g}); its ends must ascend")
        return (lower, upper) if holds != "false" and lower < upper else None

    def pass_over(self, prim: Usd.Prim) -> None:
        """Count all properties of a prim as read."""
        self.read.update(prim.GetPath().AppendProperty(name) for name in prim.GetAuthoredPropertyNames())

    def choice(self, prim: Usd.Prim, name: str, known: Sequence[str]) -> str:
        """Return one of several words, the first if none is stated.

        Raises:
            ImportFileError: naming the prim, for other values.
        """
        value = self.stated(prim, name)
        if value is not None and value not in known:
            raise self.error(prim, f"{name} is {value!r:.80}; it must be one of {', '.join(known)}")
        return known[0] if value is None else str(value)

    def targets(self, prim: Usd.Prim, name: str) -> list[Sdf.Path]:
        """Return the targets of a relationship, empty if missing; it counts as read."""
        self.read.add(prim.GetPath().AppendProperty(name))
        return list(prim.GetRelationship(name).GetTargets()) if prim.HasRelationship(name) else []

    def error(self, prim: Usd.Prim | Sdf.Path, message: str) -> ImportFileError:
        """Return an error that names the file and the prim."""
        return ImportFileError(self.path, message, f"prim '{prim if isinstance(prim, Sdf.Path) else prim.GetPath()}'")

    def body_of(self, path: Sdf.Path) -> Sdf.Path | None:
        """Return the moving body that a prim belongs to; None for the world."""
        while not path.isEmpty and not path.IsAbsoluteRootPath():
            if path in self.bodies:
                return path
            path = path.GetParentPath()
        return None

    def placed(self, prim: Usd.Prim) -> tuple[np.ndarray, np.ndarray]:
        """Return the pose [7] of a prim in the world, and the matrix [3, 3] that is applied to its points first.

        The matrix holds scale, shear and the unit of length; it is diagonal without shear.

        Raises:
            ImportFileError: for a singular transform.
        """
        path = prim.GetPath()
        if path not in self._placed:
            self._placed[path] = self._compute_pose(prim)
        return self._placed[path]

    def _compute_pose(self, prim: Usd.Prim) -> tuple[np.ndarray, np.ndarray]:
        matrix = np.array(self.cache.GetLocalToWorldTransform(prim)).T
        if not np.isfinite(matrix).all():
            raise self.error(prim, "its transform is not finite")
        # Most prims are rotated and scaled like another one, such as a collider like its body.
        key = matrix[:3, :3].tobytes()
        if key not in self._axes:
            self._axes[key] = self._turn_and_stretch(prim, self.up.as_matrix() @ matrix[:3, :3] * self.length)
        quaternion, stretch = self._axes[key]
        return np.concatenate([self.up.apply(matrix[:3, 3]) * self.length, quaternion]), stretch

    def _turn_and_stretch(self, prim: Usd.Prim, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Decompose a matrix [3, 3] into a rotation, xyzw [4], and the scale and shear before it [3, 3]."""
        lengths = np.linalg.norm(linear, axis=0)
        if abs(np.linalg.det(linear)) <= 1e-9 * lengths.prod() or not lengths.all():
            raise self.error(prim, "its transform is singular; give every axis a scale other than zero")
        axes = linear / lengths
        if np.abs(axes.T @ axes - np.eye(3)).max() < 1e-6:
            # A reflection is expressed as one along the first axis.
            if np.linalg.det(axes) < 0.0:
                axes[:, 0] = -axes[:, 0]
            rotation = Rotation.from_matrix(axes)
        else:
            left, _, right = np.linalg.svd(linear)
            rotation = Rotation.from_matrix(left @ right * np.linalg.det(left @ right))
        stretch = rotation.as_matrix().T @ linear
        if np.abs(stretch - np.diag(np.diag(stretch))).max() < 1e-6 * lengths.max():
            stretch = np.diag(np.diag(stretch))
        return rotation.as_quat(), stretch

    def frame(self, owner: Sdf.Path, target: Sdf.Path, position: Any, orientation: Any) -> np.ndarray:
        """Return a frame given in a prim as a pose [7] in the body that the prim belongs to.

        The pose is in the world if the prim belongs to no body, or if the path of the prim is empty.

        Raises:
            ImportFileError: naming the owner, for values that are not finite or the zero quaternion.
        """
        quaternion = np.array([*orientation.GetImaginary(), orientation.GetReal()], dtype=np.float64)
        local = np.array(position, dtype=np.float64)
        if not (np.isfinite(local).all() and np.isfinite(quaternion).all() and quaternion.any()):
            raise self.error(
                owner, f"holds the pose {local.tolist()}, {quaternion.tolist()} (xyzw), which is not a pose"
            )
        turn = Rotation.from_quat(quaternion)
        if target.isEmpty:
            return np.concatenate([self.up.apply(local) * self.length, (self.up * turn).as_quat()])
        pose, stretch = self.placed(self.prim(target))
        inside, body = np.concatenate([stretch @ local, turn.as_quat()]), self.body_of(target)
        return inside if target == body else self.relative(body, compose(pose, inside))

    def relative(self, body: Sdf.Path | None, pose: np.ndarray) -> np.ndarray:
        """Return a pose in the world as one in the frame of a body; None is the world itself."""
        if body is None:
            return pose
        if body not in self._undone:
            self._undone[body] = inverse(self.placed(self.prim(body))[0])
        return compose(self._undone[body], pose)

    def prims(self) -> Usd.PrimRange:
        """Return all prims, including those inside instances."""
        return _prims(self.stage)


def open_scene(path: Path) -> Scene:
    """Open a file and find the physics in it.

    Raises:
        ImportFileError: if the file or one of its layers can't be opened, or its units are not positive.
    """
    with readable(path):
        return _scene(path, *open_stage(path))


def _scene(path: Path, stage: Usd.Stage, notes: list[str]) -> Scene:
    length, mass = float(UsdGeom.GetStageMetersPerUnit(stage)), float(UsdPhysics.GetStageKilogramsPerUnit(stage))
    for name, unit in (("metersPerUnit", length), ("kilogramsPerUnit", mass)):
        if not (np.isfinite(unit) and unit > 0.0):
            raise ImportFileError(path, f"{name} is {unit}; it must be positive")
    axis = str(stage.GetMetadata("upAxis") or "")
    if axis not in ("", "Y", "Z"):
        raise ImportFileError(path, f"upAxis is '{axis}'; it must be Y or Z")
    up = Y_UP if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.y else Rotation.identity()
    order = {prim.GetPath(): number for number, prim in enumerate(_prims(stage))}
    scene = Scene(path, stage, length, mass, up, _described(stage), order, notes=notes)
    for description in scene.of(Kind.RigidBody):
        if description.rigidBodyEnabled:
            scene.bodies[description.primPath] = description
            if description.kinematicBody:
                scene.kinematic.add(description.primPath)
    return scene


def _prims(stage: Usd.Stage) -> Usd.PrimRange:
    return Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies())


def moving_attributes(prim: Usd.Prim) -> list[Usd.Attribute]:
    """Return the attributes with time samples that place a prim in the world."""
    found = []
    while prim and not prim.IsPseudoRoot():
        if prim.IsA(UsdGeom.Xformable):
            found += [op.GetAttr() for op in UsdGeom.Xformable(prim).GetOrderedXformOps()]
        prim = prim.GetParent()
    return [attribute for attribute in found if attribute.GetNumTimeSamples() > 1]


def _described(stage: Usd.Stage) -> dict[Any, list[Any]]:
    """Return the objects that UsdPhysics' own reader finds, by kind."""
    # The function's former name.
    read = getattr(UsdPhysics, "UsdPhysicsLoadStageFromPrimRange", None) or UsdPhysics.LoadUsdPhysicsFromRange
    return {kind: list(descriptions) for kind, (_, descriptions) in read(stage, ["/"]).items()}
