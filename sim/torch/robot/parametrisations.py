"""Physical quantities as functions of free numbers, so that every step of an optimiser gives a physical value."""

from typing import Any

import torch

from sim.errors import ModelError
from sim.model.checks import number


class Parametrisation(torch.nn.Module):
    """A value as a function of free parameters, returned by ``forward()``.

    Example:
        >>> import torch
        >>> import sim
        >>> class Even(sim.torch.Parametrisation):  # three equal numbers
        ...     def start(self, value):
        ...         self.free = torch.nn.Parameter(value.mean())
        ...
        ...     def forward(self):
        ...         return self.free.expand(3)
        >>> value = Even()
        >>> value.start(torch.tensor([1.0, 2.0, 3.0]))
        >>> value().tolist()
        [2.0, 2.0, 2.0]
    """

    def start(self, value: torch.Tensor) -> None:
        """Set the parameters so that ``forward()`` returns ``value``. Raises ModelError if none do."""
        raise NotImplementedError


class Unconstrained(Parametrisation):
    """The value itself.

    Example:
        >>> import torch
        >>> import sim
        >>> value = sim.torch.Unconstrained()
        >>> value.start(torch.tensor([-2.0]))
        >>> value().tolist()
        [-2.0]
    """

    def start(self, value: torch.Tensor) -> None:
        """Set the parameters, see :class:`Parametrisation`."""
        self.value = torch.nn.Parameter(value.clone())

    def forward(self) -> torch.Tensor:
        """Return the value."""
        return self.value


class Positive(Parametrisation):
    """Numbers above a minimum: ``minimum + exp(free)``.

    Args:
        minimum: exclusive lower bound.

    Example:
        >>> import torch
        >>> import sim
        >>> mass = sim.torch.Positive(minimum=0.1)
        >>> mass.start(torch.tensor([2.0]))
        >>> [round(x, 6) for x in mass().tolist()]
        [2.0]
    """

    def __init__(self, minimum: float = 0.0):
        super().__init__()
        self.minimum = number("Positive", "minimum", minimum)

    def start(self, value: torch.Tensor) -> None:
        """Set the parameters, see :class:`Parametrisation`."""
        if not bool((value > self.minimum).all()):
            raise ModelError(f"its value {value.tolist()} is not above {self.minimum}; set it first")
        self.free = torch.nn.Parameter((value - self.minimum).log())

    def forward(self) -> torch.Tensor:
        """Return the value."""
        return self.minimum + self.free.exp()


class PositiveDefinite(Parametrisation):
    """A symmetric positive definite matrix: ``L L'`` with a lower triangle L whose diagonal is of exponentials.

    An inertia of this kind need not fulfil the triangle inequality of the principal moments; see
    :class:`PhysicalInertia`.

    Example:
        >>> import torch
        >>> import sim
        >>> matrix = sim.torch.PositiveDefinite()
        >>> matrix.start(torch.diag(torch.tensor([1.0, 2.0, 3.0])))
        >>> bool((torch.linalg.eigvalsh(matrix()) > 0).all())
        True
    """

    def start(self, value: torch.Tensor) -> None:
        """Set the parameters, see :class:`Parametrisation`."""
        self.free = torch.nn.Parameter(log_cholesky(value))

    def forward(self) -> torch.Tensor:
        """Return the value."""
        return from_log_cholesky(self.free)


