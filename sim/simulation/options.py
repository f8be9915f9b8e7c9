"""Options of the contact solver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import warp as wp

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_flags
from sim.model.model import Model
from sim.model.softness import LARGEST, require_impedance
from warp_kernels.solver.projection import FRICTION_MODELS

SOLVERS = ("newton", "pgs")
LAWS = ("hard", "mujoco")
# Options that say something to one solver alone.
OWN_OPTIONS = {
    "newton": ("regularisation", "recovery_time", "iterations", "gradient_smoothing"),
    "pgs": ("sweeps", "cfm", "adjoint"),
}
# Likewise to one law.
OPTIONS_OF_LAWS = {
    "hard": (
        "regularisation", "recovery_time", "erp", "margin", "max_correction", "restitution_threshold",
        "gradient_smoothing", "warm_start",
    ),
    "mujoco": ("solref", "solimp", "impratio", "noslip_iterations", "noslip_tolerance"),
}  # fmt: skip
# What stands where an option isn't given and follows the model; a simulator has none of these in its options.
OF_THE_MODEL: Any = None
# Such options where the model has none of its own.
DEFAULTS = {"friction": "cone", "impratio": 1.0, "noslip_iterations": 0, "noslip_tolerance": 1e-6}
# MuJoCo's cones here.
CONES_OF_FILES = {"elliptic": "cone", "pyramidal": "pyramid"}
NOT_NEGATIVE = (
    "tolerance", "cfm", "margin", "max_correction", "restitution_threshold", "recovery_time", "gradient_smoothing",
    "noslip_tolerance",
)  # fmt: skip

# Largest coordinate and velocity of a world that isn't bad, by default: beyond GEO's radius in metres and the angle of
# a wheel after months, and beyond the velocity of escape and that of ultracentrifuges.
STATE_LIMIT = (1e8, 1e5)


@dataclass(frozen=True)
class ContactOptions:
    """How contacts, joint limits and dry friction are solved.

    Attributes:
        solver: "newton": the solution, by Newton's method, of a problem that ``regularisation`` makes well posed.
            "pgs": a number of sweeps of projected Gauss-Seidel. docs/contact.md says how to choose.
        law: of "newton": "hard": contacts, limits and dry friction are as hard as ``regularisation`` allows. "mujoco":
            MuJoCo's soft ones, by ``solref``, ``solimp`` and ``impratio``; see docs/contact.md for what it is for. None
            for that of the model: "mujoco" where all of it comes from MJCF files that agree (``Model.mujoco``), and
            "hard" for any other.
        sweeps: of "pgs": Gauss-Seidel sweeps per step.
        friction: "cone" (isotropic Coulomb friction) or "pyramid" (each tangent bounded on its own); with the law
            "mujoco" MuJoCo's elliptic or pyramidal cone. None for "cone", or that of the file where the law is the
            model's.
        regularisation: of "newton": inverse mass that is added to each row of a constraint, as a share of the mean
            inverse mass of its rows. A body at rest on another gives way by this share of the velocity that
            its weight would give it in a step. Friction of contacts has half of it, since what it holds creeps all the
            time.
        recovery_time: of "newton": the time, beside that of the step, in which an overlap fades [s]. This and
            ``regularisation`` are parameters of the simulator too, which have gradients.
        iterations: of "newton": the most linear systems per step; see :attr:`sim.Simulator.residual`.
        erp: part of the signed distance that one step removes; the same inside and outside the surface, so that the
            resting state lies on no kink. At 1 a body that arrives touches down exactly on the surface and stays there.
            With "newton" the part of an overlap is removed in the time step and ``recovery_time`` together.
        cfm: of "pgs": softness added to the diagonal of the Delassus matrix [1/kg].
        margin: contacts and limits closer than this, plus the way that they may close in one step, take part [m, rad].
        max_correction: largest velocity that pushes bodies apart when they overlap [m/s]. None for 1.0 with "pgs" and
            0.2 with "newton", from which gravity brakes a body before the overlap is gone, so that it doesn't hop, and
            0.01 between links of one tree.
        restitution_threshold: velocity after a bounce below which there is none [m/s], so that a ball comes to rest.
        max_contacts: room for contacts per world; None picks it from the model, 0 turns contact off.
        adjoint: of "pgs": "unrolled": the exact gradient of the sweeps that were run; "implicit": that of the solution
            to which they converge, cheaper and without their history, see :attr:`sim.Simulator.adjoint_residual`.
            "newton" has one gradient, that of its solution.
        tolerance: of "pgs": sweeps end early in a world once one changes no row's velocity by as much [m/s]; 0 for all
            sweeps. Of "newton": the residual that may be left, as a share of the momenta at hand, below 1; 0 for as
            little as rounding allows.
        gradient_smoothing: of "newton" with the friction cone: distance over which gradients are smoothed [m]; 0 for
            the exact ones. It changes nothing but the way back, see docs/gradients.md.
        solref: of the law "mujoco": one for all constraints, see :class:`sim.Softness`; None for those of the model.
            Where this or ``solimp`` is given it is a parameter of the simulator, with a gradient.
        solimp: of the law "mujoco": one for all constraints, likewise.
        impratio: of the law "mujoco": impedance of friction per that of the normal force. None for 1, and this and the
            next two for what the file says where the law is the model's.
        noslip_iterations: of the law "mujoco": the most sweeps of its noslip solver, which takes up friction alone
            after the solution, without regularisation, so that what friction holds doesn't creep; 0 and None for none.
        noslip_tolerance: of these: sweeps end once one lowers MuJoCo's scaled cost by less; 0 for all of them, None for
            1e-6.
        warm_start: of the law "hard": sweeps begin with the impulses of the step before, which are then part of the
            state, rather than with zero. "newton" begins with the velocities of the step before, and its solution
            doesn't depend on that unless bodies are wedged between each other; where many bodies press on each other it
            sweeps first, and a warm start saves time.

    Example:
        >>> import sim
        >>> sim.ContactOptions().solver
        'newton'
        >>> soft = sim.ContactOptions(law="mujoco", solref=(0.01, 1.0))
        >>> sweeps = sim.ContactOptions(solver="pgs", sweeps=20, warm_start=True)
    """

    solver: str = "newton"
    law: str | None = None
    sweeps: int = 50
    friction: str = OF_THE_MODEL
    regularisation: float = 1e-3
    recovery_time: float = 0.02
    iterations: int = 100
    erp: float = 1.0
    cfm: float = 0.0
    margin: float = 0.02
    max_correction: float | None = None
    restitution_threshold: float = 0.1
    max_contacts: int | None = None
    adjoint: str = "unrolled"
    tolerance: float = 0.0
    gradient_smoothing: float = 0.0
    solref: Sequence[float] | None = None
    solimp: Sequence[float] | None = None
    impratio: float = OF_THE_MODEL
    noslip_iterations: int = OF_THE_MODEL
    noslip_tolerance: float = OF_THE_MODEL
    warm_start: bool = False

    def __post_init__(self) -> None:
        """Check the ranges; raises ModelError naming the option."""
        require_flags("ContactOptions", warm_start=self.warm_start)
        if self.solver not in SOLVERS:
            raise ModelError(f"ContactOptions: solver is '{self.solver}'; it must be {_either(SOLVERS)}")
        if self.law is None and self.solver != "newton":
            object.__setattr__(self, "law", "hard")
        if self.law is not None:
            for name, default in DEFAULTS.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, default)
        if self.law is not None and self.law not in LAWS:
            raise ModelError(f"ContactOptions: law is '{self.law}'; it must be {_either(LAWS)}")
        if self.law == "mujoco" and self.solver != "newton":
            raise ModelError("ContactOptions: law='mujoco' is for solver='newton'; choose that solver, or law='hard'")
        for name in ("sweeps", "iterations"):
            value = getattr(self, name)
            if not is_whole(value, 1):
                raise ModelError(f"ContactOptions: {name} is {value!r}; it must be a whole number of at least 1")
        if self.friction is not None and self.friction not in FRICTION_MODELS:
            raise ModelError(f"ContactOptions: friction is '{self.friction}'; it must be {_either(FRICTION_MODELS)}")
        if self.adjoint not in ("unrolled", "implicit"):
            raise ModelError(f"ContactOptions: adjoint is '{self.adjoint}'; it must be 'unrolled' or 'implicit'")
        for name in ("erp", "regularisation", "impratio", *NOT_NEGATIVE):
            if getattr(self, name) is not None or getattr(type(self), name) is not None:
                number("ContactOptions", name, getattr(self, name))
        if not 0.0 <= self.erp <= 1.0:
            raise ModelError(f"ContactOptions: erp is {self.erp}; it must lie between 0 and 1")
        if not 0.0 < self.regularisation <= 1.0:
            raise ModelError(
                f"ContactOptions: regularisation is {self.regularisation}; it must lie above 0 and not above 1"
            )
        self._refuse_options_of_others("solver", OWN_OPTIONS)
        if self.law is not None:
            self._refuse_options_of_others("law", OPTIONS_OF_LAWS)
        require_impedance("ContactOptions", self.solref, self.solimp)
        if self.impratio is not None and not 0.0 < self.impratio <= LARGEST:
            raise ModelError(f"ContactOptions: impratio is {self.impratio}; it must be positive and finite")
        if self.gradient_smoothing > 0.0 and self.friction not in ("cone", None):
            raise ModelError(
                f"ContactOptions: gradient_smoothing is for friction='cone'; friction is '{self.friction}'. "
                "Leave gradient_smoothing out or choose the cone"
            )
        for name in NOT_NEGATIVE:
            value = getattr(self, name)
            if value is not None and not value >= 0.0:
                raise ModelError(f"ContactOptions: {name} is {getattr(self, name)}; it must not be negative")
        if not np.isfinite(self.cfm):
            raise ModelError(f"ContactOptions: cfm is {self.cfm}; it must be finite")
        if self.solver == "newton" and not self.tolerance < 1.0:
            raise ModelError(
                f"ContactOptions: tolerance is {self.tolerance}; with solver='newton' it is a share of the momenta at "
                "hand and must lie below 1"
            )
        for name in ("solref", "solimp"):
            if getattr(self, name) is not None:  # in a tuple, so that options can be compared
                object.__setattr__(self, name, tuple(map(float, np.ravel(getattr(self, name)))))
        for name in ("max_contacts", "noslip_iterations"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 0):
                raise ModelError(f"ContactOptions: {name} is {value!r}; it must be a whole number, not negative")

    def _refuse_options_of_others(self, what: str, own_options: Mapping[str, Sequence[str]]) -> None:
        """Raise for an option that the solver, or the law, doesn't have, and that isn't at its default."""
        defaults = {field.name: field.default for field in fields(self)} | DEFAULTS
        chosen = getattr(self, what)
        for other, names in own_options.items():
            for name in names:
                if other != chosen and getattr(self, name) != defaults[name]:
                    raise ModelError(
                        f'ContactOptions: {name} is for {what}="{other}"; the {what} is "{chosen}", which has '
                        f"none. Leave {name} out or choose the other {what}"
                    )

    def resolved(self, model: Model) -> "ContactOptions":
        """These options with what they leave to the model.

        Args:
            model: the model.

        Raises:
            ModelError: for an option that the model's law doesn't have.
        """
        if self.law is not None:
            return self
        own = model.mujoco
        if own is None:
            return replace(self, law="hard")
        stated = {**vars(own), "friction": CONES_OF_FILES[own.cone]}
        followed = {name: stated[name] for name in DEFAULTS if getattr(self, name) is None}
        return replace(self, law="mujoco", **followed)

    @property
    def largest_correction(self) -> float:
        """``max_correction``, or its default [m/s]."""
        if self.max_correction is not None:
            return self.max_correction
        return 0.2 if self.solver == "newton" else 1.0

    @property
    def largest_own_correction(self) -> float:
        """The same between links of one tree: those that hardly can move apart would turn their joints fast [m/s]."""
        return 0.01 if self.max_correction is None and self.solver == "newton" else self.largest_correction

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The options that a simulator has as parameters: it knows their gradients, and they may differ by world."""
        if self.solver != "newton":
            return {}
        if self.law == "mujoco":
            given = {"solref": self.solref, "solimp": self.solimp}
            return {name: np.array(value) for name, value in given.items() if value is not None}
        return {"regularisation": np.array(self.regularisation), "recovery_time": np.array(self.recovery_time)}


def checked_state_limit(where: str, state_limit: Sequence[float]) -> tuple[float, float]:
    """The limits of coordinates and velocities; raises ModelError unless they are two positive numbers."""
    try:
        largest_q, largest_qd = map(float, state_limit)
    except (TypeError, ValueError):
        largest_q = largest_qd = -1.0
    if not (largest_q > 0.0 and largest_qd > 0.0):
        raise ModelError(
            f"{where}: state_limit is {state_limit!r}; it must be two positive numbers, the largest coordinate and the "
            "largest velocity, infinite for none"
        )
    return largest_q, largest_qd


def require_regular(regularisation: np.ndarray, scalar: Any) -> None:
    """Check that "newton" can tell its regularisation from rounding in this precision; raises ModelError if not."""
    least = 500.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    if regularisation.min() < least:
        raise ModelError(
            f"ContactOptions: regularisation is {regularisation.min():g}; with {scalar.__name__} it must be at "
            f"least {least:.0e}, or what it adds is lost in rounding"
        )


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(map(repr, choices))
