"""URDF import: a robot file into a :class:`sim.ModelBuilder`."""

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import URDFWarning
from sim.importers.decomposition import as_triangles, threshold_of
from sim.importers.gltf_lights import add_lights
from sim.importers.meshes import MeshLibrary
from sim.importers.transaction import all_or_nothing, check_arguments, folders_in, named_file
from sim.importers.urdf.geometry import Shape, collision_shapes, named_colours, origin, visual_lights, visual_shapes
from sim.importers.urdf.graph import JointElement, RobotTree, not_a_robot, read_tree
from sim.importers.xmltree import Element, parse_xml
from sim.model.builder import WorldBuilder
from sim.model.builder.properties import JOINT_FIELDS, Surface, in_groups
from sim.model.checks import require_choice
from sim.model.model import Part
from sim.model.poses import IDENTITY, compose
from sim.model.shapes.inertia import joined_solids, solid_properties
from sim.model.spec_checks import is_physical, pose
from sim.model.specs import IDENTITY_QUATERNION, WORLD, Vector

READ_TAGS = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "collision"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
}


def add_urdf(
    builder: WorldBuilder,
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
    """Add the robot of a URDF file: all of it, or nothing after an error.

    Links and joints keep their names and their order. The root link is joined to the world by a joint ``<root>_fixed``,
    or ``<root>_free`` with ``floating_base=True``. A link called "world" becomes ``<robot>/world``, since the name is
    reserved.

    Details that the format leaves open:

    - A revolute or prismatic joint without ``<limit>`` is an error, as in ROS. With a ``<limit>`` that gives neither
      lower nor upper it has no position limits and a warning says so; with one of the two the other is 0. Effort and
      velocity are infinite if not given.
    - A floating joint is a free one where its parent is welded to the world, and an error elsewhere. Its coordinates
      are in the world frame, starting at the joint's origin. Planar joints are an error; "spherical" and "ball" are
      accepted.
    - Crossed limits, collisions with a size of zero and flat collision meshes are ignored with a warning. Of several
      materials in a visual the first is used, as in ROS; a single number as a mesh's scale applies to all axes.
    - The axis of a joint is (1, 0, 0) if not given, and normalised.
    - Limits, efforts and velocities of 1e30 or more are treated as absent.
    - A link without ``<inertial>``, or whose mass and inertia are zero, has no mass; a warning names moving links
      without any mass. With ``<density>`` in place of ``<mass>``, as in Isaac Gym's files, they are those of the
      colliders. Of several ``<inertial>`` the first is used, as in ROS; without ``<inertia>`` the mass is a
      point. Warnings name both.
    - A parent "world" that the file doesn't have as a link is the world.
    - An unphysical inertia is kept with a warning, since many published robots have one; it is an error if the moving
      body, with everything welded to it, has a negative principal moment.
    - A mesh collides as its convex hull, or with ``decompose`` as convex pieces; with ``static_meshes="triangles"`` as
      a triangle mesh, if it isn't convex and its link is welded to the world. The unit of a .dae file is applied, its
      up axis is not, as in ROS.
    - One warning lists the ignored elements (transmissions, Gazebo tags, safety controllers ...).

    Args:
        path: the file.
        name: prefix of all names, as "name/", which allows several copies in one world.
        position: position of the root link in the world [m].
        orientation: orientation of the root link, quaternion xyzw.
        floating_base: join the root link to the world by a free joint instead of welding it: for robots that
            walk, drive or fly.
        visual: read the visual geometry, with its meshes.
        collision: read the collision geometry, with its meshes.
        self_collision: let links of the robot collide with each other (never those joined by a joint).
        friction: Coulomb friction of the collision geometry.
        restitution: restitution of the collision geometry.
        decompose: let non-convex meshes collide as several convex pieces, which CoACD (the extra ``decompose``)
            computes in seconds to minutes per mesh; True, or its threshold, from 0.01 (many pieces) to 1 (few).
        static_meshes: collision shape of non-convex meshes that no joint moves: "hulls", or "triangles" for the
            original mesh, see :meth:`sim.ModelBuilder.add_static_mesh`.
        mimic: treatment of a joint that mimics another: "couple" couples it to the other by a constraint of the solver
            (:meth:`sim.ModelBuilder.add_joint_coupling`), "free" leaves it independent. In both cases it has a separate
            coordinate, which kinematics and dynamics without a simulator use as given.
        package_dirs: a folder, or several, to search for ``package://`` meshes, before ROS_PACKAGE_PATH,
            AMENT_PREFIX_PATH and the folders above the file.

    Returns:
        The part, named ``name`` or as the robot in the file.

    Raises:
        ImportFileError: naming the file, the link or joint and its line.
        ModelError: for a wrong argument.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> part = scene.add_urdf("scenes/robots/quadruped.urdf", name="dog", floating_base=True)
        >>> part.links[0]
        'dog/trunk'
    """
    require_choice("add_urdf: mimic", mimic, ("couple", "free"))
    check_arguments(
        "add_urdf", path, name, friction, restitution,
        floating_base=floating_base, visual=visual, collision=collision, self_collision=self_collision,
    )  # fmt: skip
    base, threshold = pose("add_urdf", position, orientation), threshold_of(decompose)
    triangles = as_triangles("add_urdf", static_meshes)
    file = Path(path)
    with named_file(file), all_or_nothing(builder):
        robot = parse_xml(file)
        if robot.tag != "robot":
            raise not_a_robot(robot)
        tree = read_tree(robot)
        label = name or robot.attributes.get("name") or file.stem
        meshes = MeshLibrary(file.resolve().parent, folders_in(package_dirs))
        prefix = "" if name is None else f"{name}/"
        reader = _Reader(builder, robot, tree, label, prefix, base, floating_base, mimic, meshes)
        links = [reader.link(link) for link in tree.links]
        joints = [reader.base_joint(), *(reader.joint(joint) for joint in tree.joints)]
        reader.mimics()
        reader.geometries(visual, collision, friction, restitution, threshold, triangles)
        if not self_collision:
            builder.exclude_group(links)
        part = builder.add_part(label, links, joints)
        reader.warn()
    return part


@dataclass
class _Reader:
    """Reader that adds the elements of one robot to the builder."""

    builder: WorldBuilder
    robot: Element
    tree: RobotTree
    label: str
    prefix: str
    base: np.ndarray
    floating_base: bool
    mimic: str
    meshes: MeshLibrary
    notes: list[str] = field(default_factory=list)
    unphysical: list[str] = field(default_factory=list)
    unlimited: list[str] = field(default_factory=list)
    massive: set[str] = field(default_factory=set)
    # Pose in the world of every link that is welded to it
    welded: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.welded = {} if self.floating_base else {self.tree.root: self.base}
        for link in self.tree.order[1:]:
            joint = self.tree.joint_of[link]
            if joint.type == "fixed" and joint.parent in self.welded:
                self.welded[link] = compose(self.welded[joint.parent], np.concatenate(origin(joint.element)))

    def link_name(self, link: str) -> str:
        """Return the name of a link in the builder."""
        name = self.prefix + link
        return f"{self.label}/{name}" if name == WORLD else name

    def link(self, link: str) -> str:
        """Add a link with its inertial data."""
        element, name = self.tree.links[link], self.link_name(link)
        mass, com, inertia = self._inertial(element, name)
        with element.located(f"link '{name}'"):
            # Published files have zeros instead of omitting <inertial>.
            if not mass and not inertia.any():
                return self.builder.add_link(name)
            self.massive.add(link)
            self.builder.add_link(name, mass=mass, com=com, inertia=inertia, allow_unphysical=True)
            if not is_physical(inertia):
                self.unphysical.append(f"'{name}'")
            return name

    def base_joint(self) -> str:
        """Add the joint between the world and the root link."""
        type = "free" if self.floating_base else "fixed"
        name = f"{self.prefix}{self.tree.root}_{type}"
        while name.removeprefix(self.prefix) in self.tree.joints:
            name += "_base"
        with self.robot.located(f"joint '{name}'"):
            child = self.link_name(self.tree.root)
            return self.builder.add_joint(name, type, child=child, position=self.base[:3], orientation=self.base[3:])

    def joint(self, joint_name: str) -> str:
        """Add a joint of the file."""
        joint, name = self.tree.joints[joint_name], self.prefix + joint_name
        parent, placement = self.link_name(joint.parent), np.concatenate(origin(joint.element))
        if joint.type == "free":
            if joint.parent not in self.welded:
                raise joint.element.error(
                    f"a floating joint needs a parent that is welded to the world, but '{joint.parent}' is not; "
                    "floating joints inside a moving robot are not supported"
                )
            parent, placement = WORLD, compose(self.welded[joint.parent], placement)
        with joint.element.located(f"joint '{name}'"):
            self.builder.add_joint(
                name,
                joint.type,
                parent=parent,
                child=self.link_name(joint.child),
                position=placement[:3],
                orientation=placement[3:],
                **in_groups(JOINT_FIELDS, self._joint_properties(joint)),
            )
        if joint.type == "free":
            self.builder.joints[name].origin = placement
        return name

    def mimics(self) -> None:
        """Couple the joints that mimic another joint, or note that they are independent."""
        for name, joint in self.tree.joints.items():
            mimic = joint.element.optional("mimic")
            if mimic is None or joint.type == "fixed":
                continue
            followed = mimic.text("joint")
            if self.mimic == "free":
                self.notes.append(
                    f"joint '{self.prefix}{name}' mimics '{followed}' in the file but is independent here "
                    f"(mimic='free')"
                )
                continue
            for which in (name, followed):
                if which not in self.tree.joints:
                    raise joint.element.error(
                        f"mimics joint '{followed}', which doesn't exist; with mimic='free' all joints are independent"
                    )
                if self.tree.joints[which].type not in ("revolute", "continuous", "prismatic"):
                    raise joint.element.error(
                        f"mimics joint '{followed}', but '{which}' is {self.tree.joints[which].type}; only revolute, "
                        "continuous and prismatic joints can mimic and be mimicked"
                    )
            with mimic.located(f"coupling of joint '{self.prefix}{name}' with '{self.prefix}{followed}'"):
                self.builder.add_joint_coupling(
                    self.prefix + name,
                    self.prefix + followed,
                    ratio=mimic.number("multiplier", 1.0),
                    offset=mimic.number("offset", 0.0),
                )

    def geometries(
        self,
        visual: bool,
        collision: bool,
        friction: float,
        restitution: float,
        threshold: float | None,
        triangles: bool,
    ) -> None:
        """Add the geometry of all links."""
        colours = named_colours(self.robot)
        for link, element in self.tree.links.items():
            name = self.link_name(link)
            visuals = element.all("visual") if visual else []
            number = 0
            for item in visuals:
                for shape in visual_shapes(item, self.meshes, colours):
                    with item.located(f"geometry '{name}/visual_{number}'"):
                        _add_shape(self.builder, name, f"{name}/visual_{number}", shape, collides=False)
                    number += 1
                add_lights(self.builder, visual_lights(item, self.meshes), name, IDENTITY)
            for number, item in enumerate(element.all("collision") if collision else []):
                found = collision_shapes(item, self.meshes, threshold, triangles and link in self.welded)
                if not found:
                    self.notes.append(f"ignored: collision {number} of link '{name}', which has no volume")
                whole = f"{name}/collision_{number}"
                for part, shape in enumerate(found):
                    with item.located(f"geometry '{whole}'"):
                        own = whole if len(found) == 1 else f"{whole}/{part}"
                        _add_shape(
                            self.builder,
                            name,
                            own,
                            shape,
                            surface=Surface(friction=friction, restitution=restitution),
                            visible=not visuals,
                        )

    def warn(self) -> None:
        """Issue everything noted while reading as warnings, each once for the file."""
        ignored = Counter(
            f"<{child.tag}>"
            for element in (self.robot, *self.robot.all("link"), *self.robot.all("joint"))
            for child in element.children
            if child.tag not in READ_TAGS[element.tag]
        )
        if ignored:
            self.notes.append("ignored elements: " + ", ".join(f"{tag} ({count})" for tag, count in ignored.items()))
        massless = self._massless_links()
        if massless:
            self.notes.append(
                f"no inertial data on moving links {', '.join(massless)}: kinematics works, dynamics may be refused; "
                "give them an <inertial>"
            )
        if self.unphysical:
            self.notes.append(
                f"inertia of links {', '.join(self.unphysical)}: negative principal moments or ones that violate the "
                "triangle inequality are unphysical; they are kept as in the file"
            )
        if self.unlimited:
            self.notes.append(
                f"joints {', '.join(self.unlimited)}: <limit> gives neither lower nor upper; they have no position "
                "limits"
            )
        for note in (*self.notes, *self.meshes.notes):
            warnings.warn(f"{self.robot.path}: {note}", URDFWarning, stacklevel=3)

    def _joint_properties(self, joint: JointElement) -> dict[str, object]:
        element = joint.element
        if joint.type in ("fixed", "free"):
            return {}
        properties: dict[str, object] = {}
        dynamics = element.optional("dynamics")
        if dynamics is not None:
            properties["damping"] = dynamics.number("damping", 0.0)
            properties["friction_loss"] = dynamics.number("friction", 0.0)
        if joint.type != "spherical":
            axis = element.optional("axis")
            properties["axis"] = (1.0, 0.0, 0.0) if axis is None else axis.vector("xyz", 3)
        limit = element.optional("limit")
        if limit is not None:
            properties["effort"] = limit.bound("effort", np.inf)
            properties["velocity"] = limit.bound("velocity", np.inf)
        if joint.type in ("revolute", "prismatic"):
            if limit is None:
                other = "; or make it continuous" if joint.type == "revolute" else ""
                raise element.error(f"a {joint.type} joint needs a <limit>{other}")
            if {"lower", "upper"} & limit.attributes.keys():
                properties |= self._position_limits(element, limit)
            else:
                self.unlimited.append(f"'{self.prefix}{element.attributes['name']}'")
        elif joint.type == "spherical" and limit is not None and {"lower", "upper"} & limit.attributes.keys():
            self.notes.append(f"the position limits of the spherical joint '{element.attributes['name']}' are ignored")
        return properties

    def _position_limits(self, joint: Element, limit: Element) -> dict[str, float]:
        """Return the limits of a joint's position; none if they are crossed."""
        lower, upper = limit.bound("lower", 0.0), limit.bound("upper", 0.0)
        if lower > upper:
            self.notes.append(
                f"joint '{self.prefix}{joint.attributes['name']}': its lower limit {lower:g} is above its upper limit "
                f"{upper:g}; it has no position limits here"
            )
            return {}
        return {"lower": lower, "upper": upper}

    def _inertial(self, link: Element, name: str) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass [kg], centre of mass [m] and inertia about it [kg m^2] in link axes; default: zeros."""
        found = link.all("inertial")
        if not found:
            return 0.0, np.zeros(3), np.zeros((3, 3))
        inertial, *others = found
        if others:
            self.notes.append(
                f"link '{name}' has {len(found)} <inertial> elements; as in ROS the first is used, in line "
                f"{inertial.line}"
            )
        density = inertial.optional("density")
        if density is not None and inertial.optional("mass") is None:
            if inertial.optional("inertia") is not None or inertial.optional("origin") is not None:
                self.notes.append(f"link '{name}': its <density> gives mass, centre and inertia; others are ignored")
            value = density.number("value")
            if value < 0.0:
                raise density.error(f"is {value:g}; a density can't be negative")
            solid = self._solid(link, value)
            if value > 0.0 and not solid[0]:
                self.notes.append(f"link '{name}' has a <density> but no colliders with volume, so it has no mass")
            return solid
        mass = inertial.required("mass").number("value")
        com, quaternion = origin(inertial)
        element = inertial.optional("inertia")
        if element is None:
            self.notes.append(f"link '{name}' has a mass and no <inertia>; its mass is a point here")
            return mass, com, np.zeros((3, 3))
        xx, yy, zz = (element.number(key) for key in ("ixx", "iyy", "izz"))
        xy, xz, yz = (element.number(key, 0.0) for key in ("ixy", "ixz", "iyz"))
        axes = Rotation.from_quat(quaternion).as_matrix()
        return mass, com, axes @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ axes.T

    def _solid(self, link: Element, density: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the same of colliders of a density [kg/m^3], as Isaac Gym has it; meshes as their convex hulls."""
        shapes = [shape for item in link.all("collision") for shape in collision_shapes(item, self.meshes, None, False)]
        volume, com, inertia = joined_solids(
            (
                solid_properties(shape.type, np.array(shape.size), shape.mesh),
                np.concatenate([shape.position, shape.orientation]),
            )
            for shape in shapes
        )
        return density * volume, com, density * inertia

    def _massless_links(self) -> list[str]:
        """Return massless links with a moving joint, or none, that carry nothing with mass."""
        joint_of, massive = self.tree.joint_of, set(self.massive)
        for link in reversed(self.tree.order):
            if link in massive and link in joint_of:
                massive.add(joint_of[link].parent)
        moving = (
            link
            for link in self.tree.order
            if link not in self.welded and not (link in joint_of and joint_of[link].type == "fixed")
        )
        return [f"'{self.link_name(link)}'" for link in moving if link not in massive]


def _add_shape(builder: WorldBuilder, link: str, name: str, shape: Shape, **options: object) -> None:
    builder.add_geometry(
        link, shape.type, name=name, size=shape.size, mesh=shape.mesh, rgba=shape.rgba, material=shape.material,
        position=shape.position, orientation=shape.orientation, **options,  # type: ignore[arg-type]
    )  # fmt: skip