class PhysicalInertia(Parametrisation):
    """Mass, centre of mass and inertia of a physical body: no principal moment above the sum of the other two.

    The free numbers are the log-Cholesky form of the pseudo-inertia, 4x4 and positive definite (Rucker and Wensing,
    *Smooth parameterization of rigid-body inertia*, 2022).

    Example:
        >>> import torch
        >>> import sim
        >>> inertia = sim.torch.PhysicalInertia()
        >>> moments = torch.diag(torch.tensor([0.1, 0.1, 0.05]))
        >>> inertia.start((torch.tensor(2.0), torch.tensor([0.0, 0.0, 0.1]), moments))
        >>> mass, com, matrix = inertia()
        >>> round(mass.item(), 4), [round(x, 4) for x in com.tolist()]
        (2.0, [0.0, 0.0, 0.1])
    """

    def start(self, value: Any) -> None:
        """Set the parameters from mass, centre of mass [3] and inertia about it [3, 3]. See
        :class:`Parametrisation`.
        """
        self.free = torch.nn.Parameter(log_cholesky(pseudo_inertia(*value)))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return mass, centre of mass [3] and inertia about it [3, 3]."""
        return body_of_pseudo_inertia(from_log_cholesky(self.free))


class Rotation(Parametrisation):
    """A rotation by a free vector v before the one at the start: the quaternion ``start * (v / 2, 1)``, normalised.

    It represents every rotation but those half a turn away; for small v the rotation vector is v.

    Example:
        >>> import torch
        >>> import sim
        >>> turn = sim.torch.Rotation()
        >>> turn.start(torch.tensor([0.0, 0.0, 0.0, 1.0]))
        >>> turn.free.data[2] = 0.01  # a hundredth of a radian about z
        >>> [round(x, 4) for x in turn().tolist()]
        [0.0, 0.0, 0.005, 1.0]
    """

    def start(self, value: torch.Tensor) -> None:
        """Set the parameters, see :class:`Parametrisation`. Four zeros give the identity."""
        unit = value / value.norm() if bool(value.any()) else value.new_tensor([0.0, 0.0, 0.0, 1.0])
        self.register_buffer("origin", unit)
        self.free = torch.nn.Parameter(torch.zeros(3, dtype=value.dtype, device=value.device))

    def forward(self) -> torch.Tensor:
        """Return a unit quaternion xyzw."""
        origin = self.origin
        assert isinstance(origin, torch.Tensor)
        v, w = origin[:3], origin[3]
        turn = 0.5 * self.free
        quaternion = torch.cat([w * turn + v + torch.linalg.cross(v, turn), (w - v @ turn).reshape(1)])
        return quaternion / quaternion.norm()


def pseudo_inertia(mass: torch.Tensor, com: torch.Tensor, inertia: torch.Tensor) -> torch.Tensor:
    """Return the pseudo-inertia [4, 4] of a body: second and first moments of its mass, and its mass.

    Args:
        mass: mass of the body [kg].
        com: its centre of mass [3], m.
        inertia: about that [3, 3], kg m^2.
    """
    identity = torch.eye(3, dtype=inertia.dtype, device=inertia.device)
    spread = 0.5 * inertia.trace() * identity - inertia + mass * torch.outer(com, com)
    moment = (mass * com)[:, None]
    return torch.cat([torch.cat([spread, moment], 1), torch.cat([moment.T, mass.reshape(1, 1)], 1)])


def body_of_pseudo_inertia(pseudo: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return mass [...], centre of mass [..., 3] and inertia about it [..., 3, 3] of pseudo-inertias [..., 4, 4]."""
    mass = pseudo[..., 3, 3]
    com = pseudo[..., :3, 3] / mass[..., None]
    spread = pseudo[..., :3, :3] - mass[..., None, None] * com[..., :, None] * com[..., None, :]
    identity = torch.eye(3, dtype=spread.dtype, device=spread.device)
    return mass, com, spread.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None] * identity - spread


def log_cholesky(matrix: torch.Tensor) -> torch.Tensor:
    """Return the lower Cholesky factor of a matrix, with the logarithm of its diagonal.

    Raises:
        ModelError: if the matrix isn't positive definite.
    """
    factor, failed = torch.linalg.cholesky_ex(0.5 * (matrix + matrix.T))
    if int(failed):
        raise ModelError(
            f"its value {matrix.tolist()} is not positive definite, so no body has it; set it to a physical one "
            "first, or use Unconstrained()"
        )
    return below_diagonal(factor) + torch.diag(factor.diagonal().log())


def from_log_cholesky(free: torch.Tensor) -> torch.Tensor:
    """Return positive definite matrices from any square ones [..., n, n], whose entries above the diagonal are
    ignored.
    """
    factor = below_diagonal(free) + torch.diag_embed(free.diagonal(dim1=-2, dim2=-1).exp())
    return factor @ factor.mT


def below_diagonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return the entries of matrices [..., n, n] below their diagonals, zero elsewhere.

    ``torch.tril`` wakes all threads of OpenMP even for a matrix of 4x4, which takes milliseconds on busy cores.
    """
    index = torch.arange(matrix.shape[-1], device=matrix.device)
    return torch.where(index[:, None] > index, matrix, 0.0)
