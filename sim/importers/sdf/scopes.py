"""Flattened models of an SDF file, with nested and included models, and the poses of all their frames."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim.errors import ImportFileError
from sim.importers import fuel
from sim.importers.meshes import PACKAGE_OPTION
from sim.importers.sdf.values import TRUE, flag, named, pose, relative_to
from sim.importers.xmltree import Element, parse_xml
from sim.model.checks import free_name
from sim.model.poses import IDENTITY, compose, inverse

ROOT = "__model__"
MERGED = "_merged__{}__model__"
WORLD_FRAME = "world"
# Maximum depth of nested models and of files that include files
DEEPEST = 20
MOST_INCLUDED = 1000
# Environment variables with folders in which Gazebo looks for models
SEARCH = ("GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "GAZEBO_MODEL_PATH", "SDF_PATH")


@dataclass(frozen=True)
class Scope:
    """Scope of the names inside a model: they get ``prefix``, and ``root`` is the model's own frame."""

    prefix: str
    root: str

    def full(self, name: str) -> str:
        """Return the full name of a frame, link or joint that an element of the model calls ``name``."""
        own = self.root if name == ROOT else name
        return own if own == WORLD_FRAME else self.prefix + own


@dataclass(frozen=True)
class Placed:
    """A frame: the pose of an element in another frame, both by their full names."""

    element: Element
    parent: str
    pose: np.ndarray


@dataclass
class FlatModel:
    """A model with everything nested in it.

    Attributes:
        element: element of the model.
        name: its name.
        static: whether the model can't move.
        links: by full name, as "nested::link".
        joints: by full name.
        scopes: scopes of the names inside each link and joint.
        frames: poses of all frames, from the world.
        attached: the frame that each joint, frame and model is fixed to, up to a link.
        elements: the model and those nested in it.
        notes: what to warn of.
    """

    element: Element
    name: str
    static: bool
    links: dict[str, Element] = field(default_factory=dict)
    joints: dict[str, Element] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    frames: dict[str, Placed] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    elements: list[Element] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _found: dict[str, np.ndarray] = field(default_factory=dict)

    def link_of(self, frame: str) -> str | None:
        """Return the link that a frame is fixed to; None for the world or an unknown frame."""
        seen: set[str] = set()
        while frame not in self.links and frame not in seen:
            seen.add(frame)
            frame = self.attached.get(frame, WORLD_FRAME)
        return frame if frame in self.links else None

    def add_pose(self, model: str, frame: str | None, scope: Scope) -> None:
        """Move the model so that one of its frames gets the model's pose; None does nothing.

        ``scope`` is the scope inside the model.
        """
        if frame is None:
            return
        placed, inside, each, seen = self.frames[model], IDENTITY, scope.full(frame), set[str]()
        while each != model:
            if each not in self.frames or each in seen:
                raise placed.element.error(f"its placement_frame '{frame}' is not one of its frames")
            seen.add(each)
            inside, each = compose(self.frames[each].pose, inside), self.frames[each].parent
        self.frames[model] = Placed(placed.element, placed.parent, compose(placed.pose, inverse(inside)))

    def pose_of(self, frame: str, asker: Element, base: np.ndarray) -> np.ndarray:
        """Return the pose of a frame in the world [7]; ``base`` is that of the file's world."""
        path: list[str] = []
        while frame != WORLD_FRAME and frame not in self._found:
            if frame not in self.frames:
                raise asker.error(f"there is no frame '{frame}' in {self.element.tag} '{self.name}'")
            if frame in path:
                raise self.frames[frame].element.error(f"the pose of '{frame}' depends on itself")
            path.append(frame)
            frame = self.frames[frame].parent
        there = base if frame == WORLD_FRAME else self._found[frame]
        for each in reversed(path):
            there = self._found[each] = compose(there, self.frames[each].pose)
        return there


class Library:
    """Search path for the models that a file includes.

    Args:
        folder: the folder of the file; an included file also finds others in its folder.
        package_dirs: folders to search first.
    """

    def __init__(self, folder: Path, package_dirs: Sequence[Path]):
        self._count = 0
        self._folders = [*package_dirs, folder, *resource_folders(), *folder.parents]

    def models(self, include: Element, depth: int) -> list[Element]:
        """Return the models of the file that an ``<include>`` names."""
        uri = include.required("uri").content
        rest = uri.removeprefix("model://").removeprefix("file://")
        of_fuel = fuel.is_address(uri)
        if not rest or ("://" in rest and not of_fuel):
            raise include.error(f"uri '{uri}' is not supported; use model://, an address of Fuel or a path")
        self._count += 1
        if depth > DEEPEST or self._count > MOST_INCLUDED:
            raise include.error(f"more than {DEEPEST} files include each other, or more than {MOST_INCLUDED} in all")
        folders = (*self._folders, include.path.parent)
        for candidate in fuel.candidates(uri, folders) if of_fuel else (folder / rest for folder in folders):
            found = _model_file(candidate)
            if found is not None:
                return models_of(parse_xml(found))
        searched = ", ".join(str(folder) for folder in self._folders[:4])
        kept = "Gazebo's folder of downloaded models, " if of_fuel else ""
        raise include.error(
            f"'{uri}' not found; searched {kept}{searched} and the folders above: name one with {PACKAGE_OPTION}"
        )


