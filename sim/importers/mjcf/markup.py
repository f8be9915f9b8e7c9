"""The tags of an MJCF file, read as leniently as MuJoCo reads them and in one pass."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.importers.xmltree import read_text

# What is no element, and how it ends.
SKIPPED = ((b"<!--", b"-->"), (b"<?", b"?>"), (b"<!DOCTYPE", b">"))
# The alternatives begin with different characters, so that no stretch of text is tried in two ways.
TAG = re.compile(rb"""<(/?)([^\s<>/!?"']+)((?:[^<>"']|"[^"]*"|'[^']*')*)(>?)""")
# With or without a value, so that a long word is never looked at again from its second character on.
ATTRIBUTE = re.compile(rb"""([^\s="'/]+)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'))?""")


@dataclass(frozen=True)
class Tag:
    """A start or end tag.

    Attributes:
        name: of the element.
        start: where it stands in the file [bytes].
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
        """The attributes by name."""
        return {_text(name): _text(a or b) for name, a, b in ATTRIBUTE.findall(self.inside)}


def tags(data: bytes) -> Iterator[Tag]:
    """The tags of a file from first to last, without those in comments.

    A comment ends at the first ``-->``, as in MuJoCo's parser, which is more lenient than XML. One that never ends is
    taken as text.
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
    """The end of a comment or declaration that begins here; -1 where there is none."""
    for opening, closing in SKIPPED:
        if closing not in unclosed and data.startswith(opening, at):
            end = data.find(closing, at)
            if end >= 0:
                return end + len(closing)
            unclosed.add(closing)  # so that the rest is searched for it only once
    return -1


def root_tag(path: Path) -> str:
    """The tag of a file's first element, empty if it has none.

    Raises:
        ImportFileError: if the file can't be read or is empty.
    """
    first = next((tag for tag in tags(read_text(path)) if not tag.ends), None)
    return "" if first is None else first.name


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
