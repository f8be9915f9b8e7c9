"""Small animations of the README: as long as they were, with every picture at its time."""

import numpy as np
from PIL import Image

from bench.pictures import read, write
from sim.render import write_gif


def test_animations_keep_their_times(tmp_path):
    shades = [20, 90, 160, 160, 160, 160, 230]  # a still stretch is one long frame of a GIF
    frames = np.stack([np.full((36, 64, 3), shade, np.uint8) for shade in shades])
    write_gif(tmp_path / "clip.gif", frames, 25.0)
    pictures, seconds = read(tmp_path / "clip.gif", (32, 18))
    assert seconds == 0.04
    assert [picture.size for picture in pictures] == [(32, 18)] * len(shades)
    seen = [int(np.asarray(picture).mean()) for picture in pictures]
    np.testing.assert_allclose(seen, shades, atol=4)
    write(tmp_path / "clip.webp", pictures, seconds)
    with Image.open(tmp_path / "clip.webp") as clip:
        times, again = [], []
        for number in range(clip.n_frames):
            clip.seek(number)
            again.append(int(np.asarray(clip.convert("RGB")).mean()))
            times.append(clip.info["duration"])
    assert sum(times) == 40 * len(shades)
    np.testing.assert_allclose(sorted(set(again)), sorted(set(shades)), atol=8)
