"""Robot: kinematics and dynamics of a model as a PyTorch module."""

import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import warp as wp

from sim.arrays.teams import require_width
from sim.distances.measure import DISTANCE_PARAMETERS, GeometryDistances, distance_operation
from sim.distances.pairs import GeometryPair, numbered_pairs
from sim.dynamics.acceleration import acceleration_operation, jacobian_derivative_operation
from sim.dynamics.arguments import frame_names, reference_code
from sim.dynamics.bias import bias_operation, coriolis_operation, gravity_operation
from sim.dynamics.differentiable_op import DifferentiableOp
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
from sim.importers.formats import format_of
from sim.importers.load import load
from sim.model.checks import is_whole, names_in, require_type
from sim.model.model import Model
from sim.rays.cast import RAY_PARAMETERS, ray_operation
from sim.rays.targets import RayTargets
from sim.torch.arrays import require_dense
from sim.torch.modes import not_compiled
from sim.torch.robot.arguments import (
    check_shared,
    geometry_values,
    one_number,
    over_a_second,
    stacked_wrenches,
    with_or_without,
)
from sim.torch.robot.autograd import evaluate
from sim.torch.robot.calls import RobotCalls
from sim.torch.robot.inverse_kinematics import FrameKinematics, Solution, inverse_kinematics
from sim.torch.robot.joint_ranges import joint_ranges
from sim.torch.robot.module import RobotModule
from warp_kernels.distances import DISTANCE_NUMBERS, RESULTS

Frames = str | Sequence[str] | None
Wrench = torch.Tensor | Mapping[str, torch.Tensor] | None


