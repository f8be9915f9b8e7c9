"""What a .gltf or .glb file says of its arrays and of other files, looked at before memory is taken for them."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

HEADER, CHUNK = 12, 8  # bytes before the first chunk of a .glb file, and before the data of a chunk


def check_gltf(path: Path) -> None:
    """Look at a file before it is read.

    Raises:
        ValueError: for arrays without data, which a reader would fill with zeros however long they claim to be (those
            with data can't be longer than the file that holds it); for buffers and pictures that aren't there or are
            no plain files; and for nodes that hang on themselves.
    """
    description = _description(path)
    for number, accessor in enumerate(_objects(description, "accessors")):
        if "bufferView" not in accessor:
            raise ValueError(
                f"accessor {number} has no bufferView; sparse and compressed arrays aren't supported, export the mesh "
                "without them"
            )
    for kind in ("buffers", "images"):
        for number, item in enumerate(_objects(description, kind)):
            uri = str(item.get("uri", "data:"))
            if not uri.startswith("data:") and not os.path.isfile(path.parent / unquote(uri)):
                raise ValueError(f"{kind}[{number}]: there is no file '{uri}'")
    _check_nodes(_objects(description, "nodes"))


def _check_nodes(nodes: list[dict[str, Any]]) -> None:
    """Each node has one parent at most, and is not below itself."""
    parent: dict[int, int] = {}
    for number, node in enumerate(nodes):
        for child in node.get("children", ()):
            if not isinstance(child, int) or not 0 <= child < len(nodes) or child in parent:
                raise ValueError(f"node {number} has the child {child!r}, which is none or has another parent")
            parent[child] = number
    sound: set[int] = set()  # those from which the way up ends
    for first in range(len(nodes)):
        way: dict[int, None] = {}
        above: int | None = first
        while above is not None and above not in sound:
            if above in way:
                raise ValueError(f"node {above} hangs below itself")
            way[above] = None
            above = parent.get(above)
        sound.update(way)


def _objects(description: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The list of objects of this name; empty where it isn't there."""
    found = description.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"its {name} aren't a list of objects")
    return found


def _description(path: Path) -> dict[str, Any]:
    """The JSON text of the file; of a .glb file its first chunk alone is read."""
    with path.open("rb") as file:
        length = path.stat().st_size
        if path.suffix.lower() == ".glb":
            head = file.read(HEADER + CHUNK)
            if head[:4] != b"glTF" or len(head) < HEADER + CHUNK:
                raise ValueError("it doesn't begin as a .glb file")
            length = min(length, int.from_bytes(head[HEADER : HEADER + 4], "little"))
        description = json.loads(file.read(length))
    if not isinstance(description, dict):
        raise ValueError("its description isn't a JSON object")
    return description
