"""Quaternions xyzw as tensors [..., 4]."""

import torch


def quaternion_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the rotation b followed by a [..., 4]."""
    u, v, s, t = a[..., :3], b[..., :3], a[..., 3:], b[..., 3:]
    vector = s * v + t * u + torch.linalg.cross(*torch.broadcast_tensors(u, v))
    return torch.cat([vector, s * t - (u * v).sum(-1, keepdim=True)], dim=-1)


def quaternion_conjugate(a: torch.Tensor) -> torch.Tensor:
    """Return the inverse of a rotation [..., 4]."""
    return torch.cat([-a[..., :3], a[..., 3:]], dim=-1)


def turned_z_axis(a: torch.Tensor) -> torch.Tensor:
    """Return the z axis turned by a rotation [..., 3]."""
    x, y, z, w = torch.nn.functional.normalize(a, dim=-1).unbind(dim=-1)
    return torch.stack([2.0 * (x * z + y * w), 2.0 * (y * z - x * w), 1.0 - 2.0 * (x * x + y * y)], dim=-1)


def rotated(a: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Return vectors [..., 3] turned by rotations of length one [..., 4]."""
    u, v = torch.broadcast_tensors(a[..., :3], vectors)
    across = 2.0 * torch.linalg.cross(u, v)
    return v + a[..., 3:] * across + torch.linalg.cross(u, across)
