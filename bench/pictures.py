"""Makes small pictures of all examples for the README and the pages of docs.

    python -m bench.pictures
    python -m bench.pictures --only golf friction

Runs the examples and drops frames of their animations, so that the files are small and load quickly. Animations that
already exist in --out are reused, and an interrupted example resumes.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from examples.__main__ import find_examples
from sim.render import write_gif

DOCS = Path(__file__).parents[1] / "docs"
SIZES = {"throw": (400, 225)}  # shown at the top of the README [pixels]
SIZE = (320, 180)  # of all other animations [pixels]
LARGEST = 180_000  # largest file [bytes]
FASTEST = 12.5  # highest frame rate [frames per second]
PLOTS = {"joint_friction": "curves.png"}  # plots that the pages show


def make_small(animation: Path, path: Path) -> Path:
    """Write an animation with as many of its frames as fit into ``LARGEST`` bytes."""
    with Image.open(animation) as image:
        pictures, seconds = [], []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            seconds.append(image.info["duration"] / 1000.0)
            pictures.append(np.asarray(image.convert("RGB")))
    # A GIF stores a still stretch as one long frame; repeat it so that all frames are equally long.
    shortest = min(seconds)
    frames = np.repeat(np.stack(pictures), [round(length / shortest) for length in seconds], axis=0)
    for stride in range(int(np.ceil(1.0 / (FASTEST * shortest))), len(frames) + 1):
        write_gif(path, frames[::-stride][::-1], 1.0 / (stride * shortest))  # keep the last frame
        if path.stat().st_size <= LARGEST:
            break
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    examples = list(find_examples())
    parser.add_argument(
        "--only", nargs="+", choices=examples, default=examples, metavar="EXAMPLE", help="examples to run (all)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/pictures"), help="folder for the examples' output (out/pictures)"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    options = parser.parse_args()
    folder = options.docs / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        out = options.out / name
        if not (out / f"{name}.gif").is_file():
            print(f"---- {name}", flush=True)
            size = map(str, SIZES.get(name, SIZE))
            subprocess.run([sys.executable, "-m", "examples", name, "--size", *size, "--out", out], check=True)
        written = [make_small(out / f"{name}.gif", folder / f"{name}.gif")]
        if name in PLOTS:
            written.append(folder / f"{name}_{PLOTS[name]}")
            with Image.open(out / PLOTS[name]) as plot:
                plot.convert("RGB").quantize(64).save(written[-1], optimize=True)
        for path in written:
            print(f"{path}: {path.stat().st_size / 1000.0:.0f} kB")


if __name__ == "__main__":
    main()
