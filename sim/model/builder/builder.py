"""WorldBuilder: description of one world, compiled into a :class:`sim.Model`."""

import numpy as np

from sim.errors import ModelError
from sim.model.builder.actuators import Actuators
from sim.model.builder.bodies import Bodies
from sim.model.builder.constraints import Constraints
from sim.model.builder.sensors import Sensors
from sim.model.builder.tendons import Tendons
from sim.model.checks import counted, require_names
from sim.model.compile import compile_model
from sim.model.medium import DragBox, Medium
from sim.model.model import Model
from sim.model.spec_checks import finite, finite_and_not_negative, pose
from sim.model.specs import IDENTITY_QUATERNION, Vector, WorldSpec


class Media(WorldSpec):
    """Methods of :class:`sim.ModelBuilder` for a medium."""

    def set_medium(self, density: float = 0.0, viscosity: float = 0.0, wind: Vector = (0.0, 0.0, 0.0)) -> None:
        """Add a medium such as air, which drags the boxes of :meth:`add_drag_box`. It has no buoyancy.

        On a box with edges b, whose centre moves through the medium with velocity v and which rotates with w, both
        along its edges, MuJoCo's inertia-box model applies

        - the force ``-density/2 b_j b_k |v_i| v_i - 3 pi D viscosity v_i`` along edge i, where j and k are the other
          edges and D is the mean edge,
        - the moment ``-density/64 b_i (b_j^4 + b_k^4) |w_i| w_i - pi D^3 viscosity w_i`` about edge i,

        both explicit in the velocities. Density, viscosity and wind are also the parameters ``medium_density``,
        ``medium_viscosity`` and ``wind``, with gradients.

        Args:
            density: density of the medium [kg/m^3].
            viscosity: dynamic viscosity of the medium [Pa s].
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
        """Add drag of the medium on a link, as on a box.

        Args:
            link: name of a link.
            size: edges of the box [m].
            position: centre of the box in the link [m].
            orientation: orientation of the box in the link, quaternion xyzw.

        Raises:
            ModelError: for an unknown link and for edges that are not positive.
        """
        require_names("add_drag_box", link=link)
        if link not in self.links:
            raise ModelError(f"add_drag_box: unknown link '{link}'; add the link first")
        where = f"drag box of link '{link}'"
        edges = finite(f"{where}: size", size, (3,))
        if not (edges > 0.0).all():
            raise ModelError(f"{where}: size is {np.asarray(edges).tolist()}; it must be positive")
        self.drag_boxes.append(DragBox(link, edges, pose(where, position, orientation)))


class WorldBuilder(Bodies, Actuators, Constraints, Tendons, Sensors, Media):
    """Base of :class:`sim.ModelBuilder`, without the methods that read files (:mod:`sim.importers.formats`).

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
        """Check the description and compile it into a model.

        Args:
            dtype: "float32" or "float64" (for checks), or a type of that name such as ``torch.float64``.
            collapse_fixed: merge links on fixed joints into their parent links; they remain as named frames. Otherwise
                each keeps its own parameters. Links with a force or torque sensor are never merged.

        Raises:
            ModelError: naming the link or joint: unknown parent or child, a cycle, two parents, no joint, a moving link
                without mass or with a negative moment of inertia.
        """
        return compile_model(self, dtype, collapse_fixed)
