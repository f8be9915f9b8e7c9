"""Models of an SDF file with what is nested in them or included, flat, and the poses of all their frames."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim.errors import ImportFileError
from sim.importers.sdf.values import flag, named, pose, relative_to
from sim.importers.xmltree import Element, parse_xml
from sim.model.poses import compose

ROOT = "__model__"
WORLD_FRAME = "world"
# Models within models, and files that include files.
DEEPEST = 20
MOST_INCLUDED = 1000
# Where Gazebo looks for models.
SEARCH = ("GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "GAZEBO_MODEL_PATH", "SDF_PATH")


@dataclass(frozen=True)
class Placed:
    """A frame: the pose of an element in another frame, both by their full names."""

    element: Element
    parent: str
    pose: np.ndarray


@dataclass
class FlatModel:
    """One model with all that is nested in it.

    Attributes:
        element: the model.
        name: its name.
        static: whether nothing of it moves.
        version: of the SDF of its file.
        links: by full name, as "nested::link".
        joints: by full name, with the prefix of the names that they use.
        frames: where all of them are, from the world.
    """

    element: Element
    name: str
    static: bool
    version: float
    links: dict[str, Element] = field(default_factory=dict)
    joints: dict[str, tuple[Element, str]] = field(default_factory=dict)
    frames: dict[str, Placed] = field(default_factory=dict)
    _found: dict[str, np.ndarray] = field(default_factory=dict)

    def pose_of(self, frame: str, asker: Element, base: np.ndarray) -> np.ndarray:
        """The pose of a frame in the world [7]; ``base`` is that of the file's world."""
        path: list[str] = []
        while frame != WORLD_FRAME and frame not in self._found:
            if frame not in self.frames:
                raise asker.error(f"there is no frame '{frame}' in model '{self.name}'")
            if frame in path:
                raise self.frames[frame].element.error(f"the pose of '{frame}' depends on itself")
            path.append(frame)
            frame = self.frames[frame].parent
        there = base if frame == WORLD_FRAME else self._found[frame]
        for each in reversed(path):
            there = self._found[each] = compose(there, self.frames[each].pose)
        return there


class Library:
    """Finds the models that a file includes.

    Args:
        folder: the folder of the file.
        package_dirs: folders to search before all others.
    """

    def __init__(self, folder: Path, package_dirs: Sequence[str | os.PathLike[str]]):
        listed = [entry for name in SEARCH for entry in os.environ.get(name, "").split(os.pathsep) if entry]
        self._count = 0
        self._places = [*map(Path, package_dirs), folder, *map(Path, listed), *folder.parents]

    def models(self, include: Element, depth: int) -> tuple[list[Element], float]:
        """The models of the file that an ``<include>`` names, and its version of SDF."""
        uri = include.required("uri").content
        rest = uri.removeprefix("model://").removeprefix("file://")
        if not rest or "://" in rest:
            raise include.error(f"uri '{uri}' is not supported; use model:// or a path")
        self._count += 1
        if depth > DEEPEST or self._count > MOST_INCLUDED:
            raise include.error(f"more than {DEEPEST} files include each other, or more than {MOST_INCLUDED} in all")
        for place in self._places:
            found = _model_file(place / rest)
            if found is not None:
                root = parse_xml(found)
                return models_of(root), version_of(root)
        places = ", ".join(str(place) for place in self._places[:4])
        raise include.error(f"'{uri}' not found; searched {places} and the folders above: name one with package_dirs=")


def _model_file(path: Path) -> Path | None:
    """The file of a model that a path names: itself, or the one that its folder's model.config names."""
    if os.path.isfile(path):
        return path
    config = path / "model.config"
    if os.path.isfile(config):
        for child in parse_xml(config).all("sdf"):
            if child.content and os.path.isfile(path / child.content):
                return path / child.content
    return path / "model.sdf" if os.path.isfile(path / "model.sdf") else None


def version_of(root: Element) -> float:
    """The version of SDF that a file states. Raises ImportFileError for a file that isn't SDF."""
    if root.tag != "sdf":
        raise ImportFileError(root.path, f"is not an SDF: its root element is <{root.tag}>, expected <sdf>")
    try:
        return float(root.attributes.get("version", "1.6"))
    except ValueError:
        raise root.error(f"version '{root.attributes['version']}' is not a number") from None


def models_of(root: Element) -> list[Element]:
    """The models of a file outside of worlds."""
    version_of(root)
    return root.all("model")


def flat_models(parent: Element, version: float, library: Library) -> Iterator[FlatModel]:
    """The models inside a world or at the top of a file, with those that are included."""
    for child in parent.children:
        if child.tag == "model":
            yield _flat(child, child, version, library)
        elif child.tag == "include":
            for model, own in _included(child, library, 0):
                yield _flat(model, child, own, library)


def _included(include: Element, library: Library, depth: int) -> list[tuple[Element, float]]:
    models, version = library.models(include, depth)
    if len(models) != 1:
        raise include.error(f"includes {len(models)} models; it must be one")
    return [(models[0], version)]


def _flat(model: Element, placed: Element, version: float, library: Library) -> FlatModel:
    """A model; ``placed`` is the element that says where it is and what it is called."""
    given = placed.optional("name") if placed.tag == "include" else None
    name = named(model) if given is None else given.content
    flat = FlatModel(model, name, flag(placed, "static", flag(model, "static")), version)
    at = placed if placed.optional("pose") is not None else model
    flat.frames[ROOT] = Placed(model, relative_to(at) or WORLD_FRAME, pose(at))
    _fill(flat, model, "", library, 0)
    return flat


def _fill(flat: FlatModel, model: Element, prefix: str, library: Library, depth: int) -> None:
    """Add the links, joints, frames and nested models of a model."""
    if model.attributes.get("placement_frame"):
        raise model.error("placement_frame is not supported; give the model a <pose>")
    if depth > DEEPEST:
        raise model.error(f"more than {DEEPEST} models are nested in each other")

    def add(name: str, element: Element, parent: str, where: np.ndarray) -> None:
        if name in flat.frames:
            raise element.error(f"the name '{name}' is taken")
        flat.frames[name] = Placed(element, parent, where)

    def inside(name: str | None, usual: str) -> str:
        own = usual if name is None else name
        return own if own == WORLD_FRAME else prefix + own

    for element in model.children:
        if element.tag == "link":
            name = prefix + named(element)
            add(name, element, inside(relative_to(element), ROOT), pose(element))
            flat.links[name] = element
        elif element.tag == "joint":
            name = prefix + named(element)
            child = element.required("child").content
            add(name, element, inside(relative_to(element), child), pose(element))
            flat.joints[name] = (element, prefix)
        elif element.tag == "frame":
            usual = element.attributes.get("attached_to") or ROOT
            add(prefix + named(element), element, inside(relative_to(element), usual), pose(element))
        elif element.tag in ("model", "include"):
            nested = element if element.tag == "model" else _included(element, library, depth)[0][0]
            given = element.optional("name") if element.tag == "include" else None
            name = prefix + (named(nested) if given is None else given.content)
            at = element if element.optional("pose") is not None else nested
            add(name, element, inside(relative_to(at), ROOT), pose(at))
            add(f"{name}::{ROOT}", nested, name, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
            _fill(flat, nested, f"{name}::", library, depth + 1)
