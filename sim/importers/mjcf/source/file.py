"""An MJCF file, parsed and compiled by MuJoCo."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sim.errors import ImportFileError, ModelError
from sim.importers.mjcf.source.markup import root_tag
from sim.importers.mjcf.source.sizes import check_spec, check_text
from sim.importers.mjcf.source.textures import TextureSource, take_textures
from sim.importers.transaction import located

# Lists of a mujoco.MjSpec with the elements of each kind
LISTS = {
    "body": "bodies", "joint": "joints", "geom": "geoms", "site": "sites", "tendon": "tendons", "pair": "pairs",
    "actuator": "actuators", "equality": "equalities", "key": "keys", "sensor": "sensors",
    "mesh": "meshes", "camera": "cameras", "light": "lights",
}  # fmt: skip

# MuJoCo reports its warnings to one function per process.
_warnings_lock = threading.Lock()


@dataclass(frozen=True)
class MJCFFile:
    """A compiled file.

    Attributes:
        path: the file.
        mujoco: MuJoCo's module.
        model: compiled mujoco.MjModel; arrays that its flags disable are set to zero.
        spec: the mujoco.MjSpec, which keeps its elements alive.
        elements: elements of the spec by kind and by their index in the model.
        warnings: MuJoCo's warnings.
        textures: the textures by index.
    """

    path: Path
    mujoco: ModuleType
    model: Any
    spec: Any
    elements: dict[str, dict[int, Any]]
    warnings: tuple[str, ...]
    textures: tuple[TextureSource, ...] = ()

    def name(self, kind: str, index: int) -> str:
        """Return the name of an element in the file, empty if it has none."""
        return str(self.elements[kind][index].name)

    def label(self, kind: str, index: int) -> str:
        """Return the name of an element for messages: its own, or that of its body, and its line."""
        element = self.elements[kind][index]
        # MuJoCo doesn't tell the line of included elements.
        line = f" ({element.info})" if element.info not in ("", "line 0") else ""
        if element.name:
            return f"{kind} '{element.name}'{line}"
        owner = {"joint": "jnt_bodyid", "geom": "geom_bodyid"}.get(kind)
        if owner is None:
            return f"{kind} {index}{line}"
        body = int(getattr(self.model, owner)[index])
        name = self.name("body", body)
        named = "the world" if body == 0 else f"body '{name}'" if name else "an unnamed body"
        return f"{kind} of {named}{line}"

    def error(self, kind: str, index: int, message: str) -> ImportFileError:
        """Return an error that names the file and an element; the caller raises it."""
        return ImportFileError(self.path, message, self.label(kind, index))

    def located(self, kind: str, index: int, subject: str) -> AbstractContextManager[None]:
        """Turn an error of the builder into one that names the file and the element."""
        return located(lambda message: self.error(kind, index, message), subject)

    def array(self, name: str, otherwise: Any = 0.0) -> np.ndarray:
        """Return an array of the model, or ``otherwise`` in versions of MuJoCo that lack it."""
        return np.asarray(getattr(self.model, name, otherwise))


def read_mjcf(path: Path) -> MJCFFile:
    """Parse and compile an MJCF file with its includes.

    Raises:
        ImportFileError: if it can't be read, isn't MJCF, or MuJoCo rejects it, with MuJoCo's message.
        ModelError: without MuJoCo.
    """
    tag = root_tag(path)
    if not tag:
        raise ImportFileError(path, "is not XML: it has no root element, such as <mujoco>")
    if tag != "mujoco":
        hint = "; it is a URDF; use add_urdf" if tag == "robot" else ""
        raise ImportFileError(path, f"is not an MJCF file: its root element is <{tag}>, expected <mujoco>{hint}")
    try:
        import mujoco
    except ImportError:
        raise ModelError(f"{path}: MJCF files need the package mujoco: pip install 'backswing[mjcf]'") from None
    folders = check_text(path)
    try:
        with _heard(mujoco) as said:
            if hasattr(mujoco, "mj_clearCache"):  # not in old versions
                # It caches the meshes of files, and misses a change within the same second.
                mujoco.mj_clearCache(mujoco.mj_getCache())
            spec = mujoco.MjSpec.from_file(str(path))
            check_spec(path, spec)
            textures = tuple(take_textures(mujoco, spec, folders))
            model = spec.compile()
    except ImportFileError:
        raise
    except Exception as error:  # ValueError with MuJoCo's message; other errors when memory runs out
        raise ImportFileError(path, _one_line(str(error)) or type(error).__name__) from None
    elements = {kind: {element.id: element for element in getattr(spec, list_)} for kind, list_ in LISTS.items()}
    return MJCFFile(path, mujoco, model, spec, elements, tuple(_one_line(text) for text in said), textures)


@contextmanager
def _heard(mujoco: ModuleType) -> Iterator[list[str]]:
    """Collect the warnings of MuJoCo and its Python module, which it would write to MUJOCO_LOG.TXT."""
    said: list[str] = []
    with _warnings_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(said.append)
        try:
            yield said
        finally:
            mujoco.set_mju_user_warning(before)
            said += [str(warning.message) for warning in caught]


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines).removeprefix("Error: ").removeprefix("XML Error: ")
