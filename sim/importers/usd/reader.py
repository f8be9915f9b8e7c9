"""State shared by the parts of the USD importer: the file, the builder, and names and frames of the links."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pxr import Sdf, Usd

from sim.errors import ImportFileError, ModelError
from sim.importers.usd.prims import Shape
from sim.importers.usd.stage import Scene
from sim.model.builder import WorldBuilder
from sim.model.poses import compose, inverse, is_identity
from sim.model.specs import WORLD
from sim.usd.annotations import kept, kept_text

ORIGIN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass
class Reader:
    """An import in progress.

    Attributes:
        builder: the builder that the file is added to.
        scene: the file.
        base: pose of the origin of the stage in the world [7].
        prefix: prefix of all names.
        drives: treatment of drives, "actuators" or "springs".
        friction, restitution: values of colliders without a material.
        threshold: see :func:`sim.importers.decomposition.convex_pieces`.
        shapes: shapes of each collider, poses in its body, or in the world of the stage without a body.
        colliders: paths of the colliders of each body.
        names: names of the links, by body.
        link_in_body: frame of each link in its body [7]: at its parent joint.
        masses: mass [kg], centre of mass [3] and inertia about it [3, 3] of each body, in its axes; None without any.
        inner_links: names of the massless links between the joints that carry a body.
        instancers: point instancers whose prototype is drawn.
    """

    builder: WorldBuilder
    scene: Scene
    base: np.ndarray
    prefix: str
    drives: str
    friction: float
    restitution: float
    threshold: float | None
    shapes: dict[Sdf.Path, list[Shape]] = field(default_factory=dict)
    colliders: dict[Sdf.Path, list[Sdf.Path]] = field(default_factory=dict)
    names: dict[Sdf.Path, str] = field(default_factory=dict)
    link_in_body: dict[Sdf.Path, np.ndarray] = field(default_factory=dict)
    masses: dict[Sdf.Path, tuple[float, np.ndarray, np.ndarray] | None] = field(default_factory=dict)
    inner_links: dict[Sdf.Path, list[str]] = field(default_factory=dict)
    instancers: frozenset[Sdf.Path] = frozenset()
    _link_poses: dict[Sdf.Path, np.ndarray] = field(default_factory=dict)

    @property
    def stays(self) -> bool:
        """True if the origin of the stage is that of the world."""
        return np.array_equal(self.base, ORIGIN)

    def link_name(self, body: Sdf.Path | None) -> str:
        """Return the name of the link of a body; None for the world."""
        return WORLD if body is None else self.names[body]

    def in_link(self, body: Sdf.Path | None, pose: np.ndarray) -> np.ndarray:
        """Convert a pose in a body to its link; for None, a pose in the stage to the world."""
        if body is None:
            return pose if self.stays else compose(self.base, pose)
        offset = self.link_in_body[body]
        return pose if is_identity(offset) else compose(inverse(offset), pose)

    def link_pose(self, body: Sdf.Path | None) -> np.ndarray:
        """Return the pose of the link of a body in the world [7]."""
        if body is None:
            return ORIGIN
        if body not in self._link_poses:
            self._link_poses[body] = self._link_pose(body)
        return self._link_poses[body]

    def _link_pose(self, body: Sdf.Path) -> np.ndarray:
        offset, at = self.link_in_body[body], self.scene.placed(self.scene.prim(body))[0]
        inside = at if is_identity(offset) else compose(at, offset)
        return inside if self.stays else compose(self.base, inside)

    def unique(self, name: str, path: Sdf.Path, taken: Container[str]) -> str:
        """Return a name with the prefix; the path of its prim if that is taken, as in copies of a robot."""
        if self.prefix + name not in taken:
            return self.prefix + name
        label = self.prefix + str(path).lstrip("/")
        return label if label not in taken else f"{label}/{name}"

    def joint_name(self, prim: Usd.Prim, plain: str) -> str:
        """Return the name of a joint that the file states, or a plain one."""
        return self.unique(kept_text(prim, "joint_name") or plain, prim.GetPath(), self.builder.joints)

    def add(self, path: Sdf.Path, call: Any, *arguments: Any, **options: Any) -> Any:
        """Call the builder; its errors then name the file and the prim."""
        try:
            return call(*arguments, **options)
        except ImportFileError:
            raise
        except ModelError as error:
            raise self.scene.error(path, str(error)) from None


def agreed_pose(prim: Usd.Prim, name: str, stated: np.ndarray) -> np.ndarray:
    """Return the exact stored pose if it still agrees with the stated one."""
    exact = kept(prim, name, 7)
    return exact if exact is not None and poses_agree(stated, exact) else stated


def poses_agree(stated: np.ndarray, exact: np.ndarray) -> bool:
    """Return whether two poses [7] are the same in single precision; q and -q are one rotation."""
    signed = np.concatenate([stated[:3], stated[3:] * (1.0 if stated[3:] @ exact[3:] >= 0.0 else -1.0)])
    return bool(np.abs(signed - exact).max() <= 2e-6 * max(1.0, float(np.abs(exact[:3]).max())))
