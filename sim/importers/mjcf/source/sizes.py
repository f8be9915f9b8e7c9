"""Checks of sizes stated in an MJCF file, before memory is allocated, and of NaN numbers."""

import html
import math
import os.path
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.errors import ImportFileError
from sim.importers.mjcf.source.markup import Tag, tags
from sim.importers.xmltree import read_text
from sim.model.spec_checks import MOST_HEIGHTS

PNG = b"\x89PNG\r\n\x1a\n"
# User data in keyframes and <numeric>; of each at most 80 MB.
MOST_NUMBERS = 10_000_000
# Elements after <replicate>, and vertices that <composite> and <flexcomp> generate
MOST_ELEMENTS = 1_000_000
REPEATED = ("replicate", "composite", "flexcomp")
# Elements within <replicate>, after expansion. MuJoCo 4 takes time quadratic in their number: 2.3 s for this many.
MOST_REPLICAS = 10_000
# Files that load each other by <model>, one within the other; MuJoCo's parser calls itself for each.
MOST_NESTED = 50
# Points along each of the two directions of a builtin mesh
FINEST_MESH = 1000
ARRAYS = ("hfield", "numeric", "mesh")
# Attributes with names, files and other words; all others are numbers, or words of a fixed list.
TEXTS = {
    "actuator", "assetdir", "body", "body1", "body2", "camera", "cameras", "childclass", "class", "content_type",
    "cranksite", "file", "fileback", "filedown", "filefront", "fileleft", "fileright", "fileup", "flex", "frame",
    "geom", "geom1", "geom2", "hfield", "instance", "joint", "joint1", "joint2", "jointinparent", "key", "light",
    "material", "mesh", "meshdir", "model", "name", "node", "objname", "plugin", "prefix", "refname", "refsite", "sep",
    "sidesite", "site", "site1", "site2", "slidersite", "source", "subtree1", "subtree2", "suffix", "target", "tendon",
    "tendon1", "tendon2", "texture", "texturedir", "value",
}  # fmt: skip
# Elements of <visual> with numeric attributes, including those with the tag of a named element
NUMBERED = {"rgba", "scale"}
USER = {
    "nuser_body": "bodies", "nuser_jnt": "joints", "nuser_geom": "geoms", "nuser_site": "sites",
    "nuser_cam": "cameras", "nuser_tendon": "tendons", "nuser_actuator": "actuators", "nuser_sensor": "sensors",
}  # fmt: skip


def check_text(path: Path) -> list[Path]:
    """Return the folders of a file and of all files that it loads as models, and check them.

    Raise ImportFileError for a file or include that makes MuJoCo's parser allocate too much, or has NaN.

    This covers elements repeated or attached too often, models that load themselves, which crash MuJoCo, arrays filled
    with zeros, and NaN: MuJoCo 4 warns of NaN, but its Python module deadlocks in the warning after another file has
    raised an exception.

    Raises:
        ImportFileError: naming the element and its line.
    """
    counted: dict[str, int] = {}
    _count_elements(path, path, counted, ())
    return [path.parent, *dict.fromkeys(Path(real).parent for real in counted)]


def _count_elements(path: Path, file: Path, counted: dict[str, int], within: tuple[str, ...]) -> int:
    """Return how many elements a file has, with its includes and the files that it loads as models and attaches.

    Args:
        path: the file for messages.
        file: the file to count.
        counted: counts of files by their real paths, added to.
        within: real paths of the files that load this one as a model, from the first to the last.

    Raises:
        ImportFileError: see :func:`check_text`.
    """
    real = os.path.realpath(file)
    if real in within:
        chain = " -> ".join(os.path.basename(name) for name in (*within[within.index(real) :], real))
        raise ImportFileError(path, f"loads itself as a <model>: {chain}; remove one of these <model> elements")
    if len(within) > MOST_NESTED:
        raise ImportFileError(path, f"loads models within models, more than {MOST_NESTED} deep; join some of the files")
    if real not in counted:
        texts = _included_texts(file)
        models = {
            tag.attributes.get("name", ""): max(
                (_count_elements(path, each, counted, (*within, real)) for each in _model_files(file, owner, tag)),
                default=1,
            )
            for owner, data in texts.items()
            for tag in tags(data)
            if tag.name == "model" and not tag.ends
        }
        counted[real] = sum(_check_tags(path, owner, data, models) for owner, data in texts.items())
    return counted[real]


def _included_texts(file: Path) -> dict[Path, bytes]:
    """Return the content of a file and of all that it includes, by path."""
    waiting, texts = [file], {}
    while waiting:
        each = waiting.pop()
        if each in texts or not os.path.isfile(each):  # Path.is_file raises OSError for a name that is too long
            continue
        try:
            texts[each] = read_text(each)
        except ImportFileError:
            continue  # MuJoCo's message tells who includes it
        found = [tag for tag in tags(texts[each]) if tag.name == "include" and not tag.ends]
        waiting += [file.parent / tag.attributes.get("file", "") for tag in found]
    return texts


def _model_files(file: Path, owner: Path, tag: Tag) -> list[Path]:
    """Return the files that a <model> may load: MuJoCo looks in the folders of the file and of the included one."""
    name = tag.attributes.get("file", "")
    folders = dict.fromkeys((owner.parent, file.parent))
    return [folder / name for folder in folders if name and os.path.isfile(folder / name)]


