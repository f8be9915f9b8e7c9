"""Contact methods: a law of contact with the solver of its equations, each with its own options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import warp as wp

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_flags
from sim.model.model import Model, MujocoOptions
from sim.model.softness import LARGEST, require_impedance
from warp_kernels.solver.projection import FRICTION_MODELS

# The default of an option that follows the model; a simulator has none of these in its contact method.
OF_THE_MODEL: Any = None
# MuJoCo's cones here.
CONES_OF_FILES = {"elliptic": "cone", "pyramidal": "pyramid"}

Range = tuple[Callable[[float], bool], str]
NOT_NEGATIVE: Range = (lambda value: value >= 0.0, "not be negative")
# The range of each number, and the words for it; whole numbers with their least values; names with their choices.
NUMBERS: Mapping[str, Range] = {
    "tolerance": (lambda value: 0.0 <= value < 1.0, "not be negative, and lie below 1: it is a share of the momenta"),
    "regularisation": (lambda value: 0.0 < value <= 1.0, "lie above 0 and not above 1"),
    "erp": (lambda value: 0.0 <= value <= 1.0, "lie between 0 and 1"),
    "cfm": (lambda value: 0.0 <= value < np.inf, "be finite, not negative"),
    "impratio": (lambda value: 0.0 < value <= LARGEST, "be positive and finite"),
    **dict.fromkeys(
        (
            "recovery_time", "margin", "max_correction", "restitution_threshold", "gradient_smoothing",
            "noslip_tolerance",
        ),
        NOT_NEGATIVE,
    ),
}  # fmt: skip
WHOLE = {"sweeps": 1, "iterations": 1, "max_contacts": 0, "noslip_iterations": 0}
CHOICES = {"friction": FRICTION_MODELS, "adjoint": ("unrolled", "implicit")}

# Largest coordinate and velocity of a world that isn't bad, by default: beyond GEO's radius in metres and the angle of
# a wheel after months, and beyond the velocity of escape and that of ultracentrifuges.
STATE_LIMIT = (1e8, 1e5)


@dataclass(frozen=True, kw_only=True)
class ContactMethod:
    """How contacts, joint limits and dry friction are solved: the base of four classes, each with its own options.

    - :class:`sim.HardContact`: hard contact, solved by Newton's method.
    - :class:`sim.MujocoContact`: MuJoCo's soft contact, solved by Newton's method.
    - :class:`sim.PgsContact`: hard contact, by sweeps of projected Gauss-Seidel.
    - :class:`sim.ModelContact`, the default: the first or the second, as the model's file asks.

    An option that a class doesn't have is a ``TypeError``, and a value out of range a :class:`sim.ModelError`.

    Attributes:
        friction: model of friction, "cone" or "pyramid".
        tolerance: when the solver stops; its unit depends on the class.
        max_contacts: capacity for contacts per world; None picks it from the model, 0 turns contact off.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ball = scene.add_sphere(radius=0.1, mass=1.0)
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu", contact=sim.PgsContact(sweeps=20))
        >>> simulator.contact.sweeps, isinstance(simulator.contact, sim.HardContact)
        (20, False)
    """

    friction: str = "cone"
    tolerance: float = 0.0
    max_contacts: int | None = None
    _numbers: ClassVar[Mapping[str, Range]] = NUMBERS

    def __post_init__(self) -> None:
        """Check the ranges; raises ModelError naming class and option."""
        where = type(self).__name__
        if type(self) is ContactMethod:
            raise TypeError("ContactMethod has no law; call a class derived from it, such as sim.HardContact")
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if name in ("solref", "solimp"):
                require_impedance(where, **{name: value})
                # In a tuple, so that options can be compared.
                object.__setattr__(self, name, tuple(map(float, np.ravel(value))))
            elif name in self._numbers:
                within, words = self._numbers[name]
                if not within(number(where, name, value)):
                    raise ModelError(f"{where}: {name} is {value}; it must {words}")
            elif name in WHOLE:
                least = WHOLE[name]
                if not is_whole(value, least):
                    raise ModelError(f"{where}: {name} is {value!r}; it must be a whole number of at least {least}")
            elif name in CHOICES:
                if value not in CHOICES[name]:
                    choices = " or ".join(map(repr, CHOICES[name]))
                    raise ModelError(f"{where}: {name} is {value!r}; it must be {choices}")
            else:
                require_flags(where, **{name: value})

    def resolved(self, model: Model) -> "ContactMethod":
        """Return the method with which a model is stepped: this one, unless it follows the model.

        Args:
            model: the model.

        Raises:
            ModelError: for an option that the model's law doesn't have.
        """
        return self

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The options that a simulator has as parameters: it knows their gradients, and they may differ by world."""
        return {}

    # What the engine reads of any method, where a class has no such option.

    @property
    def warm_start(self) -> bool:
        """Whether a step begins with the impulses of the step before."""
        return False

    @property
    def gradient_smoothing(self) -> float:
        """Distance over which gradients are smoothed [m]."""
        return 0.0

    @property
    def noslip_iterations(self) -> int:
        """The most sweeps of MuJoCo's noslip solver."""
        return 0

    @property
    def cfm(self) -> float:
        """Compliance that is added to the diagonal of the Delassus matrix [1/kg]."""
        return 0.0

    @property
    def by_matrix(self) -> bool:
        """Whether the solver works on the Delassus matrix of all rows, and not on the rows."""
        return False


