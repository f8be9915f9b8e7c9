"""A joint of a USD file, in SI units and rad."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from pxr import Sdf

from sim.usd.drives import Drive

AXES = {"X": np.array([1.0, 0.0, 0.0]), "Y": np.array([0.0, 1.0, 0.0]), "Z": np.array([0.0, 0.0, 1.0])}


@dataclass(frozen=True)
class Joint:
    """A joint between two bodies, or a body and the world (None).

    Attributes:
        path: of its prim.
        type: as :meth:`sim.ModelBuilder.add_joint` names it.
        parent: the body that carries it; child: the body that it moves.
        parent_frame: pose of the joint frame in the parent, or in the world [7]; child_frame: in the child [7].
        axis: unit axis in the joint frame [3].
        lower, upper: limits; swing: that of a spherical joint.
        drive: its drive, None without.
        in_tree: whether it may carry its child in the tree of joints.
        collides: whether its two bodies may collide.
        turned: whether parent and child are swapped with respect to the file.
        chain: of type "chain", the joints that follow each other from the parent to the child; all in the joint frame.
        freedom: the degree of freedom that it is in such a chain, such as "rotX".
    """

    path: Sdf.Path
    type: str
    parent: Sdf.Path | None
    child: Sdf.Path
    parent_frame: np.ndarray
    child_frame: np.ndarray
    axis: np.ndarray = field(default_factory=lambda: AXES["X"])
    lower: float = -np.inf
    upper: float = np.inf
    swing: float = np.inf
    drive: Drive | None = None
    in_tree: bool = True
    collides: bool = False
    turned: bool = False
    chain: tuple[Joint, ...] = ()
    freedom: str = ""

    @property
    def name(self) -> str:
        """Of its prim, with its degree of freedom in a chain."""
        return f"{self.path.name}_{self.freedom}" if self.freedom else self.path.name

    @property
    def steps(self) -> tuple[Joint, ...]:
        """The joints from the parent to the child: itself, or its chain."""
        return self.chain or (self,)

    def swapped(self) -> Joint:
        """The same joint with parent and child swapped; its axis is reversed, so its coordinate keeps its sign."""
        if self.parent is None:
            raise ValueError("the world can't be a child")
        return self.turned_round(parent=self.child, child=self.parent)

    def turned_round(self, parent: Sdf.Path | None, child: Sdf.Path) -> Joint:
        """The joint as seen from its other side, between these bodies."""
        return replace(
            self, parent=parent, child=child, parent_frame=self.child_frame, child_frame=self.parent_frame,
            axis=-self.axis, turned=not self.turned,
            chain=tuple(replace(step, axis=-step.axis, turned=not step.turned) for step in reversed(self.chain)),
        )  # fmt: skip
