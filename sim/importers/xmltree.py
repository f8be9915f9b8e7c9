"""XML elements that know their file and line, for error messages."""

import math
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from sim.errors import ImportFileError
from sim.importers.transaction import located
from sim.model.specs import UNREACHABLE

BLANKS_FIRST = re.compile(rb"\A(\xef\xbb\xbf)?(\s+)(<\?xml[^>]*>)")


@dataclass(eq=False)
class Element:
    """One XML element.

    Attributes:
        tag: its name.
        attributes: its attributes.
        path: the file.
        line: the line of its start tag.
        parent: the element around it; None for the root.
        children: the elements directly inside it.
        content: the text directly inside it, without blanks around it.
    """

    tag: str
    attributes: dict[str, str]
    path: Path
    line: int
    parent: "Element | None" = field(repr=False, default=None)
    children: list["Element"] = field(repr=False, default_factory=list)
    content: str = field(repr=False, default="")

    @property
    def label(self) -> str:
        """Return its name for messages: the nearest named link or joint, the tag inside it, and the line."""
        named: Element | None = self
        while named is not None and not (named.tag in ("link", "joint") and named.attributes.get("name")):
            named = named.parent
        if named is None:
            what = f"<{self.tag}>"
        else:
            what = f"{named.tag} '{named.attributes['name']}'" + ("" if named is self else f", <{self.tag}>")
        return f"{what} (line {self.line})"

    def error(self, message: str) -> ImportFileError:
        """Return an error that names the file and this element; the caller raises it."""
        return ImportFileError(self.path, message, self.label)

    def located(self, subject: str) -> AbstractContextManager[None]:
        """Turn an error of the builder into one that names the file and this element."""
        return located(self.error, subject)

    def all(self, tag: str) -> list["Element"]:
        """Return the children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def optional(self, tag: str) -> "Element | None":
        """Return the one child with this tag, or None. Raise ImportFileError if there are more."""
        found = self.all(tag)
        if len(found) > 1:
            raise self.error(
                f"has {len(found)} <{tag}> elements, the second in line {found[1].line}; at most one is allowed"
            )
        return found[0] if found else None

    def required(self, tag: str) -> "Element":
        """Return the one child with this tag. Raise ImportFileError if there is none or more."""
        found = self.optional(tag)
        if found is None:
            raise self.error(f"has no <{tag}> element; it needs one")
        return found

    def text(self, name: str) -> str:
        """Return an attribute that must exist and not be empty."""
        value = self.attributes.get(name, "")
        if not value.strip():
            raise self.error(f"attribute '{name}' is {'empty' if name in self.attributes else 'missing'}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return an attribute as a finite number; it is required if ``default`` is None."""
        return float(self.vector(name, 1, None if default is None else (default,))[0])

    def bound(self, name: str, default: float) -> float:
        """Return an attribute as a number that may be infinite, such as a limit; very large ones count as infinite."""
        value = self._numbers(name, 1)[0] if name in self.attributes else default
        if math.isnan(value):
            raise self.error(f"attribute '{name}' is not a number: '{self.attributes[name]}'")
        return math.copysign(math.inf, value) if abs(value) >= UNREACHABLE else value

    def vector(self, name: str, count: int, default: tuple[float, ...] | None = None) -> np.ndarray:
        """Return an attribute as ``count`` finite numbers; it is required if ``default`` is None."""
        if name not in self.attributes and default is not None:
            return np.array(default, dtype=np.float64)
        values = self._numbers(name, count)
        if not all(math.isfinite(value) for value in values):
            raise self.error(f"attribute '{name}' is not finite: '{self.attributes[name]}'")
        return np.array(values)

    def _numbers(self, name: str, count: int) -> list[float]:
        # Published files also separate numbers by ", ".
        words = [word.removesuffix(",") for word in self.text(name).split()]
        try:
            values = [float(word) for word in words]
        except ValueError:
            hint = "; expand the macros with xacro first" if "$" in self.attributes[name] else ""
            raise self.error(f"attribute '{name}' is not numeric: '{self.attributes[name]}'{hint}") from None
        if len(values) != count:
            raise self.error(
                f"attribute '{name}' has {len(values)} numbers, expected {count}: '{self.attributes[name]}'"
            )
        return values


def read_text(path: Path) -> bytes:
    """Return the bytes of a file. Raise ImportFileError if it can't be read or is empty."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ImportFileError(path, f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    if not data.strip():
        raise ImportFileError(path, "the file is empty")
    return data


def parse_xml(path: Path) -> Element:
    """Read an XML file.

    Args:
        path: the file.

    Returns:
        The root element.

    Raises:
        ImportFileError: if the file can't be read, is empty or is not well-formed.
    """
    # Blank lines before the declaration, which expat rejects, are moved behind it, which preserves line numbers.
    data = BLANKS_FIRST.sub(rb"\1\3\2", read_text(path))
    parser = expat.ParserCreate()
    roots: list[Element] = []
    open_elements: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        parent = open_elements[-1] if open_elements else None
        element = Element(tag, attributes, path, parser.CurrentLineNumber, parent)
        (roots if parent is None else parent.children).append(element)
        open_elements.append(element)
        texts.append([])

    texts: list[list[str]] = []

    def end(tag: str) -> None:
        open_elements.pop().content = "".join(texts.pop()).strip()

    def text(data: str) -> None:
        if texts:
            texts[-1].append(data)

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: unknown encodings
        raise ImportFileError(path, f"is not well-formed XML: {error}") from None
    return roots[0]
