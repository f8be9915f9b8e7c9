"""The small pictures of the examples: frames are left out until a file is small enough."""

import numpy as np
from PIL import Image

from bench import pictures
from sim.render import write_gif


def test_a_small_animation_has_fewer_frames_and_the_same_length(monkeypatch, tmp_path):
    frames = np.full((40, 32, 48, 3), 90, dtype=np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3), dtype=np.uint8)
    frames[:30, 8:24, 8:24], frames[30:, 8:24, 8:24] = noise, noise[-1]  # it comes to rest
    whole = write_gif(tmp_path / "whole.gif", frames, fps=25)
    monkeypatch.setattr(pictures, "LARGEST", whole.stat().st_size // 3)
    small = pictures.make_small(whole, tmp_path / "small.gif")
    assert small.stat().st_size <= pictures.LARGEST
    lengths, last = [], []
    for path in (whole, small):
        with Image.open(path) as image:
            seconds = 0.0
            for number in range(image.n_frames):
                image.seek(number)
                seconds += image.info["duration"] / 1000.0
            lengths.append(seconds)
            last.append(np.asarray(image.convert("RGB"), dtype=float))
    assert abs(lengths[1] - lengths[0]) < 0.25
    assert np.abs(last[1] - last[0]).mean() < 3.0
