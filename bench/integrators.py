"""Energy of free motions with Euler's method and the midpoint step of hard contact, compared with MuJoCo's integrators.

    python -m bench.integrators --json bench/results/integrators.json --markdown docs/fidelity.md  # writes the table

Only accuracy is measured, in float64.
"""

import argparse
import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation
from tqdm import tqdm

import sim
from bench.report import write_json
from scenes.mjcf import to_mjcf
from scenes.physics.scene import turn_about
from sim.output import write_text

START, END = "<!-- table of integrators -->", "<!-- end of integrators -->"
OWN = ("euler", "midpoint")
PEERS = {"Euler": 0, "implicit": 2, "RK4": 1}
STEPS = (1e-3, 1 / 240)
SECONDS = 60.0
SAMPLES = 120


@dataclass(frozen=True)
class Row:
    """Largest error of the energy of a motion, as a fraction of its first kinetic energy.

    Attributes:
        motion: name of the motion.
        dt: time step [s].
        engine: "Backswing" or "MuJoCo".
        integrator: name of the integrator.
        error: the error; None if the motion diverged.
    """

    motion: str
    dt: float
    engine: str
    integrator: str
    error: float | None


def motions() -> dict[str, tuple[sim.Model, np.ndarray]]:
    """Return models and velocities of motions without friction."""
    return {
        "tree of five links in free flight": free_tree(7),
        "tree of three links in free flight": free_tree(10),
        "satellite with a wheel at 200 rad/s": satellite(),
        "top at 150 rad/s": top(),
        "double pendulum": double_pendulum(),
        "four-bar linkage at 8 rad/s": four_bar(),
    }


def free_tree(seed: int) -> tuple[sim.Model, np.ndarray]:
    """Return a random tree that floats without weight, with hinges and ball joints."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    for number in range(rng.integers(2, 6)):
        half = rng.uniform(0.05, 0.3, 3)
        mass = rng.uniform(0.5, 3.0)
        name = builder.add_link(
            f"link{number}", mass=mass, com=rng.uniform(-0.1, 0.1, 3), inertia=mass / 3.0 * (half @ half - half**2)
        )
        parent = f"link{rng.integers(0, number)}" if number else "world"
        if number == 0:
            builder.add_joint("free", "free", child=name)
            continue
        builder.add_joint(
            f"joint{number}", str(rng.choice(["revolute", "spherical"])), child=name, parent=parent,
            position=rng.uniform(-0.4, 0.4, 3), orientation=Rotation.random(rng=rng).as_quat(),
        )  # fmt: skip
    model = builder.finalize("float64")
    return model, 2.0 * rng.normal(size=model.nv)


def satellite() -> tuple[sim.Model, np.ndarray]:
    """Return a body with a wheel whose axis is skew, tumbling."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("body", mass=2.0, inertia=(0.011, 0.0083, 0.006))
    builder.add_joint("free", "free", child="body")
    builder.add_link("wheel", mass=1.0, inertia=(0.0025, 0.0025, 0.005))
    builder.add_joint(
        "axle", "revolute", parent="body", child="wheel", position=(0.05, 0.0, 0.1), orientation=turn_about(0, 0.6435)
    )
    return builder.finalize("float64"), np.array([0.0, 0.0, 0.0, 0.3, -0.2, 0.5, 200.0])


def top() -> tuple[sim.Model, np.ndarray]:
    """Return a slender top on its tip, which nutates."""
    builder = sim.ModelBuilder()
    builder.add_link("top", mass=0.5, com=(0.0, 0.0, 0.1), inertia=(6e-4, 6e-4, 4e-4))
    builder.add_joint("tip", "spherical", child="top", q0=turn_about(0, 0.35))
    return builder.finalize("float64"), np.array([0.0, 0.0, 150.0])


