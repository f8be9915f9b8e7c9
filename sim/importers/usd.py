"""USD: read a UsdPhysics scene into a :class:`sim.ModelBuilder`."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pxr import Sdf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from sim.builder import IDENTITY_QUATERNION, WORLD, ModelBuilder, Vector, is_physical, pose
from sim.errors import ImportFileError, ModelError, USDWarning
from sim.importers.transaction import all_or_nothing
from sim.importers.usd_colours import colour
from sim.importers.usd_filters import Filters, read_filters
from sim.importers.usd_joints import Forest, Joint, forest, read_joints
from sim.importers.usd_masses import mass_properties
from sim.importers.usd_shapes import PRIMITIVES, Shape, colliders, mesh_of, primitive
from sim.importers.usd_stage import Kind, Scene, open_scene
from sim.model import Part
from sim.poses import compose, inverse
from sim.usd.annotations import agreed, kept, kept_text
from sim.usd.drives import Actuator, kept_actuators, stated_drive
from warp_kernels import types as codes

SHAPES = (
    Kind.SphereShape, Kind.CubeShape, Kind.CapsuleShape, Kind.Capsule1Shape, Kind.CylinderShape, Kind.Cylinder1Shape,
    Kind.ConeShape, Kind.PlaneShape, Kind.MeshShape, Kind.CustomShape, Kind.SpherePointsShape,
)  # fmt: skip
ORIGIN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
# How far the bodies of a file may be from where its joints allow them [m, rad].
MISFIT = 1e-3


def add_usd(
    builder: ModelBuilder,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    position: Vector = (0.0, 0.0, 0.0),
    orientation: Vector = IDENTITY_QUATERNION,
    visual: bool = True,
    collision: bool = True,
    friction: float = 1.0,
    restitution: float = 0.0,
    drives: Literal["actuators", "springs"] = "actuators",
) -> list[Part]:
    """Add what a USD file describes in UsdPhysics. Either all of it is added, or an error is raised and nothing is.

    Bodies stand where the file has them at its first time, and the coordinates of the joints follow from that. Units
    and the up axis of the stage are converted to metres, kilograms and z up. Gravity is left as the builder has it
    (:func:`sim.load` takes that of the file).

    - A body that no joint carries is free. A tree of joints starts at the body joined to the world, otherwise at the
      root of its articulation, otherwise at its first body in the file. Ball and fixed joints that close loops become
      constraints of the solver (:meth:`sim.ModelBuilder.add_point_constraint`, ``add_weld_constraint``); others that
      do are an error.
    - The frame of a link is that of its body, moved to the origin of the joint that carries it.
    - A joint of six degrees of freedom must leave one axis free, or the three rotations.
    - Friction of a contact is the product of the two dynamic frictions, restitution that of the two restitutions,
      whatever the file says of combining them.
    - Meshes collide as their convex hull, or that of each connected piece for "convexDecomposition". Scenery whose mesh
      is not convex is an error unless one of these is asked for.
    - Kinematic bodies stand still, start velocities, break forces and PhysX's own attributes other than
      ``physxJoint:armature`` and ``physxJoint:maxJointVelocity`` are ignored; a warning names what was left out.

    What :func:`sim.usd.write_usd` wrote comes back as it was, in double precision.

    Args:
        builder: what to add to.
        path: a ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.
        name: prefix of all names, as "name/"; lets several copies stand in one world.
        position: of the origin of the stage in the world [m].
        orientation: of the stage, quaternion xyzw.
        visual: read what is only to be looked at.
        collision: read the colliders.
        friction: of colliders without a physics material.
        restitution: of colliders without a physics material.
        drives: what the drive of a joint becomes: "actuators", a "position" actuator if it has stiffness, otherwise a
            "velocity" actuator if its force is limited, and damping of the joint if it isn't; "springs", a spring about
            the target and damping, always.

    Returns:
        the parts, one for each tree of bodies.

    Raises:
        ImportFileError: naming the file and the prim.
        ModelError: for a wrong argument.
    """
    if drives not in ("actuators", "springs"):
        raise ModelError(f"add_usd: drives is {drives!r}; it must be 'actuators' or 'springs'")
    if name is not None and not name:
        raise ModelError("add_usd: name is empty; leave it out to use the names of the file")
    base = pose("add_usd", position, orientation)
    scene = open_scene(Path(path))
    reader = _Reader(builder, scene, base, "" if name is None else f"{name}/", drives, friction, restitution)
    # What a file's numbers come to is checked where it is used; no warnings on the way there.
    with all_or_nothing(builder), np.errstate(over="ignore", invalid="ignore"):
        parts = reader.read(visual, collision)
    for note in dict.fromkeys(scene.notes):
        warnings.warn(f"{scene.path}: {note}", USDWarning, stacklevel=3)
    return parts


def read_gravity(path: str | os.PathLike[str]) -> np.ndarray:
    """Gravity of a USD file, z up [m/s^2]; (0, 0, -9.81) if it states none.

    Raises:
        ImportFileError: if the file can't be opened.
    """
    scene = open_scene(Path(path))
    found = scene.of(Kind.Scene)
    if not found:
        return np.array([0.0, 0.0, -9.81])
    prim = scene.prim(found[0].primPath)
    api = UsdPhysics.Scene(prim)
    direction = np.array(api.GetGravityDirectionAttr().Get(), dtype=np.float64)
    down = scene.up.apply(direction) if direction.any() else np.array([0.0, 0.0, -1.0])
    strength = float(api.GetGravityMagnitudeAttr().Get())
    # Any negative number stands for the Earth's.
    metres = strength * scene.length if strength >= 0.0 else 9.81
    return agreed(prim, "gravity", metres * down / np.linalg.norm(down))


@dataclass
class _Reader:
    """Adds the bodies, joints and shapes of one file to the builder."""

    builder: ModelBuilder
    scene: Scene
    base: np.ndarray
    prefix: str
    drives: str
    friction: float
    restitution: float
    names: dict[Sdf.Path, str] = field(default_factory=dict)
    # Frame of each link in its body, moved to the joint that carries it.
    link_in_body: dict[Sdf.Path, np.ndarray] = field(default_factory=dict)
    shapes: dict[Sdf.Path, list[Shape]] = field(default_factory=dict)

    def read(self, visual: bool, collision: bool) -> list[Part]:
        """Add everything."""
        scene = self.scene
        touching = [found for found in scene.of(*SHAPES) if found.collisionEnabled]
        if not scene.bodies and not touching:
            raise ImportFileError(scene.path, "holds neither rigid bodies nor colliders; there is nothing to simulate")
        if len(scene.of(Kind.Scene)) > 1:
            scene.notes.append("holds several physics scenes; all of it is put into one world")
        for found in touching:
            self.shapes[found.primPath] = self._colliders(found)
        trees = forest(scene, read_joints(scene))
        self._name_links(trees)
        for body, carrier in trees.carriers.items():
            self._link(body, carrier)
        joint_names = {body: self._joint(body, carrier) for body, carrier in trees.carriers.items()}
        self._couplings(trees, joint_names)
        self._loops(trees)
        filters = read_filters(scene, touching)
        for pair in filters.bodies:
            self.builder.exclude_collision(*(self.names[body] for body in pair))
        self._geometries(touching if collision else [], filters, visual)
        self._frames()
        return self._parts(trees, joint_names)

    # ---- links and joints --------------------------------------------------------------------------------------

    def _name_links(self, trees: Forest) -> None:
        """The names that the file keeps, or those of the prims; paths where these aren't unique."""
        plain = {body: kept_text(self.scene.prim(body), "name") or body.name for body in trees.carriers}
        count = Counter(plain.values())
        for body, carrier in trees.carriers.items():
            own = plain[body] if count[plain[body]] == 1 else str(body).lstrip("/")
            label = self.prefix + own
            self.names[body] = f"{label}_link" if label == WORLD else label
            at = carrier.child_frame[:3] if carrier is not None else np.zeros(3)
            self.link_in_body[body] = np.concatenate([at, [0.0, 0.0, 0.0, 1.0]])

    def _link(self, body: Sdf.Path, carrier: Joint | None) -> None:
        scene, name = self.scene, self.names[body]
        inside = {
            path: [_seen_from(scene, body, shape) for shape in shapes]
            for path, shapes in self.shapes.items()
            if scene.body_of(path) == body
        }
        found = mass_properties(scene, body, inside)
        description = scene.bodies[body]
        if np.any(description.linearVelocity) or np.any(description.angularVelocity):
            scene.notes.append(f"prim '{body}': its start velocity is ignored; give it in the state")
        if found is None:
            scene.notes.append(
                f"prim '{body}' has neither mass nor colliders: kinematics work, dynamics may refuse; give it a mass"
            )
            self._add(body, self.builder.add_link, name)
            return
        mass, com, inertia = found
        if not is_physical(inertia):
            scene.notes.append(f"prim '{body}': no body has the inertia that it states; it is kept as in the file")
        self._add(
            body, self.builder.add_link, name, mass=mass, com=com - self.link_in_body[body][:3], inertia=inertia,
            allow_unphysical=True,
        )  # fmt: skip

    def _joint(self, body: Sdf.Path, carrier: Joint | None) -> str:
        """Add the joint that carries a body; returns its name."""
        child = self.names[body]
        place = compose(self.base, compose(self.scene.placed(self.scene.prim(body))[0], self.link_in_body[body]))
        if carrier is None:
            prim = self.scene.prim(body)
            name = self._joint_name(prim, f"{child}_free")
            options: dict[str, Any] = {"position": place[:3], "orientation": place[3:], **_dof_options(prim)}
            return self._add(body, self.builder.add_joint, name, "free", child=child, **options)
        prim = self.scene.prim(carrier.path)
        turn = Rotation.from_quat(carrier.child_frame[3:])
        home = self.base if carrier.parent is None else inverse(self.link_in_body[carrier.parent])
        undo = np.concatenate([np.zeros(3), turn.inv().as_quat()])
        placement = compose(home, compose(carrier.parent_frame, undo))
        axis = turn.apply(carrier.axis)
        if not carrier.turned and (carrier.parent is not None or np.array_equal(self.base, ORIGIN)):
            placement, axis = _agreed_pose(prim, "joint_placement", placement), agreed(prim, "axis", axis)
        if carrier.collides:
            self.scene.notes.append(f"prim '{carrier.path}': bodies joined by a joint never collide here")
        above = ORIGIN if carrier.parent is None else compose(
            self.base, compose(self.scene.placed(self.scene.prim(carrier.parent))[0], self.link_in_body[carrier.parent])
        )  # fmt: skip
        motion = compose(inverse(compose(above, placement)), place)
        options = {"q0": self._coordinates(carrier, axis, motion)} if carrier.type != "fixed" else {}
        name = self._joint_name(prim, carrier.path.name)
        self._add(
            carrier.path, self.builder.add_joint, name, carrier.type, child=child,
            parent=WORLD if carrier.parent is None else self.names[carrier.parent],
            position=placement[:3], orientation=placement[3:], axis=axis,
            **options, **_limits(prim, carrier), **_dof_options(prim), **self._springs(prim, carrier),
        )  # fmt: skip
        for actuator in self._actuators(prim, carrier):
            self._add(
                carrier.path, self.builder.add_actuator, name, KINDS[actuator.kind], name=self.prefix + actuator.name,
                gear=actuator.gear, kp=actuator.kp, kd=actuator.kd, force_limit=actuator.force_limit,
            )  # fmt: skip
        return name

    def _joint_name(self, prim: Usd.Prim, plain: str) -> str:
        wanted = kept_text(prim, "joint_name")
        name = self.prefix + wanted if wanted else (plain if plain.startswith(self.prefix) else self.prefix + plain)
        return name if name not in self.builder.joints else self.prefix + str(prim.GetPath()).lstrip("/")

    def _coordinates(self, joint: Joint, axis: np.ndarray, motion: np.ndarray) -> np.ndarray:
        """Coordinates at which the joint has the bodies where the file has them, as nearly as it can."""
        turn = Rotation.from_quat(motion[3:])
        if joint.type == "revolute":
            angle = float(turn.as_rotvec() @ axis)
            rest = (Rotation.from_rotvec(-angle * axis) * turn).magnitude() + float(np.linalg.norm(motion[:3]))
            # Of the turns that look alike the one within the limits.
            whole = 2.0 * np.pi * np.array([0, 1, -1])
            inside = [angle + k for k in whole if joint.lower <= angle + k <= joint.upper]
            q = np.array([inside[0] if inside else angle])
        elif joint.type == "prismatic":
            q = np.array([motion[:3] @ axis])
            rest = float(np.linalg.norm(motion[:3] - q[0] * axis)) + turn.magnitude()
        else:
            q, rest = motion[3:], float(np.linalg.norm(motion[:3]))
        if rest > MISFIT:
            self.scene.notes.append(
                f"prim '{joint.path}': its bodies stand {rest:.3g} m or rad from where it lets them"
            )
        return q

    def _springs(self, prim: Usd.Prim, joint: Joint) -> dict[str, float]:
        """Spring and damping of the joint itself."""
        if joint.type not in ("revolute", "prismatic"):
            return {}
        annotated = _annotated_springs(prim, joint)
        drive = joint.drive
        if annotated is not None or drive is None:
            return annotated or {}
        if self.drives == "springs":
            if np.isfinite(drive.max_force):
                self.scene.notes.append(f"prim '{joint.path}': the spring that its drive becomes has no largest force")
            return {"damping": drive.damping, "stiffness": drive.stiffness, "rest_position": drive.target}
        return {"damping": drive.damping} if not drive.stiffness and np.isinf(drive.max_force) else {}

    def _actuators(self, prim: Usd.Prim, joint: Joint) -> list[Actuator]:
        """The actuators that a joint was written with, as long as its drive still is theirs; otherwise its drive."""
        own, drive = kept_actuators(prim), joint.drive
        if joint.type not in ("revolute", "prismatic"):
            return []
        if _annotated_springs(prim, joint) is not None:
            return own
        motors = [actuator for actuator in own if actuator.kind == codes.TORQUE]
        if drive is None or self.drives == "springs" or not (drive.stiffness or np.isfinite(drive.max_force)):
            return motors
        kind = codes.POSITION if drive.stiffness else codes.VELOCITY
        if kind == codes.VELOCITY and not drive.damping:
            return motors
        return [*motors, Actuator(joint.path.name, kind, 1.0, drive.stiffness, drive.damping, drive.max_force)]

    def _couplings(self, trees: Forest, joint_names: dict[Sdf.Path, str]) -> None:
        for body, carrier in trees.carriers.items():
            prim = self.scene.prim(carrier.path) if carrier is not None else None
            followed = kept_text(prim, "follows") if prim is not None else None
            if followed is not None and prim is not None:
                ratio, offset = (kept(prim, f"coupling_{name}", 1) for name in ("ratio", "offset"))
                if ratio is not None and offset is not None:
                    self._add(
                        prim.GetPath(), self.builder.add_joint_coupling, joint_names[body], self.prefix + followed,
                        ratio=float(ratio[0]), offset=float(offset[0]),
                    )  # fmt: skip

    def _loops(self, trees: Forest) -> None:
        """Joints that close loops become constraints."""
        for joint in trees.loops:
            if joint.type not in ("spherical", "fixed"):
                raise self.scene.error(
                    joint.path, f"a {joint.type} joint closes a loop; only ball and fixed joints can. "
                    "Make it a ball joint, or two of them along its axis"
                )  # fmt: skip
            prim = self.scene.prim(joint.path)
            names, anchors = [], []
            sides = [(joint.parent, joint.parent_frame), (joint.child, joint.child_frame)]
            for side, (body, frame) in zip("ab", reversed(sides) if joint.turned else sides, strict=True):
                names.append(WORLD if body is None else self.names[body])
                home = self.base if body is None else inverse(self.link_in_body[body])
                anchor = compose(home, frame)
                anchors.append(_agreed_pose(prim, f"anchor_{side}", anchor))
            label = self.prefix + (kept_text(prim, "name") or joint.path.name)
            positions = {"position_a": anchors[0][:3], "position_b": anchors[1][:3]}
            if joint.type == "spherical":
                self._add(joint.path, self.builder.add_point_constraint, label, *names, **positions)
            else:
                turns = {"orientation_a": anchors[0][3:], "orientation_b": anchors[1][3:]}
                self._add(joint.path, self.builder.add_weld_constraint, label, *names, **positions, **turns)

    # ---- shapes ------------------------------------------------------------------------------------------------

    def _colliders(self, found: Any) -> list[Shape]:
        prim = self.scene.prim(found.primPath)
        return colliders(self.scene, prim, moves=self.scene.body_of(found.primPath) is not None)

    def _geometries(self, touching: list[Any], filters: Filters, visual: bool) -> None:
        """Add the shapes to touch and to look at; a body with nothing to look at shows what it touches with."""
        seen = self._visible() if visual else []
        covered = {self.scene.body_of(prim.GetPath()) for prim in seen}
        # A collider that is visible itself, and prims that only show a collider which was written with them.
        shows = {kept_text(prim, "shows") or prim.GetPath(): prim for prim in seen}
        materials = {found.primPath: found for found in self.scene.of(Kind.RigidBodyMaterial)}
        drawn: set[Sdf.Path] = set()
        for found in touching:
            prim = self.scene.prim(found.primPath)
            shapes = self.shapes[found.primPath]
            shown_by = shows.get(kept_text(prim, "name")) or (shows.get(found.primPath) if not shapes[0].mesh else None)
            drawn.update([shown_by.GetPath()] if shown_by is not None else [])
            shown = shown_by is not None or self.scene.body_of(found.primPath) not in covered
            options = self._contact(found, prim, materials, filters)
            for number, shape in enumerate(shapes):
                self._geometry(prim, shape, number, visible=shown, rgba=colour(shown_by or prim), **options)
        for prim in (prim for prim in seen if prim.GetPath() not in drawn):
            mesh = mesh_of(self.scene, prim)
            picture = primitive(self.scene, prim) if mesh is None else Shape(codes.CONVEX, np.ones(3), mesh[1], mesh[0])
            if picture is not None:
                self._geometry(prim, picture, 0, collides=False, rgba=colour(prim))

    def _visible(self) -> list[Usd.Prim]:
        """What is to be looked at. Kinds that aren't drawn are noted."""
        drawn: list[Usd.Prim] = []
        left_out: Counter[str] = Counter()
        walk = iter(self.scene.prims())
        for prim in walk:
            if prim.IsA(UsdGeom.PointInstancer):
                left_out["PointInstancer"] += 1
                walk.PruneChildren()
            elif prim.IsA(UsdGeom.Gprim) and _is_seen(UsdGeom.Imageable(prim)):
                if prim.IsA(UsdGeom.Mesh) or prim.GetTypeName() in DRAWN:
                    drawn.append(prim)
                else:
                    left_out[str(prim.GetTypeName())] += 1
        if left_out:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in left_out.items())
            self.scene.notes.append(f"not drawn: {kinds}")
        return drawn

    def _contact(
        self, found: Any, prim: Usd.Prim, materials: dict[Sdf.Path, Any], filters: Filters
    ) -> dict[str, float | int]:
        """Contact parameters and group of a collider."""
        material = next((materials[path] for path in found.materials if path in materials), None)
        friction, restitution = self.friction, self.restitution
        if material is not None:
            if not np.isclose(material.staticFriction, material.dynamicFriction):
                self.scene.notes.append(f"prim '{material.primPath}': its static friction is ignored")
            friction = float(agreed(prim, "friction", material.dynamicFriction))
            restitution = float(agreed(prim, "restitution", material.restitution))
        options: dict[str, float | int] = {"friction": friction, "restitution": restitution}
        for name in ("torsional_friction", "rolling_friction", "contact_stiffness", "contact_damping"):
            value = kept(prim, name, 1)
            if value is not None:
                options[name] = float(value[0])
        own = kept(prim, "group_and_mask", 2)
        if found.primPath in filters.bits:
            options["group"], options["mask"] = filters.bits[found.primPath]
        elif own is not None:
            options["group"], options["mask"] = (int(value) for value in own)
        return options

    def _geometry(self, prim: Usd.Prim, shape: Shape, number: int, **options: object) -> None:
        """Add a shape, its pose given in the world."""
        body = self.scene.body_of(prim.GetPath())
        link = WORLD if body is None else self.names[body]
        if body is None:
            placed = compose(self.base, shape.pose)
            same = np.array_equal(self.base, ORIGIN)
        else:
            placed = compose(inverse(self.link_in_body[body]), _seen_from(self.scene, body, shape).pose)
            same = True
        placed = _agreed_pose(prim, "geometry_placement", placed) if same and number == 0 else placed
        name = self.prefix + (kept_text(prim, "name") or f"{link.removeprefix(self.prefix)}/{prim.GetName()}")
        name = name if number == 0 else f"{name}_{number}"
        if name in self.builder.geometries:
            name = f"{name}:{str(prim.GetPath()).lstrip('/')}"
        self._add(
            prim.GetPath(), self.builder.add_geometry, link, shape.type, name=name, size=shape.size, mesh=shape.mesh,
            heights=shape.heights, position=placed[:3], orientation=placed[3:], **options,
        )  # fmt: skip

    # ---- names -------------------------------------------------------------------------------------------------

    def _frames(self) -> None:
        for prim in self.scene.prims():
            name, body = kept_text(prim, "frame"), self.scene.body_of(prim.GetPath())
            if name is not None and body is not None:
                local = self.scene.relative(body, self.scene.placed(prim)[0])
                local = compose(inverse(self.link_in_body[body]), local)
                self._add(prim.GetPath(), self.builder.add_frame, self.prefix + name, self.names[body],
                          local[:3], local[3:])  # fmt: skip

    def _parts(self, trees: Forest, joint_names: dict[Sdf.Path, str]) -> list[Part]:
        """One part for each tree, named as it was written, or as its root link."""
        members: dict[Sdf.Path, list[Sdf.Path]] = {}
        root_of: dict[Sdf.Path, Sdf.Path] = {}
        for body, carrier in trees.carriers.items():
            above = carrier.parent if carrier is not None else None
            root_of[body] = body if above is None else root_of[above]
            members.setdefault(root_of[body], []).append(body)
        parts = []
        for root, bodies in members.items():
            label = kept_text(self.scene.prim(root), "part")
            name = self.prefix + label if label else self.names[root]
            parts.append(
                self.builder.add_part(name, [self.names[body] for body in bodies], [joint_names[b] for b in bodies])
            )
        return parts

    def _add(self, path: Sdf.Path, call: Any, *arguments: Any, **options: Any) -> Any:
        """Call the builder; its complaints name the file and the prim."""
        try:
            return call(*arguments, **options)
        except ImportFileError:
            raise
        except ModelError as error:
            raise self.scene.error(path, str(error)) from None


