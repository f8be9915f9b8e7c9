"""DeviceModel: Warp arrays of a model on one device, and gradients of its parameters."""

import copy
import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.allocation import fill, scalars
from sim.arrays.kernels import start_warp
from sim.arrays.launch import launch, record
from sim.arrays.teams import Levels, link_levels, require_width
from sim.arrays.topology import forks, last_slides, low_words, packed_ancestors
from sim.errors import ModelError
from sim.model.checks import is_whole, names_in, require_type
from sim.model.model import Model
from sim.model.parameters import PARAMETERS, check_parameter, number_of_dims
from sim.model.shapes.inertia import check_mass_matrix, check_masses
from warp_kernels.kinematics.propagation import Links
from warp_kernels.parameters import UNIT_TO_ROUNDING, parameter_kernels, parameter_value_kernels
from warp_kernels.precision import precision_kernels
from warp_kernels.types import LANES, warp_types

POSES = ("joint_placement", "geometry_placement", "anchor_a", "anchor_b")


def find_device(device: wp.DeviceLike) -> wp.Device:
    """Return the Warp device of a name or ``torch.device``. Raises ModelError with the known devices if there is
    none.
    """
    start_warp()
    # A torch.device is identified by its text, such as "cuda:0".
    named = device if device is None or isinstance(device, wp.Device) else str(device)
    try:
        # Warp would report the missing CUDA on standard error.
        if isinstance(named, str) and named == "cuda" and not wp.is_cuda_available():
            raise ValueError(named)
        return wp.get_device(named)
    except ValueError:
        there = ", ".join(str(each) for each in wp.get_devices())
        raise ModelError(f"device: there is no '{device}' on this machine; there is {there}") from None


@functools.cache
def the_cpu() -> wp.Device:
    """Return the Warp device of the CPU."""
    return find_device("cpu")


class FrameArrays(NamedTuple):
    """Frames by name: their links [n], -1 for the world, and placements [n] on them."""

    frame_link: wp.array
    frame_placement: wp.array


class FramePaths(NamedTuple):
    """Degrees of freedom that move frames, in ascending order, concatenated over frames.

    Attributes:
        path_start: start of each frame's degrees of freedom [frames + 1].
        path_frame: index of the frame of each entry.
        path_dof: degree of freedom of each entry.
    """

    path_start: wp.array
    path_frame: wp.array
    path_dof: wp.array


class Visits(NamedTuple):
    """Links to process, in ascending order: start of each tree's links [num_trees + 1], and the links."""

    visit_start: wp.array
    visit: wp.array


