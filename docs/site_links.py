"""Pages of the site that lie elsewhere in the repository, and links that work on the forge and on the site alike.

All pages are Markdown whose links are right where the file lies. On the site some of their targets are other pages: the
changelog is README's neighbour in the repository, and a page of its own here.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
# Pages that are a file of the repository, or one section of it: the page in docs only says where it is.
BORROWED = {
    "changelog": ("CHANGELOG.md", None),
    "contributing": ("CONTRIBUTING.md", None),
    "examples": ("README.md", "Examples"),
}
# Where links to files beside docs lead on the site; files that are not listed can be downloaded.
PAGES = {
    "README.md": "docs/start.md",
    "README.md#examples": "docs/examples.md",
    "CHANGELOG.md": "docs/changelog.md",
    "CONTRIBUTING.md": "docs/contributing.md",
    "examples/kinematics_and_dynamics.ipynb": "docs/tutorials/kinematics_and_dynamics.ipynb",
}
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]\[]*(?:\[[^\]]*\][^\]\[]*)?)\]\((?P<target>[^)\s]+)\)")


def on_site(text: str, page: Path, origin: Path) -> str:
    """The text of a page with its links as they have to be on the site.

    Args:
        text: Markdown.
        page: the file in docs that shows it.
        origin: the file that it comes from; targets are relative to this one.
    """

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = Path(os.path.normpath(origin.parent / target))
        if not path.exists():
            return found[0]
        inside = path.relative_to(ROOT).as_posix()
        label = found["text"]
        if path.is_dir():
            return label
        for key in (f"{inside}#{anchor}", inside):
            if key in PAGES:
                path = ROOT / PAGES[key]
                anchor = "" if "#" in key else anchor
                break
        if not found["picture"] and path.suffix == ".md" and re.fullmatch(r"[\w./-]+\.md", label):
            label = ""  # the title of what it points to
        where = os.path.relpath(path, page.parent)
        if path.suffix == ".ipynb":
            return f"{{doc}}`{label} <{where.removesuffix('.ipynb')}>`"
        return f"{found['picture']}[{label}]({where}{'#' + anchor if anchor else ''})"

    return LINK.sub(link, text)


def section(text: str, heading: str) -> str:
    """One section of a page, its heading as the title and those below it one level up."""
    body = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if body is None:
        raise ValueError(f"there is no section '{heading}'")
    return f"# {heading}\n" + re.sub(r"^##(#+) ", r"#\1 ", body[1], flags=re.MULTILINE)


def without_empty_patterns(text: str, page: Path) -> str:
    """The text without the patterns of its toctrees, such as ``optimise*``, that no page matches; Sphinx would warn."""

    def matched(found: re.Match[str]) -> str:
        return found[0] if any(page.parent.glob(f"{found[1]}.md")) else ""

    return re.sub(r"^([\w/-]+\*)\n", matched, text, flags=re.MULTILINE)


def read(app: "Sphinx", docname: str, source: list[str]) -> None:
    """Sphinx's event ``source-read``."""
    page = Path(app.env.doc2path(docname))
    if page.suffix not in (".md", ".ipynb"):
        return
    origin, text = Path(os.path.realpath(page)), source[0]
    if docname in BORROWED:
        name, heading = BORROWED[docname]
        origin = ROOT / name
        text = origin.read_text(encoding="utf-8")
        text = section(text, heading) if heading else text
    source[0] = on_site(without_empty_patterns(text, page), page, origin)


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect the event."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
