"""The pictures of all examples, small, for the README and the pages of docs.

    python -m bench.pictures
    python -m bench.pictures --only golf friction

Runs the examples and leaves out frames of their animations, so that they load quickly and don't swell the repository.
Animations that are in --out already are taken from there; an example that was interrupted goes on.
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
SIZES = {"throw": (400, 225)}  # which the README shows at its top [pixels]
SIZE = (320, 180)  # of all others
LARGEST = 180_000  # file [bytes]
FASTEST = 12.5  # frames per second
PLOTS = {"joint_friction": "curves.png"}  # that stand in the pages, too


def make_small(animation: Path, path: Path) -> Path:
    """Write an animation with as many of its frames as a file of ``LARGEST`` bytes has room for."""
    with Image.open(animation) as image:
        pictures, seconds = [], []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            seconds.append(image.info["duration"] / 1000.0)
            pictures.append(np.asarray(image.convert("RGB")))
    # Frames that stay are one in the file; here all take equally long.
    shortest = min(seconds)
    frames = np.repeat(np.stack(pictures), [round(length / shortest) for length in seconds], axis=0)
    for stride in range(int(np.ceil(1.0 / (FASTEST * shortest))), len(frames) + 1):
        write_gif(path, frames[::-stride][::-1], 1.0 / (stride * shortest))  # the last one counts most
        if path.stat().st_size <= LARGEST:
            break
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    examples = list(find_examples())
    parser.add_argument("--only", nargs="+", choices=examples, default=examples, metavar="EXAMPLE", help="not all")
    parser.add_argument("--out", type=Path, default=Path("out/pictures"), help="of the examples (out/pictures)")
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
