"""A release has the addresses of the repository that makes it."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPOSITORY, TAG = "https://forge.example/someone/backswing", "v1.2.3"


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import release_links

    yield release_links
    for name in ("release_links", "site_links"):
        sys.modules.pop(name, None)


def test_addresses_of_the_project(release):
    before = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    after = tomllib.loads(release.with_addresses(before, REPOSITORY, TAG))
    urls = after["project"].pop("urls")
    assert after == tomllib.loads(before)
    assert urls["Source"] == f"{REPOSITORY}/tree/{TAG}"
    for address in urls.values():
        _, _, file = address.partition(f"/blob/{TAG}/")
        assert address.startswith(REPOSITORY)
        assert (ROOT / file).exists()
    with pytest.raises(ValueError, match="already"):
        release.with_addresses(release.with_addresses(before, REPOSITORY, TAG), REPOSITORY, TAG)


def test_links_of_the_readme(release):
    """All that were relative are addresses of the same files, pictures as they are and not as pages about them."""
    before = (ROOT / "README.md").read_text(encoding="utf-8")
    after = release.with_whole_links(before, REPOSITORY, TAG)
    links = [re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text) for text in (before, after)]
    assert len(links[0]) == len(links[1]) > 50
    for (picture, old), (_, new) in zip(*links, strict=True):
        way = "raw" if picture else "blob"
        assert new == (old if "://" in old else f"{REPOSITORY}/{way}/{TAG}/{old}")
        assert "://" in old or (ROOT / old.partition("#")[0]).exists()


def test_the_workflow_asks_for_them():
    workflow = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    links = workflow.index('docs/release_links.py "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" "$GITHUB_REF_NAME"')
    assert links < workflow.index("run: make package")
