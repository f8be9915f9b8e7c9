"""Robot: kinematics and dynamics of a model as a module of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sim.arrays.warp_lock import serialized
from sim.dynamics.acceleration import acceleration_operation, jacobian_derivative_operation
from sim.dynamics.bias import bias_operation, coriolis_operation, gravity_operation
from sim.dynamics.differentiable_op import DYNAMICS_PARAMETERS, DifferentiableOp
from sim.dynamics.dynamics import forward_dynamics_operation, inverse_dynamics_operation
from sim.dynamics.kinematics import (
    difference_operation,
    integrate_operation,
    jacobian_operation,
    matrix_operation,
    pose_operation,
    velocity_operation,
)
from sim.dynamics.mass_matrix import mass_matrix_inverse_operation, mass_matrix_operation
from sim.dynamics.momentum import (
    centre_of_mass_jacobian_operation,
    centre_of_mass_operation,
    centroidal_momentum_matrix_operation,
    centroidal_momentum_operation,
    kinetic_energy_operation,
    potential_energy_operation,
)
from sim.dynamics.wrenches import link_wrench_operation
from sim.errors import ModelError
from sim.exporters.urdf.changes import update_urdf
from sim.importers.load import load
from sim.model.frames import frame_names
from sim.model.model import Model
from sim.torch.arrays import DTYPES
from sim.torch.robot.arguments import Arguments
from sim.torch.robot.autograd import evaluate
from sim.torch.robot.inverse_kinematics import FrameKinematics, Solution, inverse_kinematics
from sim.torch.robot.learning import QUANTITIES, find_link, present_value, with_learnt
from sim.torch.robot.parametrisations import Parametrisation
from sim.torch.runtime.call_signature import Kind, looks
from sim.torch.runtime.engine import Engine
from sim.torch.runtime.lru import next_use, pop_least_recent

Frames = str | Sequence[str] | None
Wrench = torch.Tensor | Mapping[str, torch.Tensor] | None
# Kinds of calls that are kept, with their operations: those of every method at five shapes of the batch. Each takes a
# few kilobytes; the memory is in the graphs, see :class:`sim.torch.runtime.engine.Engine`.
KINDS = 128
LIMITS = ("lower_limit", "upper_limit", "velocity_limit", "effort_limit")


class Robot(torch.nn.Module):
    """Kinematics and dynamics of a model, batched and differentiable, without contact and time.

    All methods take tensors of any leading batch shape, none included, broadcast against each other; they are of the
    robot's dtype and on its device. Conventions are those of ``docs/conventions.md``: SI units, quaternions xyzw,
    spatial vectors angular first. Each call computes what it returns and nothing else, returns new memory, and keeps a
    copy of what its gradient needs, so that editing an argument afterwards changes nothing.

    Gradients are of first order, in all tensors and in the parameters; a second derivative raises. ``torch.func.vmap``,
    ``grad``, ``vjp`` and ``jacrev`` work, forward mode raises. ``torch.compile`` leaves a call out of its graphs.

    The parameters (``mass``, ``com``, ``inertia``, ``joint_placement``, ``damping``, ``armature``, ``stiffness``,
    ``rest_position``, ``friction_loss``, ``gravity``; see :data:`sim.model.parameters.PARAMETERS`) are buffers,
    ``[n, ...]`` or one for each row of a flat batch ``[rows, n, ...]``. :meth:`learn` makes them parameters of the
    module. Joints that mimic another and other constraints of the solver have no effect here: their coordinates are
    independent.

    Args:
        source: a robot file (see :func:`sim.load`), or a model.
        dtype: torch.float32 or torch.float64. Default: that of the model, torch's default for a file.
        device: where the parameters lie at first.
        options: for a file, those of :func:`sim.load`. Geometry isn't read unless asked for, links joined by fixed
            joints stay links of their own, so that their parameters can be learnt, and joints that mimic are read.

    Attributes:
        model: what the robot was at first.
        learnt: modules of single quantities that are learnt, see :meth:`make_learnable`.
        lower_limit, upper_limit: of each degree of freedom [nv], infinite where there is none [rad or m].
        velocity_limit, effort_limit: largest speed and force that the file gives [nv].

    Raises:
        ModelError: for a wrong shape, dtype, device or name, and by dynamics for links that came without inertial data.
    """

    mass: torch.Tensor
    com: torch.Tensor
    inertia: torch.Tensor
    joint_placement: torch.Tensor
    damping: torch.Tensor
    armature: torch.Tensor
    stiffness: torch.Tensor
    rest_position: torch.Tensor
    friction_loss: torch.Tensor
    gravity: torch.Tensor
    lower_limit: torch.Tensor
    upper_limit: torch.Tensor
    velocity_limit: torch.Tensor
    effort_limit: torch.Tensor

    def __init__(
        self,
        source: str | os.PathLike[str] | Model,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        **options: Any,
    ):
        super().__init__()
        if isinstance(source, Model):
            if options:
                raise ModelError(f"options {', '.join(options)} are for robot files; the source is a model")
            self.model = source
            self._source: Path | None = None
            given = torch.float64 if source.dtype == "float64" else torch.float32
        else:
            given = torch.get_default_dtype()
            self._source = Path(source).resolve()
            defaults = {"visual": False, "collision": False, "collapse_fixed": False, "mimic": "free"}
            self.model = load(source, **{**defaults, **options})
        precision = dtype or given
        if precision not in DTYPES:
            raise ModelError(f"dtype is {precision}; it must be torch.float32 or torch.float64")
        values = {name: self.model.parameters[name] for name in (*DYNAMICS_PARAMETERS, *LIMITS[:2])}
        values |= {name: getattr(self.model, name) for name in LIMITS[2:]}
        for name, value in values.items():
            self.register_buffer(name, torch.tensor(value, dtype=precision, device=device))
        self.learnt = torch.nn.ModuleDict()
        self._arguments = Arguments(self.model)
        self._engines: dict[tuple[torch.device, torch.dtype], Engine] = {}
        self._operations: dict[Hashable, DifferentiableOp] = {}
        self._kinds: dict[tuple, Kind] = {}

    # ---- what it is --------------------------------------------------------------------------------------------

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.model.nv

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of the links [num_links]."""
        return self.model.link_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move, in the order of their coordinates."""
        ends = [*self.model.joint_qd_start[1:], self.model.nv]
        starts = self.model.joint_qd_start
        return tuple(n for n, a, b in zip(self.model.joint_names, starts, ends, strict=True) if b > a)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all frames, those of links among them."""
        return tuple(frame.name for frame in self.model.frames)

    def initial_coordinates(self) -> torch.Tensor:
        """The model's initial coordinates [nq]; quaternions are of unit length."""
        return torch.tensor(self.model.q0, dtype=self._like.dtype, device=self._like.device)

    def learn(self, *names: str) -> Robot:
        """Make parameters trainable: they become parameters of the module. Returns the robot."""
        for name in names:
            self._check_name(name)
            if name in self._buffers:
                value = self._buffers.pop(name)
                assert value is not None
                self.register_parameter(name, torch.nn.Parameter(value.detach().clone()))
            self._parameters[name].requires_grad_(True)  # type: ignore[union-attr]
        return self

    def freeze(self, *names: str) -> Robot:
        """Make parameters buffers again, with the values they have now. Returns the robot."""
        for name in names:
            self._check_name(name)
            if name in self._parameters:
                value = self._parameters.pop(name)
                assert value is not None
                self.register_buffer(name, value.detach().clone())
        return self

    def make_learnable(self, name: str, quantity: str, module: torch.nn.Module | None = None) -> torch.nn.Module:
        """Let one quantity of a link or joint be learnt, from its present value on.

        Args:
            name: the link, or the joint that carries it.
            quantity: "mass", "com", "inertia", "inertial" (these three together), "translation" or "rotation" of the
                joint's placement, "damping", "friction" (dry friction: ``friction_loss``), "armature", "stiffness" or
                "rest_position".
            module: a :class:`sim.torch.Parametrisation`, or any module whose ``forward()`` gives the value, for
                "rotation" a quaternion xyzw, for "inertial" mass, com and inertia. Default: Positive, Unconstrained,
                PositiveDefinite, PhysicalInertia or Rotation, as befits the quantity.

        Returns:
            the module, which is now a part of the robot: its parameters are the robot's.

        Raises:
            ModelError: for an unknown name or quantity, a value that the parametrisation can't have, a wrong shape.
        """
        link = find_link(self.model, name, quantity)
        module = QUANTITIES[quantity][1]() if module is None else module
        for other in QUANTITIES:
            shared = set(QUANTITIES[other][0]) & set(QUANTITIES[quantity][0]) - {"joint_placement"}
            if other != quantity and shared and f"{other}_{link}" in self.learnt:
                raise ModelError(f"{quantity} of '{name}': its {other} is learnt already; learn one of them")
        if isinstance(module, Parametrisation):
            names = QUANTITIES[quantity][0]
            value = present_value(self.model, dict(zip(names, self._values(names), strict=True)), link, quantity)
            try:
                with torch.no_grad():
                    module.start(value)
            except ModelError as error:
                raise ModelError(f"{quantity} of '{name}': {error}") from None
        names = QUANTITIES[quantity][0]
        with_learnt(self.model, {(link, quantity): module}, {key: getattr(self, key) for key in names})
        self.learnt[f"{quantity}_{link}"] = module
        return module

    def learnable(self, name: str, quantity: str) -> torch.nn.Module:
        """The module that :meth:`make_learnable` put in. Raises ModelError if there is none."""
        key = f"{quantity}_{find_link(self.model, name, quantity)}"
        if key not in self.learnt:
            raise ModelError(f"{quantity} of '{name}' is not learnt; make_learnable comes first")
        return self.learnt[key]

    def save_urdf(self, path: str | os.PathLike[str]) -> None:
        """Write the robot as a URDF file: the file that it came from with the values of now in it.

        Only elements whose values have changed are touched. Masses, centres of mass, inertias, placements of joints,
        damping and dry friction have a place in URDF. Meshes keep their file names, which may be relative to the old
        place.

        Args:
            path: the file to write.

        Raises:
            ModelError: for a robot that isn't from a URDF file or had its fixed joints merged, for a parameter with a
                value for each row, for a changed one that URDF has no place for, and for values that couldn't be read
                again, such as a negative damping. Then nothing is written.
        """
        if self._source is None:
            raise ModelError("the robot was made from a model and not from a file, so there is no URDF to write into")
        with torch.no_grad():
            tensors = {name: self.value(name) for name in DYNAMICS_PARAMETERS}
        self._arguments.check_shared(tensors)
        values = {name: tensor.detach().double().cpu().numpy() for name, tensor in tensors.items()}
        # Rounding to float32, now or at some time before, is no change.
        first = {name: self.model.parameters[name] for name in values}
        single = {name: value.astype(np.float32).astype(float) for name, value in first.items()}
        before = {name: np.where(values[name] == single[name], single[name], first[name]) for name in values}
        update_urdf(self._source, path, self.model, {name: (before[name], values[name]) for name in values})

    def value(self, name: str) -> torch.Tensor:
        """A parameter as the methods see it [n, ...], with all that is learnt."""
        self._check_name(name)
        return self._values((name,))[0]

    # ---- kinematics --------------------------------------------------------------------------------------------

    def forward(self, q: torch.Tensor, frame: Frames = None) -> tuple[torch.Tensor, torch.Tensor]:
        """:meth:`forward_kinematics`."""
        return self.forward_kinematics(q, frame)

    def forward_kinematics(self, q: torch.Tensor, frame: Frames = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Poses of frames in the world.

        Args:
            q: joint coordinates [..., nq].
            frame: the name of a frame, several names, or None for all links.

        Returns:
            positions [..., 3] [m] and quaternions xyzw [..., 4]; for several frames [..., frames, 3 and 4].
        """
        names, single = self._names(frame)
        make = lambda: pose_operation(self.model, frame_names(self.model, names))  # noqa: E731
        position, quaternion = self._call(("pose", names), make, single, (3, 4), q=q)
        return position, quaternion

    def forward_kinematics_matrix(self, q: torch.Tensor, frame: Frames = None) -> torch.Tensor:
        """Poses of frames in the world as homogeneous matrices [..., 4, 4], or [..., frames, 4, 4]."""
        return self._of_frames("matrix", matrix_operation, frame, q=q)

    def jacobian(
        self, q: torch.Tensor, frame: str | Sequence[str], reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Jacobians of frames [..., 6, nv], or [..., frames, 6, nv]: ``jacobian @ qd`` is :meth:`frame_velocity`."""
        return self._of_frames("jacobian", jacobian_operation, frame, reference, q=q)

    def jacobian_derivative(
        self, q: torch.Tensor, qd: torch.Tensor, frame: str | Sequence[str], reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Time derivative of :meth:`jacobian` in motion with qd, of the same shape."""
        return self._of_frames("jacobian derivative", jacobian_derivative_operation, frame, reference, q=q, qd=qd)

    def frame_velocity(
        self, q: torch.Tensor, qd: torch.Tensor, frame: Frames = None, reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Spatial velocities of frames [..., 6], or [..., frames, 6]; see :func:`sim.link_velocities`."""
        return self._of_frames("velocity", velocity_operation, frame, reference, q=q, qd=qd)

    def frame_acceleration(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        qdd: torch.Tensor,
        frame: Frames = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Accelerations of frames [..., 6], or [..., frames, 6]; see :func:`sim.link_accelerations`."""
        return self._of_frames("acceleration", acceleration_operation, frame, reference, q=q, qd=qd, qdd=qdd)

    def integrate(self, q: torch.Tensor, qd: torch.Tensor, dt: float = 1.0) -> torch.Tensor:
        """Coordinates [..., nq] after moving with constant velocity for the time dt [s], a constant."""
        return self._call(("integrate", dt), lambda: integrate_operation(self.model, dt), q=q, qd=qd)[0]

    def difference(self, q0: torch.Tensor, q1: torch.Tensor) -> torch.Tensor:
        """The velocity [..., nv] that takes q0 to q1 in one second; the inverse of :meth:`integrate`."""
        return self._call("difference", lambda: difference_operation(self.model), q0=q0, q1=q1)[0]

    def inverse_kinematics(
        self,
        frame: str,
        position: torch.Tensor,
        quaternion: torch.Tensor | None = None,
        *,
        start: torch.Tensor | None = None,
        restarts: int = 8,
        iterations: int = 100,
        position_tolerance: float = 1e-4,
        rotation_tolerance: float = 1e-3,
        seed: int = 0,
    ) -> Solution:
        """Coordinates that bring a frame to targets, within the limits, by damped least squares from several starts.

        The solution is differentiable in the targets and in the placements of joints where it was found (``success``):
        by the implicit function theorem, with the smallest change of the coordinates that follows the target. Joints
        at a limit stay there.

        Args:
            frame: name of the frame.
            position: targets in the world [..., 3] [m].
            quaternion: targets xyzw [..., 4]; None for any orientation.
            start: where the first try begins [..., nq], broadcast against the targets; default the robot's initial
                coordinates.
            restarts: number of tries for each target, all but the first from random coordinates.
            iterations: most steps of each try.
            position_tolerance: distance at which a try is good enough [m].
            rotation_tolerance: angle at which it is [rad].
            seed: of the random starts; the same one gives the same result.

        Returns:
            the best of the tries, with its errors and whether it is within the tolerances.
        """
        self.model.frame(frame)  # raises for an unknown one
        kinematics = FrameKinematics(
            lambda q: self.forward_kinematics(q, frame),
            lambda q: self.jacobian(q, frame),
            self.integrate,
            self.initial_coordinates(),
            self.lower_limit,
            self.upper_limit,
            torch.tensor(self.model.dof_q, dtype=torch.long, device=self.lower_limit.device),
        )
        goal = (position_tolerance, rotation_tolerance)
        return inverse_kinematics(kinematics, position, quaternion, start, restarts, iterations, goal, seed)

    # ---- dynamics ----------------------------------------------------------------------------------------------

    def inverse_dynamics(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        qdd: torch.Tensor,
        wrench: Wrench = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Joint forces [..., nv] that produce an acceleration, armature, damping, springs and dry friction included.

        Dry friction is that of a joint in motion, ``friction_loss sign(qd)``, and none at rest, where any force up to
        ``friction_loss`` may hold; see :mod:`sim.dynamics.dynamics`.

        Args:
            q: joint coordinates [..., nq].
            qd: joint velocities [..., nv].
            qdd: joint accelerations [..., nv].
            wrench: external moment [N m], then force [N], as a dictionary from names of frames to [..., 6]; or on each
                link, about its origin along world axes [..., num_links, 6].
            reference: where and along which axes the wrenches of a dictionary are; see :func:`sim.link_wrenches`.
        """
        on_links = {} if wrench is None else self._link_wrench(q, wrench, reference)
        make = lambda: inverse_dynamics_operation(self.model)  # noqa: E731
        return self._dynamics("inverse dynamics", make, q=q, qd=qd, qdd=qdd, **on_links)

    def forward_dynamics(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        tau: torch.Tensor,
        wrench: Wrench = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Joint accelerations [..., nv] under joint forces: the inverse of :meth:`inverse_dynamics`."""
        on_links = {} if wrench is None else self._link_wrench(q, wrench, reference)
        make = lambda: forward_dynamics_operation(self.model)  # noqa: E731
        return self._dynamics("forward dynamics", make, q=q, qd=qd, tau=tau, **on_links)

    def mass_matrix(self, q: torch.Tensor) -> torch.Tensor:
        """Joint-space mass matrix, armature included [..., nv, nv]."""
        return self._dynamics("mass matrix", lambda: mass_matrix_operation(self.model), q=q)

    def mass_matrix_inverse(self, q: torch.Tensor) -> torch.Tensor:
        """Inverse of the joint-space mass matrix [..., nv, nv]."""
        return self._dynamics("mass matrix inverse", lambda: mass_matrix_inverse_operation(self.model), q=q)

    def gravity_forces(self, q: torch.Tensor) -> torch.Tensor:
        """Joint forces that hold the robot still against gravity [..., nv]."""
        return self._dynamics("gravity", lambda: gravity_operation(self.model), q=q)

    def coriolis_forces(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Joint forces against Coriolis and centrifugal effects [..., nv]."""
        return self._dynamics("coriolis", lambda: coriolis_operation(self.model), q=q, qd=qd)

    def bias_forces(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """The sum of :meth:`gravity_forces` and :meth:`coriolis_forces` [..., nv], in one pass."""
        return self._dynamics("bias", lambda: bias_operation(self.model), q=q, qd=qd)

    def centre_of_mass(self, q: torch.Tensor) -> torch.Tensor:
        """Centre of mass of all links that move, in the world [..., 3]."""
        return self._dynamics("centre of mass", lambda: centre_of_mass_operation(self.model), q=q)

    def centre_of_mass_jacobian(self, q: torch.Tensor) -> torch.Tensor:
        """Jacobian of the centre of mass [..., 3, nv]."""
        make = lambda: centre_of_mass_jacobian_operation(self.model)  # noqa: E731
        return self._dynamics("centre of mass jacobian", make, q=q)

    def centroidal_momentum(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Momentum about the centre of mass along world axes, angular first [..., 6]."""
        return self._dynamics("momentum", lambda: centroidal_momentum_operation(self.model), q=q, qd=qd)

    def centroidal_momentum_matrix(self, q: torch.Tensor) -> torch.Tensor:
        """The matrix that takes qd to :meth:`centroidal_momentum` [..., 6, nv]."""
        return self._dynamics("momentum matrix", lambda: centroidal_momentum_matrix_operation(self.model), q=q)

    def kinetic_energy(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Kinetic energy of links and rotors [...] [J]."""
        return self._dynamics("kinetic energy", lambda: kinetic_energy_operation(self.model), q=q, qd=qd)

    def potential_energy(self, q: torch.Tensor) -> torch.Tensor:
        """Potential energy of gravity and springs [...] [J]."""
        return self._dynamics("potential energy", lambda: potential_energy_operation(self.model), q=q)

    # ---- how it is called --------------------------------------------------------------------------------------

    def _of_frames(
        self,
        name: str,
        make: Callable[..., DifferentiableOp],
        frame: Frames,
        reference: str | None = None,
        **inputs: torch.Tensor,
    ) -> torch.Tensor:
        """An operation on frames ``make(model, names, reference)``, without their dimension for a single one."""
        names, single = self._names(frame)
        further = () if reference is None else (reference,)
        key = (name, names, reference)
        return self._call(key, lambda: make(self.model, frame_names(self.model, names), *further), single, **inputs)[0]

    def _names(self, frame: Frames) -> tuple[tuple[str, ...], bool]:
        """Names of frames, and whether it is a single one."""
        if isinstance(frame, str):
            return (frame,), True
        return self.link_names if frame is None else tuple(frame), False

    def _dynamics(self, key: str, make: Callable[[], DifferentiableOp], **inputs: torch.Tensor) -> torch.Tensor:
        if self.model.massless_links:
            self._require_masses()
        return self._call(key, make, **inputs)[0]

    def _require_masses(self) -> None:
        learnt = {key.rsplit("_", 1)[1] for key in self.learnt if key.startswith(("mass_", "inertial_"))}
        missing = [name for name in self.model.massless_links if str(self.model.link(name)) not in learnt]
        if missing:
            raise ModelError(
                f"dynamics need the masses of links {', '.join(map(repr, missing))}, which came without inertial data; "
                "give them a mass"
            )

    def _link_wrench(
        self, q: torch.Tensor, wrench: torch.Tensor | Mapping[str, torch.Tensor], reference: str
    ) -> dict[str, torch.Tensor]:
        """Wrenches on links, as the argument of that name."""
        if isinstance(wrench, torch.Tensor):
            return {"wrench": wrench}
        names = frame_names(self.model, list(wrench))
        stacked = torch.stack(torch.broadcast_tensors(*wrench.values()), dim=-2)
        key = ("wrench", names, reference)
        make = lambda: link_wrench_operation(self.model, names, reference)  # noqa: E731
        return {"wrench": self._call(key, make, q=q, wrenches=stacked)[0]}

    @torch.compiler.disable(reason="kernels of Warp are launched outside of what torch.compile can see")
    def _call(
        self,
        key: Hashable,
        make: Callable[[], DifferentiableOp],
        single: bool = False,
        split: tuple[int, ...] = (),
        /,
        **inputs: torch.Tensor,
    ) -> Sequence[torch.Tensor]:
        """The result of an operation in parts of its last dimension of the sizes that ``split`` gives, none for one.

        Where a ``single`` frame is asked for, its dimension, the first one, is left out.
        """
        operation = self._operations.get(key)
        if operation is None:
            operation = make()
        like = self._like
        tensors = [*inputs.values(), *self._values(operation.parameters)]
        try:
            look = (operation, single, split, *looks([like, *tensors]))
            kind = self._kinds.get(look)
        except AttributeError:  # of what isn't a tensor
            self._arguments.batch(inputs, like)
            raise
        if kind is None:
            kind = self._new_kind(key, look, like, inputs, tensors)
        kind.used = next_use()
        return evaluate(kind, tensors)

    @serialized
    def _new_kind(
        self,
        key: Hashable,
        look: tuple,
        like: torch.Tensor,
        inputs: Mapping[str, torch.Tensor],
        tensors: Sequence[torch.Tensor],
    ) -> Kind:
        """What calls have in common that look like this one. Raises ModelError if their tensors aren't as they must."""
        operation, single, split = look[:3]
        batch = self._arguments.batch(inputs, like)
        parameters = tensors[len(inputs) :]
        self._arguments.check_parameters(operation.parameters, parameters, batch.numel(), like)
        inner = [x.shape[x.dim() - len(self._arguments.inner[name]) :] for name, x in inputs.items()]
        shape = torch.Size((*batch, *(operation.shape[1:] if single else operation.shape)))
        if len(self._kinds) == KINDS:
            pop_least_recent(self._kinds)
            there = {other.operation for other in self._kinds.values()}
            self._operations = {name: made for name, made in self._operations.items() if made in there}
        self._operations[key] = operation
        kind = self._kinds[look] = Kind(self._engine(like), operation, batch, inner, tensors, shape, split)
        return kind

    def _values(self, names: Sequence[str]) -> list[torch.Tensor]:
        # Attributes of a module that aren't in its own dictionaries take Python long to find.
        stored: dict[str, Any] = {**self._parameters, **self._buffers}
        values = [stored[name] if name in stored else getattr(self, name) for name in names]
        if "learnt" not in self._modules or not self._modules["learnt"]:
            return values
        parts = [key.rsplit("_", 1) for key in self.learnt]
        learnt = {(int(link), quantity): self.learnt[f"{quantity}_{link}"] for quantity, link in parts}
        return list(with_learnt(self.model, learnt, dict(zip(names, values, strict=True))).values())

    def _engine(self, like: torch.Tensor) -> Engine:
        key = (like.device, like.dtype)
        if key not in self._engines:
            if like.dtype not in DTYPES:
                raise ModelError(
                    f"the robot's parameters are {like.dtype}; it works in torch.float32 and torch.float64"
                )
            self._engines[key] = Engine(self.model, *key)
        return self._engines[key]

    @property
    def _like(self) -> torch.Tensor:
        """The parameter by which dtype and device of the robot go."""
        mass = self._buffers.get("mass")
        return self.mass if mass is None else mass

    def _check_name(self, name: str) -> None:
        if name not in DYNAMICS_PARAMETERS:
            raise ModelError(
                f"unknown parameter '{name}'; kinematics and dynamics depend on {', '.join(DYNAMICS_PARAMETERS)}"
            )

    def __getstate__(self) -> dict[str, Any]:
        # Arrays and graphs are made anew where they are needed.
        return {**self.__dict__, "_engines": {}, "_operations": {}, "_kinds": {}}

    def extra_repr(self) -> str:
        """One line for ``repr``."""
        return f"{self.model.num_links} links, nq={self.nq}, nv={self.nv}, {self._like.dtype}, {self._like.device}"
