"""Check of a built site: every link inside it leads somewhere, every public name has an entry, no page loads anything
from another host, and no tutorial shows that kernels were compiled.

    python -m tests.docs.check_site out/docs

Links to other hosts are not followed.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs.public_names import public_names

# Pages that Sphinx makes for its own search and index.
GENERATED = {"genindex.html", "search.html", "py-modindex.html"}


class Page(HTMLParser):
    """The places of a page that links can point to, and where its own links and pictures lead."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.loaded: list[str] = []  # scripts, styles and pictures
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag says."""
        said = dict(attrs)
        self.anchors |= {said[key] or "" for key in ("id", "name") if key in said}
        self.targets += [said[key] or "" for key in ("href", "src") if key in said]
        if tag in ("script", "img", "iframe") or (tag == "link" and said.get("rel") == "stylesheet"):
            self.loaded += [said[key] or "" for key in ("href", "src") if key in said]


def broken(site: Path) -> list[str]:
    """Each link inside the site that leads nowhere, as "page -> target"."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        for target in page.targets:
            link = urlsplit(target)
            if link.scheme or link.netloc or target == "#":
                continue
            other = (path.parent / unquote(link.path)).resolve() if link.path else path
            missing = not other.is_file()
            if link.fragment and other in pages and path.name not in GENERATED:
                missing = unquote(link.fragment) not in pages[other].anchors
            if missing:
                wrong.append(f"{path.relative_to(site.resolve())} -> {target}")
    return wrong


def from_elsewhere(site: Path) -> list[str]:
    """What pages load from other hosts, as "page -> address": a reader without a network would miss it."""
    return [
        f"{path.relative_to(site)} -> {target}"
        for path in sorted(site.rglob("*.html"))
        for target in Page(path).loaded
        if urlsplit(target).netloc
    ]


def undocumented(site: Path) -> list[str]:
    """Public names that no page of the site has an entry for."""
    anchors = set().union(*(Page(path).anchors for path in (site / "api").glob("*.html")))
    return sorted(set(public_names()) - anchors)


def compiling(site: Path) -> list[str]:
    """Return the pages whose programs printed that they compile kernels, because the cache lacked them."""
    pages = sorted((site / "tutorials").glob("*.html"))
    return [page.name for page in pages if re.search(r"compiling \d+ modules? of kernels", page.read_text("utf-8"))]


def main() -> None:
    site = Path(sys.argv[1])
    wrong = [f"broken link: {link}" for link in broken(site)]
    wrong += [f"loaded from another host: {link}" for link in from_elsewhere(site)]
    wrong += [f"no entry in the reference: {name}" for name in undocumented(site)]
    wrong += [f"compiles kernels: {page}; remove out/docs-cache and build again" for page in compiling(site)]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages, no broken link, {len(public_names())} public names")


if __name__ == "__main__":
    main()