@dataclass(frozen=True, kw_only=True)
class HardContact(ContactMethod):
    """Hard contacts, joint limits and dry friction, solved by Newton's method.

    The problem of a step is made well posed by ``regularisation``, and the solver finds its one solution.

    Attributes:
        friction: "cone" for isotropic Coulomb friction, or "pyramid", which bounds each tangential direction on its
            own.
        tolerance: the residual at which the iteration stops, as a share of the momenta of the step, below 1; 0 for as
            small as rounding allows.
        max_contacts: capacity for contacts per world; None picks it from the model, 0 turns contact off.
        iterations: the most linear systems per step; see :attr:`sim.Simulator.residual`.
        regularisation: inverse mass that is added to each row of a constraint, as a share of the mean inverse mass of
            its rows. A body at rest on another gives way by this share of the velocity that its weight would give it
            in a step. Friction of contacts has half of it, since stick creep accumulates.
        recovery_time: the time in which penetration fades, in addition to the time step [s]. This and
            ``regularisation`` are parameters of the simulator too, which have gradients.
        erp: part of a signed distance that is removed: of a gap in one step, of a penetration in the time step and
            ``recovery_time`` together. It is the same inside and outside the surface, so that the resting state lies on
            no kink. At 1 a body that arrives touches down exactly on the surface and stays there.
        margin: contacts and limits closer than this, plus the distance that they may close in one step, are
            candidates [m, rad].
        max_correction: maximum depenetration velocity [m/s]. Default: 0.2, from which gravity brakes a body before the
            penetration is gone, so that it doesn't hop, and 0.01 between links of one tree.
        restitution_threshold: velocity after a bounce below which there is none [m/s], so that a ball comes to rest.
        gradient_smoothing: with the friction cone: distance over which gradients are smoothed [m]; 0 for the exact
            ones. It changes the backward pass only, see docs/gradients.md.
        warm_start: sweeps begin with the impulses of the step before, which are then part of the state, rather than
            with zero. The iteration always begins with the velocities of the step before, and its solution doesn't
            depend on that unless bodies are wedged between each other. Where many bodies press on each other the solver
            sweeps first, and a warm start saves time.

    Example:
        >>> import sim
        >>> stiff = sim.HardContact(regularisation=1e-4)
    """

    iterations: int = 100
    regularisation: float = 1e-3
    recovery_time: float = 0.02
    erp: float = 1.0
    margin: float = 0.02
    max_correction: float | None = None
    restitution_threshold: float = 0.1
    gradient_smoothing: float = 0.0
    warm_start: bool = False

    def __post_init__(self) -> None:
        """Check the ranges, and that smoothed gradients are those of a cone; raises ModelError naming the option."""
        super().__post_init__()
        if self.gradient_smoothing > 0.0 and self.friction != "cone":
            raise ModelError(
                f"HardContact: gradient_smoothing is for friction='cone'; friction is '{self.friction}'. "
                "Leave gradient_smoothing out or choose the cone"
            )

    @property
    def corrections(self) -> tuple[float, float]:
        """Maximum depenetration velocity, and that between links of one tree, whose joints might turn fast [m/s]."""
        return (0.2, 0.01) if self.max_correction is None else (self.max_correction, self.max_correction)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The regularisation and the recovery time."""
        return {"regularisation": np.array(self.regularisation), "recovery_time": np.array(self.recovery_time)}


@dataclass(frozen=True, kw_only=True)
class MujocoContact(ContactMethod):
    """MuJoCo's soft contacts, joint limits and dry friction, solved by Newton's method; see docs/contact/mujoco.md.

    :func:`sim.mujoco_settings` has the options that an MJCF file states.

    Attributes:
        friction: "cone" for MuJoCo's elliptic cone, or "pyramid" for its pyramidal one.
        tolerance: the residual at which the iteration stops, as a share of the momenta of the step, below 1; 0 for as
            small as rounding allows.
        max_contacts: capacity for contacts per world; None picks it from the model, 0 turns contact off.
        iterations: the most linear systems per step; see :attr:`sim.Simulator.residual`.
        solref: one for all constraints, see :class:`sim.Softness`; None for those of the model. If this or ``solimp``
            is given it is a parameter of the simulator, with a gradient.
        solimp: one for all constraints, likewise.
        impratio: impedance of friction per that of the normal force.
        noslip_iterations: the most sweeps of the noslip solver, which solves friction alone after the solution, without
            regularisation, so that sticking contacts don't creep; 0 for none.
        noslip_tolerance: sweeps end once one lowers MuJoCo's scaled cost by less; 0 for all of them.

    Example:
        >>> import sim
        >>> soft = sim.MujocoContact(solref=(0.01, 1.0), friction="pyramid")
    """

    iterations: int = 100
    solref: Sequence[float] | None = None
    solimp: Sequence[float] | None = None
    impratio: float = 1.0
    noslip_iterations: int = 0
    noslip_tolerance: float = 1e-6

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Those of ``solref`` and ``solimp`` that are given."""
        given = {"solref": self.solref, "solimp": self.solimp}
        return {name: np.array(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class PgsContact(ContactMethod):
    """Hard contacts, joint limits and dry friction, by sweeps of projected Gauss-Seidel.

    Attributes:
        friction: "cone" for isotropic Coulomb friction, or "pyramid", which bounds each tangential direction on its
            own.
        tolerance: sweeps end early in a world once one changes no row's velocity by as much [m/s]; 0 for all sweeps.
        max_contacts: capacity for contacts per world; None picks it from the model, 0 turns contact off.
        sweeps: the most sweeps per step.
        cfm: compliance that is added to the diagonal of the Delassus matrix [1/kg].
        adjoint: "unrolled": the exact gradient of the sweeps that were run; "implicit": that of the solution to which
            they converge, cheaper and without their history, see :attr:`sim.Simulator.adjoint_residual`.
        erp: part of a signed distance that one step removes; the same inside and outside the surface, so that the
            resting state lies on no kink. At 1 a body that arrives touches down exactly on the surface and stays there.
        margin: contacts and limits closer than this, plus the distance that they may close in one step, are
            candidates [m, rad].
        max_correction: maximum depenetration velocity [m/s].
        restitution_threshold: velocity after a bounce below which there is none [m/s], so that a ball comes to rest.
        warm_start: sweeps begin with the impulses of the step before, which are then part of the state, rather than
            with zero.

    Example:
        >>> import sim
        >>> sweeps = sim.PgsContact(sweeps=20, warm_start=True)
    """

    sweeps: int = 50
    cfm: float = 0.0
    adjoint: str = "unrolled"
    erp: float = 1.0
    margin: float = 0.02
    max_correction: float = 1.0
    restitution_threshold: float = 0.1
    warm_start: bool = False
    _numbers: ClassVar[Mapping[str, Range]] = {**NUMBERS, "tolerance": NOT_NEGATIVE}

    @property
    def by_matrix(self) -> bool:
        """Return true."""
        return True

    @property
    def corrections(self) -> tuple[float, float]:
        """The maximum depenetration velocity, twice: it is the same between links of one tree [m/s]."""
        return self.max_correction, self.max_correction


@dataclass(frozen=True, kw_only=True)
class ModelContact(ContactMethod):
    """The contact that the model's file asks for: the default of a simulator.

    A model that is wholly from MJCF files that agree (``Model.mujoco``) has MuJoCo's contact with the options of the
    files, which those given here replace; so does the integrator follow the file. Every other model has hard contact.
    :attr:`sim.Simulator.contact` is then the :class:`sim.MujocoContact` or :class:`sim.HardContact`.

    Attributes:
        friction: as in these classes. Default: that of the file, or "cone".
        tolerance: as in these classes, where it means the same.
        max_contacts: capacity for contacts per world; None picks it from the model, 0 turns contact off.
        iterations: the most linear systems per step; see :attr:`sim.Simulator.residual`.
        solref, solimp, impratio, noslip_iterations, noslip_tolerance: as in :class:`sim.MujocoContact`; for models that
            are wholly from MJCF files. Default: those of the file.

    Example:
        >>> import sim
        >>> method = sim.ModelContact(max_contacts=20)
    """

    friction: str = OF_THE_MODEL
    iterations: int = 100
    solref: Sequence[float] | None = None
    solimp: Sequence[float] | None = None
    impratio: float = OF_THE_MODEL
    noslip_iterations: int = OF_THE_MODEL
    noslip_tolerance: float = OF_THE_MODEL

    def resolved(self, model: Model) -> ContactMethod:
        """Return the method of the model's law; raises ModelError for an option that this doesn't have."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        if model.mujoco is not None:
            return contact_of_file(model.mujoco, **given)
        for name in given:
            if name not in HardContact.__dataclass_fields__:
                raise ModelError(
                    f"ModelContact: {name} is for MuJoCo's contact; this model isn't wholly from MJCF files, so its "
                    f"contact is hard. Leave {name} out or choose sim.MujocoContact"
                )
        return HardContact(**given)


def contact_of_file(stated: MujocoOptions, **given: Any) -> MujocoContact:
    """MuJoCo's contact with the options of an MJCF file, but for those given."""
    names = ("impratio", "noslip_iterations", "noslip_tolerance")
    own = {"friction": CONES_OF_FILES[stated.cone], **{name: getattr(stated, name) for name in names}}
    return MujocoContact(**{**own, **given})


def hard_options(contact: ContactMethod) -> HardContact | PgsContact:
    """Options of the hard law; the default ones for MuJoCo's, whose equations have none of them."""
    return contact if isinstance(contact, HardContact | PgsContact) else _DEFAULT


_DEFAULT = HardContact()


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
    """Check that Newton's method can tell its regularisation from rounding; raises ModelError if not."""
    least = 500.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    if regularisation.min() < least:
        raise ModelError(
            f"HardContact: regularisation is {regularisation.min():g}; with {scalar.__name__} it must be at "
            f"least {least:.0e}, or what it adds is lost in rounding"
        )
