"""Equality constraints of a model: anchors on two links that coincide, joints that move together."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Equalities:
    """The equality constraints of a model; their anchors, ratios and offsets are parameters.

    Attributes:
        anchor_names: [num_anchors].
        anchor_link_a: first link of each pair of anchors, -1 for the world [num_anchors].
        anchor_link_b: second link [num_anchors].
        anchor_welded: 1 where the axes coincide too [num_anchors].
        coupling_names: the joint that follows another [num_couplings].
        coupling_dof: its degree of freedom [num_couplings].
        coupling_other: that of the other joint [num_couplings].
    """

    anchor_names: tuple[str, ...]
    anchor_link_a: np.ndarray
    anchor_link_b: np.ndarray
    anchor_welded: np.ndarray
    coupling_names: tuple[str, ...]
    coupling_dof: np.ndarray
    coupling_other: np.ndarray

    @property
    def num_constraints(self) -> int:
        """Number of constraint blocks that they take."""
        return len(self.anchor_names) + int(self.anchor_welded.sum()) + len(self.coupling_names)
