"""Volume and inertia of solid shapes, and checks of a model's inertia before the simulation.

The checks require a mass of all links and a regular mass matrix. Without them a free body without inertia would give
NaN in its first step.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.geometries import Mesh
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from warp_kernels.parameters import INDEFINITE, NEGLIGIBLE
from warp_kernels.types import FREE, HEIGHTFIELD, PLANE

# Rounding of zero in files [kg m^2]; a steel ball of a millimetre has 4e-13.
NEGLIGIBLE_INERTIA = 1e-16


def solid_mass_properties(type: int, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the volume [m^3] of a solid primitive, and its principal moments about its origin per unit mass [3].

    Args:
        type: a geometry code of :mod:`warp_kernels.types`: sphere, capsule, cylinder, box or ellipsoid.
        size: as for :class:`sim.model.geometries.Geometry` [3].
    """
    known = GEOMETRY_TYPES.get(type)
    if known is None or known.solid is None:
        raise ValueError(f"a shape of type {type} is not a solid primitive")
    with np.errstate(over="ignore"):  # the mass of a huge solid isn't finite, which is refused
        return known.solid([np.float64(value) for value in size])


def mesh_mass_properties(mesh: Mesh) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the volume [m^3] of a closed mesh, its centre [3], and its inertia about that per unit mass [3, 3]."""
    import trimesh  # takes long to import

    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    volume = float(whole.volume)
    return volume, np.array(whole.center_mass), np.array(whole.moment_inertia) / volume


def solid_properties(type: int, size: np.ndarray, mesh: Mesh | None) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the volume of a shape [m^3], its centre in the shape's frame [3], and inertia about that per unit mass.

    Planes and heightfields have no volume.
    """
    if mesh is not None:
        return mesh_mass_properties(mesh)
    if type in (PLANE, HEIGHTFIELD):
        return 0.0, np.zeros(3), np.zeros((3, 3))
    volume, moments = solid_mass_properties(type, size)
    return volume, np.zeros(3), np.diag(moments)