class Robot(RobotModule):
    """Kinematics and dynamics of a model, batched and differentiable, without contact and time integration.

    All methods take tensors of any leading batch shape, none included, broadcast against each other; they are of the
    robot's dtype and on its device. Conventions are those of ``docs/conventions.md``: SI units, quaternions xyzw,
    spatial vectors angular first. Each call computes only what it returns, returns new memory, and keeps a copy of what
    its gradient needs, so that editing an argument afterwards changes nothing.

    Gradients are of first order, in all tensors and in the parameters; a second derivative raises. ``torch.func.vmap``,
    ``grad``, ``vjp`` and ``jacrev`` work, forward mode raises. Only inverse kinematics has no
    ``vmap``: it takes its targets as a batch. ``torch.compile`` breaks its graph at a call.

    The parameters (``mass``, ``com``, ``inertia``, ``joint_placement``, ``damping``, ``armature``, ``stiffness``,
    ``rest_position``, ``friction_loss``, ``gravity``; see :data:`sim.model.parameters.PARAMETERS`) are buffers,
    ``[n, ...]`` or one for each row of a flat batch ``[rows, n, ...]``. :meth:`learn` makes them parameters of the
    module. Constraints, contacts, actuators, tendons and a medium have no effect here; coordinates of joints that mimic
    another are independent.

    Args:
        source: a robot file (see :func:`sim.load`), or a model.
        dtype: torch.float32 or torch.float64, or its name. Default: that of the model, torch's default for a file.
        device: initial device of the parameters; a device of torch or of Warp, or its name.
        threads_per_world: threads of a GPU that share out the work of one row of a batch: 1, 8, 16 or 32, see
            :class:`sim.Simulator`. Experimental: not yet run on a GPU. On a CPU one thread does the same work, for
            tests.
        options: for a file, those of :func:`sim.load`. Geometry isn't read unless asked for, links joined by fixed
            joints stay links of their own, so that their parameters can be learnt, and joints that mimic are read.

    Attributes:
        model: the robot's original model.
        learnt: modules of learnt quantities, see :meth:`learn_quantity`.
        lower_limit, upper_limit: of each degree of freedom [nv], infinite without a limit [rad or m].
        velocity_limit, effort_limit: largest speed and force that the file gives [nv].

    Raises:
        ModelError: for a wrong shape, dtype, device or name, for a model without links, and in dynamics for links
            without inertial data.

    Example:
        >>> import torch
        >>> import sim
        >>> robot = sim.torch.Robot("scenes/robots/manipulator.urdf", dtype=torch.float64)
        >>> q = torch.zeros(16, robot.nq, dtype=torch.float64, requires_grad=True)
        >>> position, quaternion = robot.forward_kinematics(q, "link7")
        >>> position[:, 0].sum().backward()
        >>> q.grad.shape
        torch.Size([16, 7])
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Model,
        *,
        dtype: torch.dtype | str | None = None,
        device: torch.device | wp.Device | str | None = None,
        threads_per_world: int = 1,
        **options: Any,
    ):
        require_width("Robot", threads_per_world)
        if isinstance(source, Model):
            if options:
                raise ModelError(f"options {', '.join(options)} are for robot files; the source is a model")
            model, path = source, None
            default = torch.float64 if model.dtype == "float64" else torch.float32
        else:
            defaults: dict[str, Any] = {"visual": False, "collision": False, "collapse_fixed": False}
            if format_of(source) == "urdf":
                defaults["mimic"] = "free"
            model, path = load(source, **{**defaults, **options}), Path(source).resolve()
            default = torch.get_default_dtype()
        if not model.num_links:
            raise ModelError(f"Robot: {'the model' if path is None else path} has no link")
        super().__init__(model, path, default if dtype is None else dtype, device)
        self._calls = RobotCalls(model, int(threads_per_world))

    # ---- kinematics --------------------------------------------------------------------------------------------

    def forward(self, q: torch.Tensor, frame: Frames = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Call :meth:`forward_kinematics`."""
        return self.forward_kinematics(q, frame)

    def forward_kinematics(self, q: torch.Tensor, frame: Frames = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute poses of frames in the world.

        Args:
            q: joint coordinates [..., nq].
            frame: the name of a frame, several names, or None for all links.

        Returns:
            positions [..., 3] [m] and quaternions xyzw [..., 4]; for several frames [..., frames, 3 and 4].
        """
        names, single = self._names(frame)
        make = lambda: pose_operation(self.model, frame_names(self.model, names))  # noqa: E731
        position, quaternion = self._call(("pose", names, single), make, single, (3, 4), q=q)
        return position, quaternion

    def forward_kinematics_matrix(self, q: torch.Tensor, frame: Frames = None) -> torch.Tensor:
        """Compute poses of frames in the world as homogeneous matrices [..., 4, 4], or [..., frames, 4, 4]."""
        return self._of_frames("matrix", matrix_operation, frame, q=q)

    def jacobian(
        self, q: torch.Tensor, frame: str | Sequence[str], reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Compute Jacobians of frames [..., 6, nv], or [..., frames, 6, nv]: ``jacobian @ qd`` is
        :meth:`frame_velocity`.
        """
        return self._of_frames("jacobian", jacobian_operation, frame, reference, q=q)

    def jacobian_derivative(
        self, q: torch.Tensor, qd: torch.Tensor, frame: str | Sequence[str], reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Compute the time derivative of :meth:`jacobian` in motion with qd, of the same shape."""
        return self._of_frames("jacobian derivative", jacobian_derivative_operation, frame, reference, q=q, qd=qd)

    def frame_velocity(
        self, q: torch.Tensor, qd: torch.Tensor, frame: Frames = None, reference: str = "local_world_aligned"
    ) -> torch.Tensor:
        """Compute spatial velocities of frames [..., 6], or [..., frames, 6]; see :func:`sim.link_velocities`."""
        return self._of_frames("velocity", velocity_operation, frame, reference, q=q, qd=qd)

    def frame_acceleration(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        qdd: torch.Tensor,
        frame: Frames = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Compute accelerations of frames [..., 6], or [..., frames, 6]; see :func:`sim.link_accelerations`."""
        return self._of_frames("acceleration", acceleration_operation, frame, reference, q=q, qd=qd, qdd=qdd)

    def link_velocities(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        frames: Frames = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Call :meth:`frame_velocity`; an alias with the name and arguments of :func:`sim.link_velocities`."""
        return self.frame_velocity(q, qd, frames, reference)

    def link_accelerations(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        qdd: torch.Tensor,
        frames: Frames = None,
        reference: str = "local_world_aligned",
    ) -> torch.Tensor:
        """Call :meth:`frame_acceleration`; an alias with the name and arguments of :func:`sim.link_accelerations`."""
        return self.frame_acceleration(q, qd, qdd, frames, reference)

    @not_compiled("kernels of Warp are launched outside of what torch.compile can see")
    def cast_rays(
        self,
        q: torch.Tensor,
        origin: torch.Tensor,
        direction: torch.Tensor,
        targets: RayTargets = RayTargets(),  # noqa: B008  (it can't change)
        *,
        max_distance: float = math.inf,
        **parameters: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Cast rays and return their first hits; see :func:`sim.cast_rays`.

        Args:
            q: joint coordinates [..., nq].
            origin: start points of the rays in the world [..., rays, 3], m.
            direction: of the rays, in the world [..., rays, 3], of any length.
            targets: geometries that the rays can hit.
            max_distance: length of the rays [m].
            **parameters: ``geometry_placement``, ``geometry_size`` and ``height``, of the model's shape or with one
                value for each row of the batch; those of the model where they aren't given.

        Returns:
            distance [..., rays], infinite without a hit; index of the geometry [..., rays], int64, -1 without; outward
            unit normal of the surface [..., rays, 3], zero without.
        """
        require_dense("cast_rays: origin", origin)
        require_dense("cast_rays: direction", direction)
        if origin.dim() < 2 or origin.shape[-1] != 3 or origin.shape[-2:] != direction.shape[-2:]:
            raise ModelError(
                f"cast_rays: origin {tuple(origin.shape)} and direction {tuple(direction.shape)} don't match; both "
                "must be [..., rays, 3]"
            )
        rays, farthest = origin.shape[-2], one_number("max_distance", max_distance)
        poses = torch.cat(self.forward_kinematics(q), dim=-1)
        inputs = {"link_pose": poses, "origin": origin, "direction": direction}
        require_type("cast_rays: targets", targets, RayTargets, "a sim.RayTargets")
        make = lambda: ray_operation(self.model, rays, targets, farthest)  # noqa: E731
        key = ("rays", rays, targets, farthest)
        values = geometry_values(self.model, "cast_rays", RAY_PARAMETERS, parameters, self._like)
        distance, normal, geometry, _ = self._call_with(values, key, make, False, (1, 3, 1, 2), **inputs)
        return distance[..., 0], geometry[..., 0].to(torch.int64), normal

    @not_compiled("kernels of Warp are launched outside of what torch.compile can see")
    def geometry_distances(
        self,
        q: torch.Tensor,
        pairs: Sequence[GeometryPair],
        *,
        max_distance: float = math.inf,
        **parameters: torch.Tensor,
    ) -> GeometryDistances[torch.Tensor]:
        """Compute distances, nearest points and normals of pairs of geometries; see :func:`sim.geometry_distances`.

        Args:
            q: joint coordinates [..., nq].
            pairs: of geometries, by name or index in ``model.geometries``.
            max_distance: upper bound of the distances [m]; pairs at the bound have zero points and normals.
            **parameters: ``geometry_placement`` and ``geometry_size``, as for :meth:`cast_rays`.

        Returns:
            distance [..., pairs], points and normal [..., pairs, 3].
        """
        numbered, farthest = numbered_pairs(self.model, pairs), one_number("max_distance", max_distance)
        make = lambda: distance_operation(self.model, numbered, farthest)  # noqa: E731
        key = ("distances", numbered, farthest)
        values = geometry_values(self.model, "geometry_distances", DISTANCE_PARAMETERS, parameters, self._like)
        split = (1, 3, 3, 3, DISTANCE_NUMBERS - RESULTS)
        poses = torch.cat(self.forward_kinematics(q), dim=-1)
        distance, point_a, point_b, normal, _ = self._call_with(values, key, make, False, split, link_pose=poses)
        return GeometryDistances(distance[..., 0], point_a, point_b, normal)

    def integrate(self, q: torch.Tensor, qd: torch.Tensor, dt: float = 1.0) -> torch.Tensor:
        """Return coordinates [..., nq] after moving with constant velocity for the time dt [s], which has no
        gradient.
        """
        qd = over_a_second(qd, one_number("dt", dt))
        return self._call("integrate", lambda: integrate_operation(self.model, 1.0), q=q, qd=qd)[0]

    def difference(self, q0: torch.Tensor, q1: torch.Tensor) -> torch.Tensor:
        """Return the velocity [..., nv] that takes q0 to q1 in one second; the inverse of :meth:`integrate`."""
        return self._call("difference", lambda: difference_operation(self.model), q0=q0, q1=q1)[0]

    @not_compiled("the end of the search depends on values, which torch.compile can't trace")
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
        """Find coordinates that bring a frame to targets, within the limits, by damped least squares from several
        starts.

        Where it was found (``success``), the solution is differentiable in the targets and in the placements of joints:
        by the implicit function theorem, with the smallest change of the coordinates that follows the target. Joints at
        a limit stay there.

        Args:
            frame: name of the frame.
            position: targets in the world [..., 3] [m].
            quaternion: targets xyzw [..., 4]. Default: any orientation.
            start: start of the first try [..., nq], broadcast against the targets. Default: initial_coordinates().
            restarts: number of tries for each target, all but the first from random coordinates, with free joints as in
                start. More than one requires joint placements that all rows share.
            iterations: maximum number of steps of each try.
            position_tolerance: distance at which a try has converged [m]; zero runs all iterations.
            rotation_tolerance: angle at which it has converged [rad].
            seed: seed of the random starts; the same one gives the same result.

        Returns:
            the best of the tries, with its errors and success, True within the tolerances.
        """
        self.model.frame(frame)  # raises for an unknown one
        kinematics = FrameKinematics(
            lambda q: self.forward_kinematics(q, frame),
            lambda q: self.jacobian(q, frame),
            self.integrate,
            self.initial_coordinates(),
            joint_ranges(self.model, self.lower_limit, self.upper_limit),
        )
        for label, target in (("position", position), ("quaternion", quaternion), ("start", start)):
            if target is not None or label == "position":
                require_dense(f"inverse_kinematics: {label}", target)
        if not (is_whole(restarts, 1) and restarts == 1):
            check_shared(self.model, {"joint_placement": self.value("joint_placement")}, "restarted inverse kinematics")
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
        *,
        passive: bool = True,
    ) -> torch.Tensor:
        """Compute joint forces [..., nv] that produce an acceleration, including armature, damping, springs and dry
        friction.

        Dry friction is ``friction_loss sign(qd)`` in motion and zero at rest, where the actual force is undetermined up
        to ``friction_loss``; see :mod:`sim.dynamics.dynamics`.

        Args:
            q: joint coordinates [..., nq].
            qd: joint velocities [..., nv].
            qdd: joint accelerations [..., nv].
            wrench: external moment [N m], then force [N], as a dictionary from names of frames to [..., 6]; or on each
                link, about its origin along world axes [..., num_links, 6].
            reference: point and axes of the wrenches of a dictionary; see :func:`sim.link_wrenches`.
            passive: include damping, springs, dry friction and gravity compensation. Without them the result is
                that of Pinocchio's ``rnea``: ``mass_matrix(q) @ qdd + bias_forces(q, qd)``, less the wrenches.
        """
        on_links = {} if wrench is None else self._link_wrench(q, wrench, reference)
        make = lambda: inverse_dynamics_operation(self.model, passive)  # noqa: E731
        key = with_or_without("inverse dynamics", passive)
        return self._dynamics(key, make, q=q, qd=qd, qdd=qdd, **on_links)

    def forward_dynamics(
        self,
        q: torch.Tensor,
        qd: torch.Tensor,
        tau: torch.Tensor,
        wrench: Wrench = None,
        reference: str = "local_world_aligned",
        *,
        passive: bool = True,
    ) -> torch.Tensor:
        """Compute joint accelerations [..., nv] under joint forces: the inverse of :meth:`inverse_dynamics`.

        Without ``passive`` forces the result is that of Pinocchio's ``aba``.

        Raises:
            ModelError: at the first call if the mass matrix is singular, naming the joint.
        """
        on_links = {} if wrench is None else self._link_wrench(q, wrench, reference)
        make = lambda: forward_dynamics_operation(self.model, passive)  # noqa: E731
        if not self._regular:
            self._require_regular_mass_matrix()
        key = with_or_without("forward dynamics", passive)
        return self._dynamics(key, make, q=q, qd=qd, tau=tau, **on_links)

    def mass_matrix(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the joint-space mass matrix, armature included [..., nv, nv]."""
        return self._dynamics("mass matrix", lambda: mass_matrix_operation(self.model), q=q)

    def mass_matrix_inverse(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the inverse of the joint-space mass matrix [..., nv, nv]."""
        if not self._regular:
            self._require_regular_mass_matrix()
        return self._dynamics("mass matrix inverse", lambda: mass_matrix_inverse_operation(self.model), q=q)

    def gravity_forces(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the joint forces that balance gravity [..., nv]."""
        return self._dynamics("gravity", lambda: gravity_operation(self.model), q=q)

    def coriolis_forces(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Compute the joint forces of Coriolis and centrifugal effects [..., nv]."""
        return self._dynamics("coriolis", lambda: coriolis_operation(self.model), q=q, qd=qd)

    def bias_forces(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Compute the sum of :meth:`gravity_forces` and :meth:`coriolis_forces` [..., nv], in one pass; no passive
        forces.
        """
        return self._dynamics("bias", lambda: bias_operation(self.model), q=q, qd=qd)

    def centre_of_mass(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the centre of mass of all moving links in the world [..., 3]."""
        return self._dynamics("centre of mass", lambda: centre_of_mass_operation(self.model), q=q)

    def centre_of_mass_jacobian(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the Jacobian of the centre of mass [..., 3, nv]."""
        return self._dynamics("centre of mass jacobian", lambda: centre_of_mass_jacobian_operation(self.model), q=q)

    def centroidal_momentum(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Compute the momentum about the centre of mass along world axes, angular first [..., 6]."""
        return self._dynamics("momentum", lambda: centroidal_momentum_operation(self.model), q=q, qd=qd)

    def centroidal_momentum_matrix(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the matrix that maps qd to :meth:`centroidal_momentum` [..., 6, nv]."""
        return self._dynamics("momentum matrix", lambda: centroidal_momentum_matrix_operation(self.model), q=q)

    def kinetic_energy(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Compute the kinetic energy of links and rotors [...] [J]."""
        return self._dynamics("kinetic energy", lambda: kinetic_energy_operation(self.model), q=q, qd=qd)

    def potential_energy(self, q: torch.Tensor) -> torch.Tensor:
        """Compute the potential energy of gravity and springs [...] [J]."""
        return self._dynamics("potential energy", lambda: potential_energy_operation(self.model), q=q)

    # ---- calls -------------------------------------------------------------------------------------------------

    def _of_frames(
        self,
        name: str,
        make: Callable[..., DifferentiableOp],
        frame: Frames,
        reference: str | None = None,
        **inputs: torch.Tensor,
    ) -> torch.Tensor:
        """Run an operation on frames, ``make(model, names, reference)``; drops the frame dimension for a single
        frame.
        """
        (names, single), further = self._names(frame), () if make is matrix_operation else (reference,)
        key = (name, names, single, *map(reference_code, further))
        return self._call(key, lambda: make(self.model, frame_names(self.model, names), *further), single, **inputs)[0]

    def _names(self, frame: Frames) -> tuple[tuple[str, ...], bool]:
        """Return names of frames, and True for a single one."""
        if isinstance(frame, str):
            return (frame,), True
        return self.link_names if frame is None else names_in("frame", frame), False

    def _dynamics(self, key: str, make: Callable[[], DifferentiableOp], **inputs: torch.Tensor) -> torch.Tensor:
        if not self._weighed:
            self._require_masses()
        return self._call(key, make, **inputs)[0]

    def _link_wrench(
        self, q: torch.Tensor, wrench: torch.Tensor | Mapping[str, torch.Tensor], reference: str
    ) -> dict[str, torch.Tensor]:
        """Return wrenches on links, as the argument of that name."""
        if isinstance(wrench, torch.Tensor):
            if reference != "local_world_aligned":
                raise ModelError(f"reference is '{reference}', but a tensor of wrenches is always along world axes")
            return {"wrench": wrench}
        if isinstance(wrench, Mapping) and not wrench:
            return {}
        stacked, names = stacked_wrenches(wrench, self._like), frame_names(self.model, list(wrench))
        key = ("wrench", names, reference_code(reference))
        make = lambda: link_wrench_operation(self.model, names, reference)  # noqa: E731
        return {"wrench": self._call(key, make, q=q, wrenches=stacked)[0]}

    @not_compiled("kernels of Warp are launched outside of what torch.compile can see")
    def _call(
        self,
        key: Hashable,
        make: Callable[[], DifferentiableOp],
        single: bool = False,
        split: tuple[int, ...] = (),
        /,
        **inputs: torch.Tensor,
    ) -> Sequence[torch.Tensor]:
        """Return the parts of an operation's result, see :class:`sim.torch.robot.calls.Method`."""
        return self._call_with(None, key, make, single, split, **inputs)

    def _call_with(
        self,
        parameters: Sequence[torch.Tensor] | None,
        key: Hashable,
        make: Callable[[], DifferentiableOp],
        single: bool,
        split: tuple[int, ...],
        /,
        **inputs: torch.Tensor,
    ) -> Sequence[torch.Tensor]:
        """Run :meth:`_call` with parameters in the operation's order; None for the robot's own."""
        method = self._calls.method(key, make, single, split)
        tensors = [*inputs.values(), *(self._values(method.operation.parameters) if parameters is None else parameters)]
        engine, signature = self._calls.signature(method, self._like, inputs, tensors)
        return evaluate(engine, signature, tensors)
