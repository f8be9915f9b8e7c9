"""Links and joints as bodies of an MJCF file, and solref and solimp of constraints."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from sim.arrays.device_model import DeviceModel
from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.exporters.files import number, numbers, wxyz
from sim.exporters.losses import Losses
from sim.exporters.mjcf.medium import inertia_axes
from sim.model.checks import free_name
from sim.model.frames import Frame, MountedCamera
from sim.model.geometries import Geometry
from sim.model.joint_types import name_in_files
from sim.model.looks.lights import MountedLight
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose, inverse
from sim.model.softness import DEFAULT_SOFTNESS, Softness
from sim.model.specs import WORLD
from sim.render.mounted import mounted_pose
from sim.simulation.mujoco_settings import agreed_options
from warp_kernels import types as codes

Mounted = TypeVar("Mounted", MountedCamera, MountedLight)
# Modes of cameras and lights by what they follow
FOLLOWS = {"link": "fixed", "point": "track", "centre of mass": "trackcom"}


def set_softness(element: ET.Element, softness: Softness, suffix: str = "") -> None:
    """Write solref and solimp of an element, unless they are the default.

    Args:
        element: a geom, a joint or an equality.
        softness: its solref and solimp.
        suffix: "limit" or "friction" of a joint.
    """
    if softness != DEFAULT_SOFTNESS:
        element.set(f"solref{suffix}", numbers(softness.solref))
        element.set(f"solimp{suffix}", numbers(softness.solimp))


# Minimum mass and inertia of moving bodies in MuJoCo
LEAST = 1e-15
# A moment that exceeds the sum of the others by less than this share is taken as their sum.
ROUNDING = 1e-9


class Bodies:
    """The bodies of a file. A chain of massless links becomes one body with several joints.

    Attributes:
        model: the model.
        elements: the element of each link's body, by link; -1 for the world.
        heads: for each link with a separate body, the links of that body, from the first to itself.
        start: coordinates of the file's initial configuration [nq], at which MuJoCo's law takes inverse masses: those
            of the model, but dependent joints as they would be without their coupling.
    """

    def __init__(self, worldbody: ET.Element, model: Model, losses: Losses):
        self.model = model
        self._losses = losses
        self.start = model.q0.copy()
        self._soft = agreed_options(model) is not None  # whether the file states MuJoCo's options
        if self._soft:
            self.start[model.dof_q[model.equalities.coupling_dof]] = model.equalities.coupling_q0
        self.elements: dict[int, ET.Element] = {-1: worldbody}
        following = _chains(model, losses.path)
        self.heads: dict[int, list[int]] = {}
        self._weighed: list[tuple[int, np.ndarray, ET.Element]] = []
        self._sites: dict[str, Frame] = {}
        self._locked: list[str] = []
        self._exceeded: list[str] = []
        for link in range(model.num_links):
            if link not in following:
                chain = [link]
                while (above := int(model.link_parent[chain[0]])) in following:
                    chain.insert(0, above)
                self.heads[link] = chain
                body = self._add_body(chain)
                self.elements.update((held, body) for held in chain)
        lost = [model.link_names[link] for link in following]
        losses.leaves_out("names of links without mass", lost, "MJCF has their joints in the next body")
        fixed = [
            name
            for name, link, kind in zip(model.joint_names, model.link_names, model.joint_type, strict=True)
            if kind == codes.FIXED and name != f"{link}_fixed"
        ]
        losses.leaves_out("names of fixed joints", fixed)
        losses.leaves_out("effort limits that are zero or that actuators exceed", self._exceeded)
        losses.changes_motion("joints locked by their limits, which should be fixed joints", self._locked)

    def add_frames(self) -> None:
        """Add the named frames that aren't links as sites."""
        links = set(self.model.link_names)
        for frame in self.model.frames:
            if frame.name not in links and (frame.link < 0 or frame.link in self.heads):
                self.add_site(frame.name, frame.link, frame.placement)
        self._losses.leaves_out("frames of links without mass", self.lost_frames())

    def add_cameras(self) -> None:
        """Add the cameras of links with a body."""
        for camera, placement in self.mounts("camera", self.model.cameras):
            ET.SubElement(
                self.elements[camera.link], "camera", name=camera.name, mode=FOLLOWS[camera.follows],
                pos=numbers(placement[:3]), quat=wxyz(placement[3:]), fovy=number(camera.fov),
            )  # fmt: skip

    def mounts(self, kind: str, given: Sequence[Mounted]) -> list[tuple[Mounted, np.ndarray]]:
        """Return the cameras or lights of links with a body, and their poses in it [7]; note others.

        MuJoCo takes the offsets of those that don't turn from the start.
        """
        model = self.model
        kept = [one for one in given if one.link < 0 or one.link in self.heads]
        lost = {one.name for one in given} - {one.name for one in kept}
        self._losses.leaves_out(f"{kind}s of links without mass", sorted(lost))
        off = [one.name for one in kept if one.follows == "point" and np.any(one.point)]
        self._losses.leaves_out(f"points that {kind}s follow", off, "they follow the origins of their bodies")
        if not kept:
            return []
        poses, placed = forward_kinematics(DeviceModel(model, "cpu"), self.start[None]).numpy()[0], []
        for one in kept:
            placement = one.placement
            if one.follows != "link":
                world = mounted_pose(model, one, poses)
                placement = world if one.link < 0 else compose(inverse(poses[one.link]), world)
            placed.append((one, placement))
        return placed

    def lost_frames(self) -> list[str]:
        """Return names of frames that aren't links, on links without a body."""
        links = set(self.model.link_names)
        return [
            frame.name
            for frame in self.model.frames
            if frame.name not in links and frame.link >= 0 and frame.link not in self.heads
        ]

    def weighed(self, link: int, point: Sequence[float] | np.ndarray) -> tuple[ET.Element, np.ndarray]:
        """Return a body whose inverse weight MuJoCo takes at a point of a link, and the origin of its frame there [3].

        This is the link's body if its centre of mass is at the point, or if the file states none of MuJoCo's options.
        Other points belong to merged links: they get massless bodies, welded to the link's body.
        """
        own = self.elements[link]
        if not self._soft or link < 0 or self.model.link_tail_dof[link] < 0:
            return own, np.zeros(3)
        if own.find("inertial") is not None and np.abs(point - self.model.parameters["com"][link]).max() <= ROUNDING:
            return own, np.zeros(3)
        for held, origin, body in self._weighed:
            if held == link and np.abs(point - origin).max() <= ROUNDING:
                return body, origin
        taken = {*self.model.link_names, *(frame.name for frame in self.model.frames), *self._names_of_weights()}
        name = free_name(f"{self.model.link_names[link]}/weight", taken)
        body = ET.SubElement(own, "body", name=name, pos=numbers(point))
        # Without an inertia MuJoCo 4 takes the position of the body as its centre of mass.
        ET.SubElement(body, "inertial", pos="0 0 0", mass="0", diaginertia="0 0 0")
        self._weighed.append((link, np.array(point), body))
        return body, np.array(point)

    def body_of(self, geometry: Geometry) -> tuple[ET.Element, np.ndarray]:
        """Return the body of a geometry, and the origin of its frame in the link [3]."""
        if not geometry.collides:
            return self.elements[geometry.link], np.zeros(3)
        return self.weighed(geometry.link, geometry.weighed_at)

    def names_of(self, link: int) -> list[str]:
        """Return the names of all bodies of a link: its main body, and those added for inverse weights."""
        return [self.elements[link].get("name", WORLD), *self._names_of_weights(link)]

    def weighed_site(self, wanted: str, link: int, placement: np.ndarray, point: Sequence[float] | np.ndarray) -> str:
        """Return the name of a site at a pose [7] in a link, on its body with the inverse weight at ``point`` [3]."""
        body, origin = self.weighed(link, point)
        if body is self.elements[link]:
            return self.site(wanted, link, placement)
        name = free_name(wanted, {*(frame.name for frame in self.model.frames), *self._sites})
        self._sites[name] = Frame(name, link, placement)
        ET.SubElement(body, "site", name=name, pos=numbers(placement[:3] - origin), quat=wxyz(placement[3:]))
        return name

    def site(self, wanted: str, link: int, placement: np.ndarray) -> str:
        """Return the name of a site at a pose [7] in a link: a frame of the model, or a new site."""
        frames = {frame.name: frame for frame in self.model.frames}
        name = wanted
        while name in frames or name in self._sites:
            other = frames[name] if name in frames else self._sites[name]
            if other.link == link and np.allclose(other.placement, placement, rtol=0.0, atol=1e-12):
                return name
            name += "_"
        self._sites[name] = Frame(name, link, placement)
        self.add_site(name, link, placement)
        return name

    def add_site(self, name: str, link: int, placement: np.ndarray) -> None:
        """Add a site at a pose [7] in a link that has a separate body."""
        ET.SubElement(self.elements[link], "site", name=name, pos=numbers(placement[:3]), quat=wxyz(placement[3:]))

    def _names_of_weights(self, link: int | None = None) -> list[str]:
        return [str(body.get("name")) for held, _, body in self._weighed if link in (None, held)]

    def weld_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each link, the first of the links welded to it, and the same for the link's parent.

        Both are -1 for the world, the last entry of [num_links + 1].
        """
        model = self.model
        group = np.full(model.num_links + 1, -1)
        above = np.full(model.num_links + 1, -1)
        for link, chain in self.heads.items():
            parent = int(model.link_parent[chain[0]])
            if model.joint_type[chain[0]] == codes.FIXED:
                group[link], above[link] = group[parent], above[parent]
            else:
                group[link], above[link] = link, group[parent]
        return group, above

    def _add_body(self, chain: list[int]) -> ET.Element:
        model, link = self.model, chain[-1]
        steps = [self._step(held) for held in chain]
        placement = IDENTITY
        for step in steps:
            placement = compose(placement, step)
        body = ET.SubElement(
            self.elements[int(model.link_parent[chain[0]])], "body", name=model.link_names[link],
            pos=numbers(placement[:3]), quat=wxyz(placement[3:]),
        )  # fmt: skip
        if model.link_names[link] in model.kinematic_links:
            if model.link_parent[chain[0]] >= 0:
                self._losses.leaves_out("kinematic links", [model.link_names[link]], "their parents aren't the world")
            else:
                body.set("mocap", "true")
        if model.compensated:
            body.set("gravcomp", number(float(model.parameters["gravity_compensation"][link])))
        rest = [IDENTITY]
        for step in reversed(steps[1:]):
            rest.insert(0, compose(step, rest[0]))
        for held, further in zip(chain, rest, strict=True):
            if model.joint_type[held] != codes.FIXED:
                self._add_joint(body, held, inverse(further))
        self._add_inertial(body, link)
        return body

    def _step(self, link: int) -> np.ndarray:
        """Return a link's pose in its parent, at the initial coordinates as far as MJCF can express them."""
        model = self.model
        placement, q = model.parameters["joint_placement"][link], self._coordinates(link)
        kind, motion = int(model.joint_type[link]), IDENTITY.copy()
        if kind == codes.FREE:
            return q
        if kind == codes.REVOLUTE:
            motion[3:] = Rotation.from_rotvec(model.joint_axis[link] * q[0]).as_quat()
        elif kind == codes.PRISMATIC:
            motion[:3] = model.joint_axis[link] * q[0]
        return compose(placement, motion)

    def _coordinates(self, link: int) -> np.ndarray:
        first = int(self.model.joint_q_start[link])
        return self.start[first : first + (7 if self.model.joint_type[link] == codes.FREE else 1)]

    def _add_joint(self, body: ET.Element, link: int, frame: np.ndarray) -> None:
        """Add the joint of a link whose frame is at ``place`` in the body."""
        model, parameters = self.model, self.model.parameters
        kind, dof = int(model.joint_type[link]), int(model.joint_qd_start[link])
        name = model.joint_names[link]
        joint = ET.SubElement(body, "joint", name=name, type=name_in_files(kind, "mjcf", name))
        for key in ("damping", "armature", "friction_loss", "stiffness"):
            if value := float(parameters[key][dof]):
                joint.set(key.replace("_", ""), number(value))
        for suffix, softness in (("limit", model.limit_softness[dof]), ("friction", model.friction_softness[dof])):
            set_softness(joint, softness, suffix)
        if kind == codes.FREE:
            return
        if frame[:3].any():
            joint.set("pos", numbers(frame[:3]))
        if kind == codes.SPHERICAL:
            if np.isfinite(parameters["rotation_limit"][link]):
                joint.set("range", numbers([0.0, parameters["rotation_limit"][link]]))
                if parameters["limit_margin"][dof]:
                    joint.set("margin", number(float(parameters["limit_margin"][dof])))
            return
        joint.set("axis", numbers(Rotation.from_quat(frame[3:]).apply(model.joint_axis[link])))
        for key, value in (
            ("ref", float(self._coordinates(link)[0])),
            ("springref", float(parameters["rest_position"][dof])),
            ("margin", float(parameters["limit_margin"][dof])),
        ):
            if value:
                joint.set(key, number(value))
        lower, upper = (float(parameters[key][dof]) for key in ("lower_limit", "upper_limit"))
        if lower == upper:
            self._locked.append(model.joint_names[link])
        elif np.isfinite([lower, upper]).any():
            joint.set("range", numbers([lower, upper]))
        self._add_effort(joint, dof)

    def _add_effort(self, joint: ET.Element, dof: int) -> None:
        """Add a joint's effort limit only if the actuators' own limits don't exceed it, since MuJoCo enforces it."""
        model = self.model
        effort = float(model.effort_limit[dof])
        if np.isinf(effort):
            return
        driven = np.flatnonzero(model.actuator_dof == dof)
        total = sum(
            float(
                (model.parameters["actuator_force_limit"][k] + abs(model.parameters["actuator_force_centre"][k]))
                * abs(model.parameters["actuator_gear"][k])
            )
            for k in driven
        )
        if effort == 0.0 or total > effort * (1.0 + ROUNDING):
            self._exceeded.append(str(joint.get("name")))
        else:
            joint.set("actuatorfrcrange", numbers([-effort, effort]))

    def _add_inertial(self, body: ET.Element, link: int) -> None:
        parameters = self.model.parameters
        mass, com = float(parameters["mass"][link]), parameters["com"][link]
        if mass <= 0.0 and not parameters["inertia"][link].any():
            return
        moments, axes = inertia_axes(self.model, link)
        ET.SubElement(
            body, "inertial", pos=numbers(com), mass=number(mass), quat=wxyz(axes.as_quat()),
            diaginertia=numbers(self._possible(link, moments)),
        )  # fmt: skip

    def _possible(self, link: int, moments: np.ndarray) -> np.ndarray:
        """Return principal moments that pass MuJoCo's check, which has no tolerance."""
        least, middle, largest = np.argsort(moments)
        most = moments[least] + moments[middle]
        if moments[largest] > most * (1.0 + ROUNDING) or moments[least] < 0.0:
            raise ModelError(
                f"{self._losses.path}: link '{self.model.link_names[link]}': its principal moments of inertia "
                f"{moments.tolist()} are negative or violate the triangle inequality, which MuJoCo rejects; "
                "give it a physical inertia, merge links behind fixed joints (collapse_fixed=True), or "
                "write USD or URDF"
            )
        possible = moments.copy()
        possible[largest] = min(moments[largest], most)
        return possible