def double_pendulum() -> tuple[sim.Model, np.ndarray]:
    """Return two bars, thrown up."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number, (length, angle) in enumerate(((0.5, 2.5), (0.4, -1.0))):
        moment = 0.5 * length**2 / 12.0
        name = builder.add_link(f"bar{number}", mass=0.5, com=(0.0, 0.0, -0.5 * length), inertia=(moment, moment, 1e-4))
        builder.add_joint(
            f"hinge{number}", "revolute", parent=parent, child=name, axis=(0.0, 1.0, 0.0), q0=angle,
            position=(0.0, 0.0, -0.5 * number),
        )  # fmt: skip
        parent = name
    return builder.finalize("float64"), np.array([3.0, 0.0])


def four_bar() -> tuple[sim.Model, np.ndarray]:
    """Return a crank, a coupler and a rocker, closed by a point, with velocities that fit the loop."""
    builder = sim.ModelBuilder()
    base, coupler, rocker = 0.3, 0.55, 0.4  # from the crank's end, which begins on the line to the rocker's hinge
    at_crank = math.acos((base**2 + coupler**2 - rocker**2) / (2.0 * base * coupler))
    at_hinge = math.acos((base**2 + rocker**2 - coupler**2) / (2.0 * base * rocker))
    for name, parent, x, length, angle in (
        ("crank", "world", 0.0, 0.2, 0.0),
        ("coupler", "crank", 0.2, coupler, -at_crank),
        ("rocker", "world", 0.2 + base, rocker, at_hinge - math.pi),
    ):
        builder.add_link(name, mass=2.0 * length, com=(0.5 * length, 0.0, 0.0), inertia=(0.001, 0.02, 0.02))
        builder.add_joint(
            f"to {name}", "revolute", parent=parent, child=name, axis=(0.0, 1.0, 0.0), q0=angle, position=(x, 0.0, 0.0)
        )
    builder.add_point_constraint(
        "loop", "coupler", "rocker", position_a=(coupler, 0.0, 0.0), position_b=(rocker, 0.0, 0.0)
    )
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1e-7, device="cpu")
    start = simulator.rollout(simulator.state(model.q0, np.array([8.0, 0.0, 0.0])), steps=1).final_state
    return model, start.qd.numpy()[0]


def largest_error(model: sim.Model, q: np.ndarray, qd: np.ndarray) -> float | None:
    """Return the largest change of the energy in units of the first kinetic energy; None for a bad state."""
    if not (np.isfinite(q).all() and np.isfinite(qd).all()):
        return None
    kinetic = sim.kinetic_energy(model, q, qd).numpy()
    energy = kinetic + sim.potential_energy(model, q).numpy()
    return float(np.abs(energy - energy[0]).max() / kinetic[0])


def own_error(model: sim.Model, qd: np.ndarray, dt: float, integrator: str) -> float | None:
    """Simulate a motion in Backswing, and return its error."""
    contact, interval = sim.HardContact(max_contacts=0), round(SECONDS / dt / SAMPLES)
    simulator = sim.Simulator(
        model, dt, device="cpu", contact=contact, integrator=integrator, state_limit=(math.inf, math.inf)
    )
    trajectory = simulator.rollout(
        simulator.state(model.q0, qd), steps=interval * SAMPLES, checkpoint_interval=interval
    )
    return largest_error(model, trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0])


def peer_error(model: sim.Model, qd: np.ndarray, dt: float, integrator: str) -> float | None:
    """Simulate a motion in MuJoCo, and return its error."""
    import mujoco

    peer = mujoco.MjModel.from_xml_string(to_mjcf(model, dt=dt, sweeps=100))
    peer.opt.integrator = PEERS[integrator]
    peer.eq_solref[:] = (2.0 * dt, 1.0)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = sim.to_mujoco(model, model.q0, qd)
    states = [(data.qpos.copy(), data.qvel.copy())]
    for _ in range(SAMPLES):
        mujoco.mj_step(peer, data, round(SECONDS / dt / SAMPLES))
        states.append((data.qpos.copy(), data.qvel.copy()))
    if data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number:
        return None
    qpos, qvel = (np.array(part) for part in zip(*states, strict=True))
    return largest_error(model, *sim.from_mujoco(model, qpos, qvel))


def measure() -> Iterator[Row]:
    """Measure all motions with all integrators."""
    for name, (model, qd) in tqdm(motions().items()):
        for dt in STEPS:
            for integrator in OWN:
                yield Row(name, dt, "Backswing", integrator, own_error(model, qd, dt, integrator))
            for integrator in PEERS if importlib.util.find_spec("mujoco") else ():
                yield Row(name, dt, "MuJoCo", integrator, peer_error(model, qd, dt, integrator))


def table(rows: list[Row]) -> str:
    """Format the errors as a Markdown table, one line for each motion and time step."""
    columns = list(dict.fromkeys((row.engine, row.integrator) for row in rows))
    heads = ["motion", "step [ms]", *(f"{engine}, {integrator}" for engine, integrator in columns)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for motion, dt in dict.fromkeys((row.motion, row.dt) for row in rows):
        found = {(row.engine, row.integrator): row.error for row in rows if (row.motion, row.dt) == (motion, dt)}
        errors = ["diverges" if found[key] is None else f"{found[key]:.0e}" for key in columns]
        lines.append(f"| {motion if dt == STEPS[0] else ''} | {1e3 * dt:.3g} | {' | '.join(errors)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all motions, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--markdown", type=Path, help="replace the table in this file")
    options = parser.parse_args()
    rows = list(measure())
    print(table(rows))
    if options.json is not None:
        write_json(options.json, rows)
    if options.markdown is not None:
        text = options.markdown.read_text()
        before, after = text.split(START)[0], text.split(END)[1]
        write_text(options.markdown, f"{before}{START}\n{table(rows)}\n{END}{after}")


if __name__ == "__main__":
    main()
