"""The medium of a world, and what it drags."""

import numpy as np

from sim.errors import ModelError
from sim.model.medium.medium import DragBox, Medium
from sim.model.spec_checks import finite, finite_and_not_negative, pose
from sim.model.specs import IDENTITY_QUATERNION, Vector, WorldSpec


class Media(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` for a medium."""

    def set_medium(self, density: float = 0.0, viscosity: float = 0.0, wind: Vector = (0.0, 0.0, 0.0)) -> None:
        """Fill the world with a medium such as air. It drags the boxes of :meth:`add_drag_box`; nothing floats.

        On a box with edges b, whose centre has the velocity v through the medium and which turns at w, both along its
        edges, act as in MuJoCo's inertia-box model

        - the force ``-density/2 b_j b_k |v_i| v_i - 3 pi D viscosity v_i`` along edge i, where j and k are the others
          and D is the mean edge,
        - the moment ``-density/64 b_i (b_j^4 + b_k^4) |w_i| w_i - pi D^3 viscosity w_i`` about edge i,

        both explicit in the velocities. Density, viscosity and wind are the parameters ``medium_density``,
        ``medium_viscosity`` and ``wind``, with gradients.

        Args:
            density: [kg/m^3].
            viscosity: [Pa s].
            wind: velocity of the medium in the world frame [m/s].

        Raises:
            ModelError: for values that are negative or not finite.
        """
        for label, value in (("density", density), ("viscosity", viscosity)):
            finite_and_not_negative("set_medium", label, value)
        self.medium = Medium(float(density), float(viscosity), finite("set_medium: wind", wind, (3,)))

    def add_drag_box(
        self,
        link: str,
        *,
        size: Vector,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
    ) -> None:
        """Let the medium drag a link as it drags a box.

        Args:
            link: name of a link.
            size: edges of the box [m].
            position: of its centre in the link [m].
            orientation: of its edges, quaternion xyzw.

        Raises:
            ModelError: for an unknown link and for edges that are not positive.
        """
        if link not in self.links:
            raise ModelError(f"add_drag_box: unknown link '{link}'; add the link first")
        where = f"drag box of link '{link}'"
        edges = finite(f"{where}: size", size, (3,))
        if not (edges > 0.0).all():
            raise ModelError(f"{where}: size is {np.asarray(edges).tolist()}; it must be positive")
        self.drag_boxes.append(DragBox(link, edges, pose(where, position, orientation)))