KINDS = {codes.TORQUE: "torque", codes.POSITION: "position", codes.VELOCITY: "velocity"}
DRAWN = (*PRIMITIVES, "Cone")


def _is_seen(image: UsdGeom.Imageable) -> bool:
    hidden = image.ComputeVisibility() == UsdGeom.Tokens.invisible
    return not hidden and image.ComputePurpose() not in (UsdGeom.Tokens.guide, UsdGeom.Tokens.proxy)


def _seen_from(scene: Scene, body: Sdf.Path, shape: Shape) -> Shape:
    return replace(shape, pose=scene.relative(body, shape.pose))


def _agreed_pose(prim: Usd.Prim, name: str, stated: np.ndarray) -> np.ndarray:
    """A pose as it was written, if the file still states it; quaternions of either sign are one rotation."""
    exact = kept(prim, name, 7)
    if exact is None:
        return stated
    signed = np.concatenate([stated[:3], stated[3:] * (1.0 if stated[3:] @ exact[3:] >= 0.0 else -1.0)])
    return exact if np.abs(signed - exact).max() <= 2e-6 * max(1.0, float(np.abs(exact[:3]).max())) else stated


def _limits(prim: Usd.Prim, joint: Joint) -> dict[str, float]:
    """Limits of position, effort and velocity."""
    limits: dict[str, float] = {}
    if joint.type in ("revolute", "prismatic"):
        for name, key, bound in (("lower_limit", "lower", joint.lower), ("upper_limit", "upper", joint.upper)):
            limits[key] = float(agreed(prim, name, bound)) if np.isfinite(bound) else bound
    elif joint.type == "spherical":
        limits["swing_limit"] = float(agreed(prim, "swing_limit", joint.swing)) if np.isfinite(joint.swing) else np.inf
        twist = kept(prim, "twist_limit", 1)
        limits["twist_limit"] = float(twist[0]) if twist is not None else np.inf
    fastest = prim.GetAttribute("physxJoint:maxJointVelocity").Get()
    if joint.type == "revolute" and fastest is not None and fastest < 1e6:
        limits["velocity"] = float(np.radians(fastest))
    if joint.drive is not None and np.isfinite(joint.drive.max_force):
        limits["effort"] = joint.drive.max_force
    for name in ("effort", "velocity"):
        value = kept(prim, name, 1)
        if value is not None:
            limits[name] = float(value[0])
    return limits


