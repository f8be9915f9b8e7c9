"""Model: description of one world. Topology as integer arrays, physical parameters as float64 arrays, names.

:class:`sim.ModelBuilder` makes a model, which never changes. The simulator and the functions of
:mod:`sim.dynamics.dynamics` copy it to their device in the model's dtype.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.checks import as_numbers, counted, find_number, numbered, require_type
from sim.model.frames import Frame, MountedCamera, StagePrim
from sim.model.geometries import Geometry, PairFriction, PairSoftness
from sim.model.joint_types import JOINT_TYPES
from sim.model.looks.lights import MountedLight
from sim.model.medium import DragBoxes
from sim.model.sensors.sensors import Sensor
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.softness import Softness
from sim.model.tendons.tendons import Tendons
from sim.model.topology import Equalities, ExcludedPairs, Transmissions
from sim.tables import html_table
from warp_kernels import types as codes

ACTUATOR_KIND_NAMES = {
    codes.TORQUE: "torque", codes.POSITION: "position", codes.VELOCITY: "velocity", codes.AFFINE: "affine",
    codes.MUSCLE: "muscle",
}  # fmt: skip
GEOMETRY_TYPE_NAMES = {each.code: each.title for each in GEOMETRY_TYPES.values()}


@dataclass(frozen=True)
class Keyframe:
    """State of a part.

    Attributes:
        q: coordinates of its joints, in the model at ``model.q_slice(part)`` [n].
        qd: velocities of its joints, at ``model.qd_slice(part)``.
        control: inputs of its actuators by name; zero if the file states none.
        act: states of its actuators by name, likewise.

    Example:
        >>> import pathlib, tempfile, sim
        >>> file = pathlib.Path(tempfile.mkdtemp(), "rod.xml")
        >>> rod = '<worldbody><body><joint axis="0 1 0"/><geom type="capsule" size="0.02 0.2"/></body></worldbody>'
        >>> _ = file.write_text(f'<mujoco>{rod}<keyframe><key name="raised" qpos="1.5"/></keyframe></mujoco>')
        >>> sim.ModelBuilder().add_mjcf(file).keyframes["raised"].q.tolist()
        [1.5]
    """

    q: np.ndarray
    qd: np.ndarray
    control: Mapping[str, float]
    act: Mapping[str, float] = field(default_factory=dict)


# MuJoCo's names of the integrators and of the cones. Its "Euler" is "explicit" if eulerdamp is disabled.
MUJOCO_INTEGRATORS = {
    "euler": "Euler", "explicit": "Euler", "rk4": "RK4", "implicit": "implicit", "implicitfast": "implicitfast",
}  # fmt: skip
MUJOCO_CONES = ("pyramidal", "elliptic")


@dataclass(frozen=True)
class MujocoOptions:
    """MuJoCo's options for a file, from its ``option`` element; see :func:`sim.mujoco_settings`.

    Attributes:
        integrator: "euler", "explicit", "rk4", "implicit" or "implicitfast".
        cone: "pyramidal" or "elliptic".
        impratio: ratio of friction impedance to normal impedance.
        noslip_iterations: maximum number of sweeps of the noslip solver.
        noslip_tolerance: decrease of the cost in a sweep below which sweeps end.
    """

    integrator: str = "euler"
    cone: str = "pyramidal"
    impratio: float = 1.0
    noslip_iterations: int = 0
    noslip_tolerance: float = 1e-6


@dataclass(frozen=True)
class Part:
    """Result of one ``add_...`` call of the builder; the model returns its slices of q and qd.

    Attributes:
        name: prefix of its names, or the name of its only link.
        links: names of its links.
        joints: names of its joints.
        keyframes: named states in its file.
        timestep: time step that its file states [s]; None if it states none.
        mujoco: MuJoCo's options of its file; None unless it is from an MJCF file.

    Example:
        >>> import sim
        >>> sim.ModelBuilder().add_urdf("scenes/robots/manipulator.urdf").links[:2]
        ('base', 'link1')
    """

    name: str
    links: tuple[str, ...]
    joints: tuple[str, ...]
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict, compare=False)
    timestep: float | None = None
    mujoco: MujocoOptions | None = None


@dataclass(frozen=True)
class Model:
    """One world: links in depth-first order, each with the joint that connects it to its parent.

    Attributes:
        dtype: "float32" or "float64".
        link_names: [num_links].
        joint_names: [num_links].
        frames: named frames fixed to links, those of collapsed links among them.
        cameras: cameras on links, which :func:`sim.render.view_of` looks through.
        lights: lights on links, which pictures show instead of sun and sky.
        stage_prims: prims of USD files that links were read from.
        geometries: visual and collision geometries.
        parts: groups of links and joints that were added together, such as one robot.
        excluded_pairs: pairs of geometry indices that never collide.
        equalities: coincident points and frames and coupled joints, beyond the tree of joints.
        tendons: tendons, with springs, limits and actuators.
        q0: initial coordinates [nq].
        link_parent: parent of each link [num_links], -1 for the world; integer arrays are int32.
        joint_type: code of each link's joint, see :mod:`warp_kernels.types` [num_links].
        joint_axis: unit axes in the joint frames [num_links, 3].
        joint_q_start: first coordinate of each joint [num_links].
        joint_qd_start: first degree of freedom of each joint [num_links].
        link_tree: tree of each link [num_links].
        link_tail_dof: deepest degree of freedom that moves the link, -1 if none [num_links].
        tree_link_start: first link of each tree, and the number of links [num_trees + 1].
        dof_link: link that each degree of freedom moves first [nv].
        dof_parent: previous degree of freedom on the path to the root, -1 if none [nv].
        dof_depth: number of degrees of freedom before it on that path [nv].
        dof_row_start: offset of its row in packed ancestor storage [nv].
        dof_q: index of its coordinate in q, -1 unless the joint is revolute or prismatic [nv].
        effort_limit: maximum joint force from the file [nv]: the default of an actuator's force limit, otherwise not
            enforced.
        velocity_limit: maximum joint velocity from the file, not enforced [nv].
        actuator_names: [nu].
        actuator_kind: code of each actuator, see :mod:`warp_kernels.types` [nu].
        actuator_dof: degree of freedom that it drives [nu], -1 for none.
        actuator_tendon: tendon that it drives [nu], -1 for none.
        actuator_dynamics: dynamics of the actuator's state, see :mod:`warp_kernels.types` [nu].
        actuator_early: 1 if its force uses the state after the step [nu].
        delay_samples: number of past inputs that each actuator remembers, 0 without a delay [nu].
        parameters: float64 arrays [n, ...] by name, see :data:`sim.model.parameters.PARAMETERS`; gravity is [3].
            Parameters of actuators, tendons and pairs with their own friction exist only if there are any.
        kinematic_links: names of links whose placement is an input, see :meth:`sim.ModelBuilder.add_joint`.
        floating_origins: world poses [7], by joint name, that Pinocchio's coordinates of a URDF's floating joint are
            relative to.
        massless_links: names of moving links without mass, which can't be simulated.
        pair_frictions: pairs of geometries with their own friction.
        pair_softness: softness of single pairs of geometries.
        limit_softness: softness of the limits of each degree of freedom under MuJoCo's law [nv].
        friction_softness: softness of its dry friction, likewise [nv].
        sensors: sensors, which :class:`sim.torch.Sensors` reads.
        drag_boxes: boxes that the medium drags.
        transmissions: actuators on frames and contacts.
        mujoco: MuJoCo's options, if the model is only from MJCF files that agree, and MuJoCo's law supports all of it;
            it is then the default law, see :class:`sim.ModelContact`. None otherwise.

    Example:
        >>> import sim
        >>> sim.load("scenes/robots/manipulator.urdf").link_names[:2]
        ('link1', 'link2')
    """

    dtype: str
    link_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    frames: tuple[Frame, ...]
    geometries: tuple[Geometry, ...]
    parts: tuple[Part, ...]
    excluded_pairs: ExcludedPairs
    equalities: Equalities
    tendons: Tendons
    q0: np.ndarray
    link_parent: np.ndarray
    joint_type: np.ndarray
    joint_axis: np.ndarray
    joint_q_start: np.ndarray
    joint_qd_start: np.ndarray
    link_tree: np.ndarray
    link_tail_dof: np.ndarray
    tree_link_start: np.ndarray
    dof_link: np.ndarray
    dof_parent: np.ndarray
    dof_depth: np.ndarray
    dof_row_start: np.ndarray
    dof_q: np.ndarray
    effort_limit: np.ndarray
    velocity_limit: np.ndarray
    actuator_names: tuple[str, ...]
    actuator_kind: np.ndarray
    actuator_dof: np.ndarray
    actuator_tendon: np.ndarray
    actuator_dynamics: np.ndarray
    actuator_early: np.ndarray
    delay_samples: np.ndarray
    parameters: dict[str, np.ndarray] = field(repr=False)
    kinematic_links: tuple[str, ...] = ()
    floating_origins: Mapping[str, np.ndarray] = field(default_factory=dict)
    massless_links: tuple[str, ...] = ()
    pair_frictions: tuple[PairFriction, ...] = ()
    pair_softness: tuple[PairSoftness, ...] = ()
    limit_softness: tuple[Softness, ...] = ()
    friction_softness: tuple[Softness, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    cameras: tuple[MountedCamera, ...] = ()
    lights: tuple[MountedLight, ...] = ()
    stage_prims: tuple[StagePrim, ...] = ()
    drag_boxes: DragBoxes = field(default_factory=DragBoxes)
    transmissions: Transmissions = field(default_factory=Transmissions)
    mujoco: MujocoOptions | None = None

    def __post_init__(self) -> None:
        for name, type in zip(self.joint_names, self.joint_type, strict=True):
            if type not in JOINT_TYPES:
                known = ", ".join(f"{code} ({known.name})" for code, known in JOINT_TYPES.items())
                raise ModelError(f"joint '{name}': unknown type {type}; known are {known}")

    def __repr__(self) -> str:
        parts = ", ".join(part.name for part in self.parts[:3]) + (", ..." if len(self.parts) > 3 else "")
        links, trees = counted(self.num_links, "link"), counted(self.num_trees, "tree")
        geometries = counted(self.num_geometries, "geometry")
        numbers = f"{links} in {trees}, nq {self.nq}, nv {self.nv}, nu {self.nu}, {geometries}, {self.dtype}"
        return f"Model({parts}: {numbers})" if parts else f"Model({numbers})"

    def _repr_html_(self) -> str:
        parents = ["world" if parent < 0 else self.link_names[parent] for parent in self.link_parent]
        kinds = [JOINT_TYPES[int(kind)].name for kind in self.joint_type]
        masses = [f"{mass:.4g}" for mass in self.parameters["mass"]]
        columns = (self.link_names, self.joint_names, kinds, parents, masses)
        head = ("link", "joint", "type", "parent", "mass [kg]")
        return html_table(repr(self), head, list(zip(*columns, strict=True)))

    @property
    def num_links(self) -> int:
        """Return the number of links."""
        return len(self.link_names)

    @property
    def num_trees(self) -> int:
        """Return the number of kinematic trees."""
        return len(self.tree_link_start) - 1

    @property
    def nq(self) -> int:
        """Return the number of joint coordinates."""
        return int(len(self.q0))

    @property
    def nv(self) -> int:
        """Return the number of degrees of freedom."""
        return int(len(self.dof_link))

    @property
    def compensated(self) -> bool:
        """Return whether links may have gravity compensation, see :meth:`sim.ModelBuilder.add_link`."""
        return "gravity_compensation" in self.parameters

    @property
    def switches(self) -> bool:
        """Return whether points, welds and couplings may be switched off, see :func:`sim.attach`."""
        return "anchor_active" in self.parameters

    @property
    def switch_names(self) -> tuple[str, ...]:
        """Return the points, welds, coupled joints and couplings of tendons in the order of the input ``active``; empty
        if none switches.
        """
        equalities, tied = self.equalities, self.tendons.coupling_names
        return (*equalities.anchor_names, *equalities.coupling_names, *tied) if self.switches else ()

    @property
    def breaks(self) -> bool:
        """Return whether points, welds and couplings may break, see :meth:`sim.ModelBuilder.add_weld_constraint`."""
        return "anchor_break_force" in self.parameters

    @property
    def breaking_names(self) -> tuple[str, ...]:
        """Return the points, welds and coupled joints that may break."""
        if not self.breaks:
            return ()
        force, torque, coupling = (
            np.isfinite(self.parameters[name])
            for name in ("anchor_break_force", "anchor_break_torque", "coupling_break_force")
        )
        names = (*self.equalities.anchor_names, *self.equalities.coupling_names)
        return tuple(compress(names, (*(force | torque), *coupling)))

    @property
    def sprung_links(self) -> np.ndarray:
        """Return the links whose spherical or free joints have a spring, see :class:`sim.Spring`."""
        pulled = (self.parameters["stiffness"] != 0.0) & (self.dof_q < 0)
        return np.unique(self.dof_link[pulled]).astype(np.int32)

    @property
    def sprung_dofs(self) -> np.ndarray:
        """Return the mask of the degrees of freedom of :attr:`sprung_links` [nv]."""
        return np.isin(self.dof_link, self.sprung_links)

    @property
    def bounds_sums(self) -> bool:
        """Return whether sums of the forces of actuators on tendons may be bounded, see ``force_range`` of tendons."""
        return "tendon_force_lower" in self.parameters and bool((self.actuator_tendon >= 0).any())

    @property
    def moving_surfaces(self) -> bool:
        """Return whether surfaces of geometries may have a velocity, see :class:`sim.Surface`."""
        return "surface_velocity" in self.parameters

    @property
    def nu(self) -> int:
        """Return the number of actuators."""
        return len(self.actuator_names)

    @property
    def actuator_law(self) -> np.ndarray:
        """Return the kind of force law that an actuator has once its input is known [nu]: a torque for a muscle."""
        return np.where(self.actuator_kind == codes.MUSCLE, codes.TORQUE, self.actuator_kind).astype(np.int32)

    @property
    def actuator_state(self) -> np.ndarray:
        """Return the index of each actuator's state in ``act`` [nu], -1 for none."""
        has_state = self.actuator_dynamics != codes.STATELESS
        return np.where(has_state, np.cumsum(has_state) - 1, -1).astype(np.int32)

    @cached_property
    def na(self) -> int:
        """Return the number of states of actuators: activations, then past inputs of those with a delay."""
        return int((self.actuator_dynamics != codes.STATELESS).sum() + self.delay_samples.sum())

    @property
    def delay_state(self) -> np.ndarray:
        """Return the index in ``act`` of the latest past input of each actuator [nu]; only where it has a delay."""
        past = np.cumsum(self.delay_samples)
        return (self.na - past[-1:] + past - self.delay_samples).astype(np.int32)

    def act_holding(self, control: npt.ArrayLike) -> np.ndarray:
        """Return states of actuators whose past inputs were always the same, with activations of zero [na].

        It is the initial ``act`` of a robot whose delayed servos hold their positions.

        Args:
            control: the input of each actuator [nu].
        """
        inputs = as_numbers("act_holding: control", control)
        if inputs.shape != (self.nu,):
            raise ModelError(f"act_holding: control has shape {inputs.shape}; expected {(self.nu,)}")
        past = np.repeat(inputs, self.delay_samples)
        return np.concatenate([np.zeros(self.na - len(past)), past])

    @property
    def act_names(self) -> tuple[str, ...]:
        """Return a name for each entry of ``act``: that of the actuator; of past inputs with their age, "name[1]"."""
        own = [name for name, k in zip(self.actuator_names, self.actuator_state, strict=True) if k >= 0]
        counts = zip(self.actuator_names, self.delay_samples.tolist(), strict=True)
        return (*own, *(f"{name}[{age + 1}]" for name, count in counts for age in range(count)))

    @property
    def nk(self) -> int:
        """Return the number of degrees of freedom of kinematic joints."""
        return len(self.kinematic_dofs)

    @property
    def pair_names(self) -> tuple[str, ...]:
        """Return the names of both geometries of each pair with its own friction, as "first and second"."""
        names = [geometry.name for geometry in self.geometries]
        return tuple(f"{names[pair.a]} and {names[pair.b]}" for pair in self.pair_frictions)

    @property
    def num_geometries(self) -> int:
        """Return the number of geometries, visual ones included."""
        return len(self.geometries)

    @property
    def max_depth(self) -> int:
        """Return the maximum number of degrees of freedom on a path from a root to a link."""
        return int(self.dof_depth.max()) + 1 if self.nv else 0

    @property
    def counts(self) -> dict[str, int]:
        """Return the sizes of the dimensions of parameters, by name."""
        return {
            "link": self.num_links,
            "dof": self.nv,
            "geometry": self.num_geometries,
            "pair": len(self.pair_frictions),
            "height": sum(each.heights.size for each in self.geometries if each.heights is not None),
            "anchor": len(self.equalities.anchor_names),
            "coupling": len(self.equalities.coupling_names),
            "actuator": self.nu,
            "tendon": len(self.tendons.names),
            "tendon_term": len(self.tendons.term_dof),
            "tendon_point": len(self.tendons.point_link),
            "tendon_wrap": len(self.tendons.wrap_link),
            "tendon_coupling": len(self.tendons.coupling_names),
        }

    @property
    def scalar(self) -> Any:
        """Return the Warp scalar type of the model's dtype."""
        return codes.DTYPES[self.dtype]

    def link(self, name: str) -> int:
        """Return the index of a link by name. Raises ModelError if there is none."""
        return find_number(self._link_index, name, "link")

    def joint(self, name: str) -> int:
        """Return the index of the link that a joint moves, by the joint's name. Raises ModelError if there is none."""
        if isinstance(name, str) and name in self._link_index and name not in self._joint_index:
            raise ModelError(f"no joint named '{name}'; link '{name}' has '{self.joint_names[self.link(name)]}'")
        return find_number(self._joint_index, name, "joint")

    def frame(self, name: str) -> Frame:
        """Return a frame by name; every link is a frame too. Raises ModelError if there is none."""
        return self.frames[find_number(self._frame_index, name, "frame")]

    def camera(self, name: str) -> MountedCamera:
        """Return a camera by name. Raises ModelError if there is none."""
        return self.cameras[find_number(numbered(camera.name for camera in self.cameras), name, "camera")]

    def geometry(self, name: str) -> int:
        """Return the index of a geometry by name. Raises ModelError if there is none."""
        return find_number(self._geometry_index, name, "geometry")

    def is_static(self, geometry: Geometry) -> bool:
        """Return whether no joint moves a geometry."""
        require_type("is_static: geometry", geometry, Geometry, "one of model.geometries")
        return geometry.link < 0 or bool(self.link_tail_dof[geometry.link] < 0)

    @cached_property
    def prescribed(self) -> np.ndarray:
        """Return the mask of the degrees of freedom with prescribed velocity, those of kinematic joints [nv]."""
        return self.parameters["armature"] >= codes.PRESCRIBED_INERTIA

    @cached_property
    def kinematic_dofs(self) -> np.ndarray:
        """Return the degrees of freedom of kinematic joints, in the order of the input ``kinematic_qd`` [nk]."""
        return np.flatnonzero(self.prescribed).astype(np.int32)

    def is_movable(self, link: int) -> bool:
        """Return whether forces move a link: it is neither static nor moved only by kinematic joints."""
        dof = -1 if self._checked_link("is_movable", link, -1) < 0 else int(self.link_tail_dof[link])
        while dof >= 0 and self.prescribed[dof]:
            dof = int(self.dof_parent[dof])
        return dof >= 0

    def actuator(self, name: str) -> int:
        """Return the index of an actuator, also in ``control``, by name. Raises ModelError if there is none."""
        return find_number(numbered(self.actuator_names), name, "actuator")

    def dofs_of(self, link: int) -> range:
        """Return the degrees of freedom of the joint that moves a link, by the link's index."""
        self._checked_link("dofs_of", link, 0)
        end = self.joint_qd_start[link + 1] if link + 1 < self.num_links else self.nv
        return range(int(self.joint_qd_start[link]), int(end))

    def _checked_link(self, where: str, link: object, least: int) -> int:
        """Return the index of a link. Raises ModelError unless it is a whole number from ``least`` to the last link."""
        if isinstance(link, bool) or not isinstance(link, int | np.integer) or not least <= link < self.num_links:
            raise ModelError(f"{where}: link is a {type(link).__name__}; it must be a link's index, {least} to "
                             f"{self.num_links - 1}")  # fmt: skip
        return int(link)

    def q_slice(self, part: "Part | str") -> slice:
        """Return the slice of q of a part; by name also of a joint, which takes precedence.

        Raises:
            ModelError: if there is no such joint or part, or if the joints of a part aren't contiguous.
        """
        return self._slice(part, self.joint_q_start, self.nq)

    def qd_slice(self, part: "Part | str") -> slice:
        """Return the slice of qd of a part or joint, as :meth:`q_slice`."""
        return self._slice(part, self.joint_qd_start, self.nv)

    @cached_property
    def _link_index(self) -> dict[str, int]:
        return numbered(self.link_names)

    @cached_property
    def _joint_index(self) -> dict[str, int]:
        return numbered(self.joint_names)

    @cached_property
    def _frame_index(self) -> dict[str, int]:
        return numbered(frame.name for frame in self.frames)

    @cached_property
    def _geometry_index(self) -> dict[str, int]:
        return numbered(geometry.name for geometry in self.geometries)

    def _slice(self, part: "Part | str", starts: np.ndarray, total: int) -> slice:
        require_type("part", part, (str, Part), "the name of a joint or part, or a sim.Part")
        if isinstance(part, str) and part not in self._joint_index:
            part = next((each for each in self.parts if each.name == part), part)
        names = (part,) if isinstance(part, str) else part.joints
        ends = np.append(starts[1:], total)
        links = [self.joint(name) for name in names if isinstance(part, str) or name in self._joint_index]
        if not links:
            return slice(0, 0)
        if any(starts[link] < ends[link] for link in set(range(min(links), max(links) + 1)) - set(links)):
            label = getattr(part, "name", part)
            raise ModelError(f"part '{label}': its joints are not contiguous; get the slice of each joint by name")
        return slice(int(starts[min(links)]), int(ends[max(links)]))
