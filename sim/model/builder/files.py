"""Robots and scenes from files."""

import os
from collections.abc import Sequence
from typing import Literal

from sim.model.builder.readers import reader
from sim.model.checks import require_path
from sim.model.model import Part
from sim.model.specs import IDENTITY_QUATERNION, Vector, WorldSpec


class Files(WorldSpec):
    """The methods of :class:`sim.ModelBuilder` that read files; the readers are in :mod:`sim.importers`."""

    def add_urdf(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        floating_base: bool = False,
        visual: bool = True,
        collision: bool = True,
        self_collision: bool = False,
        friction: float = 1.0,
        restitution: float = 0.0,
        decompose: bool | float = False,
        static_meshes: Literal["hulls", "triangles"] = "hulls",
        mimic: Literal["couple", "free"] = "couple",
        package_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ) -> Part:
        """Add the robot of a URDF file. Either all of it is added, or an error is raised and nothing is.

        The base is fixed to the world unless ``floating_base=True``. How the file is read is described at
        :func:`sim.importers.urdf.add_urdf`.

        Args:
            path: the file.
            name: prefix of all names, as "name/"; lets several copies stand in one world.
            position: of the root link in the world [m].
            orientation: of the root link, quaternion xyzw.
            floating_base: join the root link to the world by a free joint instead of welding it: for robots that
                walk, drive or fly.
            visual: read the visual geometry, with its meshes.
            collision: read the collision geometry, with its meshes.
            self_collision: let links of the robot collide with each other (never those joined by a joint).
            friction: Coulomb friction of the collision geometry.
            restitution: restitution of the collision geometry.
            decompose: let meshes that aren't convex collide as several convex pieces, which CoACD (the extra
                ``decompose``) finds in seconds to minutes a mesh; True, or its threshold, from 0.01 for many pieces to
                1 for few.
            static_meshes: what meshes that aren't convex collide as where no joint moves them: "hulls", as others do,
                or "triangles" as they are, see :meth:`sim.ModelBuilder.add_static_mesh`.
            mimic: how to read a joint that mimics another: "couple" holds it to the other by a constraint of the
                solver (:meth:`sim.ModelBuilder.add_joint_coupling`), "free" leaves it independent. Either way it has a
                coordinate of its own, and kinematics and dynamics without a simulator take it as it is given.
            package_dirs: a folder, or several, to search for ``package://`` meshes, before ROS_PACKAGE_PATH,
                AMENT_PREFIX_PATH and the folders above the file.

        Returns:
            the part, named ``name`` or as the robot in the file.

        Raises:
            ImportFileError: naming the file, the link or joint and its line.
            ModelError: for a wrong argument.
        """
        require_path(path)
        add_urdf = reader("urdf").function()
        return add_urdf(
            self,
            path,
            name=name,
            position=position,
            orientation=orientation,
            floating_base=floating_base,
            visual=visual,
            collision=collision,
            self_collision=self_collision,
            friction=friction,
            restitution=restitution,
            decompose=decompose,
            static_meshes=static_meshes,
            mimic=mimic,
            package_dirs=package_dirs,
        )

    def add_usd(
        self,
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
        """Add what a USD file describes in UsdPhysics. Either all of it is added, or an error is raised and nothing is.

        How the file is read is described at :func:`sim.importers.usd.add_usd`. Gravity stays as the builder has it.

        Args:
            path: a ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.
            name: prefix of all names, as "name/"; lets several copies stand in one world.
            position: of the origin of the stage in the world [m].
            orientation: of the stage, quaternion xyzw.
            visual: read geometry that is only drawn.
            collision: read the colliders.
            friction: of colliders without a physics material.
            restitution: of colliders without a physics material.
            decompose: let meshes that aren't convex collide as several convex pieces, which CoACD (the extra
                ``decompose``) finds in seconds to minutes a mesh; True, or its threshold, from 0.01 for many pieces to
                1 for few.
            drives: what the drive of a joint becomes: "actuators", a "position" actuator if it has stiffness, otherwise
                a "velocity" actuator if its force is limited, and damping of the joint if it isn't; "springs", a spring
                about the target and damping, always.

        Returns:
            the parts, one for each tree of bodies.

        Raises:
            ImportFileError: naming the file and the prim.
            ModelError: for a wrong argument.
        """
        require_path(path)
        add_usd = reader("usd").function()
        return add_usd(
            self,
            path,
            name=name,
            position=position,
            orientation=orientation,
            visual=visual,
            collision=collision,
            friction=friction,
            restitution=restitution,
            decompose=decompose,
            drives=drives,
        )

    def add_sdf(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        visual: bool = True,
        collision: bool = True,
        friction: float | None = None,
        restitution: float = 0.0,
        decompose: bool | float = False,
        static_meshes: Literal["hulls", "triangles"] = "hulls",
        package_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ) -> list[Part]:
        """Add the models of an SDF file, at its top or in its world. Either all of it is added, or nothing.

        How the file is read is described at :func:`sim.importers.sdf.add_sdf`. Gravity stays as the builder has it.

        Args:
            path: a ``.sdf`` or ``.world`` file.
            name: prefix of all names, as "name/"; lets several copies stand in one world.
            position: of the file's world frame in the world [m].
            orientation: of that frame, quaternion xyzw.
            visual: read the visual geometry, with its meshes.
            collision: read the collision geometry, with its meshes.
            friction: Coulomb friction of all collision geometry, instead of the file's.
            restitution: restitution of the collision geometry.
            decompose: let meshes that aren't convex collide as several convex pieces, which CoACD (the extra
                ``decompose``) finds in seconds to minutes a mesh; True, or its threshold, from 0.01 for many pieces to
                1 for few.
            static_meshes: what meshes that aren't convex collide as where no joint moves them: "hulls", as others do,
                or "triangles" as they are, see :meth:`sim.ModelBuilder.add_static_mesh`.
            package_dirs: a folder, or several, to search for ``model://`` models and meshes before all others.

        Returns:
            the parts, one for each model.

        Raises:
            ImportFileError: naming the file, the element and its line.
            ModelError: for a wrong argument.
        """
        require_path(path)
        add_sdf = reader("sdf").function()
        return add_sdf(
            self,
            path,
            name=name,
            position=position,
            orientation=orientation,
            visual=visual,
            collision=collision,
            friction=friction,
            restitution=restitution,
            decompose=decompose,
            static_meshes=static_meshes,
            package_dirs=package_dirs,
        )

    def add_mjcf(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        position: Vector = (0.0, 0.0, 0.0),
        orientation: Vector = IDENTITY_QUATERNION,
        visual: bool = True,
        collision: bool = True,
        self_collision: bool = True,
        world_geometry: bool = True,
        friction: float | None = None,
        restitution: float = 0.0,
        decompose: bool | float = False,
        static_meshes: Literal["hulls", "triangles"] = "hulls",
    ) -> Part:
        """Add what an MJCF file holds, as MuJoCo's parser and compiler read it. Either all of it is added, or nothing.

        How the file is read is described at :func:`sim.importers.mjcf.add_mjcf`.

        Args:
            path: the file.
            name: prefix of all names, as "name/"; lets several copies stand in one world.
            position: of the file's world frame in the world [m].
            orientation: of that frame, quaternion xyzw. Gravity is not turned.
            visual: read geometry that doesn't collide.
            collision: let geometry collide.
            self_collision: let moving bodies collide with each other where the file does.
            world_geometry: read the geometry of the file's world and of bodies that don't move, such as its floor.
            friction: Coulomb friction of all geometry, instead of the file's.
            restitution: restitution of what moves.
            decompose: let meshes that aren't convex collide as several convex pieces, which CoACD (the extra
                ``decompose``) finds in seconds to minutes a mesh; True, or its threshold, from 0.01 for many pieces to
                1 for few.
            static_meshes: what meshes that aren't convex collide as where no joint moves them: "hulls", as others do,
                or "triangles" as they are, see :meth:`sim.ModelBuilder.add_static_mesh`.

        Returns:
            one part with all bodies of the file, named ``name`` or as the model in the file, with its keyframes and
            time step.

        Raises:
            ImportFileError: naming the file and the element, or with MuJoCo's message.
            ModelError: for a wrong argument, or without MuJoCo (the extra ``mjcf``).
        """
        require_path(path)
        add_mjcf = reader("mjcf").function()
        return add_mjcf(
            self,
            path,
            name=name,
            position=position,
            orientation=orientation,
            visual=visual,
            collision=collision,
            self_collision=self_collision,
            world_geometry=world_geometry,
            friction=friction,
            restitution=restitution,
            decompose=decompose,
            static_meshes=static_meshes,
        )
