"""WorldBuilder: describe one world, check it, and make a :class:`sim.Model` of it."""

from sim.model.builder.actuators import Actuators
from sim.model.builder.bodies import Bodies
from sim.model.builder.constraints import Constraints
from sim.model.builder.medium import Media
from sim.model.builder.sensors import Sensors
from sim.model.builder.tendons import Tendons
from sim.model.compile import compile_model
from sim.model.model import Model
from sim.model.names import counted
from sim.model.spec_checks import finite
from sim.model.specs import Vector


class WorldBuilder(Bodies, Actuators, Constraints, Tendons, Sensors, Media):
    """:class:`sim.ModelBuilder` without its methods that read files, which :mod:`sim.importers.builder` adds.

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
