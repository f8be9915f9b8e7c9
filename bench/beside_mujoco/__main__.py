"""Energy, forces and sensors of 20 robots compared with MuJoCo's over 1,000 steps, each engine with its own contacts.

pip download --no-deps gymnasium dm_control robosuite; unzip each into corpus/
python -m bench.beside_mujoco corpus --json bench/results/beside_mujoco.json

Random inputs drive each file in MuJoCo, from its first keyframe or its default and with its own settings. From each of
these states both engines take one step, in float64, so that differences of readings and forces don't accumulate. MuJoCo
is also compared with MuJoCo whose solver runs to convergence. Then each engine computes the whole motion, and MuJoCo
again with a looser tolerance. All files get a standard set of sensors in addition to their own.

Generalised forces of files with the integrator "RK4" are those of an Euler step from the same states, since in MuJoCo
they don't depend on the integrator.
"""

import argparse
from pathlib import Path

import warp as wp
from tqdm import tqdm

from bench.beside_mujoco.differences import measure
from bench.beside_mujoco.models import FILES, label
from bench.beside_mujoco.page import section
from bench.report import write_json
from bench.timing import machine

STEPS = 1000


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the packages")
    parser.add_argument("--models", nargs="+", help="some of them, such as 'gymnasium ant'")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    chosen = [file for file in FILES if options.models is None or label(file) in options.models]
    where, rows = machine(), []
    for file in tqdm(chosen, unit="model"):
        path = next(options.folder.rglob(file), None)
        if path is None:
            parser.error(f"{options.folder} has no {file}")
        rows.append(measure(path, file, options.steps).record)
        record = {"machine": where, "steps": options.steps, "rows": rows}
        if options.json is not None:
            write_json(options.json, record)
    print(section(record))


if __name__ == "__main__":
    main()
