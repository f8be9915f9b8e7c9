"""What so many sweeps leave, from zero impulses and with a warm start: a quadruped and a stack of boxes that settle.

    python -m bench.sweeps --json out/bench/sweeps.json

Accuracy alone is measured, in float64, not time.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import sim
from scenes import quadruped

DT = 1.0 / 240.0  # [s]
STEPS = 480
STIFFNESS = 200.0  # of every joint spring of the quadruped [N m/rad]
DAMPING = 5.0  # [N m s/rad]
BOXES = 5


def landing_quadruped() -> tuple[sim.Simulator, sim.State]:
    """The quadruped, on springs, lands at 0.5 m/s while sliding at 0.3 m/s."""
    scene = quadruped.build("float64", friction=0.8)
    model = scene.model
    joints = model.dof_q >= 0
    rest = np.where(joints, scene.q0[model.dof_q], 0.0)
    springs = {"stiffness": STIFFNESS * joints, "damping": DAMPING * joints, "rest_position": rest}
    simulator = sim.Simulator(model, DT, device="cpu", parameters=springs)
    qd = scene.qd0.copy()
    qd[[0, 2]] = 0.3, -0.5
    return simulator, simulator.state(scene.q0, qd)


def stack() -> tuple[sim.Simulator, sim.State]:
    """Boxes of 0.2 m and 1 kg, put on top of each other with gaps of 1 mm, the top one pushed at 0.2 m/s."""
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.8)
    for number in range(BOXES):
        height = 0.1 + 0.201 * number
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, height), friction=0.8)
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    qd = np.zeros(model.nv)
    qd[-6] = 0.2
    return simulator, simulator.state(model.q0, qd)


CASES: dict[str, Callable[[], tuple[sim.Simulator, sim.State]]] = {"quadruped": landing_quadruped, "stack": stack}


def main() -> None:
    """Run the studies, print their tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    found = {}
    for name in arguments.cases:
        study = sim.study_sweeps(*CASES[name](), steps=STEPS)
        print(f"{name}: {STEPS} steps of {DT:.5f} s\n{study}\n")
        found[name] = asdict(study)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
