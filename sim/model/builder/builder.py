"""WorldBuilder: describe one world, check it, and make a :class:`sim.Model` of it."""

import numpy as np

from sim.errors import ModelError
from sim.model.builder.actuators import Actuators
from sim.model.builder.bodies import Bodies
from sim.model.builder.constraints import Constraints
from sim.model.builder.sensors import Sensors
from sim.model.builder.tendons import Tendons
from sim.model.checks import counted
from sim.model.compile import compile_model
from sim.model.medium import DragBox, Medium
from sim.model.model import Model
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


class WorldBuilder(Bodies, Actuators, Constraints, Tendons, Sensors, Media):
    """:class:`sim.ModelBuilder` without its methods that read files, which :mod:`sim.importers.formats` adds.

    Args:
        gravity: gravity in the world frame [m/s^2].
    """

    def __init__(self, gravity: Vector = (0.0, 0.0, -9.81)):
        super().__init__(gravity=finite("gravity", gravity, (3,)))

    def __repr__(self) -> str:
        links, joints = counted(len(self.links), "link"), counted(len(self.joints), "joint")
        geometries, actuators = counted(len(self.geometries), "geometry"), counted(len(self.actuators), "actuator")
        return f"{type(self).__name__}({links}, {joints}, {geometries}, {actuators})"

    def finalize(self, dtype: str = "float32", *, collapse_fixed: bool = True) -> Model:
        """Check everything and make the model.

        Args:
            dtype: "float32" or "float64" (for checks), or a type of that name such as ``torch.float64``.
            collapse_fixed: merge links behind fixed joints into the link that carries them; they stay as named frames.
                Without it each keeps its own parameters. Links of sensors of force and torque are never merged.

        Raises:
            ModelError: naming the link or joint at fault: unknown parent or child, a cycle, two parents, no joint, a
                moving link without mass or with a negative moment of inertia.
        """
        return compile_model(self, dtype, collapse_fixed)
