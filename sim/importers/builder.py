"""ModelBuilder: the builder of worlds, with the importers as methods."""

from sim.importers import mjcf, sdf, urdf, usd
from sim.model.builder import WorldBuilder


class ModelBuilder(WorldBuilder):
    """Collects links, joints, geometries and actuators of one world; :meth:`finalize` checks them and makes the model.

    Args:
        gravity: gravity in the world frame [m/s^2].

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground(surface=sim.Surface(friction=0.8))
        >>> arm = scene.add_urdf("scenes/robots/manipulator.urdf")
        >>> ball = scene.add_sphere(radius=0.05, mass=0.2, position=(0.6, 0, 0.05), name="ball")
        >>> model = scene.finalize()
        >>> model.nq, model.nv, model.q_slice(ball)
        (14, 13, slice(7, 14, None))
    """

    add_urdf = urdf.add_urdf
    add_usd = usd.add_usd
    add_sdf = sdf.add_sdf
    add_mjcf = mjcf.add_mjcf
