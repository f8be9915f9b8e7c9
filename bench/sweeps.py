"""Residual and error over the number of sweeps, cold and warm, for a quadruped and a stack of boxes that come to rest.

    python -m bench.sweeps --json out/bench/sweeps.json

Only accuracy is measured, in float64.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

import sim
from bench.report import write_json
from scenes import quadruped

DT = 1.0 / 240.0  # [s]
STEPS = 240
STIFFNESS = 200.0  # stiffness of the quadruped's joint springs [N m/rad]
DAMPING = 5.0  # their damping [N m s/rad]
BOXES = 3


def landing_quadruped(contact: sim.ContactMethod) -> tuple[sim.Simulator, sim.State]:
    """Build the quadruped, with joint springs, that lands at 0.5 m/s while sliding at 0.3 m/s."""
    scene = quadruped.build("float64", friction=0.8)
    model = scene.model
    joints = model.dof_q >= 0
    rest = np.where(joints, scene.q0[model.dof_q], 0.0)
    springs = {"stiffness": STIFFNESS * joints, "damping": DAMPING * joints, "rest_position": rest}
    simulator = sim.Simulator(model, DT, device="cpu", contact=contact, parameters=springs)
    qd = scene.qd0.copy()
    qd[[0, 2]] = 0.3, -0.5
    return simulator, simulator.state(scene.q0, qd)


def stack(contact: sim.ContactMethod) -> tuple[sim.Simulator, sim.State]:
    """Build boxes of 0.2 m and 1 kg that fall on each other from gaps of 1 mm."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.8))
    for number in range(BOXES):
        height = 0.1 + 0.201 * number
        builder.add_box(
            half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, height), surface=sim.Surface(friction=0.8)
        )
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu", contact=contact)
    return simulator, simulator.initial_state()


Case = Callable[[sim.ContactMethod], tuple[sim.Simulator, sim.State]]
CASES: dict[str, Case] = {"quadruped": landing_quadruped, "stack": stack}


def main() -> None:
    """Run the studies, print their tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    found: dict[str, dict] = {}
    for name in arguments.cases:
        for adjoint in ("unrolled", "implicit"):
            study = sim.study_sweeps(*CASES[name](sim.PgsContact(adjoint=adjoint)), steps=STEPS)
            print(f"{name}, {adjoint} adjoint: {STEPS} steps of {DT:.5f} s\n{study}\n")
            found[f"{name}, {adjoint}"] = asdict(study)
    if arguments.json:
        write_json(arguments.json, found)


if __name__ == "__main__":
    main()
