"""SDF import: models and worlds of Gazebo's format into a :class:`sim.ModelBuilder`.

The only parser on PyPI, python-sdformat, has had no release since 2022, and libsdformat has no wheel. Meshes, XML with
line numbers and messages are shared with the URDF importer.
"""

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ImportFileError, SDFWarning
from sim.importers.decomposition import as_triangles, threshold_of
from sim.importers.gltf_lights import add_lights
from sim.importers.meshes import MeshLibrary
from sim.importers.sdf.geometry import ALL_BITS, bitmask, shapes, visual_lights
from sim.importers.sdf.joints import JointFrame, joint_properties, screw_ratio, tree_of
from sim.importers.sdf.lights import add_ambient, add_light
from sim.importers.sdf.scopes import FlatModel, Library, flat_models, resource_folders, version_of
from sim.importers.sdf.unread import count_unread
from sim.importers.sdf.values import below, flag, named, number, pose, relative_to, vector
from sim.importers.transaction import all_or_nothing, check_arguments, folders_in, named_file
from sim.importers.xmltree import Element, parse_xml
from sim.model.builder import WorldBuilder
from sim.model.builder.properties import DEFAULT_SURFACE, Surface
from sim.model.checks import free_name
from sim.model.model import Part
from sim.model.poses import IDENTITY, compose, inverse, is_identity
from sim.model.shapes.hulls import FlatMeshError
from sim.model.spec_checks import is_physical
from sim.model.spec_checks import pose as check_pose
from sim.model.specs import IDENTITY_QUATERNION, WORLD, Vector

EARTH = (0.0, 0.0, -9.81)
# Types of the second joints of those with two degrees of freedom, and labels in their names.
SECOND = {"universal": ("revolute", "axis2"), "screw": ("prismatic", "thread")}
# Tolerance along chains of frames: a joint within this distance of its link is at the link [m].
ROUNDING = 1e-12
# Gravity of a world without one, by SDF's specification
WORLDS_GRAVITY = (0.0, 0.0, -9.8)

UNBOUNDED = "a negative mu, unbounded friction in Gazebo, is read as 1: a pair has the friction of the other"


