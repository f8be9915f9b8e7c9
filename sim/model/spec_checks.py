"""Checks of arguments of a :class:`sim.ModelBuilder`; a :class:`sim.ModelError` names what is wrong."""

from collections.abc import Container, Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.checks import UNREADABLE, as_numbers, number, require_flags, require_names, require_type
from sim.model.geometries import Mesh
from sim.model.joint_types import JOINT_TYPES, is_scalar
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.shapes.inertia import NEGLIGIBLE_INERTIA
from sim.model.softness import Softness
from sim.model.specs import (
    ACTUATOR_GAINS,
    ActuatorSpec,
    GeometrySpec,
    JointSpec,
    LinkSpec,
    Vector,
)
from warp_kernels import types as codes

LEAST_INTEGER = -(2**31)
# Feature ids of contacts have 32 bits.
MOST_HEIGHTS = 10_000_000


def check_text(name: str, one: str) -> None:
    """Raise ModelError for a name of ``one`` such thing that is empty or isn't text."""
    if not isinstance(name, str):
        raise ModelError(f"{one} has the name {name!r}; names are text, such as '{name}'")
    if not name:
        raise ModelError(f"{one} needs a name that is not empty")


def check_name(name: str, taken: Container[str], what: str) -> None:
    """Raise ModelError for a name that is empty, isn't text, or that another thing of this kind has."""
    one = f"an {what}" if what == "actuator" else f"a {what}"
    check_text(name, one)
    if name in taken:
        raise ModelError(
            f"{what} '{name}': {one} of this name exists already; choose another, or another name= for the robot"
        )


def check_link(spec: LinkSpec, *, allow_unphysical: bool) -> None:
    """Raise ModelError for a mass or an inertia that no physical body has."""
    require_flags(f"link '{spec.name}'", allow_unphysical=allow_unphysical)
    if spec.mass is not None and (not np.isfinite(spec.mass) or spec.mass < 0.0):
        raise ModelError(f"link '{spec.name}': mass is {spec.mass}; it must be finite and not negative")
    if spec.gravity_compensation is not None and not np.isfinite(spec.gravity_compensation):
        raise ModelError(f"link '{spec.name}': gravity_compensation is {spec.gravity_compensation}; it must be finite")
    check_inertia(spec.name, spec.inertia)
    if not allow_unphysical and not is_physical(spec.inertia):
        raise ModelError(
            f"link '{spec.name}': principal moments {np.linalg.eigvalsh(spec.inertia).tolist()} are negative or "
            "violate the triangle inequality; no physical body has such an inertia"
        )


def check_joint(spec: JointSpec, type: str) -> None:
    """Raise ModelError for negative properties, and for those that a joint of this type doesn't have."""
    where = f"joint '{spec.name}'"
    require_flags(where, kinematic=spec.kinematic)
    require_type(f"{where}: friction_softness", spec.friction_softness, Softness, "a sim.Softness")
    for label in ("armature", "friction_loss"):
        finite_and_not_negative(where, label, getattr(spec, label))
    if not is_scalar(spec.type) and (np.isfinite(spec.lower) or np.isfinite(spec.upper)):
        raise ModelError(f"{where}: limits require a revolute or prismatic joint, but the type is {type}")
    if spec.type == codes.FIXED and spec.stiffness:
        raise ModelError(f"{where}: a spring requires a joint that moves, but the type is {type}")
    if spec.type != codes.SPHERICAL:
        for label in ("swing", "twist", "rotation"):
            if np.isfinite(getattr(spec, f"{label}_limit")):
                raise ModelError(f"{where}: limits.{label} requires a spherical joint, but the type is {type}")
    if spec.kinematic:
        _check_prescribed(spec, where)


def _check_prescribed(spec: JointSpec, where: str) -> None:
    """Raise ModelError for forces on a joint with prescribed motion."""
    limits = ("lower", "upper", "swing_limit", "twist_limit", "rotation_limit")
    given = [label for label in limits if np.isfinite(getattr(spec, label))]
    given += [label for label in ("damping", "armature", "stiffness", "friction_loss") if getattr(spec, label)]
    if given:
        raise ModelError(
            f"{where}: {given[0]} has no effect on a kinematic joint, whose motion is prescribed; remove it"
        )


