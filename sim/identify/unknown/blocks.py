"""Kinds of unknown quantities: free numbers with or without bounds, mapped to physical values."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.regressor import COLUMNS, ROWS
from sim.identify.unknown.priors import InertialPrior, LogNormal, Normal, Prior
from sim.model.model import Model
from sim.torch.robot.parametrisations import body_of_pseudo_inertia, from_log_cholesky, log_cholesky, pseudo_inertia

BODY = ("mass", "com", "inertia")  # parameters of a link that are one unknown together
MASSLESS = 1e-6  # lower bound of a mass, relative to its first guess: a simulation needs a positive one
LENGTHS = 3.0  # standard deviation of the logarithm of a body's radii of gyration, without a prior


@dataclass(frozen=True)
class Target:
    """Entries of a parameter that share one value."""

    parameter: str
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Block(ABC):
    """One unknown quantity.

    Attributes:
        name: name such as "mass of forearm".
        targets: entries of the parameters that it sets, in the order of :meth:`values`.
        labels: names and units of the reported numbers.
        start: free numbers at the start [p].
        lower, upper: bounds of all free numbers.
        prior: its prior.
    """

    name: str
    targets: tuple[Target, ...]
    labels: tuple[tuple[str, str], ...]
    start: torch.Tensor
    lower: float
    upper: float
    prior: Prior | None

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """Parameter and entry of everything that it sets."""
        return [(target.parameter, entry) for target in self.targets for entry in target.entries]

    @property
    def scale(self) -> np.ndarray:
        """Typical size of changes of the free numbers [p]."""
        return np.ones(len(self.start))

    @abstractmethod
    def values(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the value of each target, for free numbers [..., p]."""

    @abstractmethod
    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers [..., m]."""

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations from the prior, in standard deviations [..., k]; no columns without a prior."""
        if self.prior is None:
            return x[..., :0]
        assert isinstance(self.prior, Normal | LogNormal)
        return self.prior.deviations(self.readings(x))


class Numbers(Block):
    """A number shared by all entries."""

    @classmethod
    def of(
        cls, name: str, target: Target, start: float, unit: str, prior: Prior | None, lower: float, upper: float
    ) -> "Numbers":
        """Make the block starting from a number."""
        if not lower <= start <= upper:
            raise ModelError(f"'{name}': its first guess {start:g} must lie between {lower:g} and {upper:g}")
        first = torch.tensor([start], dtype=torch.float64, device="cpu")
        return cls(name, (target,), ((name, unit),), first, lower, upper, prior)

    @property
    def scale(self) -> np.ndarray:
        """Typical size of changes, see :class:`Block`."""
        size = abs(float(self.start[0]))
        return np.array([size if size > 0.0 else getattr(self.prior, "deviation", 1.0)])

    def values(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values, see :class:`Block`."""
        return (x[..., 0],)

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers, see :class:`Block`."""
        return x


class Vector(Block):
    """Three numbers, a centre of mass. A prior applies to each of them, about the first guess."""

    @classmethod
    def of(cls, name: str, target: Target, start: torch.Tensor, unit: str, prior: Prior | None) -> "Vector":
        """Make the block starting from a point."""
        if isinstance(prior, LogNormal):
            raise ModelError(f"'{name}': its coordinates may be negative; give a Normal prior")
        quantity, _, owner = name.partition(" of ")
        labels = tuple((f"{quantity}_{axis} of {owner}", unit) for axis in "xyz")
        return cls(name, (target,), labels, start.double(), -np.inf, np.inf, prior)

    @property
    def scale(self) -> np.ndarray:
        """Typical size of changes, see :class:`Block`."""
        return np.full(3, getattr(self.prior, "deviation", 0.1))

    def values(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values, see :class:`Block`."""
        return (x,)

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers, see :class:`Block`."""
        return x

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations, see :class:`Block`. The prior's mean is an offset from the start."""
        if self.prior is None:
            return x[..., :0]
        assert isinstance(self.prior, Normal)
        return self.prior.deviations(x - self.start.to(x))


@dataclass(frozen=True)
class Bodies(Block):
    """Mass, centre of mass and inertia of a physical body: log-Cholesky form of its pseudo-inertia.

    Attributes:
        drawn: mass, centre of mass and inertia at the start.
    """

    drawn: tuple[torch.Tensor, torch.Tensor, torch.Tensor]

    @classmethod
    def of(cls, model: Model, name: str, link: int, prior: InertialPrior | None) -> "Bodies":
        """Make the block starting from a link's present values."""
        drawn = tuple(torch.as_tensor(model.parameters[each][link], dtype=torch.float64, device="cpu") for each in BODY)
        try:
            free = log_cholesky(pseudo_inertia(*drawn))
        except ModelError as error:
            raise ModelError(f"'{name}': {error}") from None
        owner = name.partition(" of ")[2]
        labels = [(f"mass of {owner}", "kg"), *((f"com_{axis} of {owner}", "m") for axis in "xyz")]
        labels += [(f"inertia_{axes} of {owner}", "kg m^2") for axes in ("xx", "xy", "yy", "xz", "yz", "zz")]
        targets = tuple(Target(each, (link,)) for each in BODY)
        return cls(name, targets, tuple(labels), free[_LOWER], -np.inf, np.inf, prior, drawn)  # type: ignore[arg-type]

    def values(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values, see :class:`Block`."""
        free = x.new_zeros(*x.shape[:-1], 16).index_copy(-1, _FLAT.to(x.device), x).unflatten(-1, (4, 4))
        return body_of_pseudo_inertia(from_log_cholesky(free))

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers, see :class:`Block`."""
        mass, com, inertia = self.values(x)
        return torch.cat([mass[..., None], com, inertia[..., ROWS, COLUMNS]], dim=-1)

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations, see :class:`Block`. Without a prior only the radii of gyration are constrained, to a
        factor.

        If noise makes a body look thinner than physically possible, nothing else would keep its logarithms finite.
        """
        if self.prior is None:
            return (x[..., _SPREAD] - self.start[_SPREAD].to(x)) / LENGTHS
        assert isinstance(self.prior, InertialPrior)
        mass, com, inertia = self.values(x)
        return self.prior.deviations((mass, com, inertia), tuple(each.to(x) for each in self.drawn))  # type: ignore[arg-type]


_LOWER = np.tril_indices(4)
_SPREAD = [0, 2, 5]  # the logarithms of those radii times the root of the mass
_FLAT = torch.from_numpy(4 * _LOWER[0] + _LOWER[1])
