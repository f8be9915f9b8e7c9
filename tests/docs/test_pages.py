"""The programs of the pages that a new user reads first run, and do what the text says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """Run the programs of a page one after the other, in a folder that has the scenes; return their names."""
    (folder / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(folder)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    return names


def test_start(monkeypatch, tmp_path) -> None:
    names = run("start.md", tmp_path, monkeypatch)
    assert names["distance"].item() < 0.03  # the text says 2 cm, of 61 cm at first
    assert (tmp_path / "motion.gif").stat().st_size > 10_000


def test_concepts(monkeypatch, tmp_path) -> None:
    names = run("concepts.md", tmp_path, monkeypatch)
    assert names["gradients"].tau.shape == (100, 4, names["model"].nv)


def test_how_to_choose_a_solver(monkeypatch, tmp_path, capsys) -> None:
    names = run("solvers.md", tmp_path, monkeypatch)
    assert "from 1000 sweeps" in capsys.readouterr().out
    assert names["newton"].residual.max() < 1e-9


def test_rays(monkeypatch, tmp_path) -> None:
    names = run("rays.md", tmp_path, monkeypatch)
    gradient = names["q"].grad
    # A robot that is a metre higher sees the ground a metre deeper, wherever its rays fall.
    assert gradient[:, 2].tolist() == pytest.approx([-1 / 64] * 64, rel=1e-4)


def test_terrain(monkeypatch, tmp_path) -> None:
    names = run("terrain.md", tmp_path, monkeypatch)
    above = names["q"][:, 2] - names["ground"].height(names["q"][:, :2])
    assert abs(above - names["quadruped"].standing_height()).max() < 0.05  # all stand
    assert (tmp_path / "terrain.png").stat().st_size > 10_000


def test_ten_lines_are_those_of_the_readme() -> None:
    first, second = (
        re.search(r"## Ten lines.*?```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[1]
        for page in ("README.md", "docs/start.md")
    )
    assert second.startswith(first.replace('dtype="float32"', ""))
