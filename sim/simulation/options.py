"""Contact methods: contact law and solver, each class with its own options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import warp as wp

from sim.errors import ModelError
from sim.model.checks import UNREADABLE, is_whole, items_of, number, require_flags
from sim.model.model import Model, MujocoOptions
from sim.model.softness import LARGEST, require_impedance
from warp_kernels.solver.projection import FRICTION_MODELS

# Default of an option that follows the model; the contact method of a simulator never has it.
OF_THE_MODEL: Any = None
# Names of MuJoCo's cones in this package.
CONES_OF_FILES = {"elliptic": "cone", "pyramidal": "pyramid"}

Range = tuple[Callable[[float], bool], str]
NOT_NEGATIVE: Range = (lambda value: value >= 0.0, "not be negative")
# Range of each number with its description; minimum of each whole number; choices of each name.
NUMBERS: Mapping[str, Range] = {
    "tolerance": (lambda value: 0.0 <= value < 1.0, "lie in [0, 1), as a fraction of the momenta"),
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

# Default limits of coordinates and velocities: beyond the radius of the geostationary orbit in metres and the angle of
# a wheel after months, and beyond escape velocity and the speed of ultracentrifuges.
STATE_LIMIT = (1e8, 1e5)


@dataclass(frozen=True, kw_only=True)
class ContactMethod:
    """Method for contacts, joint limits and dry friction: base of four classes, each with its own options.

    - :class:`sim.HardContact`: hard contact, solved by Newton's method.
    - :class:`sim.MujocoContact`: MuJoCo's soft contact, solved by Newton's method.
    - :class:`sim.PgsContact`: hard contact, by sweeps of projected Gauss-Seidel.
    - :class:`sim.ModelContact`, the default: the first or the second, as the model's file asks.

    An option that a class doesn't have raises ``TypeError``, and a value out of range :class:`sim.ModelError`.

    Attributes:
        friction: friction model, "cone" or "pyramid".
        tolerance: stopping criterion of the solver; its unit depends on the class.
        max_contacts: contact capacity per world. Default: chosen from the model; 0 disables contact.

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
        """Check the ranges; raise ModelError naming class and option."""
        where = type(self).__name__
        if type(self) is ContactMethod:
            raise TypeError("ContactMethod is abstract; use a subclass such as sim.HardContact")
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if name in ("solref", "solimp"):
                require_impedance(where, **{name: value})
                # A tuple, so that options can be compared.
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
                if not (isinstance(value, str) and value in CHOICES[name]):
                    choices = " or ".join(map(repr, CHOICES[name]))
                    raise ModelError(f"{where}: {name} is {value!r}; it must be {choices}")
            else:
                require_flags(where, **{name: value})

    def resolved(self, model: Model) -> "ContactMethod":
        """Return the method that steps a model: this one, unless it follows the model.

        Args:
            model: the model.

        Raises:
            ModelError: for an option that the model's law doesn't have.
        """
        return self

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Return the options that are also parameters of a simulator: they have gradients and may differ by world."""
        return {}

    # Defaults that the engine reads where a class has no such option.

    @property
    def warm_start(self) -> bool:
        """Return whether the impulses of the previous step are the initial guess of the next."""
        return False

    @property
    def gradient_smoothing(self) -> float:
        """Return the distance over which gradients are smoothed [m]."""
        return 0.0

    @property
    def noslip(self) -> bool:
        """Return whether hard friction is solved twice."""
        return False

    @property
    def noslip_iterations(self) -> int:
        """Return the maximum number of sweeps of MuJoCo's noslip solver."""
        return 0

    @property
    def cfm(self) -> float:
        """Return the compliance added to the diagonal of the Delassus matrix [1/kg]."""
        return 0.0

    @property
    def by_matrix(self) -> bool:
        """Return whether the solver works on the full Delassus matrix rather than on single rows."""
        return False