def resource_folders() -> list[Path]:
    """Return the folders in which Gazebo looks for models, from the environment."""
    return [Path(entry) for name in SEARCH for entry in os.environ.get(name, "").split(os.pathsep) if entry]


def _model_file(path: Path) -> Path | None:
    """Return the model file at a path: the path itself, or the file that its folder's model.config names."""
    if os.path.isfile(path):
        return path
    config = path / "model.config"
    if os.path.isfile(config):
        for child in parse_xml(config).all("sdf"):
            if child.content and os.path.isfile(path / child.content):
                return path / child.content
    return path / "model.sdf" if os.path.isfile(path / "model.sdf") else None


def version_of(element: Element) -> tuple[int, ...]:
    """Return the version of SDF of an element's file: (1, 10) is later than (1, 9).

    Raises:
        ImportFileError: for a file that isn't SDF, or a version that isn't numbers with points between them.
    """
    root = element
    while root.parent is not None:
        root = root.parent
    if root.tag != "sdf":
        raise ImportFileError(root.path, f"is not an SDF: its root element is <{root.tag}>, expected <sdf>")
    stated = root.attributes.get("version", "1.6")
    try:
        return tuple(int(part) for part in stated.split("."))
    except ValueError:
        raise root.error(f"version '{stated}' is not one of SDF, such as 1.9 or 1.12") from None


def models_of(root: Element) -> list[Element]:
    """Return the models of a file outside of worlds."""
    version_of(root)
    return root.all("model")


def flat_models(top: Element, library: Library) -> list[FlatModel]:
    """Return the models inside a world or at the top level of a file, with included ones.

    Raises:
        ImportFileError: naming an element that is not supported, or a frame that doesn't exist.
    """
    models = []
    for child in top.children:
        if child.tag == "model":
            models.append(_flat(child, child, library))
        elif child.tag == "include":
            models.append(_flat(*_included(child, library, 0), library))
        elif child.tag == "joint":
            raise child.error("joins models of a world; nest them in one model, and put the joint there")
    _add_world_poses(top, models)
    return models


def _included(include: Element, library: Library, depth: int) -> tuple[Element, Element]:
    """Return the model that an ``<include>`` names, and the ``<include>``."""
    models = library.models(include, depth)
    if len(models) != 1:
        raise include.error(f"includes {len(models)} models; it must be one")
    return models[0], include


def _name_of(model: Element, placed: Element) -> str:
    """Return the name of a model; ``placed`` is the element with its pose."""
    given = placed.optional("name") if placed.tag == "include" else None
    return named(model) if given is None else given.content


def _flat(model: Element, placed: Element, library: Library) -> FlatModel:
    """Return a flattened model; ``placed`` is the element with its pose and name."""
    if placed.attributes.get("merge", "false").lower() in TRUE:
        raise placed.error("merges a model with the world; only a model can take up another, so remove merge")
    flat = FlatModel(model, _name_of(model, placed), flag(placed, "static", flag(model, "static")))
    at = placed if placed.optional("pose") is not None else model
    flat.frames[ROOT] = Placed(model, relative_to(at) or WORLD_FRAME, pose(at))
    scope = Scope("", ROOT)
    _fill(flat, model, scope, library, 0)
    flat.add_pose(ROOT, _placement_frame(model, placed), scope)
    return flat


def _add_world_poses(top: Element, models: list[FlatModel]) -> None:
    """Express the poses of models that are relative to frames of their world, or of other models, in the world."""
    world = FlatModel(top, top.attributes.get("name", top.tag), True)
    for element in top.all("frame"):
        parent = relative_to(element) or element.attributes.get("attached_to") or WORLD_FRAME
        world.frames[named(element)] = Placed(element, parent, pose(element))
    for model in models:
        for name, frame in model.frames.items():
            full, parent = (
                each if each == WORLD_FRAME or (name == ROOT and each != name) else _outside(model, each)
                for each in (name, frame.parent)
            )
            world.frames[full] = Placed(frame.element, parent, frame.pose)
    for model in models:
        root = model.frames[ROOT]
        if root.parent != WORLD_FRAME:
            there = compose(world.pose_of(root.parent, root.element, IDENTITY), root.pose)
            model.frames[ROOT] = Placed(root.element, WORLD_FRAME, there)


