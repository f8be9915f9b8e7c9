"""Tags of an MJCF file, parsed as leniently as MuJoCo does and in one pass."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.importers.xmltree import read_text

# Start and end of markup that isn't an element
SKIPPED = ((b"<!--", b"-->"), (b"<?", b"?>"), (b"<!DOCTYPE", b">"))
# The alternatives begin with different characters, so that no text is matched in two ways.
TAG = re.compile(rb"""<(/?)([^\s<>/!?"']+)((?:[^<>"']|"[^"]*"|'[^']*')*)(>?)""")
# With or without a value, so that a long word is never scanned twice.
ATTRIBUTE = re.compile(rb"""([^\s="'/]+)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'))?""")


@dataclass(frozen=True)
class Tag:
    """A start or end tag.

    Attributes:
        name: name of the element.
        start: position in the file [bytes].
        inside: the text after the name.
        ends: whether it is an end tag.
        alone: whether it is a start tag and an end tag in one.
    """

    name: str
    start: int
    inside: bytes
    ends: bool
    alone: bool

    @property
    def attributes(self) -> dict[str, str]:
        """Return the attributes by name."""
        return {_text(name): _text(a or b) for name, a, b in ATTRIBUTE.findall(self.inside)}


def tags(data: bytes) -> Iterator[Tag]:
    """Yield the tags of a file from first to last, except those in comments.

    A comment ends at the first ``-->``, as in MuJoCo's parser, which is more lenient than XML. An unterminated one is
    treated as text.
    """
    unclosed: set[bytes] = set()
    at = data.find(b"<")
    while at >= 0:
        after = _skipped(data, at, unclosed)
        if after < 0:
            found = TAG.match(data, at)
            if found is not None:
                slash, name, inside, _ = found.groups()
                yield Tag(_text(name), at, inside, bool(slash), inside.endswith(b"/"))
            after = at + 1 if found is None else found.end()
        at = data.find(b"<", after)


def _skipped(data: bytes, at: int, unclosed: set[bytes]) -> int:
    """Return the end of a comment or declaration that begins here; -1 for anything else."""
    for opening, closing in SKIPPED:
        if closing not in unclosed and data.startswith(opening, at):
            end = data.find(closing, at)
            if end >= 0:
                return end + len(closing)
            unclosed.add(closing)  # so that the rest is searched for it only once
    return -1


def root_tag(path: Path) -> str:
    """Return the tag of a file's root element, empty if it has none.

    Raises:
        ImportFileError: if the file can't be read or is empty.
    """
    first = next((tag for tag in tags(read_text(path)) if not tag.ends), None)
    return "" if first is None else first.name


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
