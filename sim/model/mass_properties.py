"""Volume and moments of inertia of solid shapes, and the principal moments of any inertia."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.model import Mesh
from warp_kernels import types as codes

# Rounding residue of files that mean zero [kg m^2]; a steel ball of a millimetre has 4e-13.
NEGLIGIBLE_INERTIA = 1e-16


def solid_mass_properties(type: int, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Volume [m^3] of a solid primitive, and its principal moments about the origin of its frame per unit mass [3].

    Args:
        type: a geometry code of :mod:`warp_kernels.types`: sphere, capsule, cylinder, box or ellipsoid.
        size: as for :class:`sim.model.model.Geometry` [3].
    """
    x, y, z = (float(value) for value in size)
    if type == codes.SPHERE:
        return 4.0 / 3.0 * np.pi * x**3, np.full(3, 0.4 * x * x)
    if type == codes.CAPSULE:
        return np.pi * x**2 * (2.0 * y + 4.0 / 3.0 * x), capsule_inertia(x, y, 1.0)
    if type == codes.CYLINDER:
        across = x**2 / 4.0 + y**2 / 3.0
        return 2.0 * np.pi * x**2 * y, np.array([across, across, x**2 / 2.0])
    squares = np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    if type == codes.BOX:
        return 8.0 * x * y * z, squares / 3.0
    if type == codes.ELLIPSOID:
        return 4.0 / 3.0 * np.pi * x * y * z, squares / 5.0
    raise ValueError(f"a shape of type {type} is not a solid primitive")


def mesh_mass_properties(mesh: Mesh) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3] of a closed mesh, its centre [3], and its inertia about that per unit mass [3, 3]."""
    import trimesh  # takes long to import

    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    volume = float(whole.volume)
    return volume, np.array(whole.center_mass), np.array(whole.moment_inertia) / volume


def capsule_inertia(radius: float, half_length: float, mass: float) -> np.ndarray:
    """Principal moments [3] of a solid capsule along z, composed of a cylinder and two hemispheres."""
    length = 2.0 * half_length
    cylinder = mass * length / (length + 4.0 * radius / 3.0)
    balls = mass - cylinder
    axial = cylinder * radius**2 / 2.0 + balls * 0.4 * radius**2
    ends = 0.4 * radius**2 + half_length**2 + 0.75 * half_length * radius
    across = cylinder * (radius**2 / 4.0 + length**2 / 12.0) + balls * ends
    return np.array([across, across, axial])


def principal_moments(inertia: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Principal moments [3] of a rotational inertia [3, 3] and the rotation of their axes in the link frame."""
    if not np.any(inertia - np.diag(np.diag(inertia))):
        return np.diag(inertia), Rotation.identity()
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, Rotation.from_matrix(axes)