def check_geometry(spec: GeometrySpec) -> None:
    """Raise ModelError for sizes that are not positive, and for data that a geometry of this type doesn't have."""
    where, size = f"geometry '{spec.geometry.name}'", spec.geometry.size
    require_flags(where, collides=spec.geometry.collides, visible=spec.geometry.visible)
    if spec.geometry.type == codes.CONVEX and spec.geometry.mesh is None:
        raise ModelError(f"{where}: a convex mesh needs mesh=")
    for label, types in (("mesh", (codes.CONVEX, codes.MESH)), ("heights", (codes.HEIGHTFIELD,))):
        if getattr(spec.geometry, label) is not None and spec.geometry.type not in types:
            raise ModelError(f"{where}: its type has no {label}; remove it or choose another type")
    require_type(f"{where}: mesh", spec.geometry.mesh, (Mesh, type(None)), "a Mesh")
    positive = GEOMETRY_TYPES[spec.geometry.type].sizes
    if (size[:positive] <= 0.0).any():
        raise ModelError(f"{where}: size {size.tolist()} must be positive in its first {positive} entries")


def check_actuator(spec: ActuatorSpec, kind: str) -> None:
    """Raise ModelError for gains that this kind doesn't have, missing ones, a gear of zero, and an empty range."""
    where = f"actuator '{spec.name}'"
    if not np.isfinite(spec.gear) or spec.gear == 0.0:
        raise ModelError(f"{where}: gear is {spec.gear}; it must be finite and not zero")
    for label, kinds in ACTUATOR_GAINS.items():
        if getattr(spec, label) != 0.0 and spec.kind not in kinds:
            raise ModelError(f"{where}: a {kind} actuator has no {label}; remove it or choose another kind")
    if spec.muscle is None and spec.kind == codes.MUSCLE:
        raise ModelError(f"{where}: kind 'muscle' needs muscle=sim.Muscle(...)")
    if spec.muscle is not None and spec.kind != codes.MUSCLE:
        raise ModelError(f"{where}: muscle=sim.Muscle(...) belongs to kind 'muscle', but the kind is '{kind}'")
    if spec.muscle is not None and spec.joint is None and spec.tendon is None:
        raise ModelError(f"{where}: a muscle acts on a joint or a tendon; give one of them")
    of_state = {codes.PID: ("pid", codes.POSITION), codes.CURRENT: ("current", codes.AFFINE)}.get(spec.dynamics)
    if of_state and (spec.kind != of_state[1] or spec.joint is None):
        required = "position" if spec.dynamics == codes.PID else "affine"
        raise ModelError(f"{where}: activation '{of_state[0]}' requires kind '{required}' on a joint")
    if (spec.ki != 0.0) != (spec.dynamics == codes.PID):
        raise ModelError(f"{where}: gain ki belongs to sim.Activation('pid'), which requires it; give both or neither")
    if spec.stall_force and (spec.joint is None or spec.kind == codes.MUSCLE):
        raise ModelError(f"{where}: motor requires a joint, and no muscle")
    needed = {codes.POSITION: "kp", codes.VELOCITY: "kd"}.get(spec.kind)
    if needed and getattr(spec, needed) == 0.0:
        raise ModelError(f"{where}: a {kind} actuator needs {needed}; give gains=sim.Gains({needed}=...)")
    lower, upper = spec.control_range
    if not lower < upper:
        raise ModelError(f"{where}: control_range is ({lower}, {upper}); the first must be less than the second")


def finite_and_not_negative(where: str, label: str, value: float) -> None:
    """Raise ModelError if a property is negative or not finite."""
    if not 0.0 <= number(where, label, value) < np.inf:
        raise ModelError(f"{where}: {label} is {value}; it must be finite and not negative")


def break_load(where: str, label: str, value: float) -> float:
    """Return a force or torque at which a constraint breaks, infinite for never. Raises ModelError unless it is
    positive.
    """
    load = number(where, label, value)
    if not load > 0.0:
        raise ModelError(
            f"{where}: {label} is {load}; it must be positive, or infinite for a constraint that never breaks"
        )
    return load


