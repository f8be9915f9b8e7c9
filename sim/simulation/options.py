"""Options of the contact solver."""

from dataclasses import dataclass

from sim.errors import ModelError
from sim.model.checks import is_whole
from warp_kernels.solver.projection import FRICTION_MODELS


@dataclass(frozen=True)
class ContactOptions:
    """How contacts, joint limits and dry friction are solved.

    Attributes:
        sweeps: Gauss-Seidel sweeps per step.
        friction: "cone" (isotropic Coulomb friction) or "pyramid" (each tangent bounded on its own).
        erp: part of the signed distance that one step removes; the same inside and outside the surface, so that the
            resting state lies on no kink. At 1 a body that arrives touches down exactly on the surface and stays there.
        cfm: softness added to the diagonal of the Delassus matrix [1/kg].
        margin: contacts and limits closer than this, plus the way that they may close in one step, take part [m, rad].
        max_correction: largest velocity that pushes bodies apart when they overlap [m/s].
        restitution_threshold: velocity after a bounce below which there is none [m/s], so that a ball comes to rest.
        max_contacts: room for contacts per world; None picks it from the model, 0 turns contact off.
        adjoint: "unrolled": the exact gradient of the sweeps that were run; "implicit": that of the solution to which
            they converge, cheaper and without their history, see :attr:`sim.Simulator.adjoint_residual`.
        tolerance: sweeps end early in a world once one changes no row's velocity by as much [m/s]; 0 for all sweeps.
        warm_start: begin with the impulses of the step before, which are then part of the state, rather than with zero.
    """

    sweeps: int = 50
    friction: str = "cone"
    erp: float = 1.0
    cfm: float = 0.0
    margin: float = 0.02
    max_correction: float = 1.0
    restitution_threshold: float = 0.1
    max_contacts: int | None = None
    adjoint: str = "unrolled"
    tolerance: float = 0.0
    warm_start: bool = False

    def __post_init__(self) -> None:
        """Check the ranges; raises ModelError naming the option."""
        if not is_whole(self.sweeps, 1):
            raise ModelError(f"ContactOptions: sweeps is {self.sweeps!r}; it must be a whole number of at least 1")
        if self.friction not in FRICTION_MODELS:
            raise ModelError(
                f"ContactOptions: friction is '{self.friction}'; it must be {' or '.join(map(repr, FRICTION_MODELS))}"
            )
        if self.adjoint not in ("unrolled", "implicit"):
            raise ModelError(f"ContactOptions: adjoint is '{self.adjoint}'; it must be 'unrolled' or 'implicit'")
        if not 0.0 <= self.erp <= 1.0:
            raise ModelError(f"ContactOptions: erp is {self.erp}; it must lie between 0 and 1")
        for name in ("tolerance", "cfm", "margin", "max_correction", "restitution_threshold"):
            if not getattr(self, name) >= 0.0:
                raise ModelError(f"ContactOptions: {name} is {getattr(self, name)}; it must not be negative")
        if self.max_contacts is not None and not is_whole(self.max_contacts, 0):
            raise ModelError(
                f"ContactOptions: max_contacts is {self.max_contacts!r}; it must be a whole number, not negative"
            )