def _outside(model: FlatModel, frame: str) -> str:
    """Return the name in the world of a frame of a model."""
    return model.name if frame == ROOT else f"{model.name}::{frame}"


def _fill(flat: FlatModel, model: Element, scope: Scope, library: Library, depth: int) -> None:
    """Add the links, joints, frames and nested models of a model, with names in ``scope``."""
    if depth > DEEPEST:
        raise model.error(f"more than {DEEPEST} models are nested in each other")
    flat.elements.append(model)

    def add(name: str, element: Element, parent: str, where: np.ndarray) -> None:
        if name in flat.frames:
            raise element.error(f"the name '{name}' is taken")
        flat.frames[name] = Placed(element, parent, where)

    links = {scope.prefix + named(link) for link in model.all("link")}
    for element in model.children:
        if element.tag == "link":
            name = scope.prefix + named(element)
            add(name, element, scope.full(relative_to(element) or ROOT), pose(element))
            flat.links[name], flat.scopes[name] = element, scope
        elif element.tag == "joint":
            name = _free_of(flat, element, scope.prefix + named(element), links)
            child = element.required("child").content
            add(name, element, scope.full(relative_to(element) or child), pose(element))
            flat.joints[name], flat.scopes[name] = element, scope
            flat.attached[name] = scope.full(child)
        elif element.tag == "frame":
            name = scope.prefix + named(element)
            usual = element.attributes.get("attached_to") or ROOT
            add(name, element, scope.full(relative_to(element) or usual), pose(element))
            flat.attached[name] = scope.full(usual)
        elif element.tag in ("model", "include"):
            nested, placed = (element, element) if element.tag == "model" else _included(element, library, depth)
            own = _name_of(nested, placed)
            at = placed if placed.optional("pose") is not None else nested
            merged = placed.attributes.get("merge", "false").lower() in TRUE
            name = scope.prefix + (MERGED.format(own) if merged else own)
            add(name, element, scope.full(relative_to(at) or ROOT), pose(at))
            _refuse_static(flat, nested, placed)
            if merged:
                inside = Scope(scope.prefix, MERGED.format(own))
            else:
                inside = Scope(f"{name}::", ROOT)
                add(inside.full(ROOT), nested, name, IDENTITY)
                flat.attached[name] = inside.full(ROOT)
            _fill(flat, nested, inside, library, depth + 1)
            flat.add_pose(name, _placement_frame(nested, placed), inside)
    flat.attached[scope.full(ROOT)] = _canonical(flat, model, scope.prefix)


def _free_of(flat: FlatModel, joint: Element, name: str, links: set[str]) -> str:
    """Return the name of a joint, with "_joint" if a link has it, as libsdformat does for files before version 1.7."""
    if name not in links or version_of(joint) >= (1, 7):
        return name
    other = free_name(f"{name}_joint", flat.frames.keys() | links)
    flat.notes.append(f"joint '{name}' is called '{other}', since a link has its name")
    return other


def _canonical(flat: FlatModel, model: Element, prefix: str) -> str:
    """Return the link that stands for a model: the named one, the first, or that of the first nested model."""
    stated = model.attributes.get("canonical_link")
    if stated:
        if prefix + stated not in flat.links:
            raise model.error(f"its canonical_link '{stated}' is not one of its links")
        return prefix + stated
    own = [prefix + named(link) for link in model.all("link")]
    return own[0] if own else next((link for link in flat.links if link.startswith(prefix)), WORLD_FRAME)


def _placement_frame(model: Element, placed: Element) -> str | None:
    """Return the frame of a model that its pose refers to, if it isn't the model's own."""
    stated = placed.optional("placement_frame") if placed.tag == "include" else None
    if stated is not None and placed.optional("pose") is None:
        raise stated.error("needs a <pose> next to it")
    return stated.content if stated is not None else model.attributes.get("placement_frame") or None


def _refuse_static(flat: FlatModel, nested: Element, placed: Element) -> None:
    """Raise ImportFileError for a static model nested in one that moves."""
    if not flat.static and flag(placed, "static", flag(nested, "static")):
        raise placed.error(f"is static inside model '{flat.name}', which moves; join it to the world instead")
