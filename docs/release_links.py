"""Gives a release the addresses of the repository that makes it: those of the project, and the links of its README.

    python docs/release_links.py https://github.com/OWNER/NAME v0.2.0

Which repository that is, a fork's own or another, only the workflow of the release knows. Package indexes show the
README, whose links are relative here.
"""

import sys

from site_links import LINK, ROOT


def addresses(repository: str, tag: str) -> dict[str, str]:
    """The project's addresses by the names that package indexes know."""
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/start.md",
        "Source": f"{repository}/tree/{tag}",
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Security": f"{repository}/security/policy",
    }


def with_addresses(project: str, repository: str, tag: str) -> str:
    """The text of pyproject.toml with the project's addresses.

    Raises:
        ValueError: if it has addresses already.
    """
    if "[project.urls]" in project:
        raise ValueError("pyproject.toml has a table [project.urls] already")
    lines = [f'{name} = "{address}"' for name, address in addresses(repository, tag).items()]
    return "\n".join([project.rstrip("\n"), "", "[project.urls]", *lines, ""])


def with_whole_links(page: str, repository: str, tag: str) -> str:
    """The text of README.md with its links to files, pictures included, as addresses in the repository."""

    def whole(picture: str, label: str, target: str) -> str:
        if "://" not in target and not target.startswith(("#", "mailto:")):
            target = f"{repository}/{'raw' if picture else 'blob'}/{tag}/{target}"
        return f"{picture}[{label}]({target})"

    return LINK.sub(lambda found: whole(found["picture"], found["text"], found["target"]), page)


def main() -> None:
    """Write both files anew."""
    repository, tag = sys.argv[1:]
    for name, change in {"pyproject.toml": with_addresses, "README.md": with_whole_links}.items():
        file = ROOT / name
        file.write_text(change(file.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")


if __name__ == "__main__":
    main()
