"""Small animations of the README: as long as they were, with every picture at its time."""

import numpy as np
from PIL import Image

from bench.pictures import FILM, FILM_RATE, caption_strip, clips, film, read, write
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


def test_the_film_shows_every_clip_above_its_caption(tmp_path):
    """The animation of an example's output, or without one that of the page; captions end before the picture does."""
    for number, name in enumerate(FILM):
        shade = np.full((2, 36, 64, 3), 20 * number + 40, np.uint8)
        shade[1, 0, 0] = 0  # else the second frame would be the first
        folder = tmp_path / "out" / name
        folder.mkdir(parents=True)
        write_gif(folder / f"{name}.gif", shade, 25.0)
    last = tmp_path / "out" / name / f"{name}.gif"
    pictures, seconds = read(last, (64, 36))
    last.unlink()
    write(tmp_path / f"{name}.webp", pictures, seconds)
    frames = film(clips(tmp_path / "out", tmp_path), (64, 36))
    assert len(frames) == len(FILM) * int(2 / 25 * FILM_RATE)
    shades = [np.asarray(frame)[10:30, 10:50].mean() for frame in frames]
    np.testing.assert_allclose(shades, [20 * number + 40 for number in range(len(FILM))], atol=6)
    for caption in FILM.values():
        assert (np.asarray(caption_strip(caption, 480))[:, -10:] == (70, 78, 92)).all()
