"""Quadratic expansion of costs, stage by stage, in tangent coordinates.

Least-squares terms use Gauss-Newton, all others their Hessians: one Hessian-vector product with the same direction in
all stages gives a column of every stage's block.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sim.errors import ModelError
from sim.optimise.costs import Cost, LeastSquares
from sim.optimise.methods.search import no_derivative, no_gradient
from sim.optimise.motion import Motion


@dataclass
class Quadratic:
    """Derivatives of the costs of some motions; z is the state's tangent and the control, [n + size].

    n is 2 nv + na.

    In the last stage there is no control, and its derivatives are zero.

    Attributes:
        cost: cost of each world [worlds].
        slope: gradient [stages + 1, worlds, n + size].
        curvature: positive semi-definite [stages + 1, worlds, n + size, n + size].
    """

    cost: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


class Quadratics:
    """Quadratic expansions of a problem's costs about motions.

    Args:
        costs: the terms.
        forces: from a motion to its contact forces, differentiable in state and control of each stage. Default: no cost
            asks for any.
    """

    def __init__(self, costs: list[Cost], forces: Callable[[Motion], torch.Tensor] | None = None):
        self.costs, self.forces = costs, forces
        self._checked = False

    def __call__(self, motion: Motion) -> Quadratic:
        """Expand the costs about the motions, whose history is ignored.

        Raises:
            ModelError: for costs without a gradient, and for one that couples stages or has no second derivative.
        """
        motion = motion.detached()
        stages, worlds, size = motion.controls.shape
        n = motion.state_size
        total = torch.zeros(worlds, dtype=motion.q.dtype, device=motion.q.device)
        reached = False
        slope = motion.q.new_zeros(stages + 1, worlds, n + size)
        curvature = motion.q.new_zeros(stages + 1, worlds, n + size, n + size)
        z = motion.q.new_zeros(stages + 1, worlds, n + size).requires_grad_()
        moved = motion.moved(z[..., :n], z[:-1, :, n:])
        if self.forces is not None:
            moved = replace(moved, contact_force=self.forces(moved))
        for cost in self.costs:
            if isinstance(cost, LeastSquares):
                value = self._squares(cost, moved, z, slope, curvature)
            else:
                value = self._general(cost, moved, z, slope, curvature)
            total, reached = total + value.detach(), reached or value.requires_grad
        if not reached:
            raise no_gradient(self.costs, "ilqr")
        self._checked = True
        arrays = (x.detach().cpu().numpy().astype(np.float64) for x in (total, slope, curvature))
        return Quadratic(*arrays)

    def _squares(
        self, cost: LeastSquares, moved: Motion, z: torch.Tensor, slope: torch.Tensor, curvature: torch.Tensor
    ) -> torch.Tensor:
        r = cost.residuals(moved)
        if not r.numel() or not r.requires_grad:
            return 0.5 * (r.detach() ** 2).sum((0, 2))
        if not self._checked:
            _require_separate_rows(cost, r, z)
        columns = cost.columns(moved)
        if columns is None:
            columns = np.full(r.shape[2], -1)
        J = z.new_zeros(*z.shape[:2], r.shape[2], z.shape[2])
        for k in np.flatnonzero(columns < 0):
            J[:, :, k] = _slope(r[..., k].sum(), z)
        (known,) = np.nonzero(columns >= 0)
        if len(known):
            rows = torch.arange(len(z), device=z.device)[cost.rows(moved)]
            root = torch.from_numpy(np.sqrt(np.broadcast_to(cost.weight, r.shape[2])[known])).to(z)
            J[rows[:, None], :, known, columns[known]] = root[:, None]
        value = 0.5 * (r**2).sum((0, 2))
        self._add(cost, _slope(value.sum(), z), J.mT @ J, slope, curvature)
        return value

    def _general(
        self, cost: Cost, moved: Motion, z: torch.Tensor, slope: torch.Tensor, curvature: torch.Tensor
    ) -> torch.Tensor:
        value = cost.value(moved)
        if not value.requires_grad:
            return value
        first, blocks = hessian(cost, value, z, check=not self._checked)
        convex = torch.zeros_like(curvature)
        if blocks is not None:
            finite = blocks.isfinite().all(-1).all(-1)[..., None, None]
            values, vectors = torch.linalg.eigh(torch.where(finite, blocks, 0.0))
            convex = torch.where(finite, (vectors * values.clamp(min=0.0)[..., None, :]) @ vectors.mT, torch.nan)
        self._add(cost, first, convex, slope, curvature)
        return value

    def _add(
        self, cost: Cost, first: torch.Tensor, second: torch.Tensor, slope: torch.Tensor, curvature: torch.Tensor
    ) -> None:
        """Add the derivatives of one cost. Raises ModelError if they aren't finite in any of the first motions."""
        finite = first.isfinite().all(2).all(0) & second.isfinite().all(3).all(2).all(0)
        if not self._checked and not finite.any():
            raise no_derivative(cost, "ilqr")
        slope += first
        curvature += second


