"""An MJCF file as MuJoCo's own parser and compiler read it."""

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
from sim.importers.mjcf.markup import root_tag
from sim.importers.mjcf.sizes import check_spec, check_text, leave_out_pictures
from sim.importers.transaction import located

# The lists of a mujoco.MjSpec that hold the elements of each kind.
LISTS = {
    "body": "bodies", "joint": "joints", "geom": "geoms", "site": "sites", "tendon": "tendons", "pair": "pairs",
    "actuator": "actuators", "equality": "equalities", "key": "keys", "sensor": "sensors",
    "mesh": "meshes", "camera": "cameras",
}  # fmt: skip

# MuJoCo reports its warnings to one function for the whole process.
_warnings_lock = threading.Lock()


@dataclass(frozen=True)
class MJCFFile:
    """A compiled file.

    Attributes:
        path: the file.
        mujoco: MuJoCo's module.
        model: its mujoco.MjModel; arrays that its flags disable are set to zero.
        spec: the mujoco.MjSpec, which its elements need to stay alive.
        elements: its elements by kind and by their index in the model.
        warnings: MuJoCo's warnings.
    """

    path: Path
    mujoco: ModuleType
    model: Any
    spec: Any
    elements: dict[str, dict[int, Any]]
    warnings: tuple[str, ...]

    def name(self, kind: str, index: int) -> str:
        """The name of an element in the file, empty without one."""
        return str(self.elements[kind][index].name)

    def label(self, kind: str, index: int) -> str:
        """The name of an element in messages: its own, or that of the body it belongs to, and its line."""
        element = self.elements[kind][index]
        # MuJoCo doesn't tell the line of elements that are included.
        line = f" ({element.info})" if element.info not in ("", "line 0") else ""
        if element.name:
            return f"{kind} '{element.name}'{line}"
        owner = {"joint": "jnt_bodyid", "geom": "geom_bodyid"}.get(kind)
        if owner is None:
            return f"{kind} {index}{line}"
        return f"{kind} of body '{self.name('body', int(getattr(self.model, owner)[index]))}'{line}"

    def error(self, kind: str, index: int, message: str) -> ImportFileError:
        """An error that names the file and an element; to be raised by the caller."""
        return ImportFileError(self.path, message, self.label(kind, index))

    def located(self, kind: str, index: int, subject: str) -> AbstractContextManager[None]:
        """Turn an error of the builder into one that names the file and the element."""
        return located(lambda message: self.error(kind, index, message), subject)

    def array(self, name: str, otherwise: Any = 0.0) -> np.ndarray:
        """An array of the model, or ``otherwise`` in versions of MuJoCo that don't have it."""
        return np.asarray(getattr(self.model, name, otherwise))


def read_mjcf(path: Path) -> MJCFFile:
    """Parse and compile an MJCF file with its includes.

    Raises:
        ImportFileError: if it can't be read, isn't MJCF, or MuJoCo refuses it, with MuJoCo's message.
        ModelError: without MuJoCo.
    """
    tag = root_tag(path)
    if not tag:
        raise ImportFileError(path, "is not XML: it has no root element, such as <mujoco>")
    if tag != "mujoco":
        hint = "; it is a URDF, use add_urdf" if tag == "robot" else ""
        raise ImportFileError(path, f"is not an MJCF: its root element is <{tag}>, expected <mujoco>{hint}")
    try:
        import mujoco
    except ImportError:
        raise ModelError(f"{path}: MJCF files need MuJoCo's parser; install it with backswing[mjcf]") from None
    check_text(path)
    try:
        with _heard(mujoco) as said:
            if hasattr(mujoco, "mj_clearCache"):  # not in old versions
                # It has the meshes of files that were read, and doesn't see that one has changed in the same second.
                mujoco.mj_clearCache(mujoco.mj_getCache())
            spec = mujoco.MjSpec.from_file(str(path))
            check_spec(path, spec)
            leave_out_pictures(mujoco, spec)
            model = spec.compile()
    except ImportFileError:
        raise
    except Exception as error:  # ValueError with MuJoCo's message; others when it runs out of memory
        raise ImportFileError(path, _one_line(str(error)) or type(error).__name__) from None
    elements = {kind: {element.id: element for element in getattr(spec, list_)} for kind, list_ in LISTS.items()}
    return MJCFFile(path, mujoco, model, spec, elements, tuple(_one_line(text) for text in said))


@contextmanager
def _heard(mujoco: ModuleType) -> Iterator[list[str]]:
    """Collect the warnings of MuJoCo and its Python module; otherwise it writes them to MUJOCO_LOG.TXT."""
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
