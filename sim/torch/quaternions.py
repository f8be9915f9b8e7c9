"""Quaternions xyzw as tensors [..., 4]."""

import torch


def quaternion_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The rotation b followed by a [..., 4]."""
    u, v, s, t = a[..., :3], b[..., :3], a[..., 3:], b[..., 3:]
    vector = s * v + t * u + torch.linalg.cross(*torch.broadcast_tensors(u, v))
    return torch.cat([vector, s * t - (u * v).sum(-1, keepdim=True)], dim=-1)


def quaternion_conjugate(a: torch.Tensor) -> torch.Tensor:
    """The inverse of a rotation [..., 4]."""
    return torch.cat([-a[..., :3], a[..., 3:]], dim=-1)
