"""Small animations of all examples for the README and the documentation, and a film of them.

    python -m bench.pictures
    python -m bench.pictures --only golf friction

Runs the examples, and ``bench.throws``, which draws 64 worlds, and writes their animations as WebP. Animations that
already exist in --out are reused, and an interrupted example resumes.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from examples.__main__ import find_examples

DOCS = Path(__file__).parents[1] / "docs"
SIZE = (480, 270)  # of an animation [pixels]
TWICE = (960, 540)  # of the picture of a batch of worlds [pixels]
FASTEST, FILM_RATE = 25.0, 12.5  # highest frame rate of an animation, and that of the film [frames per second]
QUALITY = 64  # of WebP, of 100
PLOTS = {"joint_friction": "curves.png"}  # plots that the pages show
# Animations of other pages, of which the README shows a still, at this share of the time.
STILLS = {"devices": 0.43}
WORLDS = "throws"  # outputs of bench.throws
FILM = {
    "throw": "An arm throws a ball at a target",
    "throws": "The same in 64 worlds, each with a target of its own",
    "golf": "A linkage hits a ball to rest at a mark",
    "pick": "An arm carries a box, held by friction alone",
    "push": "A box is pushed to a place and turn",
    "jump": "A quadruped jumps onto a step",
    "parking": "A racecar backs into a gap",
    "payload": "Two arms carry a load; the blue one knows it from a log",
    "reach": "Two arms visit targets by a network, before and after training",
}


def read(animation: Path, size: tuple[int, int]) -> tuple[list[Image.Image], float]:
    """Read frames of an animation at a size, with equal durations, and the time of each [s]."""
    with Image.open(animation) as image:
        pictures, seconds = [], []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            pictures.append(image.convert("RGB").resize(size, Image.Resampling.BOX))
            seconds.append(image.info["duration"] / 1000.0)  # for WebP known only after reading
    # A GIF stores a still stretch as one long frame.
    shortest = max(min(seconds), 1.0 / FASTEST)
    ends = np.cumsum(seconds)
    times = np.arange(0.0, ends[-1] - 1e-9, shortest)
    return [pictures[int(np.searchsorted(ends, time + 1e-9))] for time in times], shortest


def write(path: Path, frames: Sequence[Image.Image], seconds: float) -> None:
    """Write an endless animation."""
    frames[0].save(
        path, save_all=True, append_images=list(frames[1:]), duration=round(1000.0 * seconds), loop=0, quality=QUALITY,
        method=4,
    )  # fmt: skip


def clips(out: Path, pages: Path) -> list[Path]:
    """Return the animations of the film: the examples' output, or else those of the pages."""
    found = [(out / name / f"{name}.gif", pages / f"{name}.webp") for name in FILM]
    return [own if own.is_file() else page for own, page in found]


def film(animations: Sequence[Path], size: tuple[int, int]) -> list[Image.Image]:
    """Concatenate the animations, each with a caption below, at ``FILM_RATE`` frames per second."""
    frames = []
    for animation, caption in zip(animations, FILM.values(), strict=True):
        pictures, seconds = read(animation, size)
        strip = caption_strip(caption, size[0])
        for number in range(int(len(pictures) * seconds * FILM_RATE)):
            frame = Image.new("RGB", (size[0], size[1] + strip.height))
            frame.paste(pictures[min(int(number / (FILM_RATE * seconds)), len(pictures) - 1)])
            frame.paste(strip, (0, size[1]))
            frames.append(frame)
    return frames


def caption_strip(caption: str, width: int) -> Image.Image:
    """Draw a strip of this width with a line of text in the largest size that fits, 20 pixels at most."""
    strip = Image.new("RGB", (width, 36), (70, 78, 92))
    draw = ImageDraw.Draw(strip)
    for pixels in range(20, 9, -1):
        font = ImageFont.load_default(pixels)
        if draw.textlength(caption, font=font) <= width - 28:
            break
    draw.text((14, 18), caption, fill=(255, 255, 255), font=font, anchor="lm")
    return strip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*find_examples(), WORLDS]
    parser.add_argument(
        "--only", nargs="+", choices=everything, default=everything, metavar="EXAMPLE", help="what to draw (all)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/pictures"), help="folder for the examples' output (out/pictures)"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    options = parser.parse_args()
    folder = options.docs / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in options.only:
        out = options.out / name
        if not (out / f"{name}.gif").is_file():
            print(f"---- {name}", flush=True)
            module = ["bench.throws"] if name == WORLDS else ["examples", name]
            size = map(str, TWICE if name == WORLDS else SIZE)
            subprocess.run([sys.executable, "-m", *module, "--size", *size, "--out", out], check=True)
        if name == WORLDS:
            written.append(folder / "throws.webp")
            with Image.open(out / "throws.png") as still:
                still.save(written[-1], quality=85, method=6)
        else:
            pictures, seconds = read(out / f"{name}.gif", SIZE)
            if name in STILLS:
                written.append(folder / f"{name}.webp")
                pictures[int(STILLS[name] * len(pictures))].save(written[-1], quality=QUALITY, method=6)
            written.append(folder / f"{name}{'_film' if name in STILLS else ''}.webp")
            write(written[-1], pictures, seconds)
        if name in PLOTS:
            written.append(folder / f"{name}_{PLOTS[name]}")
            with Image.open(out / PLOTS[name]) as plot:
                plot.convert("RGB").quantize(64).save(written[-1], optimize=True)
    if (options.out / WORLDS / f"{WORLDS}.gif").is_file():  # the pages show a still of it
        written.append(folder / "film.webp")
        write(written[-1], film(clips(options.out, folder), SIZE), 1.0 / FILM_RATE)
    for path in written:
        print(f"{path}: {path.stat().st_size / 1000.0:.0f} kB")


if __name__ == "__main__":
    main()