def _dof_options(prim: Usd.Prim) -> dict[str, float]:
    """Properties of a joint beyond those of UsdPhysics. Damping of joints that can have a drive is read with it."""
    options: dict[str, float] = {}
    armature = prim.GetAttribute("physxJoint:armature").Get()
    if armature:
        options["armature"] = float(armature)
    for name in ("armature", "friction_loss", "limit_margin", "limit_stiffness", "limit_damping"):
        value = kept(prim, name, 1)
        if value is not None:
            options[name] = float(value[0])
    if not prim.IsA(UsdPhysics.RevoluteJoint) and not prim.IsA(UsdPhysics.PrismaticJoint):
        damping = kept(prim, "damping", 1)
        options |= {"damping": float(damping[0])} if damping is not None else {}
    return options


def _annotated_springs(prim: Usd.Prim, joint: Joint) -> dict[str, float] | None:
    """Spring and damping that a joint was written with, as long as its drive is what they and its actuators make."""
    found = {name: kept(prim, name, 1) for name in ("damping", "stiffness", "rest_position")}
    values = {name: float(value[0]) if value is not None else 0.0 for name, value in found.items()}
    expected = stated_drive(**values, actuators=kept_actuators(prim))
    if expected is None or joint.drive is None:
        return values if expected is joint.drive else None
    return values if expected.agrees(joint.drive) else None
