"""Prepare the tree for a release: addresses of the repository, whole links in README, the notes.

    python docs/release.py https://github.com/OWNER/NAME v0.2.0 out/notes.md

Only the workflow of the release knows the repository, which may be a fork. Package indexes show the README, whose
links are relative here.
"""

import re
import sys
from pathlib import Path

from site_links import LINK, ROOT


def addresses(repository: str, tag: str) -> dict[str, str]:
    """Return the project's addresses by the names that package indexes know."""
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/start.md",
        "Source": f"{repository}/tree/{tag}",
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Security": f"{repository}/security/policy",
    }


def with_addresses(project: str, repository: str, tag: str) -> str:
    """Return the text of pyproject.toml with the project's addresses.

    Raises:
        ValueError: if it has addresses already.
    """
    if "[project.urls]" in project:
        raise ValueError("pyproject.toml has a table [project.urls] already")
    lines = [f'{name} = "{address}"' for name, address in addresses(repository, tag).items()]
    return "\n".join([project.rstrip("\n"), "", "[project.urls]", *lines, ""])


def with_whole_links(page: str, repository: str, tag: str) -> str:
    """Return the text of README.md with its links to files, pictures included, as addresses in the repository."""

    def whole(picture: str, label: str, target: str) -> str:
        if "://" not in target and not target.startswith(("#", "mailto:")):
            target = f"{repository}/{'raw' if picture else 'blob'}/{tag}/{target}"
        return f"{picture}[{label}]({target})"

    return LINK.sub(lambda found: whole(found["picture"], found["text"], found["target"]), page)


def notes(changelog: str, version: str) -> str:
    """Return the section of a version in CHANGELOG.md, without its heading.

    Raises:
        ValueError: if there is no such section, or changes are listed as unreleased.
    """
    sections = dict(re.findall(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    if not sections.get(version, "").strip():
        raise ValueError(f"CHANGELOG.md has no section for {version}")
    if sections.get("Unreleased", "").strip():
        raise ValueError(f"CHANGELOG.md lists changes under Unreleased; move them to {version}")
    return sections[version].strip() + "\n"


def version_of(tag: str, source: str) -> str:
    """Return the version that a tag names.

    Args:
        tag: "v" and the version.
        source: the text of sim/version.py.

    Raises:
        ValueError: if the package has another version.
    """
    found = re.search(r'^__version__ = "([^"]+)"', source, re.MULTILINE)
    version = found[1] if found else None
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but sim/version.py has {version}")
    return tag[1:]


def main() -> None:
    """Write the notes, README.md and pyproject.toml."""
    repository, tag, out = sys.argv[1:]
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("sim/version.py", "CHANGELOG.md", "pyproject.toml", "README.md")
    }
    try:
        text = notes(texts["CHANGELOG.md"], version_of(tag, texts["sim/version.py"]))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(text, encoding="utf-8")
    for name, change in {"pyproject.toml": with_addresses, "README.md": with_whole_links}.items():
        (ROOT / name).write_text(change(texts[name], repository, tag), encoding="utf-8")


if __name__ == "__main__":
    main()
