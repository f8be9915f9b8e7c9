"""Parametrisations with the names and arguments of Differentiable Robot Models; see :mod:`sim.torch.drm`."""

import torch

from sim.torch.robot.parametrisations import from_log_cholesky, log_cholesky


class UnconstrainedScalar(torch.nn.Module):
    """A number, random or ``init_val``."""

    def __init__(self, init_val: torch.Tensor | None = None):
        super().__init__()
        self.param = torch.nn.Parameter(torch.rand(1) if init_val is None else init_val)

    def forward(self) -> torch.Tensor:
        """Return the number."""
        return self.param


class PositiveScalar(torch.nn.Module):
    """A number above ``min_val``, as the square of a random or given one."""

    def __init__(self, min_val: float = 0.0, init_param_std: float = 1.0, init_param: torch.Tensor | None = None):
        super().__init__()
        self._min_val = min_val
        start = init_param_std * torch.randn(()) if init_param is None else (init_param - min_val).sqrt().squeeze()
        self.l = torch.nn.Parameter(start)

    def forward(self) -> torch.Tensor:
        """Return the number."""
        return self.l.square() + self._min_val


class UnconstrainedTensor(torch.nn.Module):
    """A matrix [dim1, dim2], random or ``init_tensor``."""

    def __init__(self, dim1: int, dim2: int, init_tensor: torch.Tensor | None = None, init_std: float = 0.1):
        super().__init__()
        self.param = torch.nn.Parameter(init_std * torch.randn(dim1, dim2) if init_tensor is None else init_tensor)

    def forward(self) -> torch.Tensor:
        """Return the matrix."""
        return self.param


class SymmPosDef3DInertiaMatrixNet(torch.nn.Module):
    """A symmetric positive definite inertia, ``bias`` above zero in every direction."""

    def __init__(
        self,
        bias: float = 1e-7,
        init_param_std: float = 0.01,
        init_param: torch.Tensor | None = None,
        is_initializing_params: bool = True,
    ):
        super().__init__()
        self._bias = bias
        given = None if init_param is None or not is_initializing_params else self._matrix(init_param.reshape(3, 3))
        noise = init_param_std * torch.randn(3, 3)
        self.free = torch.nn.Parameter(noise if given is None else log_cholesky(given - bias * _identity(given)))

    def forward(self) -> torch.Tensor:
        """Return the inertia [3, 3]."""
        matrix = from_log_cholesky(self.free)
        return self._inertia(matrix + self._bias * _identity(matrix))

    def _matrix(self, inertia: torch.Tensor) -> torch.Tensor:
        return inertia

    def _inertia(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix


class CovParameterized3DInertiaMatrixNet(SymmPosDef3DInertiaMatrixNet):
    """An inertia that keeps the triangle inequality: that of a positive definite density-weighted covariance.

    Source: Wensing, Kim and Slotine, *Linear matrix inequalities for physically consistent inertial parameter
    identification* (2017).
    """

    def _matrix(self, inertia: torch.Tensor) -> torch.Tensor:
        return 0.5 * inertia.trace() * _identity(inertia) - inertia

    def _inertia(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.trace() * _identity(matrix) - matrix


class RollPitchYaw(torch.nn.Module):
    """The quaternion xyzw of a module's roll, pitch and yaw: turns about the fixed axes x, y and z, in this order."""

    def __init__(self, angles: torch.nn.Module):
        super().__init__()
        self.angles = angles

    def forward(self) -> torch.Tensor:
        """Return the quaternion."""
        half = 0.5 * self.angles().reshape(3)
        (sx, sy, sz), (cx, cy, cz) = half.sin(), half.cos()
        return torch.stack(
            [
                sx * cy * cz - cx * sy * sz,
                cx * sy * cz + sx * cy * sz,
                cx * cy * sz - sx * sy * cz,
                cx * cy * cz + sx * sy * sz,
            ]
        )


def _identity(like: torch.Tensor) -> torch.Tensor:
    return torch.eye(3, dtype=like.dtype, device=like.device)