def hessian(
    cost: Cost, value: torch.Tensor, z: torch.Tensor, check: bool = True
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Compute the gradient and the diagonal blocks of the Hessian of a cost.

    Args:
        cost: the term, for messages.
        value: its value [worlds], with history.
        z: the tangents on which it depends [stages + 1, worlds, n].
        check: check that stages aren't coupled.

    Returns:
        the slope [stages + 1, worlds, n], and second derivatives in the tangents of each stage [stages + 1, worlds, n,
        n]; None if they are zero.

    Raises:
        ModelError: if there is no second derivative, or stages are coupled.
    """
    try:
        first: Any = torch.autograd.grad(value.sum(), z, create_graph=True, allow_unused=True)[0]
        if first is None:
            return torch.zeros_like(z), None
        if not first.requires_grad:
            return first, None
        if check:
            _require_separate(cost, first, z)
        columns = [_slope(first[..., k].sum(), z) for k in range(z.shape[-1])]
    except RuntimeError as error:
        raise ModelError(
            f"cost '{cost.name}' has no second derivative, which ilqr needs ({str(error).splitlines()[0]}); write it "
            "as sim.optimise.LeastSquares, or use gradient or lbfgs"
        ) from None
    blocks = torch.stack(columns, dim=-2)
    return first.detach(), 0.5 * (blocks + blocks.mT)


def _slope(value: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return the derivative of a scalar in z; zeros if it doesn't depend on it."""
    if not value.requires_grad:
        return torch.zeros_like(z)
    (found,) = torch.autograd.grad(value, z, retain_graph=True, allow_unused=True)
    return torch.zeros_like(z) if found is None else found


def _require_separate_rows(cost: LeastSquares, r: torch.Tensor, z: torch.Tensor) -> None:
    """Check that each row of residuals depends on one stage, different for each row."""
    if len(r) < 2:
        touched = _nonzero(_slope(r.abs().sum(), z)).any(-1).any(-1).sum()
        if touched > 1:
            raise _coupled(cost)
        return
    some = torch.zeros(len(r), 1, 1, dtype=r.dtype, device=r.device)
    some[::2] = 1.0
    signs = _signs(r)
    even, odd = (_slope((r * signs * mask).sum(), z) for mask in (some, 1.0 - some))
    if (_nonzero(even).any(-1) & _nonzero(odd).any(-1)).any():
        raise _coupled(cost)


def _require_separate(cost: Cost, first: torch.Tensor, z: torch.Tensor) -> None:
    """Check that the derivative in one stage doesn't depend on neighbouring stages."""
    for parity in (0, 1):
        found = _slope((first[parity::2] * _signs(first[parity::2])).sum(), z)
        if _nonzero(found[1 - parity :: 2]).any():
            raise _coupled(cost)


def _nonzero(found: torch.Tensor) -> torch.Tensor:
    """Return True where there is a derivative; NaN counts as none."""
    return found.abs() > 0.0


def _signs(like: torch.Tensor) -> torch.Tensor:
    """Return fixed random numbers, so that nothing cancels."""
    generator = torch.Generator("cpu").manual_seed(0)
    return (0.5 + torch.rand(like.shape, generator=generator, dtype=like.dtype, device="cpu")).to(like.device)


def _coupled(cost: Cost) -> ModelError:
    return ModelError(
        f"cost '{cost.name}' couples several stages; ilqr needs a sum over stages, each row depending on one stage. "
        "Use gradient or lbfgs"
    )
