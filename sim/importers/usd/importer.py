"""USD import: a UsdPhysics scene into a :class:`sim.ModelBuilder`. USD's libraries are imported with the first file."""

import os
from pathlib import Path
from typing import Literal

import numpy as np

from sim.importers.decomposition import threshold_of
from sim.importers.transaction import check_arguments
from sim.model.builder import WorldBuilder
from sim.model.checks import require_choice, require_path
from sim.model.model import Part
from sim.model.spec_checks import pose
from sim.model.specs import IDENTITY_QUATERNION, Vector


def add_usd(
    builder: WorldBuilder,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    position: Vector = (0.0, 0.0, 0.0),
    orientation: Vector = IDENTITY_QUATERNION,
    visual: bool = True,
    collision: bool = True,
    friction: float = 1.0,
    restitution: float = 0.0,
    decompose: bool | float = False,
    drives: Literal["actuators", "springs"] = "actuators",
) -> list[Part]:
    """Add the UsdPhysics contents of a USD file: all of it, or nothing after an error.

    Bodies start where they are at the file's first time, and the coordinates of the joints follow from that. Units and
    the up axis of the stage are converted to metres, kilograms and z up. The builder's gravity is kept
    (:func:`sim.load` uses that of the file).

    - A body without a parent joint is free. A tree of joints starts at the body joined to the world, otherwise at the
      root of its articulation, otherwise at its first body in the file. Ball and fixed joints that close loops become
      constraints of the solver (:meth:`sim.ModelBuilder.add_point_constraint`, ``add_weld_constraint``), and hinges two
      points on their axis; a prismatic joint that closes a loop is an error.
    - The frame of a link is that of its body, moved to the origin of its parent joint.
    - Hinges and slides between the same two bodies, or slides and a ball, are in series, in the order of the file, with
      massless links ``<body>/<joint>`` between them. A hinge on the axis of the one before it closes a loop, unless
      the articulation states ``newton:jointsAddMobility``.
    - A joint with six degrees of freedom becomes the joint that its free axes are, or several in a row with massless
      links between them: slides along x, y and z, then rotations about x, y and z, or a ball joint for three
      rotations without limits or drives. It is ignored if nothing is locked, limited or driven.
    - Friction of a contact is the product of the two dynamic frictions, restitution that of the two restitutions,
      whatever the file's combine modes say.
    - Meshes collide as their convex hull, or as that of each connected piece for "convexDecomposition". A static mesh
      that is not convex collides as its triangles unless one of these is asked for. With ``decompose`` meshes become
      convex pieces, unless the file asks for their hull.
    - Kinematic bodies have prescribed motion: their joint is ``kinematic``, a free one if no joint connects them to the
      world or to another kinematic body. Initial velocities, time samples and break forces are ignored.
    - Of the schemas of Newton, MuJoCo and PhysX, armature, dry friction, damping, springs and limits of joints, coupled
      joints, actuators and constraints are read. A warning names what was ignored.

    A file of :func:`sim.usd.write_usd` restores its model, in double precision.

    Args:
        path: a ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.
        name: prefix of all names, as "name/", which allows several copies in one world.
        position: position of the origin of the stage in the world [m].
        orientation: orientation of the stage, quaternion xyzw.
        visual: read visual geometry.
        collision: read the colliders.
        friction: friction of colliders without a physics material.
        restitution: restitution of colliders without a physics material.
        decompose: let non-convex meshes collide as several convex pieces, which CoACD (the extra ``decompose``)
            computes in seconds to minutes per mesh; True, or its threshold, from 0.01 (many pieces) to 1 (few).
        drives: treatment of a joint's drive. "actuators": a "position" actuator if it has stiffness, otherwise a
            "velocity" actuator if its force is limited, and damping of the joint if it isn't. "springs": always a
            spring about the target and damping.

    Returns:
        The parts, one for each tree of bodies.

    Raises:
        ImportFileError: naming the file and the prim.
        ModelError: for a wrong argument.

    Example:
        >>> import tempfile
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> path = sim.usd.write_usd(tempfile.mkdtemp() + "/robot.usda", model, poses, fps=60)
        >>> scene = sim.ModelBuilder()
        >>> [len(part.joints) for part in scene.add_usd(path, name="left")]
        [7]
    """
    require_choice("add_usd: drives", drives, ("actuators", "springs"))
    check_arguments("add_usd", path, name, friction, restitution, visual=visual, collision=collision)
    base, threshold = pose("add_usd", position, orientation), threshold_of(decompose)
    from sim.importers.usd.contents import add_contents  # here: USD's libraries take long to import

    return add_contents(
        builder, Path(path), base, name, visual=visual, collision=collision, friction=friction, restitution=restitution,
        threshold=threshold, drives=drives,
    )  # fmt: skip


def read_gravity(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the gravity of a USD file, z up [m/s^2]; default: (0, 0, -9.81).

    Raises:
        ImportFileError: if the file can't be opened, or states a gravity that is not finite.
    """
    require_path(path)
    from sim.importers.usd.contents import scene_gravity  # here: USD's libraries take long to import

    return scene_gravity(Path(path))