def _check_tags(path: Path, file: Path, data: bytes, models: dict[str, int]) -> int:
    """Return how many elements one file makes. Raise ImportFileError, see :func:`check_text`.

    Args:
        path: the file for messages.
        file: the file or include.
        data: its content.
        models: counts of elements of the models that can be attached, by name.
    """
    factors, total, replicas = [1], 0, 0
    for tag in tags(data):
        if tag.ends:
            if tag.name == "replicate" and len(factors) > 1:
                factors.pop()
            continue
        if tag.name != "text" and (b"nan" in tag.inside.lower() or b"&#" in tag.inside):
            _check_numbers(path, tag, _where(path, file, data, tag))
        if tag.name == "connect" and not tag.attributes.get("anchor", "0").strip():
            message = "anchor is empty; give three numbers, or remove it if sites are given"  # MuJoCo gives no reason
            raise ImportFileError(path, message, f"<connect> ({_where(path, file, data, tag)})")
        if tag.name in ARRAYS:
            _check_array(path, tag, _where(path, file, data, tag))
        times = factors[-1]
        if tag.name in REPEATED:
            times *= max(1, math.prod(_whole(word) for word in tag.attributes.get("count", "").split()))
        if tag.name == "replicate" and not tag.alone:
            factors.append(times)
        if tag.name in ("model", "attach"):
            name = tag.attributes.get("name" if tag.name == "model" else "model", "")
            times *= models.get(name, max(models.values(), default=1))
        total += times
        if total > MOST_ELEMENTS:
            message = f"makes {total} elements or more; at most {MOST_ELEMENTS} are supported"
            raise ImportFileError(path, message, f"<{tag.name}> ({_where(path, file, data, tag)})")
        replicas += times if factors[-1] > 1 else 0
        if replicas > MOST_REPLICAS:
            message = f"makes {replicas} replicas or more; at most {MOST_REPLICAS} are supported"
            raise ImportFileError(path, message, f"<{tag.name}> ({_where(path, file, data, tag)})")
    return total


def _where(path: Path, file: Path, data: bytes, tag: Tag) -> str:
    line = data.count(b"\n", 0, tag.start) + 1
    return f"line {line}" if file == path else f"{file.name}, line {line}"


def _check_numbers(path: Path, tag: Tag, where: str) -> None:
    name = tag.attributes.get("name")
    element = f"{tag.name} '{name}' ({where})" if name else f"<{tag.name}> ({where})"
    for attribute, text in tag.attributes.items():
        words = html.unescape(text).split()
        for k, word in enumerate(words):
            is_text = attribute in TEXTS and tag.name not in NUMBERED
            if not is_text and word.lower().lstrip("+-").startswith("nan"):
                number = f"{attribute} {k}" if len(words) > 1 else attribute
                raise ImportFileError(path, f"{number} is nan; it must be finite", element)


def _check_array(path: Path, tag: Tag, where: str) -> None:
    given = tag.attributes
    element = f"{tag.name} '{given.get('name', '')}' ({where})"
    if tag.name == "hfield":
        _check_grid(path, element, _whole(given.get("nrow", "0")), _whole(given.get("ncol", "0")))
    if tag.name == "numeric":
        _check_number(path, element, _whole(given.get("size", "0")))
    if tag.name == "mesh" and "builtin" in given:
        finest = max((_whole(word) for word in given.get("params", "").split()), default=0)
        if finest > FINEST_MESH:
            message = f"is divided {finest} times; at most {FINEST_MESH} are supported"
            raise ImportFileError(path, message, element)


def _check_grid(path: Path, element: str, rows: int, columns: int) -> None:
    if rows * columns > MOST_HEIGHTS:
        message = f"has {rows} x {columns} heights; at most {MOST_HEIGHTS} are supported; use a coarser grid"
        raise ImportFileError(path, message, element)


def _whole(word: str) -> int:
    try:
        return max(0, int(float(word)))
    except (ValueError, OverflowError):
        return 1  # MuJoCo's message covers this


def check_spec(path: Path, spec: Any) -> None:
    """Raise ImportFileError for sizes in a parsed file that make the compiler exhaust memory or crash.

    Raises:
        ImportFileError: naming the element.
    """
    for field in spec.hfields:
        if field.file:
            _check_grid(path, f"hfield '{field.name}' ({field.info})", *_grid(spec, field.file))
    for name, elements in USER.items():
        _check_number(path, f"<size> attribute '{name}'", getattr(spec, name) * len(getattr(spec, elements)))
    _check_number(path, "<size> attribute 'nuserdata'", spec.nuserdata)
    state = 7 * len(spec.joints) + len(spec.actuators) + 1
    _check_number(path, "<size> attribute 'nkey'", spec.nkey * state)


def _check_number(path: Path, element: str, count: int) -> None:
    if count > MOST_NUMBERS:
        raise ImportFileError(path, f"asks for {count} numbers; at most {MOST_NUMBERS} are supported", element)


def _grid(spec: Any, name: str) -> tuple[int, int]:
    """Return rows and columns in the header of a heightfield's file; None if the file doesn't exist."""
    for path in _candidates(spec, name):
        try:
            with path.open("rb") as file:
                head = file.read(24)
        except (OSError, ValueError):
            continue
        if len(head) == 24 and head.startswith(PNG):
            columns, rows = struct.unpack(">II", head[16:24])
            return rows, columns
        if len(head) >= 8:
            rows, columns = struct.unpack("<ii", head[:8])
            return abs(rows), abs(columns)
    return 0, 0


def _candidates(spec: Any, name: str) -> Iterator[Path]:
    """Return the paths at which MuJoCo may look for the file of a heightfield."""
    folder = Path(spec.modelfiledir)
    short = Path(name).name
    for inside in (name, short):
        yield folder / spec.meshdir / inside
        yield folder / inside
