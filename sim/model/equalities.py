"""Equality constraints of a model: anchors on two links that coincide, joints that move together."""

from dataclasses import dataclass

import numpy as np

from sim.model.softness import Softness


@dataclass(frozen=True)
class Equalities:
    """The equality constraints of a model; their anchors, ratios and offsets are parameters.

    Attributes:
        anchor_names: [num_anchors].
        anchor_link_a: first link of each pair of anchors, -1 for the world [num_anchors].
        anchor_link_b: second link [num_anchors].
        anchor_welded: 1 where the axes coincide too [num_anchors].
        anchor_softness: under MuJoCo's law [num_anchors].
        anchor_torque_scale: of a weld under that law, what a rotation counts beside a displacement [num_anchors], m.
        anchor_weighed_at: in each of both links the centre of mass of the one that the anchor was added to, before
            others were welded to it [num_anchors, 2, 3], m: that law takes inverse masses there.
        coupling_names: the joint that follows another [num_couplings].
        coupling_dof: its degree of freedom [num_couplings].
        coupling_other: that of the other joint [num_couplings].
        coupling_softness: under MuJoCo's law [num_couplings].
        coupling_q0: where the joint would begin if it didn't follow the other [num_couplings], rad or m: MuJoCo's law
            takes inverse masses there.
    """

    anchor_names: tuple[str, ...]
    anchor_link_a: np.ndarray
    anchor_link_b: np.ndarray
    anchor_welded: np.ndarray
    anchor_softness: tuple[Softness, ...]
    anchor_torque_scale: np.ndarray
    anchor_weighed_at: np.ndarray
    coupling_names: tuple[str, ...]
    coupling_dof: np.ndarray
    coupling_other: np.ndarray
    coupling_softness: tuple[Softness, ...]
    coupling_q0: np.ndarray

    @property
    def num_constraints(self) -> int:
        """Number of constraint blocks that they take."""
        return len(self.anchor_names) + int(self.anchor_welded.sum()) + len(self.coupling_names)
