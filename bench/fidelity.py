"""Scenes with a known answer, simulated in Backswing and in MuJoCo.

python -m bench.fidelity --json out/bench/fidelity.json
python -m bench.fidelity --markdown docs/fidelity.md     # writes the table there
"""

import argparse
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from scipy.optimize import brentq

import sim
from bench.report import write_json
from scenes.mjcf import to_mjcf
from scenes.physics.scene import Motion, PhysicsScene
from scenes.physics.suite import hard_scenes, scenes
from sim.output import write_text

# Stiffness of MuJoCo's contacts in scenes with restitution: an impact lasts only a few steps [1/s^2].
CONTACT_STIFFNESS = 1.0e6
START, END = "<!-- table -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Row:
    """One quantity of one scene.

    Attributes:
        scene: name of the scene.
        quantity: name of the quantity.
        unit: unit of the quantity.
        dt: time step of both engines [s].
        expected: value from a closed form or another integrator.
        newton: value measured in Backswing with its default options.
        pgs: value measured in Backswing with 50 sweeps of projected Gauss-Seidel.
        mujoco: value measured in MuJoCo; None if it is not installed.
    """

    scene: str
    quantity: str
    unit: str
    dt: float
    expected: float
    newton: float
    pgs: float
    mujoco: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--markdown", type=Path, help="replace the table in this file")
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    rows = [row for scene in [*scenes(), *hard_scenes()] if options.only in scene.name for row in measure(scene)]
    print(table(rows))
    if options.json is not None:
        write_json(options.json, rows)
    if options.markdown is not None:
        text = options.markdown.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        write_text(options.markdown, f"{before}{START}\n{table(rows)}\n{END}{after}")


def measure(scene: PhysicsScene) -> list[Row]:
    """Run a scene with both solvers and in MuJoCo, and measure its quantities."""
    newton, pgs = scene.run(), scene.run(contact=sim.PgsContact())
    peer = run_mujoco(scene) if importlib.util.find_spec("mujoco") else None
    return [
        Row(
            scene.name, quantity.name, quantity.unit, scene.dt, quantity.expected, quantity.measure(newton),
            quantity.measure(pgs), None if peer is None else quantity.measure(peer),
        )
        for quantity in scene.quantities
    ]  # fmt: skip


def run_mujoco(scene: PhysicsScene) -> Motion:
    """Simulate the motion in MuJoCo with its Newton solver, elliptic cone and Euler integrator, otherwise its defaults.

    MuJoCo has no restitution. In a scene with restitution its contacts are springs with the damping that produces it.
    """
    import mujoco

    model = scene.model
    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=scene.dt, sweeps=100))
    peer.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    peer.opt.tolerance = 1e-10
    restitution = _restitution(model)
    if restitution:
        ratio = damping_ratio(restitution)
        peer.geom_solimp[:, :2] = 0.9999  # the largest value allowed: the spring is then linear
        peer.geom_solref[:] = [-CONTACT_STIFFNESS, -2.0 * ratio * np.sqrt(CONTACT_STIFFNESS)]
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, model.q0, scene.qd0)
    states = [(data.qpos.copy(), data.qvel.copy())]
    if scene.kinematic_qd is not None:
        peer.opt.tolerance = 0.0  # MuJoCo scales it by the mean inertia, and theirs is huge
    for step in range(scene.steps):
        if scene.kinematic_qd is not None:
            data.qvel[model.kinematic_dofs] = scene.kinematic_qd[step]  # hinges and slides
        mujoco.mj_step(peer, data)
        states.append((data.qpos.copy(), data.qvel.copy()))
    mujoco.mj_forward(peer, data)
    qpos, qvel = (np.array(part) for part in zip(*states, strict=True))
    q, qd = sim.from_mujoco(model, qpos, qvel)
    return Motion(scene.time, q, qd, _support(peer, data))


def damping_ratio(restitution: float) -> float:
    """Compute the damping ratio of a spring and damper that push but never pull, for a bounce with this restitution.

    With a ratio of sin a, the force returns to zero at the phase pi - 2 a. The body then leaves at exp(-tan(a) (pi - 2
    a)) times its speed of approach.
    """
    if restitution == 1.0:
        return 0.0
    return float(np.sin(brentq(lambda a: np.exp(-np.tan(a) * (np.pi - 2.0 * a)) - restitution, 0.0, 1.5)))


def _restitution(model: sim.Model) -> float:
    """Return the restitution of all pairs of a scene, whose bodies are equal."""
    moving = [value for value, g in zip(model.parameters["restitution"], model.geometries, strict=True) if g.link >= 0]
    return float(max(moving, default=0.0))


def _support(peer: Any, data: Any) -> np.ndarray:
    """Compute the total force of the world's geometries on the bodies [3], N."""
    import mujoco

    total = np.zeros(3)
    for index, contact in enumerate(data.contact):
        wrench = np.zeros(6)
        mujoco.mj_contactForce(peer, data, index, wrench)
        force = contact.frame.reshape(3, 3).T @ wrench[:3]
        # The force acts on the second geometry.
        for geometry, sign in ((contact.geom[0], 1.0), (contact.geom[1], -1.0)):
            if peer.geom_bodyid[geometry] == 0:
                total += sign * force
    return total


def table(rows: Sequence[Row]) -> str:
    """Format the rows as a Markdown table of errors."""
    heads = ("scene", "step [ms]", "quantity", "expected", "Backswing, newton", "Backswing, pgs", "MuJoCo")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    before = ""
    for row in rows:
        name, step = (row.scene, f"{1e3 * row.dt:.3g}") if row.scene != before else ("", "")
        unit = f" {row.unit}" if row.unit else ""
        off = [_difference(value, row.expected) for value in (row.newton, row.pgs, row.mujoco)]
        lines.append(f"| {name} | {step} | {row.quantity} | {row.expected:.6g}{unit} | {' | '.join(off)} |")
        before = row.scene
    return "\n".join(lines)


def _difference(value: float | None, expected: float) -> str:
    return "-" if value is None else f"{value - expected:+.1e}"


if __name__ == "__main__":
    main()