def pose(where: str, position: Vector, orientation: Vector) -> np.ndarray:
    """Return position and normalised quaternion xyzw as one array [7]."""
    p = finite(f"{where}: position", position, (3,))
    q = finite(f"{where}: orientation", orientation, (4,))
    return np.concatenate([p, unit(q, f"{where}: the orientation is the zero quaternion")])


def check_inertia(link: str, tensor: np.ndarray) -> None:
    """Raise ModelError if a rotational inertia [3, 3] is not finite or not symmetric."""
    if tensor.shape != (3, 3) or not np.isfinite(tensor).all():
        raise ModelError(f"link '{link}': inertia must be nine (or three) finite numbers, is {tensor.tolist()}")
    scale = max(float(np.abs(tensor).max()), 1e-300)
    if np.abs(tensor - tensor.T).max() > 1e-6 * scale:
        raise ModelError(f"link '{link}': inertia is not symmetric: {tensor.tolist()}")


def is_physical(tensor: np.ndarray) -> bool:
    """Return whether a symmetric rotational inertia [3, 3] can belong to a body."""
    moments = np.linalg.eigvalsh(tensor)
    # A relative 1e-3 is allowed: files round their numbers, and thin rods and plates are at the boundary.
    triangle = moments[0] + moments[1] >= moments[2] * (1.0 - 1e-3) - NEGLIGIBLE_INERTIA
    return bool(triangle and moments[0] >= -1e-6 * np.abs(tensor).max() - NEGLIGIBLE_INERTIA)


def solid_mass(where: str, volume: float, mass: float | None, density: float | None) -> float:
    """Return the mass [kg] of a body with a given mass or density."""
    if (mass is None) == (density is None):
        raise ModelError(f"{where}: give exactly one of mass and density")
    label, given = ("density", density) if mass is None else ("mass", mass)
    value = number(where, label, given)
    if not value > 0.0:
        raise ModelError(f"{where}: {label} is {value}; it must be positive for a free body")
    # Sizes that aren't positive are refused with the geometry.
    return value if mass is not None else value * abs(volume)


def texture_coordinates(where: str, mesh: Mesh | None) -> None:
    """Raise ModelError unless the texture coordinates of a mesh, if it has any, are finite and one per corner."""
    if isinstance(mesh, Mesh) and mesh.uv is not None:
        uv = as_numbers(f"{where}: texture coordinates", mesh.uv)
        if uv.shape != (len(mesh.faces), 3, 2) or not np.isfinite(uv).all():
            raise ModelError(
                f"{where}: texture coordinates have shape {uv.shape}; expected finite numbers {(len(mesh.faces), 3, 2)}"
            )


def colour(where: str, rgba: Sequence[float]) -> tuple[float, float, float, float]:
    """Return red, green, blue and opacity of a geometry; raise ModelError for numbers outside 0 to 1."""
    values = finite(f"{where}: rgba", rgba, (4,))
    if values.min() < 0.0 or values.max() > 1.0:
        raise ModelError(
            f"{where}: rgba is {values.tolist()}; numbers must lie between 0 and 1 (divide 0 to 255 by 255)"
        )
    red, green, blue, opacity = values.tolist()
    return red, green, blue, opacity


def height_grid(where: str, heights: npt.ArrayLike | None) -> np.ndarray:
    """Return a copy of the heights of a heightfield as a float64 array [rows, columns]."""
    if heights is None:
        raise ModelError(f"{where}: a heightfield needs heights=")
    try:
        shape = np.shape(heights)
    except ValueError:
        raise ModelError(f"{where}: the rows of heights differ in length; give each the same number") from None
    except UNREADABLE:
        shape = as_numbers(f"{where}: heights", heights).shape
    grid = finite(f"{where}: heights", heights, shape)
    if grid.ndim != 2 or min(grid.shape) < 2:
        raise ModelError(
            f"{where}: heights have shape {grid.shape}; expected [rows, columns] with at least two of each"
        )
    if grid.size > MOST_HEIGHTS:
        raise ModelError(f"{where}: {grid.size} heights; at most {MOST_HEIGHTS} are supported; use a coarser grid")
    return grid


