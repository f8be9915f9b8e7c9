"""Pillow is an extra: without it everything but writing pictures works."""

import subprocess
import sys

import numpy as np
import pytest

from sim.render import write_gif, write_png
from tests.errors import refuses


def test_writing_pictures_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    picture = np.zeros((4, 4, 3), np.uint8)
    refuses(lambda: write_png(tmp_path / "a.png", picture), "'backswing[plot]'")
    refuses(lambda: write_gif(tmp_path / "a.gif", picture[None], fps=10), "'backswing[plot]'")


@pytest.mark.slow
def test_modules_that_need_no_extra_are_imported_without_it() -> None:
    program = "import sys; sys.modules['PIL'] = None; import sim.torch, sim.envs, sim.exporters, sim.usd, sim.render"
    subprocess.run([sys.executable, "-c", program], check=True)