def joined_solids(
    solids: Iterable[tuple[tuple[float, np.ndarray, np.ndarray], np.ndarray]],
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the volume of several solids together [m^3], their centre [3], and inertia about that at unit density.

    Args:
        solids: properties of each, as of :func:`solid_properties`, and its pose [7].
    """
    volume, moment, second = 0.0, np.zeros(3), np.zeros((3, 3))
    for (part, centre, gyration), pose in solids:
        turn = Rotation.from_quat(pose[3:]).as_matrix()
        at = pose[:3] + turn @ centre
        volume += part
        moment += part * at
        second += part * (turn @ gyration @ turn.T + _about_origin(at))
    middle = moment / volume if volume else np.zeros(3)
    return volume, middle, second - volume * _about_origin(middle)


def _about_origin(r: np.ndarray) -> np.ndarray:
    """Return the inertia about the origin of a unit mass at a point [3, 3]."""
    return np.asarray(r @ r * np.eye(3) - np.outer(r, r))


def principal_moments(inertia: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Return the principal moments [3] of a rotational inertia [3, 3] and the rotation of their axes in the link."""
    if not np.any(inertia - np.diag(np.diag(inertia))):
        return np.diag(inertia), Rotation.identity()
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, Rotation.from_matrix(axes)


# Parameters that decide whether the mass matrix is regular.
DECISIVE = ("joint_placement", "mass", "com", "inertia", "damping", "armature", "stiffness")
# Minimum fraction of a joint's inertia that remains when the joints further out are free to move; less is rounding.
SMALLEST_SHARE = 1e-12


def check_masses(model: Model, mass: np.ndarray) -> None:
    """Check that links without inertial data have been given a mass; ``mass`` [num_links], or for each world.

    Raises:
        ModelError: naming those without.
    """
    missing = [name for name in model.massless_links if not (mass[..., model.link(name)] > 0.0).all()]
    if missing:
        raise ModelError(
            f"dynamics require the masses of links {', '.join(map(repr, missing))}, which have no inertial data; "
            "set the parameter 'mass'"
        )


def least_scales(inertia: np.ndarray) -> np.ndarray:
    """Return the scales with which :func:`is_semidefinite` judges other inertias of a model's links [n].

    Args:
        inertia: inertias of the model [n, 3, 3].

    Returns:
        the largest entry of all, since finite differences have the same step for each; NaN where a link's own inertia
        is indefinite, as in some files, so that nothing is checked.
    """
    scales = np.full(len(inertia), np.abs(inertia).max(initial=0.0))
    return np.where(is_semidefinite(inertia, np.zeros(len(inertia))), scales, np.nan)


def is_semidefinite(inertia: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return whether symmetric parts of inertias [..., 3, 3] have no negative moment, beyond rounding and differences.

    Args:
        inertia: the inertias.
        least: scale of each, in addition to its own largest entry [...].
    """
    half = 0.5 * (inertia + np.swapaxes(inertia, -1, -2))
    scale = np.maximum(np.abs(half).max(axis=(-1, -2)), np.nan_to_num(least, nan=0.0))
    a = half / np.maximum(scale, NEGLIGIBLE)[..., None, None] + INDEFINITE * np.eye(3)
    minor = a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] ** 2
    return np.asarray((a[..., 0, 0] > 0.0) & (minor > 0.0) & (np.linalg.det(a) > 0.0))


def check_mass_matrix(model: Model, parameters: Mapping[str, np.ndarray], dt: float) -> None:
    """Check that the mass matrix is regular, damping and springs of a step included.

    Runs the recursion of the articulated-body algorithm (Featherstone 2008, chapter 7) at random joint positions, so
    that only a matrix that is singular everywhere is refused, not a gimbal in gimbal lock.

    Args:
        model: the model.
        parameters: values of DECISIVE parameters, and possibly others; of values per world the first world's are used.
        dt: time step [s].

    Raises:
        ModelError: naming the first joint with a direction without inertia, or a parameter that isn't finite.
    """
    given = {name: parameters[name] for name in DECISIVE}
    value = {name: x[0] if x.ndim > model.parameters[name].ndim else x for name, x in given.items()}
    for name, array in value.items():
        if not np.isfinite(array).all():
            raise ModelError(f"parameter '{name}' isn't finite, so that the mass matrix is undefined")
    implicit = value["armature"] + dt * value["damping"] + dt * dt * value["stiffness"]
    articulated = [_spatial_inertia(*body) for body in zip(value["mass"], value["com"], value["inertia"], strict=True)]
    composite = [inertia.copy() for inertia in articulated]
    rng = np.random.default_rng(0)
    for link in reversed(range(model.num_links)):
        axes = JOINT_TYPES[int(model.joint_type[link])].subspace(model.joint_axis[link])
        start = model.joint_qd_start[link]
        own = np.diag(implicit[start : start + axes.shape[1]])
        left = axes.T @ articulated[link] @ axes + own
        whole = np.sqrt(np.maximum(np.diag(axes.T @ composite[link] @ axes + own), 0.0))
        if axes.shape[1] and _smallest_share(left, whole) < SMALLEST_SHARE:
            raise ModelError(
                f"joint '{model.joint_names[link]}' has a direction without inertia, so that the mass matrix is "
                f"singular; give link '{model.link_names[link]}' a mass and an inertia, or the joint an armature"
            )
        force = articulated[link] @ axes
        rest = articulated[link] - force @ np.linalg.solve(left, force.T)
        parent = model.link_parent[link]
        if parent >= 0:
            to_link = _motion_transform(value["joint_placement"][link], int(model.joint_type[link]), axes, rng)
            articulated[parent] += to_link.T @ rest @ to_link
            composite[parent] += to_link.T @ composite[link] @ to_link


def joint_inertias(model: Model) -> np.ndarray:
    """Return the inertia that each degree of freedom moves, all others at rest, at an arbitrary position [nv].

    It is 1 for joints that move no mass, as in models whose masses are given later.
    """
    value = model.parameters
    composite = [_spatial_inertia(*body) for body in zip(value["mass"], value["com"], value["inertia"], strict=True)]
    result = np.array(value["armature"], dtype=np.float64)
    rng = np.random.default_rng(0)
    for link in reversed(range(model.num_links)):
        axes = JOINT_TYPES[int(model.joint_type[link])].subspace(model.joint_axis[link])
        start, parent = model.joint_qd_start[link], model.link_parent[link]
        result[start : start + axes.shape[1]] += np.diag(axes.T @ composite[link] @ axes)
        if parent >= 0:
            to_link = _motion_transform(value["joint_placement"][link], int(model.joint_type[link]), axes, rng)
            composite[parent] += to_link.T @ composite[link] @ to_link
    return np.where(result > 0.0, result, 1.0)


def box_mobilities(model: Model) -> np.ndarray:
    """Return the largest inverse mass of each drag box, 1/kg, and inverse inertia about its centre, 1/(kg m^2), of all
    directions [n, 2].

    They are those of the degrees of freedom that move the box, each with its own inertia, at an arbitrary position.
    """
    value, inertias, rng = model.parameters, joint_inertias(model), np.random.default_rng(0)
    of_links: list[np.ndarray] = []
    for link in range(model.num_links):
        axes = JOINT_TYPES[int(model.joint_type[link])].subspace(model.joint_axis[link])
        start, parent = model.joint_qd_start[link], model.link_parent[link]
        own = axes @ np.diag(1.0 / inertias[start : start + axes.shape[1]]) @ axes.T
        if parent >= 0:
            to_link = _motion_transform(value["joint_placement"][link], int(model.joint_type[link]), axes, rng)
            own += to_link @ of_links[parent] @ to_link.T
        of_links.append(own)
    result = np.zeros((len(model.drag_boxes.link), 2))
    for box, (link, placement) in enumerate(zip(model.drag_boxes.link, model.drag_boxes.placement, strict=True)):
        to_centre = np.eye(6)
        to_centre[3:, :3] = -_cross(placement[:3])
        whole = to_centre @ of_links[link] @ to_centre.T
        result[box] = np.linalg.eigvalsh(whole[3:, 3:])[-1], np.linalg.eigvalsh(whole[:3, :3])[-1]
    return result


# Difference of the moments across an axis, and of the axes from each other, up to which a link counts as symmetric.
SYMMETRIC = 1e-3


def symmetry_axes(model: Model) -> np.ndarray:
    """Return the axes about which links without children are symmetric, as combinations of the columns of their joints
    [nv]; zeros for other links, and for those that the axis doesn't keep in place: they are on free joints, or the axis
    misses the joint.
    """
    result = np.zeros(model.nv)
    value = model.parameters
    for link in set(range(model.num_links)) - set(model.link_parent.tolist()):
        start, joint_type = model.joint_qd_start[link], int(model.joint_type[link])
        columns = JOINT_TYPES[joint_type].subspace(model.joint_axis[link])[:3].T
        if joint_type == FREE or not columns.any():
            continue
        axis = _symmetry_axis(value["com"][link], value["inertia"][link], columns)
        if axis is not None:
            result[start : start + len(columns)] = columns @ axis
    return result


def _symmetry_axis(com: np.ndarray, inertia: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """Return the axis about which a body is symmetric, if it is one of its joint's and goes through the origin."""
    arm = float(np.linalg.norm(com))
    moments, axes = np.linalg.eigh(inertia)
    if len(columns) == 1:
        axis = columns[0]
    elif arm > 0.0:
        axis = com / arm
    else:
        axis = axes[:, 0 if moments[2] - moments[1] < moments[1] - moments[0] else 2]
    along = float(axis @ inertia @ axis)
    across = (np.trace(inertia) - along) / 2.0
    round = along * np.outer(axis, axis) + across * (np.eye(3) - np.outer(axis, axis))
    misses = np.linalg.norm(np.cross(com, axis)) > SYMMETRIC * arm
    uneven = np.abs(inertia - round).max() > SYMMETRIC * moments[2] or moments[2] <= 0.0
    return None if misses or uneven else axis


def _smallest_share(left: np.ndarray, whole: np.ndarray) -> float:
    """Return the smallest eigenvalue of an inertia [n, n] in units of ``whole`` [n]; zero where that is zero."""
    if (whole == 0.0).any():
        return 0.0
    return float(np.linalg.eigvalsh(left / np.outer(whole, whole))[0])


def _spatial_inertia(mass: float, com: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    c = _cross(com)
    return np.block([[inertia + mass * c @ c.T, mass * c], [mass * c.T, mass * np.eye(3)]])


def _motion_transform(placement: np.ndarray, joint_type: int, axes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the transform of motions from the parent's to the link's frame, at a random position of the joint."""
    frame = Rotation.from_quat(placement[3:]) if placement[3:].any() else Rotation.identity()
    move = axes @ rng.uniform(0.5, 1.5, axes.shape[1]) if joint_type != FREE else np.zeros(6)
    turn = (frame * Rotation.from_rotvec(move[:3])).as_matrix().T
    position = placement[:3] + frame.apply(move[3:])
    return np.block([[turn, np.zeros((3, 3))], [-turn @ _cross(position), turn]])


def _cross(v: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