class DeviceModel:
    """A model's topology and parameters as Warp arrays on one device, in the model's dtype.

    The integer arrays have the names and shapes of :class:`sim.Model`, with two changes: ``joint_axis`` is an array of
    vec3 [num_links], and ``joint_qd_start`` has one more entry, nv, so that the degrees of freedom of a link are
    ``range(joint_qd_start[link], joint_qd_start[link + 1])``. Four are added: ``ancestor``, the ancestors of every
    degree of freedom from the root on, in packed storage (see :mod:`warp_kernels.dynamics.mass_matrix`),
    ``link_forks``, links with a child that is not the next link, ``joint_actuator``, the actuators of joints, and
    ``links``, the struct of links for tree recursions; also
    ``low_start``, the first low word of each joint's position, and ``num_low``, the number of low words of a world.

    Args:
        model: the model.
        device: Warp device or its name. Default: Warp's current device.
        num_worlds: number of worlds, for parameters given per world.
        parameters: values that replace the model's own, ``[n, ...]`` or ``[num_worlds, n, ...]``.
        requires_grad: names of the parameters with a gradient.
        threads_per_world: threads of a GPU that share out the work of one world in functions of this model: 1, 8, 16 or
            32. Experimental: not yet run on a GPU. On a CPU one thread does the same work, for tests.

    Attributes:
        lanes: number of worlds per thread of kinematics and dynamics, see :mod:`warp_kernels.algebra`; 1 for teams.
        parameters: Warp arrays ``[P, n]`` by name, P = 1 (shared by all worlds) or num_worlds. Entries are vec3 for
            ``com``, ``geometry_size`` and ``gravity`` (n = 1), mat33 for ``inertia``, transform for the placements,
            scalars otherwise.

    A pickle or deep copy has the model and the values of the parameters, without their gradients.

    Raises:
        ModelError: for an unknown parameter, a wrong shape, a value that is not finite, a zero quaternion, and an
            argument of another type.

    Example:
        >>> import sim
        >>> device_model = sim.DeviceModel(sim.load("scenes/robots/manipulator.urdf"), "cpu")
        >>> device_model.parameters["mass"].shape, device_model.link_parent.numpy().tolist()
        ((1, 7), [-1, 0, 1, 2, 3, 4, 5])
    """

    def __init__(
        self,
        model: Model,
        device: wp.DeviceLike = None,
        num_worlds: int = 1,
        parameters: Mapping[str, npt.ArrayLike] | None = None,
        requires_grad: Iterable[str] = (),
        threads_per_world: int = 1,
    ):
        require_type("model", model, Model, "a sim.Model; of a robot give robot.model")
        if not is_whole(num_worlds, 1):
            raise ModelError(f"num_worlds is {num_worlds!r}; it must be a whole number of at least 1")
        self.model = model
        self.device = find_device(device)
        require_width("DeviceModel", threads_per_world)
        self.threads_per_world = int(threads_per_world)
        self.lanes = LANES if self.device.is_cpu and threads_per_world == 1 else 1
        self.num_worlds = num_worlds
        self.types = warp_types(model.scalar)
        self.requires_grad = names_in("requires_grad", requires_grad)
        for name in self.requires_grad:
            if name not in PARAMETERS:
                raise ModelError(f"unknown parameter '{name}'; the parameters are {', '.join(PARAMETERS)}")

        def upload(array: np.ndarray) -> wp.array:
            return wp.array(array, dtype=wp.int32, device=self.device)

        self.tree_link_start = upload(model.tree_link_start)
        self.link_parent = upload(model.link_parent)
        self.link_forks = upload(forks(model.link_parent))
        self.link_tree = upload(model.link_tree)
        self.link_tail_dof = upload(model.link_tail_dof)
        self.joint_type = upload(model.joint_type)
        self.joint_axis: wp.array = wp.array(model.joint_axis, dtype=self.types.vec3, device=self.device)
        self.joint_q_start = upload(model.joint_q_start)
        self.joint_qd_start = upload(np.append(model.joint_qd_start, model.nv))
        self.dof_link = upload(model.dof_link)
        self.dof_parent = upload(model.dof_parent)
        self.dof_depth = upload(model.dof_depth)
        self.dof_row_start = upload(model.dof_row_start)
        self.dof_q = upload(model.dof_q)
        slides = last_slides(model)
        low_start, self.num_low = low_words(model, slides)
        self.low_start = upload(low_start)
        self.links: Any = fill(
            Links,
            tree_start=self.tree_link_start,
            parent=self.link_parent,
            forks=self.link_forks,
            last_slide=upload(slides),
            joint_type=self.joint_type,
            q_start=self.joint_q_start,
            qd_start=self.joint_qd_start,
            dof_q=self.dof_q,
        )
        self.ancestor = upload(packed_ancestors(model))
        self.actuator_kind = upload(model.actuator_law)
        self.actuator_dof = upload(model.actuator_dof)
        self.joint_actuator = upload(np.flatnonzero(model.actuator_dof >= 0))

        self._frames: dict[tuple[str, ...], FrameArrays] = {}
        self._paths: dict[tuple[str, ...], FramePaths] = {}
        self._visits: dict[tuple[str, ...], Visits] = {}
        self._levels: dict[tuple[str, ...] | None, Levels] = {}
        self._every_link = Visits(self.tree_link_start, upload(np.arange(model.num_links)))
        self._double: tuple[DeviceModel, list[Any]] | None = None
        self._none: dict[type, wp.array] = {}
        self._regular = False
        self._no_bar = {name: self.none(self.parameter_dtype(name)) for name in PARAMETERS}
        self.parameters: dict[str, wp.array] = {}
        self._given: dict[str, np.ndarray | wp.array] = {}  # poses before quaternions were normalised
        self._per_world: dict[str, bool] = {}
        if parameters is not None:
            require_type("DeviceModel: parameters", parameters, Mapping, "a dictionary, from names to values")
        values = {**model.parameters, **(parameters or {})}
        for name, value in values.items():
            self.set_parameter(name, value)

    @functools.cached_property
    def sprung_link(self) -> wp.array:
        """The links of spherical and free joints with springs."""
        return wp.array(self.model.sprung_links, dtype=wp.int32, device=self.device)

    def none(self, dtype: type) -> wp.array:
        """Return an array [0, 0] of a type, for a kernel to skip."""
        if dtype not in self._none:
            self._none[dtype] = wp.zeros((0, 0), dtype=dtype, device=self.device)
        return self._none[dtype]

    def set_parameter(self, name: str, value: npt.ArrayLike) -> None:
        """Set a parameter to a new value, and its gradient to zero.

        Quaternions of placements are normalised, and the symmetric part of an inertia is taken; :meth:`gradient`
        accounts for both. The Warp array is kept if its shape is, so that captured launches see the new value.

        Args:
            name: a key of :data:`sim.model.parameters.PARAMETERS`.
            value: a scalar (used for all), ``[n, ...]`` or ``[num_worlds, n, ...]``.

        Raises:
            ModelError: for an unknown name, a wrong shape, a value that is not finite, a zero quaternion.
        """
        array = check_parameter(name, value, self.model.counts, self.num_worlds)
        self.put_parameter(name, array, np.ndim(value) > number_of_dims(name))

    def put_parameter(self, name: str, array: np.ndarray, per_world: bool) -> None:
        """Set a parameter as :meth:`set_parameter`, to values ``[P, n, ...]`` that have been checked."""
        self._changed(name, per_world)
        if name in POSES:
            self._given[name] = array
            array = np.concatenate([array[..., :3], array[..., 3:] / _lengths(array)], axis=-1)
        if name == "inertia":
            array = (array + np.swapaxes(array, -1, -2)) / 2.0
        current = self.parameters.get(name)
        if current is not None and current.shape == array.shape[:2]:
            current.assign(array)
            if current.grad is not None:
                current.grad.zero_()
        else:
            self._double = None
            self.parameters[name] = wp.array(
                array, dtype=self.parameter_dtype(name), device=self.device, requires_grad=name in self.requires_grad
            )

    def take_parameter(self, name: str, entries: wp.array, per_world: bool) -> None:
        """Set a parameter as :meth:`put_parameter`, to an array [P, n] on the device, which is copied there.

        The present array must have the same shape.
        """
        self._changed(name, per_world)
        current = self.parameters[name]
        assert current.shape == entries.shape, "another layout has other arrays"
        kernels = parameter_kernels(self.types.scalar)
        if name in POSES:
            self._given[name] = entries
            arrays = {"given": entries, "pose": current}
            launch(kernels.unit_poses, current.shape, arrays, device=self.device, record_tape=False)
        elif name == "inertia":
            arrays = {"given": entries, "matrix": current}
            launch(kernels.symmetric_parts, current.shape, arrays, device=self.device, record_tape=False)
        else:
            wp.copy(current, entries)
        if current.grad is not None:
            current.grad.zero_()

    def _changed(self, name: str, per_world: bool) -> None:
        self._regular = False
        self._per_world[name] = per_world
        self._given.pop(name, None)

    def gradient_array(self, name: str) -> wp.array:
        """Return :meth:`gradient` as an array of scalars on the device [P, n * size], without synchronisation."""
        array = self.parameters[name]
        assert array.grad is not None
        size = int(np.prod(PARAMETERS[name].shape))
        numbers: wp.array = wp.empty(
            (array.shape[0], array.shape[1] * size), dtype=self.types.scalar, device=self.device
        )
        gradient: wp.array = wp.array(
            ptr=numbers.ptr, dtype=array.dtype, shape=array.shape, device=self.device, copy=False
        )
        if name == "inertia":
            arrays = {"given": array.grad, "matrix": gradient}
            kernel = parameter_kernels(self.types.scalar).symmetric_parts
            launch(kernel, array.shape, arrays, device=self.device, record_tape=False)
        else:
            wp.copy(gradient, array.grad)
        if name in POSES:
            given = self._given[name]
            if isinstance(given, np.ndarray):
                given = wp.array(given, dtype=array.dtype, device=self.device)
            kernel = parameter_value_kernels(self.types.scalar).project_pose_gradients
            arrays = {"given": given, "gradient": gradient}
            launch(kernel, array.shape, arrays, device=self.device, record_tape=False)
        return numbers

    def gradient(self, name: str) -> np.ndarray:
        """Return the accumulated gradient of a parameter, in the shape in which its value was given.

        The gradient of a placement's quaternion is tangent to the unit sphere, that of an inertia is symmetric.

        Args:
            name: one of ``requires_grad``.

        Returns:
            ``[n, ...]`` for a shared parameter, ``[num_worlds, n, ...]`` for one given per world.

        Raises:
            ModelError: if the gradient wasn't requested.
        """
        array = self.parameters[name]
        if array.grad is None:
            raise ModelError(f"parameter '{name}' has no gradient; name it in requires_grad")
        # On a CPU numpy() is a view, so that a copy is needed.
        gradient = array.grad.numpy().reshape(*array.shape, *PARAMETERS[name].shape).copy()
        if name in POSES:
            unit = array.numpy().reshape(gradient.shape)[..., 3:]
            q = gradient[..., 3:]
            q = (q - unit * (unit * q).sum(axis=-1, keepdims=True)) / _lengths(self._entries(name))
            gradient = np.concatenate([gradient[..., :3], q], axis=-1).astype(gradient.dtype)
        if name == "inertia":
            gradient = (gradient + np.swapaxes(gradient, -1, -2)) / 2.0
        return self._as_given(name, gradient)

    def _entries(self, name: str) -> np.ndarray:
        """Return the values of a parameter [P, n, ...], poses with quaternions as given, before normalisation."""
        given = self._given.get(name, self.parameters[name])
        if isinstance(given, np.ndarray):
            return given
        return given.numpy().reshape(*self.parameters[name].shape, *PARAMETERS[name].shape)

    def _as_given(self, name: str, entries: np.ndarray) -> np.ndarray:
        """Return numbers [P, n, ...] of a parameter in the shape in which its value was given."""
        if PARAMETERS[name].per == "world":
            entries = entries[:, 0]
        return entries if self._per_world[name] else entries[0, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: self._as_given(name, self._entries(name)) for name in self.parameters}
        arguments = (self.model, str(self.device), self.num_worlds, values, self.requires_grad, self.threads_per_world)
        return type(self), arguments

    def __copy__(self) -> "DeviceModel":
        """Return a copy that shares the arrays, unlike one made by :meth:`__reduce__`."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def parameter_bars(self, *names: str) -> list[wp.array]:
        """Return gradients of parameters for a hand-written adjoint, with an array without rows if none is
        requested.
        """
        arrays = [self.parameters.get(name) for name in names]
        return [
            self._no_bar[name] if array is None or array.grad is None else array.grad
            for name, array in zip(names, arrays, strict=True)
        ]

    def parameter_arrays(self, *names: str) -> dict[str, wp.array]:
        """Return optional parameters for a kernel, with an array without rows if this model lacks one."""
        return {name: self.parameters.get(name, self._no_bar[name]) for name in names}

    def part(self, worlds: slice) -> "DeviceModel":
        """Return the arrays for some of the worlds: views of the parameters given per world, with their gradients."""
        if all(array.shape[0] == 1 for array in self.parameters.values()):
            return self
        model = copy.copy(self)
        model.forget_double()
        model.parameters = {
            name: array if array.shape[0] == 1 else array[worlds] for name, array in self.parameters.items()
        }
        return model

    def with_lanes(self, lanes: int) -> "DeviceModel":
        """Return the model with another number of worlds per thread of kinematics and dynamics."""
        model = copy.copy(self)
        model.lanes = lanes
        model.forget_double()
        return model

    def forget_double(self) -> None:
        """Make :meth:`in_double` copy its model anew, for a copy whose parameters are other arrays."""
        self._double = None

    def in_double(self) -> "DeviceModel":
        """Return a float64 model with the present parameters and no gradients; itself if it is float64."""
        if self.model.dtype == "float64":
            return self
        if self._double is None:
            self._double = self._make_double()
        model, widening = self._double
        for recorded in widening:
            recorded.launch()
        return model

    def _make_double(self) -> "tuple[DeviceModel, list[Any]]":
        """Return a float64 model, and the launches that copy the parameters into it."""
        model = copy.copy(self)
        model.model = replace(self.model, dtype="float64")
        model.types = warp_types(model.model.scalar)
        model.joint_axis = wp.array(self.model.joint_axis, dtype=model.types.vec3, device=self.device)
        model._double = None
        model.requires_grad = ()
        model.parameters = {
            name: wp.empty(array.shape, dtype=model.parameter_dtype(name), device=self.device)
            for name, array in self.parameters.items()
        }
        kernels = precision_kernels()
        widening = []
        for name, wide in model.parameters.items():
            narrow, kernel = self.parameters[name], kernels.widen_poses
            if name not in POSES:
                narrow, wide, kernel = scalars(narrow), scalars(wide), kernels.widen
            if wide.size > 0:
                widening.append(record(kernel, wide.shape, device=self.device, source=narrow, target=wide))
        return model, widening

    def require_masses(self) -> None:
        """Check that dynamics are defined.

        Raises:
            ModelError: naming the moving links that have no inertial data and weren't given a mass.
        """
        if self.model.massless_links:
            check_masses(self.model, self.parameters["mass"].numpy())

    def require_regular_mass_matrix(self) -> None:
        """Check that accelerations are defined, once for the present parameters; for several worlds check the first.

        Raises:
            ModelError: naming the first joint with a direction without inertia.
        """
        if not self._regular:
            check_mass_matrix(self.model, {name: array.numpy()[0] for name, array in self.parameters.items()}, dt=0.0)
            self._regular = True

    def frame_arrays(self, names: tuple[str, ...]) -> FrameArrays:
        """Return the frames with these names. Raises ModelError for an unknown frame."""
        if names not in self._frames:
            frames = [self.model.frame(name) for name in names]
            placements = np.array([frame.placement for frame in frames]).reshape(-1, 7)
            self._frames[names] = FrameArrays(
                wp.array([frame.link for frame in frames], dtype=wp.int32, device=self.device),
                wp.array(placements, dtype=self.types.transform, device=self.device),
            )
        return self._frames[names]

    def visits(self, names: tuple[str, ...] | None) -> Visits:
        """Return the links that the poses of frames depend on, all for None. Raises ModelError for an unknown frame."""
        if names is None:
            return self._every_link
        if names not in self._visits:
            links = self._links_above(names)
            start = np.searchsorted(links, self.model.tree_link_start).astype(np.int32)
            self._visits[names] = Visits(
                wp.array(start, dtype=wp.int32, device=self.device),
                wp.array(links, dtype=wp.int32, device=self.device),
            )
        return self._visits[names]

    def levels(self, names: tuple[str, ...] | None = None) -> Levels:
        """Return the links of :meth:`visits` by their depth, for teams of threads."""
        if names not in self._levels:
            links = None if names is None else self._links_above(names)
            self._levels[names] = link_levels(self.model, self.device, links)
        return self._levels[names]

    def _links_above(self, names: tuple[str, ...]) -> np.ndarray:
        """Return the links of frames and those above them, in ascending order."""
        needed = set()
        for name in names:
            link = self.model.frame(name).link
            while link >= 0:
                needed.add(link)
                link = int(self.model.link_parent[link])
        return np.array(sorted(needed), dtype=np.int32)

    def frame_paths(self, names: tuple[str, ...]) -> FramePaths:
        """Return the degrees of freedom that move the frames with these names. Raises ModelError for an unknown
        frame.
        """
        if names not in self._paths:
            starts: list[int] = [0]
            owners: list[int] = []
            path: list[int] = []
            for number, name in enumerate(names):
                link = self.model.frame(name).link
                k = int(self.model.link_tail_dof[link]) if link >= 0 else -1
                dofs = []
                while k >= 0:
                    dofs.append(k)
                    k = int(self.model.dof_parent[k])
                path += dofs[::-1]
                owners += [number] * len(dofs)
                starts.append(len(path))

            def upload(numbers: list[int]) -> wp.array:
                return wp.array(np.array(numbers, dtype=np.int32), dtype=wp.int32, device=self.device)

            self._paths[names] = FramePaths(upload(starts), upload(owners), upload(path))
        return self._paths[names]

    def parameter_dtype(self, name: str) -> type:
        """Return the Warp type of an entry of a parameter."""
        t = self.types
        by_shape = {(): t.scalar, (2,): t.vec2, (3,): t.vec3, (5,): t.vec5, (3, 3): t.mat33, (7,): t.transform}
        return by_shape[PARAMETERS[name].shape]


def _lengths(poses: np.ndarray) -> np.ndarray:
    """Return the lengths of quaternions [..., 1], exactly one if within rounding."""
    length = np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
    return np.where(np.abs(length - 1.0) <= UNIT_TO_ROUNDING["float64"], 1.0, length)
