"""Shared by the tasks: files of robots, and laws of contact."""

from importlib import metadata
from pathlib import Path

from sim.errors import ModelError
from sim.simulation.options import ContactMethod, HardContact, MujocoContact

LAWS: dict[str, ContactMethod] = {"hard": HardContact(), "mujoco": MujocoContact(friction="pyramid")}
BUNDLED = Path(__file__).parents[3] / "scenes" / "robots"  # in the same distribution


def contact_of(law: str, task: str) -> ContactMethod:
    """Return the options of a law of contact, "hard" or "mujoco". Raises ModelError for others, naming the task."""
    if not isinstance(law, str) or law not in LAWS:
        raise ModelError(f"{task}: law is {law!r}; it must be {' or '.join(map(repr, LAWS))}")
    return LAWS[law]


def example_robot(path: str) -> Path:
    """Return a file of the package example-robot-data.

    Args:
        path: end of its path, such as "panda_description/urdf/panda.urdf".

    Raises:
        ModelError: if the package isn't installed, or doesn't have the file.

    Example:
        >>> from sim.envs.tasks.common import example_robot
        >>> example_robot("go2_description/urdf/go2.urdf").name
        'go2.urdf'
    """
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        name = Path(path).name
        raise ModelError(f"{name} comes with example-robot-data: pip install 'backswing[robots]'") from None
    for file in files:
        if file.match(path):
            return Path(str(file.locate()))
    raise ModelError(f"example-robot-data has no file {path}; install a newer version")
