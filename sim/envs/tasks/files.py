"""Files of the robots of tasks."""

from importlib import metadata
from pathlib import Path

from sim.errors import ModelError

BUNDLED = Path(__file__).parents[3] / "scenes" / "robots"  # in the same distribution


def example_robot(path: str) -> Path:
    """Return a file of the package example-robot-data.

    Args:
        path: end of its path, such as "panda_description/urdf/panda.urdf".

    Raises:
        ModelError: if the package isn't installed, or doesn't have the file.

    Example:
        >>> from sim.envs.tasks.files import example_robot
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
