"""Results of a fit: values, their uncertainty, and combinations that the data doesn't determine."""

import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats
import torch

from sim.errors import ModelError
from sim.identify.figures import figure_of_values
from sim.identify.unknown.unknowns import UnknownSet
from sim.model.checks import is_whole
from sim.tables import html_table

MOST_WORDS, MOST_LINES = 5, 5  # of values that change together; of more combinations only the number is given
LITTLE = 0.9  # the data is called uninformative if the deviation exceeds this fraction of the prior's
ROUNDING = 1e-7  # of a unit eigenvector: smaller entries are ignored
INSIDE = 1e-3  # minimum distance of a first guess from a bound, in units of a free number's scale
WEAK = 1e-4  # inverse standard deviation, in units of a free number's scale, of the term that prevents drift
CONFIDENCE = 1.96  # standard deviations on either side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """Values of the unknowns with their uncertainty.

    Attributes:
        names: names of the values [m].
        units: their units [m].
        values: best fit, or the posterior's mean [m].
        start: first guess [m].
        deviations: standard deviations [m]; infinite for undetermined values.
        prior_deviations: the same before the data; infinite without a prior.
        correlation: correlation of the values [m, m]; zero for undetermined ones.
        free: free numbers of the search [p].
        free_covariance: their covariance [p, p].
        at_bound: names of values at a bound, whose deviations aren't reliable.
        chi_square: sum of squared residuals, in units of the noise.
        measured: number of measured values.
        evaluations: number of evaluations of the residuals.
        undetermined: undetermined combinations of unknowns, in words.
        converged: True if the search converged.
        widening: largest factor by which deviations are wider than the stated noise explains, because the residuals say
            that the model is wrong; one if they don't.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(model, Log(model, time, q, qd, qdd, tau), ["mass of bob"])
        >>> estimate = fit.estimate
        >>> estimate.names, estimate.units, abs(estimate["mass of bob"] - 2.0) < 0.05
        (('mass of bob',), ('kg',), True)
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    start: np.ndarray
    deviations: np.ndarray
    prior_deviations: np.ndarray
    correlation: np.ndarray
    free: np.ndarray
    free_covariance: np.ndarray
    at_bound: tuple[str, ...]
    chi_square: float
    measured: int
    evaluations: int
    undetermined: tuple[str, ...] = ()
    converged: bool = True
    widening: float = 1.0

    def __getitem__(self, name: str) -> float:
        """Return a value by its name."""
        return float(self.values[self._index(name)])

    def deviation(self, name: str) -> float:
        """Return the standard deviation of a value."""
        return float(self.deviations[self._index(name)])

    def _index(self, name: str) -> int:
        if not (isinstance(name, str) and name in self.names):
            raise ModelError(f"no estimate of {reprlib.repr(name)}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def interval(self, name: str) -> tuple[float, float]:
        """Return a 95 % interval."""
        width = CONFIDENCE * self.deviation(name)
        return self[name] - width, self[name] + width

    def plot(self) -> Any:
        """Plot values with 95 % intervals next to first guesses and priors, and correlations, as a matplotlib figure.

        For residuals and curves, see :func:`sim.identify.plot`.

        Raises:
            ModelError: without matplotlib, which the extra ``plot`` installs.
        """
        return figure_of_values(
            self.names, self.values, self.start, CONFIDENCE * self.deviations, CONFIDENCE * self.prior_deviations,
            self.correlation,
        )  # fmt: skip

    @property
    def probability(self) -> float:
        """Probability of residuals as large as these or larger, if model and noise are right."""
        return float(scipy.stats.chi2.sf(self.chi_square, max(self.measured - len(self.free), 1)))

    @property
    def not_told(self) -> tuple[str, ...]:
        """Names of the values that the data hardly constrains."""
        told = self.deviations < LITTLE * self.prior_deviations
        return tuple(name for name, each in zip(self.names, told, strict=True) if not each)

    @property
    def not_converged(self) -> str:
        """Sentence for a search that hasn't converged."""
        return f"The search had not converged after {self.evaluations} evaluations; raise max_evaluations."

    @property
    def widened(self) -> str:
        """Sentence for deviations that residuals make wider."""
        return (
            "The model doesn't explain the residuals: they are larger than the noise, or alike for longer. Deviations "
            f"are up to {self.widening:.3g} times wider than from the noise alone."
        )

    def _repr_html_(self) -> str:
        notes = [
            "not determined" if name in self.not_told else "at its bound" if name in self.at_bound else ""
            for name in self.names
        ]
        deviations = [f"{each:.2g}" for each in self.deviations]
        values = [f"{value:.5g}" for value in self.values]
        caption = "" if self.converged else self.not_converged
        rows = list(zip(self.names, values, deviations, self.units, notes, strict=True))
        return html_table(caption, ("", "found", "±", "unit", ""), rows)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = []
        for k, name in enumerate(self.names):
            note = "  the data doesn't tell" if name in self.not_told else ""
            note += "  at its bound" if name in self.at_bound else ""
            deviation = "  unknown " if np.isinf(self.deviations[k]) else f"{self.deviations[k]:10.2g}"
            lines.append(f"{name:{width}s} {self.values[k]:12.5g} +-{deviation} {self.units[k]:9s}{note}")
        lines += [f"not determined: {words}" for words in self.undetermined]
        lines += [self.widened] if self.widening > 1.0 else []
        lines += [] if self.converged else [self.not_converged]
        return "\n".join(lines)


def covariance_of(information: np.ndarray, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """Invert an information matrix on the subspace where it is invertible.

    Args:
        information: J'J of all residuals and priors [p, p].
        tolerance: zero tolerance, relative to the largest eigenvalue, with a diagonal of ones.

    Returns:
        the pseudo-inverse [p, p], and directions without information, one per row [k, p].
    """
    diagonal = np.sqrt(np.maximum(np.diag(information), 0.0))  # rounding makes some negative
    scale = np.where(diagonal > 0.0, diagonal, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    known = values > tolerance * max(float(values[-1]), 1e-300)
    half = vectors[:, known] / np.sqrt(values[known])
    vectors = np.where(np.abs(vectors) > ROUNDING, vectors, 0.0)
    return half @ half.T / np.outer(scale, scale), (vectors[:, ~known].T) / scale


def solve(
    unknowns: UnknownSet, x0: np.ndarray, residuals: "Residuals", max_evaluations: int
) -> scipy.optimize.OptimizeResult:
    """Solve least squares by SciPy's trust-region method, with bounds on the free numbers.

    Undetermined free numbers keep their start value: a term pulls each there, too weak to matter compared with data.
        Values that start at a bound are moved off it first: SciPy's first step is at most as long as the start vector,
        and a zero step would end the search.

    Args:
        unknowns: the unknowns.
        x0: free numbers at the start, perhaps followed by others without bounds and of size one.
        residuals: the residuals to minimise.
        max_evaluations: maximum number of evaluations.
    """
    if not is_whole(max_evaluations, 1):
        raise ModelError(f"max_evaluations is {max_evaluations!r}; it must be a whole number of at least 1")
    extra = len(x0) - len(unknowns.lower)
    bounds = tuple(
        np.append(bound, np.full(extra, far)) for bound, far in ((unknowns.lower, -np.inf), (unknowns.upper, np.inf))
    )
    scale = np.append(unknowns.scale, np.ones(extra))
    pull = np.diag(WEAK / scale)
    beside = np.minimum(INSIDE * scale, 0.25 * (bounds[1] - bounds[0]))
    found = scipy.optimize.least_squares(
        lambda x: np.append(residuals.values(x), pull @ (x - x0)), np.clip(x0, bounds[0] + beside, bounds[1] - beside),
        lambda x: np.vstack([residuals.jacobian(x), pull]), bounds, method="trf", x_scale=scale, ftol=1e-9, xtol=1e-9,
        gtol=1e-12, max_nfev=max_evaluations,
    )  # fmt: skip
    without_effect = ~found.jac[: -len(x0)].any(axis=0)
    found.x = np.where(without_effect, np.clip(x0, *bounds), found.x)
    return found


class Residuals(ABC):
    """Residuals of a fit, in standard deviations, those of the priors included, and their derivatives."""

    @abstractmethod
    def values(self, x: np.ndarray) -> np.ndarray:
        """Return residuals [n] for free numbers [p]."""

    @abstractmethod
    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return their derivatives [n, p]."""


def prior_deviations(unknowns: UnknownSet, x: np.ndarray) -> np.ndarray:
    """Return deviations of free numbers [p] from the priors [k], in standard deviations."""
    return unknowns.prior_deviations(torch.from_numpy(x)).numpy()


def prior_slopes(unknowns: UnknownSet, x: np.ndarray) -> np.ndarray:
    """Return the derivatives of these deviations [k, p]."""
    if not len(prior_deviations(unknowns, x)):
        return np.zeros((0, len(x)))
    return jacobian(unknowns.prior_deviations, x)


def jacobian(function: object, x: np.ndarray) -> np.ndarray:
    """Return derivatives [m, p] of a PyTorch function from free numbers [p] to numbers [m]."""
    found = torch.autograd.functional.jacobian(function, torch.from_numpy(x), vectorize=True)
    assert isinstance(found, torch.Tensor)
    return found.numpy()


def describe(
    unknowns: UnknownSet,
    found: scipy.optimize.OptimizeResult,
    slope: np.ndarray,
    chi_square: float,
    measured: int,
    excess: np.ndarray | None = None,
) -> Estimate:
    """Return an estimate by Laplace's approximation: the covariance is the inverse of the information at the best fit.

    With ``excess`` it is that of the same estimate from residuals whose variance is so many times larger (the sandwich
    formula of Huber and White).

    Args:
        unknowns: the unknowns.
        found: result of the search; the first of its free numbers are those of the unknowns [p].
        slope: derivatives of all residuals and priors there [n, p], orthogonal to those in further free numbers.
        chi_square: sum of squared residuals.
        measured: number of measured values.
        excess: variance of each residual, over that of its noise [n]. Default: one.
    """
    x = found.x[: len(unknowns.lower)]
    covariance, lost = covariance_of(slope.T @ slope)
    from_noise, widening = covariance, 1.0
    if excess is not None:
        covariance = covariance @ (slope.T * excess @ slope) @ covariance
    of_prior = prior_slopes(unknowns, x)
    before, free_before = covariance_of(of_prior.T @ of_prior)
    readings, slope = unknowns.readings(torch.from_numpy(x)).numpy(), jacobian(unknowns.readings, x)
    spread = slope @ covariance @ slope.T
    deviations = _deviations(slope, covariance, lost)
    if excess is not None:
        before_excess = (slope @ from_noise @ slope.T).diagonal()
        widening = float(np.sqrt((spread.diagonal() / np.maximum(before_excess, 1e-300)).max(initial=1.0)))
    scale = np.sqrt(np.maximum(np.diag(spread), 1e-300))
    correlation = np.where(np.isfinite(deviations), spread / np.outer(scale, scale), 0.0)
    width = np.sqrt(np.diag(covariance))
    close = np.minimum(1e-6 * (1.0 + np.abs(x)), np.where(width > 0.0, 0.1 * width, np.inf))
    touching = (x <= unknowns.lower + close) | (x >= unknowns.upper - close)
    touched = np.abs(slope) @ touching > 0.0
    return Estimate(
        unknowns.names, unknowns.units, readings, unknowns.readings(unknowns.start).numpy(), deviations,
        _deviations(slope, before, free_before), correlation, x, covariance,
        tuple(name for name, at in zip(unknowns.names, touched, strict=True) if at), chi_square, measured,
        int(found.nfev),
        _words(unknowns.names, lost @ slope.T), found.status > 0, widening,
    )  # fmt: skip


def _deviations(slope: np.ndarray, covariance: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return standard deviations of readings; infinite for those that a direction without information changes."""
    found = np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", slope, covariance, slope), 0.0))
    if not len(lost):
        return found
    # Relative to the change of the reading if each of those free numbers moved as far alone.
    change, largest = np.abs(slope @ lost.T), np.abs(slope) @ np.abs(lost.T)
    return np.where((change > 1e-5 * largest).any(axis=1), np.inf, found)


def _words(names: tuple[str, ...], changes: np.ndarray) -> tuple[str, ...]:
    """Describe directions of readings [k, m] in words, each with as few readings as possible."""
    changes = changes[np.abs(changes).max(axis=1) > 0.0]
    if len(changes) > MOST_LINES:
        involved = [name for name, size in zip(names, np.abs(changes).max(axis=0), strict=True) if size > 0.0]
        return (f"{len(changes)} combinations of {involved[0]} ... {involved[-1]}",)
    if not len(changes):
        return ()
    size = np.abs(changes).max(axis=0)
    _, factor, order = scipy.linalg.qr(changes / np.where(size > 0.0, size, 1.0), pivoting=True)
    rank = int((np.abs(np.diag(factor)) > 1e-6 * abs(factor[0, 0])).sum())
    rows = np.zeros((rank, len(names)))
    rows[:, order] = np.linalg.solve(factor[:rank, :rank], factor[:rank])
    lines = []
    for first, row in zip(order[:rank], rows * size, strict=True):
        row = row / row[first]
        others = [k for k in np.argsort(-np.abs(row)) if k != first and abs(row[k]) > 1e-3]
        parts = [f"{row[k]:+.3g} {names[k]}" for k in others[:MOST_WORDS]]
        parts += ["..."] if len(others) > MOST_WORDS else []
        lines.append(names[first] + (f" with {', '.join(parts)}" if parts else ""))
    return tuple(lines)