def add_sdf(
    builder: WorldBuilder,
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
    """Add the models of an SDF file, at its top level or in its world: all of them, or nothing after an error.

    The builder's gravity is kept (:func:`sim.load` uses that of the file).

    - Names of links, joints and frames are those of the file with their model as prefix, as "robot/arm", without the
      prefix if the file has one model; names in nested models keep their "::". ``<include>`` and meshes find
      ``model://`` next to the file, in ``package_dirs`` and in the folders that Gazebo's environment variables name;
      addresses of Gazebo Fuel also in its folder of downloaded models, GZ_FUEL_CACHE_PATH or ~/.gz/fuel.
    - A link without a parent joint is free, unless its model is static: then all its links are fixed to the world.
      Poses follow ``relative_to``, ``attached_to`` and ``degrees``. The frame of a link is that of SDF, moved to the
      origin of its parent joint; if that moves it, the frame "<link>/origin" is SDF's.
    - Joints: revolute, continuous, prismatic, ball and fixed, with limits, damping, friction, springs and ``<mimic>``.
      A universal joint (or "revolute2") becomes two hinges, and a screw a hinge and a slide that are coupled, with a
      massless link between them. Others, and joints that close loops, are errors.
    - A link without ``<inertial>`` has SDF's default: a mass of 1 kg and its inertia.
    - Flat meshes that should collide are ignored with a warning.
    - Sliding friction is the first one of ``<ode>``; a pair uses the product, so that a ground of 1 leaves it as it is.
      A negative one, unbounded in Gazebo, is read as 1 with a warning.
    - With ``static_meshes="triangles"`` non-convex meshes of static models collide as triangle meshes.
    - ``<collide_bitmask>`` becomes group and mask of a geometry; in a file that uses it, the default is SDF's 65535.
    - Links of a model collide with each other only with ``<self_collide>``, and never where a joint joins them.
    - One warning lists what is ignored (plugins, sensors, physics engines' settings ...).

    Args:
        path: a ``.sdf`` or ``.world`` file.
        name: prefix of all names, as "name/", which allows several copies in one world.
        position: position of the file's world frame in the world [m].
        orientation: orientation of that frame, quaternion xyzw.
        visual: read the visual geometry, with its meshes.
        collision: read the collision geometry, with its meshes.
        friction: Coulomb friction of all collision geometry, instead of the file's.
        restitution: restitution of the collision geometry.
        decompose: let non-convex meshes collide as several convex pieces, which CoACD (the extra ``decompose``)
            computes in seconds to minutes per mesh; True, or its threshold, from 0.01 (many pieces) to 1 (few).
        static_meshes: collision shape of non-convex meshes that no joint moves: "hulls", or "triangles" for the
            original mesh, see :meth:`sim.ModelBuilder.add_static_mesh`.
        package_dirs: a folder, or several, to search for ``model://`` models and meshes first.

    Returns:
        The parts, one for each model.

    Raises:
        ImportFileError: naming the file, the element and its line.
        ModelError: for a wrong argument.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import sim
        >>> path = Path(tempfile.mkdtemp()) / "box.sdf"
        >>> _ = path.write_text('<sdf version="1.10"><model name="box"><link name="body"/></model></sdf>')
        >>> scene = sim.ModelBuilder()
        >>> [part.links for part in scene.add_sdf(path)]
        [('body',)]
    """
    check_arguments("add_sdf", path, name, friction, restitution, visual=visual, collision=collision)
    base, threshold = check_pose("add_sdf", position, orientation), threshold_of(decompose)
    triangles = as_triangles("add_sdf", static_meshes)
    file = Path(path)
    with named_file(file), all_or_nothing(builder):
        root = parse_xml(file)
        top = _top(root)
        folders = folders_in(package_dirs)
        library = Library(file.resolve().parent, folders)
        models = flat_models(top, library)
        if not models:
            raise ImportFileError(file, "contains no models; there is nothing to simulate")
        prefix = "" if name is None else f"{name}/"
        reader = _Reader(builder, base, friction, restitution, threshold, triangles, visual, collision, folders)
        collisions = [each for model in models for link in model.links.values() for each in link.all("collision")]
        reader.filtered = any(bitmask(each) is not None for each in collisions)
        parts = [reader.add(model, prefix, several=len(models) > 1) for model in models]
        reader.lights_of_world(top, prefix)
        reader.warn(file, root)
    return parts


def read_gravity(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the gravity of an SDF file [m/s^2]: its world's, default (0, 0, -9.8); (0, 0, -9.81) without a world.

    Raises:
        ImportFileError: if the file can't be read.
    """
    top = _top(parse_xml(Path(path)))
    return vector(top, "gravity", WORLDS_GRAVITY) if top.tag == "world" else np.array(EARTH)


def _top(root: Element) -> Element:
    """Return the world of a file, or its root element if it has none."""
    version_of(root)
    worlds = root.all("world")
    if len(worlds) > 1:
        raise worlds[1].error("is a second world; a file must have one")
    if worlds and root.all("model"):
        raise root.error("has models outside its world; move them into it")
    return worlds[0] if worlds else root


@dataclass
class _Reader:
    """Reader that adds models to the builder."""

    builder: WorldBuilder
    base: np.ndarray
    friction: float | None
    restitution: float
    threshold: float | None
    triangles: bool
    visual: bool
    collision: bool
    package_dirs: Sequence[Path]
    notes: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    meshes: dict[Path, MeshLibrary] = field(default_factory=dict)
    filtered: bool = False
    lit: bool = False  # whether a light was added
    second: dict[str, str] = field(default_factory=dict)  # joints of the second axes, by the first

    def add(self, model: FlatModel, prefix: str, several: bool) -> Part:
        """Add a model as a part."""
        self.notes += model.notes
        own = f"{prefix}{model.name}/" if several else prefix
        carrier = {} if model.static else tree_of(model)
        frames = {link: self._frame(model, link, carrier.get(link)) for link in model.links}
        names = {link: f"{own}{link}" if own + link != WORLD else f"{model.name}/{link}" for link in model.links}
        for link, element in model.links.items():
            self._link(model, link, element, names[link], frames[link])
        joints: list[str] = []
        links = list(names.values())
        for link in model.links:
            between, added = self._joints(model, link, names, frames, carrier.get(link), own)
            links += between
            joints += added
        for joint in carrier.values():
            self._mimic(model, joint, own)
        self._frames(model, own, names, frames)
        if not flag(model.element, "self_collide"):
            self.builder.exclude_group(links)
        for element in model.elements:
            count_unread(element, self.ignored)
            if flag(element, "self_collide") != flag(model.element, "self_collide"):
                self.notes.append(f"model '{named(element)}': whether it collides with itself is as for '{model.name}'")
        return self.builder.add_part(own.rstrip("/") or model.name, links, joints)

    def _frame(self, model: FlatModel, link: str, joint: JointFrame | None) -> np.ndarray:
        """Return the pose of a link's frame in the world [7]: at its joint, with SDF's orientation."""
        there = model.pose_of(link, model.links[link], self.base)
        if joint is None:
            return there
        at = model.pose_of(joint.name, joint.element, self.base)
        pose = at if np.abs(at[:3] - there[:3]).max() > ROUNDING else there
        return np.concatenate([pose[:3], there[3:]])

    def _link(self, model: FlatModel, link: str, element: Element, name: str, frame: np.ndarray) -> None:
        # Both have the same orientation.
        away = model.pose_of(link, element, self.base)[:3] - frame[:3]
        local = np.concatenate([Rotation.from_quat(frame[3:]).inv().apply(away), IDENTITY[3:]])
        mass, com, inertia = _inertial(model, link, element)
        with element.located(f"link '{name}'"):
            self.builder.add_link(
                name, mass=mass, com=_moved(local, com), inertia=_turned(local, inertia), allow_unphysical=True,
                gravity_compensation=None if flag(element, "gravity", default=True) else 1.0,
            )  # fmt: skip
        if not is_physical(inertia):
            self.notes.append(f"link '{name}': no physical body has its inertia, which is kept as in the file")
        if not is_identity(local):
            self.builder.add_frame(f"{name}/origin", name, local[:3], local[3:])
        self._geometries(model, link, name, frame)
        for light in element.all("light"):
            self._light(
                light, f"{name}/{named(light)}", name, compose(inverse(frame), self._around(model, link, light))
            )
        count_unread(element, self.ignored)

    def _geometries(self, model: FlatModel, link: str, name: str, frame: np.ndarray) -> None:
        element, triangles = model.links[link], self.triangles and model.static
        folder = element.path.resolve().parent
        meshes = self.meshes.setdefault(folder, MeshLibrary(folder, [*self.package_dirs, *resource_folders()]))
        visuals = element.all("visual") if self.visual else []
        for tag, items in (("visual", visuals), ("collision", element.all("collision") if self.collision else [])):
            for item in items:
                label = f"{name}/{item.attributes.get('name') or tag}"
                if tag == "visual" and item.optional("geometry") is None:
                    self.notes.append(f"ignored: visual '{label}', which has no <geometry>")
                    continue
                try:
                    found = list(shapes(item, meshes, self.threshold, triangles))
                except FlatMeshError:
                    self.notes.append(f"ignored: collision '{label}', whose mesh is flat")
                    continue
                around = compose(inverse(frame), self._around(model, link, item))
                add_lights(self.builder, visual_lights(item, meshes) if tag == "visual" else [], name, around)
                for number_, shape in enumerate(found):
                    own = label if len(found) == 1 else f"{label}/{number_}"
                    own = free_name(own, self.builder.geometries)
                    placed = compose(around, shape.pose)
                    with item.located(f"geometry '{own}'"):
                        self.builder.add_geometry(
                            name, shape.type, name=own, size=shape.size, mesh=shape.mesh, rgba=shape.rgba,
                            material=shape.material,
                            position=placed[:3], orientation=placed[3:], collides=tag == "collision",
                            visible=tag == "visual" or not visuals,
                            surface=self._surface(item) if tag == "collision" else DEFAULT_SURFACE,
                        )  # fmt: skip
                count_unread(item, self.ignored)

    def lights_of_world(self, top: Element, prefix: str) -> None:
        """Add the lights of a world or at the top of a file, and ambient light if there are any lights."""
        for light in top.all("light"):
            if relative_to(light) not in (None, WORLD):
                self.notes.append(f"ignored: light '{named(light)}', whose pose is relative to '{relative_to(light)}'")
                continue
            self._light(light, prefix + named(light), WORLD, self.base)
        if self.lit:
            add_ambient(self.builder, top)

    def _light(self, light: Element, name: str, link: str, around: np.ndarray) -> None:
        """Add a light, relative to a pose in its link [7]."""
        if add_light(self.builder, light, name, link, compose(around, pose(light))):
            self.lit = True
        else:
            self.notes.append(f"skipped: light '{name}', which is off")
        count_unread(light, self.ignored)

    def _around(self, model: FlatModel, link: str, item: Element) -> np.ndarray:
        """Return the pose of a shape's reference frame in the world [7]: the link's, or the one it names."""
        stated = relative_to(item)
        return model.pose_of(link if stated is None else model.scopes[link].full(stated), item, self.base)

    def _surface(self, collision: Element) -> Surface:
        group, mask = self._filter(collision)
        return Surface(friction=self._friction(collision), restitution=self.restitution, group=group, mask=mask)

    def _friction(self, collision: Element) -> float:
        found = below(collision, "surface", "friction", "ode")
        if self.friction is not None or found is None:
            return 1.0 if self.friction is None else self.friction
        stated = number(found, "mu", 1.0)
        if stated < 0.0:
            # Unbounded in Gazebo, which takes the smaller friction of a pair; here a pair uses the product.
            if UNBOUNDED not in self.notes:
                self.notes.append(UNBOUNDED)
            return 1.0
        return stated

    def _filter(self, collision: Element) -> tuple[int, int]:
        """Return group and mask of a collision; the defaults in a file that states none."""
        if not self.filtered:
            return DEFAULT_SURFACE.group, DEFAULT_SURFACE.mask
        bits = bitmask(collision)
        return (ALL_BITS, -1) if bits is None else (bits, bits)

    def _joints(
        self,
        model: FlatModel,
        link: str,
        names: dict[str, str],
        frames: dict[str, np.ndarray],
        joint: JointFrame | None,
        own: str,
    ) -> tuple[list[str], list[str]]:
        """Add the parent joint of a link: from the file, or one to the world.

        One with two degrees of freedom becomes two, with a massless link between them.

        Returns:
            Names of the links between, and of the joints.
        """
        if joint is None:
            type = "fixed" if model.static else "free"
            label = f"{names[link]}_{type}"
            while label in self.builder.joints or label.removeprefix(own) in model.joints:
                label += "_base"
            with model.links[link].located(f"joint '{label}'"):
                where = frames[link]
                self.builder.add_joint(label, type, child=names[link], position=where[:3], orientation=where[3:])
            return [], [label]
        parent = WORLD if joint.parent == WORLD else names[joint.parent]
        above = IDENTITY if joint.parent == WORLD else frames[joint.parent]
        where = compose(inverse(above), frames[link])
        with joint.element.located(f"joint '{own}{joint.name}'"):
            properties = joint_properties(model, joint, frames[link], self.base)
            count_unread(joint.element, self.ignored)
            name, two, between = own + joint.name, joint.type in SECOND, list[str]()
            if two:
                between.append(self.builder.add_link(free_name(f"{names[link]}/{joint.name}", self.builder.links)))
            self.builder.add_joint(
                name, "revolute" if two else joint.type, parent=parent, child=between[0] if two else names[link],
                position=where[:3], orientation=where[3:], **properties,  # type: ignore[arg-type]
            )  # fmt: skip
            second = [self._second_joint(model, link, names, frames, joint, carrier, own) for carrier in between]
            if second:
                self.second[name] = second[0]
                if joint.parent != WORLD:
                    self.builder.exclude_collision(parent, names[link])
            return between, [name, *second]

    def _second_joint(
        self,
        model: FlatModel,
        link: str,
        names: dict[str, str],
        frames: dict[str, np.ndarray],
        joint: JointFrame,
        between: str,
        own: str,
    ) -> str:
        """Add the second axis of a universal joint, or the slide of a screw, coupled to its rotation."""
        type, label = SECOND[joint.type]
        name = free_name(f"{own}{joint.name}/{label}", self.builder.joints)
        if joint.type == "screw":
            axis = joint_properties(model, joint, frames[link], self.base)["axis"]
            self.builder.add_joint(name, type, parent=between, child=names[link], axis=axis)  # type: ignore[arg-type]
            self.builder.add_joint_coupling(name, own + joint.name, ratio=screw_ratio(joint))
            return name
        properties = joint_properties(model, joint, frames[link], self.base, "axis2")
        return self.builder.add_joint(name, type, parent=between, child=names[link], **properties)  # type: ignore[arg-type]

    def _mimic(self, model: FlatModel, joint: JointFrame, own: str) -> None:
        for tag in ("axis", "axis2"):
            axis = joint.element.optional(tag)
            mimic = None if axis is None else axis.optional("mimic")
            if mimic is None or (tag == "axis2" and own + joint.name not in self.second):
                continue
            other = joint.scope.full(mimic.text("joint"))
            if other not in model.joints:
                raise mimic.error(f"follows joint '{other}', which doesn't exist")
            ratio = number(mimic, "multiplier", 1.0)
            offset = number(mimic, "offset", 0.0) - ratio * number(mimic, "reference", 0.0)
            follower = self._of_axis(mimic, own + joint.name, tag)
            leader = self._of_axis(mimic, own + other, mimic.attributes.get("axis", "axis"))
            with mimic.located(f"coupling of joint '{follower}' with '{leader}'"):
                self.builder.add_joint_coupling(follower, leader, ratio=ratio, offset=offset)

    def _of_axis(self, mimic: Element, joint: str, axis: str) -> str:
        """Return the joint of one axis of a joint of the file."""
        if axis == "axis":
            return joint
        if joint not in self.second:
            raise mimic.error(f"joint '{joint}' has no '{axis}'")
        return self.second[joint]

    def _frames(self, model: FlatModel, own: str, names: dict[str, str], frames: dict[str, np.ndarray]) -> None:
        """Add the frames of ``<frame>`` elements to the links that they are attached to."""
        for frame, placed in model.frames.items():
            if placed.element.tag != "frame":
                continue
            link = model.link_of(frame)
            above = self.base if link is None else frames[link]
            local = compose(inverse(above), model.pose_of(frame, placed.element, self.base))
            if link is None:
                local = compose(above, local)
            with placed.element.located(f"frame '{own}{frame}'"):
                self.builder.add_frame(own + frame, WORLD if link is None else names[link], local[:3], local[3:])

    def warn(self, file: Path, root: Element) -> None:
        """Issue all notes as one warning."""
        if (top := _top(root)).tag == "world":
            count_unread(top, self.ignored)
        if self.ignored:
            kinds = ", ".join(f"{tag} ({count})" for tag, count in sorted(self.ignored.items()))
            self.notes.append(f"ignored elements: {kinds}")
        self.notes += [note for library in self.meshes.values() for note in library.notes]
        if self.notes:
            warnings.warn(f"{file}: {'; '.join(self.notes)}", SDFWarning, stacklevel=3)


def _inertial(model: FlatModel, link: str, element: Element) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass [kg], centre of mass [m] and inertia about it in the link's axes [kg m^2]; default: SDF's."""
    inertial = element.optional("inertial")
    if inertial is None:
        return 1.0, np.zeros(3), np.eye(3)
    if inertial.attributes.get("auto", "false").lower() in ("1", "true"):
        raise inertial.error("inertia from shapes (auto) is not supported; state mass and inertia")
    stated = relative_to(inertial)
    if stated is not None and model.scopes[link].full(stated) != link:
        raise inertial.error(
            f"its pose is relative to '{stated}', which SDF doesn't support; state it in the frame of its link"
        )
    where, moments = pose(inertial), inertial.optional("inertia")
    xx, yy, zz, xy, xz, yz = 1.0, 1.0, 1.0, 0.0, 0.0, 0.0
    if moments is not None:
        xx, yy, zz = (number(moments, key, 1.0) for key in ("ixx", "iyy", "izz"))
        xy, xz, yz = (number(moments, key, 0.0) for key in ("ixy", "ixz", "iyz"))
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return number(inertial, "mass", 1.0), where[:3], _turned(where, inertia)


def _moved(where: np.ndarray, point: np.ndarray) -> np.ndarray:
    return compose(where, np.concatenate([point, IDENTITY[3:]]))[:3]


def _turned(where: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Return an inertia in the axes of a pose."""
    axes = np.stack([_moved(where, axis) - where[:3] for axis in np.eye(3)], axis=1)
    return np.asarray(axes @ inertia @ axes.T)
