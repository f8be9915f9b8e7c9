"""Ten numbers per link in which joint forces are linear, and the physical quantities that they stand for."""

import torch

# The order of a link's numbers: mass [kg], first moments mass * com [kg m], moments and products of inertia about the
# origin of the link's frame, along its axes [kg m^2]. It is Pinocchio's order.
INERTIAL_NAMES = ("mass", "mass*com_x", "mass*com_y", "mass*com_z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
ROWS, COLUMNS = (0, 1, 1, 2, 2, 2), (0, 0, 1, 0, 1, 2)  # of the entries of an inertia in that order


def to_linear(mass: torch.Tensor, com: torch.Tensor, inertia: torch.Tensor) -> torch.Tensor:
    """The ten numbers of bodies.

    Args:
        mass: masses [...], kg.
        com: centres of mass in the links' frames [..., 3], m.
        inertia: inertias about the centres of mass [..., 3, 3], kg m^2.

    Returns:
        [..., 10], in the order of :data:`INERTIAL_NAMES`.
    """
    about = inertia + mass[..., None, None] * _point_inertia(com)
    return torch.cat([mass[..., None], mass[..., None] * com, about[..., ROWS, COLUMNS]], dim=-1)


def from_linear(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The inverse of :func:`to_linear`, for masses other than zero: mass, com and inertia about it."""
    mass = numbers[..., 0]
    com = numbers[..., 1:4] / mass[..., None]
    index = torch.tensor([[0, 1, 3], [1, 2, 4], [3, 4, 5]], device=numbers.device)
    about = numbers[..., 4:][..., index]
    return mass, com, about - mass[..., None, None] * _point_inertia(com)


def spread(mass: torch.Tensor, inertia: torch.Tensor) -> torch.Tensor:
    """Second moments of mass distributions about their centres, per mass [..., 3, 3], m^2."""
    return (0.5 * trace(inertia) - inertia) / mass[..., None, None]


def trace(matrices: torch.Tensor) -> torch.Tensor:
    """Identity matrices times the traces of matrices [..., 3, 3]."""
    identity = torch.eye(3, dtype=matrices.dtype, device=matrices.device)
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] * identity


def _point_inertia(com: torch.Tensor) -> torch.Tensor:
    """Inertia of unit masses at points [..., 3] about the origin [..., 3, 3]."""
    outer = com[..., :, None] * com[..., None, :]
    return trace(outer) - outer
