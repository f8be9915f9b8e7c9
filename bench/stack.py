"""Stability of a stack of ten boxes for ten seconds by sweeps, warm start and softness, compared with MuJoCo.

    python -m bench.stack --json bench/results/stack.json --markdown docs/fidelity.md     # writes the table there

Only accuracy is measured, in float64.
"""

import argparse
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import sim
from bench.report import write_json
from scenes.mjcf import to_mjcf
from scenes.physics import piles
from scenes.physics.scene import PhysicsScene
from sim.output import write_text

START, END = "<!-- table of the stack -->", "<!-- end of the stack -->"
FALLEN = 0.1  # displacement beyond which a box counts as fallen [m]

OPTIONS = (
    sim.HardContact(),
    sim.PgsContact(),
    sim.PgsContact(sweeps=200),
    sim.PgsContact(sweeps=1000),
    sim.PgsContact(cfm=0.1),
    sim.PgsContact(sweeps=200, cfm=0.1),
    sim.PgsContact(warm_start=True),
    sim.PgsContact(warm_start=True, cfm=0.05),
    sim.PgsContact(warm_start=True, cfm=0.1),
)
# MuJoCo's solver, number of iterations, and warm start.
PEERS = (("PGS", 50, False), ("PGS", 50, True), ("Newton", 100, True))


@dataclass(frozen=True)
class Row:
    """Largest displacement of a box.

    Attributes:
        engine: "Backswing" or "MuJoCo".
        solver: the solver and its options.
        after_second: displacement after one second [m].
        at_end: displacement at the end [m].
    """

    engine: str
    solver: str
    after_second: float
    at_end: float


def main() -> None:
    """Run all cases, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--markdown", type=Path, help="replace the table in this file")
    parser.add_argument("--boxes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    rows = [own(contact, arguments.boxes, arguments.seconds) for contact in tqdm(OPTIONS, "Backswing")]
    if importlib.util.find_spec("mujoco"):
        scene = piles.stack(arguments.boxes, arguments.seconds)
        rows += [peer(scene, *options) for options in tqdm(PEERS, "MuJoCo")]
    print(table(rows))
    if arguments.json:
        write_json(arguments.json, rows)
    if arguments.markdown:
        text = arguments.markdown.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        write_text(arguments.markdown, f"{before}{START}\n{table(rows)}\n{END}{after}")


def own(contact: sim.ContactMethod, boxes: int, seconds: float) -> Row:
    """Simulate the stack in Backswing."""
    scene = piles.stack(boxes, seconds)
    motion = scene.run(contact=contact)
    return _row("Backswing", _name(contact), motion.q.reshape(len(motion.q), boxes, 7)[..., :3], scene.dt)


def _name(contact: sim.ContactMethod) -> str:
    if not isinstance(contact, sim.PgsContact):
        return "Newton"
    softness = f", cfm {contact.cfm:g}" if contact.cfm > 0.0 else ""
    return f"{contact.sweeps} sweeps, {'warm' if contact.warm_start else 'cold'}{softness}"


def peer(scene: PhysicsScene, solver: str, iterations: int, warm_start: bool) -> Row:
    """Simulate the stack in MuJoCo with an elliptic cone and its default contact parameters, which are soft."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(to_mjcf(scene.model, dt=scene.dt, sweeps=iterations))
    model.opt.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver.upper()}")
    model.opt.tolerance = 0.0
    if not warm_start:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    data: Any = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(scene.model, scene.model.q0, scene.qd0)
    mujoco.mj_forward(model, data)
    positions = [data.xpos[1:].copy()]
    for _ in range(scene.steps):
        mujoco.mj_step(model, data)
        positions.append(data.xpos[1:].copy())
    return _row("MuJoCo", f"{solver} {iterations}, {'warm' if warm_start else 'cold'}", np.array(positions), scene.dt)


def _row(engine: str, solver: str, positions: np.ndarray, dt: float) -> Row:
    """Make a row from the boxes' positions [steps + 1, boxes, 3]."""
    moved = np.linalg.norm(positions - positions[0], axis=-1).max(axis=1)
    return Row(engine, solver, float(moved[min(round(1.0 / dt), len(moved) - 1)]), float(moved[-1]))


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| engine | solver | after 1 s [mm] | at the end [mm] |", "|---|---|---|---|"]
    for row in rows:
        cells = ["fallen" if moved > FALLEN else f"{1e3 * moved:.2g}" for moved in (row.after_second, row.at_end)]
        lines.append(f"| {row.engine} | {row.solver} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
