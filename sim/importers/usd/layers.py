"""Layers of a USD file: errors for layers that can't be found or opened, and conversion of USD library errors."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Pcp, Tf, Usd

from sim.errors import ImportFileError

# Without the objects of these errors the file describes something else; other composition errors drop a single opinion.
INCOMPLETE = (
    Pcp.ErrorInvalidAssetPath, Pcp.ErrorMutedAssetPath, Pcp.ErrorInvalidSublayerPath, Pcp.ErrorUnresolvedPrimPath,
    Pcp.ErrorInvalidPrimPath, Pcp.ErrorArcCycle, Pcp.ErrorSublayerCycle, Pcp.ErrorCapacityExceeded,
    Pcp.ErrorVariableExpressionError,
)  # fmt: skip
# Nested brackets in a text file. The parser of the USD library takes quadratic time, and overflows its stack at some
# tens of thousands; scenes have tens.
DEEPEST = 1000
CHUNK = 1 << 24  # bytes scanned at a time
DEPTH_OF_BYTE = np.zeros(256, dtype=np.int8)
DEPTH_OF_BYTE[list(b"({[")], DEPTH_OF_BYTE[list(b")}]")] = 1, -1
TEXTS = re.compile(rb'"""(?:[^"]|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*')
# A reference to looks in an existing file, which a USD library without MaterialX can't open
LOOKS = re.compile(r"Cannot determine file format for @[^@]*\.mtlx[:@]", re.IGNORECASE)
ADVICE = "give it a path that exists, or remove it"


@contextmanager
def readable(path: Path, verb: str = "read") -> Iterator[None]:
    """Turn USD library errors inside the ``with`` block into errors of the file, which can't be ``verb``.

    Raises:
        ImportFileError: for errors of the library, texts that aren't UTF-8 and prims that vanished.
    """
    try:
        yield
    except Tf.ErrorException as error:
        raise ImportFileError(path, f"can't be {verb} as USD: {_reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ImportFileError(path, f"can't be {verb} as USD: it holds a text that is not UTF-8 ({error})") from None
    except RuntimeError as error:
        raise ImportFileError(path, f"can't be {verb} as USD: {str(error).strip()}") from error


def open_stage(path: Path) -> tuple[Usd.Stage, list[str]]:
    """Open a file with all of its layers.

    Returns:
        The stage, and notes on what was ignored when its layers were composed.

    Raises:
        ImportFileError: for a file that can't be opened or is nested too deep; and, naming layer and prim, for a
            sublayer, reference or payload that doesn't exist, can't be opened, or leads back to itself.
    """
    if not os.path.isfile(path):  # Path.is_file raises OSError for a name that is too long
        raise ImportFileError(path, "no such file")
    _refuse_nesting(path)
    with readable(path, "opened"):
        stage = Usd.Stage.Open(str(path))
        # The library caches layers that another stage has open, as they were when it was opened.
        for layer in stage.GetUsedLayers():
            if not layer.anonymous and not layer.dirty:
                layer.Reload()
    notes = []
    for found in stage.GetCompositionErrors():
        if not isinstance(found, INCOMPLETE):
            notes.append(_plain(found))
        elif LOOKS.search(str(found)):
            notes.append(f"ignored: looks of MaterialX: {_plain(found)}")
        elif _counts(stage, found):
            where = found.rootSite.path
            element = None if where.isEmpty or where.IsAbsoluteRootPath() else f"prim '{where}'"
            raise ImportFileError(path, f"{_plain(found)}; {ADVICE}", element)
    return stage, notes


def _refuse_nesting(path: Path) -> None:
    """Raise ImportFileError for a text file that is nested deeper than the USD library can read."""
    try:
        with path.open("rb") as file:
            if file.read(5) != b"#usda":
                return
            deepest = _depth(iter(lambda: file.read(CHUNK), b""))
        if deepest > DEEPEST:
            # Brackets in texts and comments don't count.
            deepest = _depth(iter([TEXTS.sub(b"", path.read_bytes())]))
    except OSError as error:
        raise ImportFileError(path, f"can't be opened: {error.strerror}") from None
    if deepest > DEEPEST:
        raise ImportFileError(path, f"has brackets nested {deepest} deep; at most {DEEPEST} levels are read")


def _depth(chunks: Iterator[bytes]) -> int:
    """Return the largest number of brackets that are open at once."""
    depth = deepest = 0
    for chunk in chunks:
        running = depth + np.cumsum(DEPTH_OF_BYTE[np.frombuffer(chunk, dtype=np.uint8)], dtype=np.int32)
        depth, deepest = int(running[-1]), max(deepest, int(running.max()))
    return deepest


def _counts(stage: Usd.Stage, error: Any) -> bool:
    """Return whether an error is at an active prim: inactive ones may refer to anything."""
    prim = stage.GetPrimAtPath(error.rootSite.path)
    return not prim or prim.IsActive()


def _plain(error: Any) -> str:
    """Return the text of a composition error in one line, without the names of anonymous session layers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(_without_session(line) for line in lines).rstrip(".")


def _without_session(line: str) -> str:
    start = line.find(",@anon:")
    end = line.find("@", start + 2) if start >= 0 else -1
    return line if end < 0 else line[:start] + line[end + 1 :]


def _reason(error: Tf.ErrorException) -> str:
    """Return the cause: the last of several errors only says that reading failed, the one before says where."""
    reasons = [str(item.commentary).strip() for item in error.args if hasattr(item, "commentary")]
    return reasons[max(len(reasons) - 2, 0)] if reasons else str(error).strip()