@dataclass(frozen=True, kw_only=True)
class HardContact(ContactMethod):
    """Hard contacts, joint limits and dry friction, solved by Newton's method.

    ``regularisation`` makes the problem of a step well posed: it has one solution, which the solver finds.

    Attributes:
        friction: "cone" for isotropic Coulomb friction, or "pyramid", which bounds each tangential direction
            separately.
        tolerance: residual at which the iteration stops, as a fraction of the momenta of the step, below 1; 0 to
            iterate down to rounding.
        max_contacts: contact capacity per world. Default: chosen from the model; 0 disables contact.
        iterations: maximum number of linear systems per step; see :attr:`sim.Simulator.residual`.
        regularisation: inverse mass added to each constraint row, as a fraction of the mean inverse mass of its rows. A
            body at rest on another sinks in by this fraction of the velocity that gravity would give it in a step.
            Contact friction has half of it, since stick creep accumulates.
        noslip: solve each step twice, the second time with friction shifted by the impulses of the first. Sticking
            contacts and dry friction then creep about a thousandth as fast.
        recovery_time: time in which penetration decays, in addition to the time step [s]. This and ``regularisation``
            are also parameters of the simulator, with gradients.
        erp: fraction of the signed distance removed: of a gap in one step, of a penetration in the time step plus
            ``recovery_time``. The two agree at the surface, so that the resting state is not at a kink. With 1 a
            falling body touches down exactly on the surface and stays there.
        margin: contacts and limits closer than this, plus the distance that they may close in one step, are candidates
            [m, rad].
        max_correction: maximum depenetration velocity [m/s]. Default: 0.2, which gravity stops before the penetration
            is gone, so that bodies don't hop; 0.01 between links of one tree.
        restitution_threshold: minimum velocity after a bounce [m/s]; slower bounces are suppressed, so that a ball
            comes to rest.
        gradient_smoothing: distance over which gradients are smoothed [m], with the friction cone; 0 for exact
            gradients. It affects the backward pass only, see docs/gradients.md.
        warm_start: start sweeps from the impulses of the previous step, which are then part of the state, instead of
            zero. This saves time where many bodies press on each other, since the solver sweeps first there. Newton's
            method always starts from the velocities of the previous step; its solution doesn't depend on the initial
            guess unless bodies are wedged between each other.

    Example:
        >>> import sim
        >>> stiff = sim.HardContact(regularisation=1e-4)
    """

    iterations: int = 100
    regularisation: float = 1e-3
    noslip: bool = False
    recovery_time: float = 0.02
    erp: float = 1.0
    margin: float = 0.02
    max_correction: float | None = None
    restitution_threshold: float = 0.1
    gradient_smoothing: float = 0.0
    warm_start: bool = False

    def __post_init__(self) -> None:
        """Check the ranges and what gradient smoothing requires; raise ModelError naming the option."""
        super().__post_init__()
        if self.gradient_smoothing > 0.0 and self.friction != "cone":
            raise ModelError(
                f"HardContact: gradient_smoothing requires friction='cone', but friction is '{self.friction}'; "
                "remove gradient_smoothing or choose the cone"
            )
        if self.gradient_smoothing > 0.0 and self.noslip:
            raise ModelError("HardContact: gradient_smoothing doesn't combine with noslip; remove one of them")

    @property
    def corrections(self) -> tuple[float, float]:
        """Return the maximum depenetration velocity, and that between links of one tree [m/s].

        The second is lower because joints of small inertia would turn fast.
        """
        return (0.2, 0.01) if self.max_correction is None else (self.max_correction, self.max_correction)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Return the regularisation and the recovery time."""
        return {"regularisation": np.array(self.regularisation), "recovery_time": np.array(self.recovery_time)}


@dataclass(frozen=True, kw_only=True)
class MujocoContact(ContactMethod):
    """MuJoCo's soft contacts, joint limits and dry friction, solved by Newton's method; see docs/contact/mujoco.md.

    :func:`sim.mujoco_settings` returns the options that an MJCF file states.

    Attributes:
        friction: "cone" for MuJoCo's elliptic cone, or "pyramid" for its pyramidal one.
        tolerance: residual at which the iteration stops, as a fraction of the momenta of the step, below 1; 0 to
            iterate down to rounding.
        max_contacts: contact capacity per world. Default: chosen from the model; 0 disables contact.
        iterations: maximum number of linear systems per step; see :attr:`sim.Simulator.residual`.
        solref: one value for all constraints, see :class:`sim.Softness`. Default: the values of the model. If
            ``solref`` or ``solimp`` is given, it is also a parameter of the simulator, with a gradient.
        solimp: one value for all constraints, likewise.
        impratio: ratio of friction impedance to normal impedance.
        noslip_iterations: maximum number of sweeps of the noslip solver, which then solves friction again without
            regularisation, so that sticking contacts don't creep; 0 for none.
        noslip_tolerance: decrease of MuJoCo's scaled cost in a sweep below which sweeps end; 0 for all sweeps.

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
        """Return ``solref`` and ``solimp`` where they are given."""
        given = {"solref": self.solref, "solimp": self.solimp}
        return {name: np.array(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class PgsContact(ContactMethod):
    """Hard contacts, joint limits and dry friction, solved by sweeps of projected Gauss-Seidel (PGS).

    Attributes:
        friction: "cone" for isotropic Coulomb friction, or "pyramid", which bounds each tangential direction
            separately.
        tolerance: largest change of a row's velocity in a sweep at which a world stops [m/s]; 0 for all sweeps.
        max_contacts: contact capacity per world. Default: chosen from the model; 0 disables contact.
        sweeps: maximum number of sweeps per step.
        cfm: compliance added to the diagonal of the Delassus matrix [1/kg].
        adjoint: "unrolled" for the exact gradient of the sweeps that were run, or "implicit" for the gradient of the
            solution to which they converge, which is cheaper and stores no sweeps, see
            :attr:`sim.Simulator.adjoint_residual`.
        erp: fraction of the signed distance removed in one step, the same for a gap and a penetration, so that the
            resting state is not at a kink. With 1 a falling body touches down exactly on the surface and stays there.
        margin: contacts and limits closer than this, plus the distance that they may close in one step, are candidates
            [m, rad].
        max_correction: maximum depenetration velocity [m/s].
        restitution_threshold: minimum velocity after a bounce [m/s]; slower bounces are suppressed, so that a ball
            comes to rest.
        warm_start: start sweeps from the impulses of the previous step, which are then part of the state, instead of
            zero.

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
        """Return True."""
        return True

    @property
    def corrections(self) -> tuple[float, float]:
        """Return the maximum depenetration velocity twice: it is the same between links of one tree [m/s]."""
        return self.max_correction, self.max_correction


@dataclass(frozen=True, kw_only=True)
class ModelContact(ContactMethod):
    """Contact as the model's file states it: the default of a simulator.

    A model built only from MJCF files that agree (``Model.mujoco``) has MuJoCo's contact with the options of the files,
    overridden by those given here; the integrator follows the file too. Every other model has hard contact.
    :attr:`sim.Simulator.contact` is then the :class:`sim.MujocoContact` or :class:`sim.HardContact`.

    Attributes:
        friction: as in these classes. Default: that of the file, or "cone".
        tolerance: as in these classes, where it means the same.
        max_contacts: contact capacity per world. Default: chosen from the model; 0 disables contact.
        iterations: maximum number of linear systems per step; see :attr:`sim.Simulator.residual`.
        solref, solimp, impratio, noslip_iterations, noslip_tolerance: as in :class:`sim.MujocoContact`; for models
            built only from MJCF files. Default: those of the file.

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
        """Return the method of the model's law; raise ModelError for an option that the law doesn't have."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        if model.mujoco is not None:
            return contact_of_file(model.mujoco, **given)
        for name in given:
            if name not in HardContact.__dataclass_fields__:
                raise ModelError(
                    f"ModelContact: {name} requires MuJoCo's contact, but this model has hard contact, since not all "
                    f"of it is from MJCF files; remove {name} or choose sim.MujocoContact"
                )
        return HardContact(**given)


def contact_of_file(stated: MujocoOptions, **given: Any) -> MujocoContact:
    """Return MuJoCo's contact with the options of an MJCF file, overridden by those given."""
    names = ("impratio", "noslip_iterations", "noslip_tolerance")
    own = {"friction": CONES_OF_FILES[stated.cone], **{name: getattr(stated, name) for name in names}}
    return MujocoContact(**{**own, **given})


def hard_options(contact: ContactMethod) -> HardContact | PgsContact:
    """Return the options of the hard law; its defaults for MuJoCo's law, whose equations don't use them."""
    return contact if isinstance(contact, HardContact | PgsContact) else _DEFAULT


_DEFAULT = HardContact()


def checked_state_limit(where: str, state_limit: Sequence[float]) -> tuple[float, float]:
    """Return the limits of coordinates and velocities; raise ModelError unless they are two positive numbers."""
    try:
        largest_q, largest_qd = map(float, items_of("state_limit", state_limit, "two numbers"))
    except UNREADABLE:
        largest_q = largest_qd = -1.0
    if not (largest_q > 0.0 and largest_qd > 0.0):
        raise ModelError(
            f"{where}: state_limit is {state_limit!r}; it must be two positive numbers: maximum coordinate and maximum "
            "velocity, infinite for no limit"
        )
    return largest_q, largest_qd


def require_regular(regularisation: np.ndarray, scalar: Any) -> None:
    """Check that the regularisation of Newton's method is above rounding; raise ModelError if not."""
    least = 500.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    if regularisation.min() < least:
        raise ModelError(
            f"HardContact: regularisation is {regularisation.min():g}; with {scalar.__name__} it must be at "
            f"least {least:.0e} to be above rounding"
        )