def finite(where: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return a float64 copy of a value; raise ModelError if it has another shape or isn't finite."""
    array = as_numbers(where, value)
    if array.shape != shape:
        raise ModelError(f"{where}: shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ModelError(f"{where}: {array.tolist()} is not finite")
    return array


def geometry_pair(geometry_a: str, geometry_b: str) -> str:
    """Return the name of a pair of geometries in messages. Raises ModelError unless they are two different names."""
    where = f"pair of geometries '{geometry_a}' and '{geometry_b}'"
    require_names(where, geometry_a=geometry_a, geometry_b=geometry_b)
    if geometry_a == geometry_b:
        raise ModelError(f"{where}: give two different geometries")
    return where


def geometry_size(where: str, code: int, size: npt.ArrayLike) -> np.ndarray:
    """Return the three sizes of a shape, zero for those that it doesn't have, which may be omitted."""
    given = np.atleast_1d(as_numbers(where, size))
    sizes = finite(where, given, given.shape if given.shape == (3,) else (GEOMETRY_TYPES[code].sizes,))
    return np.pad(sizes, (0, 3 - len(sizes)))


def unit(vector: np.ndarray, complaint: str) -> np.ndarray:
    """Return a vector with unit length; raise ModelError with this complaint if it is zero."""
    largest = np.abs(vector).max()
    if largest < 1e-9:
        raise ModelError(complaint)
    scaled = vector / largest  # first, so that the squares can't overflow
    return scaled / np.linalg.norm(scaled)


def rest_position(spec: JointSpec, rest: float | Sequence[float] | None) -> float | np.ndarray:
    """Return the rest position of a joint's spring, for joints with a quaternion one entry per degree of freedom.

    Raises:
        ModelError: unless ``rest`` has as many numbers as the joint has coordinates, and for a zero quaternion.
    """
    where, kind = f"joint '{spec.name}': spring.rest", JOINT_TYPES[spec.type]
    if kind.quaternion is None:
        return number(f"joint '{spec.name}'", "spring.rest", 0.0 if rest is None else rest)
    if rest is None:
        return np.zeros(kind.dofs) if spec.type != codes.FREE else _as_dofs(kind.quaternion, spec.q0)
    what = "a quaternion xyzw" if kind.quaternion == 0 else "a position and a quaternion xyzw"
    given = as_numbers(where, rest)
    if given.shape != (kind.coordinates,):
        raise ModelError(f"{where} is {rest}; the spring of a {kind.name} joint rests at {what}")
    turn = unit(given[kind.quaternion :], f"{where} holds the zero quaternion")
    return _as_dofs(kind.quaternion, np.concatenate([given[: kind.quaternion], turn]))


def _as_dofs(quaternion: int, coordinates: np.ndarray) -> np.ndarray:
    """Return coordinates with a rotation vector in place of the quaternion at an index."""
    turn = Rotation.from_quat(coordinates[quaternion:]).as_rotvec()
    return np.concatenate([coordinates[:quaternion], turn])


def initial_coordinates(spec: JointSpec, q0: float | Vector | None) -> np.ndarray:
    """Return the given initial coordinates of a joint, or those nearest to zero within its limits."""
    where = f"joint '{spec.name}'"
    kind = JOINT_TYPES[spec.type]
    if q0 is not None:
        coordinates = finite(f"{where}: q0", np.atleast_1d(as_numbers(f"{where}: q0", q0)), (kind.coordinates,))
        if kind.quaternion is not None:
            turn = slice(kind.quaternion, kind.quaternion + 4)
            coordinates[turn] = unit(coordinates[turn], f"{where}: q0 holds the zero quaternion")
        return coordinates
    if spec.type == codes.FREE:
        return spec.placement.copy()
    coordinates = np.clip(np.zeros(kind.coordinates), spec.lower, spec.upper)
    if kind.quaternion is not None:
        coordinates[kind.quaternion + 3] = 1.0
    return coordinates
