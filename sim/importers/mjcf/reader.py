"""State shared by the parts of the MJCF importer: the file, the builder, names and frames."""

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from sim.importers.mjcf.source.file import MJCFFile
from sim.model.builder import WorldBuilder
from sim.model.poses import IDENTITY, compose
from sim.model.specs import WORLD


@dataclass
class Reader:
    """An import in progress.

    Attributes:
        file: the compiled file.
        builder: the builder that the file is added to.
        prefix: prefix of all names.
        base: pose of the file's world in the world [7].
        links: name of the link of each body.
        frames: pose of each body's frame in its link [nbody][7]; a link's frame is at its joint, a body's need not be.
        carriers: link with the geometry of each body, and the pose of the body's frame in it. For static bodies this is
            the world, as in MuJoCo, so that their geometry collides with links hinged to them.
        joints: name of each joint of the file.
        actuators: name of each supported actuator of the file.
        sites: name of the frame of each named site.
        tendons: name of each tendon, by its index in the file.
        mocap_moves: whether mocap bodies have a velocity, on kinematic free joints.
        notes: warnings to issue at the end.
    """

    file: MJCFFile
    builder: WorldBuilder
    prefix: str
    base: np.ndarray
    mocap_moves: bool = False
    links: list[str] = field(default_factory=list)
    frames: list[np.ndarray] = field(default_factory=list)
    carriers: list[tuple[str, np.ndarray]] = field(default_factory=list)
    joints: list[str] = field(default_factory=list)
    actuators: dict[int, str] = field(default_factory=dict)
    sites: dict[int, str] = field(default_factory=dict)
    tendons: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _own: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = [WORLD]
        self.frames = [self.base]
        self.carriers = [(WORLD, self.base)]

    def name(self, kind: str, index: int, otherwise: str, taken: Container[str]) -> str:
        """Return the name of an element with the prefix; ``otherwise``, made unique, if it has none in the file."""
        own = self.file.name(kind, index)
        return self.prefix + own if own else self.free(self.prefix + otherwise, taken, kind)

    def free(self, wanted: str, taken: Container[str], *kinds: str) -> str:
        """Return an unused name that the file gives no element of these kinds, made unique by underscores."""
        own = [self._names(kind) for kind in kinds]
        while wanted in taken or any(wanted in names for names in own):
            wanted += "_"
        return wanted

    def _names(self, kind: str) -> set[str]:
        """Return the names that the file gives to elements of a kind, with the prefix."""
        if kind not in self._own:
            self._own[kind] = {self.prefix + str(each.name) for each in self.file.elements[kind].values() if each.name}
        return self._own[kind]

    def point(self, body: int, position: np.ndarray) -> tuple[str, np.ndarray]:
        """Return a point of a body: its link and the position in it [3]."""
        return self.links[body], compose(self.frames[body], translation(position))[:3]


def translation(position: np.ndarray) -> np.ndarray:
    """Return the pose of this position without rotation [7]."""
    return np.concatenate([position, IDENTITY[3:]])


def pose(position: np.ndarray, wxyz: np.ndarray) -> np.ndarray:
    """Convert MuJoCo's position and quaternion to a pose [7]."""
    return np.concatenate([position, wxyz[[1, 2, 3, 0]]])