def _chains(model: Model, path: Path) -> dict[int, int]:
    """Return the massless links whose joints MJCF puts into the body of the only link they carry, with that link.

    Raises:
        ModelError: naming a moving link that MuJoCo rejects because it lacks mass.
    """
    parameters = model.parameters
    moments = np.linalg.eigvalsh(parameters["inertia"]).min(axis=1)
    heavy = (parameters["mass"] >= LEAST) & (moments >= LEAST)
    children: dict[int, list[int]] = {}
    for link, parent in enumerate(model.link_parent):
        children.setdefault(int(parent), []).append(link)
    occupied = {geometry.link for geometry in model.geometries}
    occupied |= set(model.equalities.anchor_link_a.tolist()) | set(model.equalities.anchor_link_b.tolist())
    following = {}
    for link in np.flatnonzero((model.joint_type != codes.FIXED) & ~heavy).tolist():
        carried = children.get(link, [])
        if any(model.joint_type[other] == codes.FIXED and heavy[other] for other in carried):
            continue
        # Axes of hinges and slides can be rotated into the next body's frame, but not a ball's coordinates.
        turns = [abs(parameters["joint_placement"][other][6]) < 1.0 for other in carried]
        if (
            len(carried) != 1
            or link in occupied
            or parameters["mass"][link] > 0.0
            or parameters["inertia"][link].any()
            or model.joint_type[carried[0]] in (codes.FIXED, codes.FREE)
            or model.joint_type[link] == codes.FREE
            or (model.joint_type[link] == codes.SPHERICAL and turns[0])
        ):
            raise ModelError(
                f"{path}: link '{model.link_names[link]}' moves but has no mass, or no inertia about some axis. MuJoCo "
                "rejects such bodies unless they carry exactly one other link; give it a mass and an inertia, or write "
                "USD or URDF"
            )
        following[link] = carried[0]
    return following
