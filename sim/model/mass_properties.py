"""Volume and moments of inertia of solid shapes, and the principal moments of any inertia."""

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.geometry_types import GEOMETRY_TYPES
from sim.model.model import Mesh

# Rounding residue of files that mean zero [kg m^2]; a steel ball of a millimetre has 4e-13.
NEGLIGIBLE_INERTIA = 1e-16


def solid_mass_properties(type: int, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Volume [m^3] of a solid primitive, and its principal moments about the origin of its frame per unit mass [3].

    Args:
        type: a geometry code of :mod:`warp_kernels.types`: sphere, capsule, cylinder, box or ellipsoid.
        size: as for :class:`sim.model.model.Geometry` [3].
    """
    known = GEOMETRY_TYPES.get(type)
    if known is None or known.solid is None:
        raise ValueError(f"a shape of type {type} is not a solid primitive")
    return known.solid([float(value) for value in size])


def mesh_mass_properties(mesh: Mesh) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume [m^3] of a closed mesh, its centre [3], and its inertia about that per unit mass [3, 3]."""
    import trimesh  # takes long to import

    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    volume = float(whole.volume)
    return volume, np.array(whole.center_mass), np.array(whole.moment_inertia) / volume


def principal_moments(inertia: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Principal moments [3] of a rotational inertia [3, 3] and the rotation of their axes in the link frame."""
    if not np.any(inertia - np.diag(np.diag(inertia))):
        return np.diag(inertia), Rotation.identity()
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    return moments, Rotation.from_matrix(axes)
