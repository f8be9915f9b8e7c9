"""What sensors read that look at a point from another frame: whether a zone holds it, and where a camera sees it."""

from collections.abc import Sequence

import torch

# The least depth [m] by which a camera divides.
SMALLEST_DEPTH = 1e-15


def inside(zone: str, size: Sequence[float], point: torch.Tensor) -> torch.Tensor:
    """1 for points in a zone about the origin of their axes, else 0: points [..., 3] to [..., 1]."""
    x, y, z = point.unbind(dim=-1)
    if zone in ("sphere", "ellipsoid"):
        radii = torch.as_tensor(size, dtype=point.dtype, device=point.device)  # one, or three
        held = torch.linalg.vector_norm(point / radii, dim=-1) <= 1.0
    elif zone == "box":
        held = (x.abs() <= size[0]) & (y.abs() <= size[1]) & (z.abs() <= size[2])
    else:
        beyond = z - z.clamp(-size[1], size[1])
        if zone == "cylinder":
            held = (beyond == 0.0) & (torch.hypot(x, y) <= size[0])
        else:
            held = torch.linalg.vector_norm(torch.stack([x, y, beyond], dim=-1), dim=-1) <= size[0]
    return held.to(point.dtype)[..., None]


def projection(image: Sequence[float], point: torch.Tensor) -> torch.Tensor:
    """Where a camera sees points that are given along its axes: [..., 3] to [..., 2], px.

    Points behind it are projected through it, as MuJoCo does.
    """
    along, across, centre_x, centre_y = image
    x, y, z = point.unbind(dim=-1)
    smallest = torch.where(z < 0.0, -SMALLEST_DEPTH, SMALLEST_DEPTH).to(z)
    depth = torch.where(z.abs() < SMALLEST_DEPTH, smallest, z)
    return torch.stack([centre_x - along * x / depth, centre_y + across * y / depth], dim=-1)
