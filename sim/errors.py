"""The errors that Backswing raises on purpose."""

LONGEST_MESSAGE = 8000  # characters; a message may quote what a caller or a file has given


class ModelError(ValueError):
    """A model that can't be built or simulated; the message names the link, joint or geometry and what to do.

    Example:
        >>> import sim
        >>> try:
        ...     sim.load("scenes/robots/manipulator.urdf").q_slice("elbow")
        ... except sim.ModelError as error:
        ...     print("elbow" in str(error))
        True
    """

    def __init__(self, message: object = ""):
        super().__init__(_shortened(str(message)))


class ImportFileError(ModelError):
    """A file that can't be read as a model; the message names the file and the element.

    Example:
        >>> import sim
        >>> try:
        ...     sim.load("nowhere.urdf")
        ... except sim.ImportFileError as error:
        ...     print("nowhere.urdf" in str(error))
        True
    """

    def __init__(self, path: object, message: str, element: str | None = None):
        where = f"{path}" if element is None else f"{path}: {element}"
        super().__init__(f"{where}: {message}")


def _shortened(message: str) -> str:
    """Return a message without its middle if it is long."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} [...] {message[-half:]}"


class GradientError(ArithmeticError):
    """A gradient that is wrong; the message is the report of :func:`sim.check_gradients`."""


class URDFWarning(UserWarning):
    """Something in a URDF file that was skipped, or read in a way that its author may not expect."""


class SDFWarning(UserWarning):
    """Something in an SDF file that was skipped, or read in a way that its author may not expect."""


class USDWarning(UserWarning):
    """Something in a USD file that was skipped, or read in a way that its author may not expect."""


class MJCFWarning(UserWarning):
    """Something in an MJCF file that was skipped, or that means something else here than in MuJoCo."""


class ContactOverflowWarning(UserWarning):
    """Contacts exceeded max_contacts and were dropped; the message says how many, where, and what to do."""


class NotFiniteWarning(UserWarning):
    """States of a rollout are not finite, or beyond the simulator's ``state_limit``; the message says in which world
    and from which step on.
    """


class OverlapWarning(UserWarning):
    """Bodies overlap deeply at the start; the message says which, and by how much."""


class OpenConstraintWarning(UserWarning):
    """A point or weld constraint is open so far that it closes at ``max_correction`` only; the message names it."""


class StabilityWarning(UserWarning):
    """Something in a model is too stiff for the time step; the message names it and says what to do."""
