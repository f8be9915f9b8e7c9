"""A release: addresses of the repository that makes it, notes of its version, workflows with few rights."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import sim

ROOT = Path(__file__).parents[2]
REPOSITORY, TAG = "https://forge.example/someone/backswing", "v1.2.3"


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import release

    yield release
    for name in ("release", "site_links"):
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
        direction = "raw" if picture else "blob"
        assert new == (old if "://" in old else f"{REPOSITORY}/{direction}/{TAG}/{old}")
        assert "://" in old or (ROOT / old.partition("#")[0]).exists()


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n{}## [1.2.3] - 2030-01-01\n\n- Add this\n\n## [1.2.2]\n\n- Add that\n"


def test_notes(release):
    assert release.notes(CHANGELOG.format(""), "1.2.3") == "- Add this\n"
    assert release.notes(CHANGELOG.format(""), "1.2.2") == "- Add that\n"
    with pytest.raises(ValueError, match=r"1\.2\.4"):
        release.notes(CHANGELOG.format(""), "1.2.4")
    with pytest.raises(ValueError, match="Unreleased"):
        release.notes(CHANGELOG.format("- Fix it\n\n"), "1.2.3")


def test_the_tag_names_the_version(release):
    assert release.version_of(f"v{sim.__version__}", (ROOT / "sim/version.py").read_text()) == sim.__version__
    for tag in ("v1.2", "1.2.3", "v1.2.3-rc"):
        with pytest.raises(ValueError, match=r"1\.2\.3"):
            release.version_of(tag, '__version__ = "1.2.3"\n')


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights(path):
    """They read only, unless a job that installs nothing needs more; actions are commits."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        commands = "\n".join(step.get("run", "") for step in job["steps"])
        if "permissions" in job:
            assert job["permissions"] == {"contents": "write"}
            assert not re.search(r"pip|make|python", commands)
        for step in job["steps"]:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", "a@" + 40 * "0"))
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    uses = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert all(re.search(r" # v\d+\.\d+\.\d+$", line) for line in uses)


def test_packages_are_built_from_what_the_workflow_has_prepared():
    """By a job that installs only packages with known hashes."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert [command.split()[:2] for command in commands] == [["python", "docs/release.py"], ["make", "dist"]]
    assert set(jobs["publish"]["needs"]) == {"build", "try"}
    lines = (ROOT / ".github/build-requirements.txt").read_text(encoding="utf-8")
    packages = re.findall(r"^([\w-]+)==.*\\\n    --hash=sha256:[0-9a-f]{64}", lines, re.MULTILINE)
    assert len(packages) == len(re.findall("^[a-z]", lines, re.MULTILINE)) >= 4
