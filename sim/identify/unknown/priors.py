"""Priors: distributions of a quantity before any data."""

from dataclasses import dataclass

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.regressor import spread
from sim.model.checks import is_positive, number

Bodies = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # mass [...], centre of mass [..., 3], inertia [..., 3, 3]


@dataclass(frozen=True)
class Normal:
    """Normally distributed value with a standard deviation, in its own unit; the search starts from the mean.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Normal, Unknowns
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> Unknowns(model, {"damping of hinge": Normal(0.5, 0.1)}).start.tolist()
        [0.5]
    """

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        _require_positive(self, "deviation")
        if not np.isfinite(number("Normal", "mean", self.mean)):
            raise ModelError(f"Normal: mean is {self.mean}; it must be finite")

    @property
    def start(self) -> float:
        """Start of a search."""
        return self.mean

    def deviations(self, value: torch.Tensor) -> torch.Tensor:
        """Return the deviation of a value from the mean, in standard deviations."""
        return (value - self.mean) / self.deviation


@dataclass(frozen=True)
class LogNormal:
    """A positive value, known to a factor: ``deviation`` is the standard deviation of its logarithm.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import LogNormal, Unknowns
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> unknowns = Unknowns(model, {"mass of bob": LogNormal(2.5, 0.2)})  # to about a fifth
        >>> unknowns.readings(unknowns.start).tolist()
        [2.5]
    """

    median: float
    deviation: float

    def __post_init__(self) -> None:
        _require_positive(self, "median", "deviation")

    @property
    def start(self) -> float:
        """Start of a search."""
        return self.median

    def deviations(self, value: torch.Tensor) -> torch.Tensor:
        """Return the deviation of a value from the mean, in standard deviations."""
        return (value / self.median).log() / self.deviation


@dataclass(frozen=True)
class InertialPrior:
    """A body near the model's one, such as one from a drawing.

    Attributes:
        mass: standard deviation of the logarithm of its mass.
        com: standard deviation of each coordinate of its centre of mass [m].
        shape: standard deviation of each entry of the strain that maps the drawn distribution of mass to the true one.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import InertialPrior, Unknowns
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> unknowns = Unknowns(model, {"inertial of bob": InertialPrior(mass=0.1, com=0.01)})
        >>> unknowns.names[:2]
        ('mass of bob', 'com_x of bob')
    """

    mass: float = 0.3
    com: float = 0.02
    shape: float = 0.3

    def __post_init__(self) -> None:
        _require_positive(self, "mass", "com", "shape")

    def deviations(self, bodies: Bodies, drawn: Bodies) -> torch.Tensor:
        """Return deviations of bodies from the drawn ones, in standard deviations [..., 10]."""
        root = torch.linalg.cholesky(spread(drawn[0], drawn[2]))
        half = torch.linalg.solve_triangular(root, spread(bodies[0], bodies[2]), upper=False)
        identity = torch.eye(3, dtype=half.dtype, device=half.device)
        strain = torch.linalg.solve_triangular(root, half.mT, upper=False) - identity
        # A lower triangular strain E turns the unit matrix into about 1 + E + E'.
        strain = strain - 0.5 * torch.diag_embed(strain.diagonal(dim1=-2, dim2=-1))
        parts = (
            (bodies[0] / drawn[0]).log()[..., None] / self.mass,
            (bodies[1] - drawn[1]) / self.com,
            strain[..., (0, 1, 1, 2, 2, 2), (0, 0, 1, 0, 1, 2)] / self.shape,
        )
        return torch.cat(parts, dim=-1)


Prior = Normal | LogNormal | InertialPrior


def require_prior(name: str, prior: object) -> None:
    """Raise ModelError for anything but a prior of an unknown."""
    if not isinstance(prior, Prior | None):
        raise ModelError(f"'{name}': its prior is {prior!r}; give a Normal, a LogNormal, an InertialPrior or None")


def _require_positive(prior: object, *names: str) -> None:
    for name in names:
        value = getattr(prior, name)
        if not is_positive(value):
            raise ModelError(f"{type(prior).__name__}: {name} is {value!r}; it must be a positive number")
