"""Divergence of motions from MuJoCo's after a contact, each engine with its own collision detection, file by file.

pip download --no-deps gymnasium gymnasium-robotics dm_control robosuite; unzip each into corpus/
python -m bench.drift corpus --json bench/results/drift.json

Random inputs drive each file in MuJoCo until the first contact. From there both engines continue with the same inputs
and the file's settings, in float64. Both solvers run to convergence, MuJoCo's by Newton's method with a tolerance of
zero. MuJoCo's own spread is its divergence from that with the solver and the tolerance of the file. Files without a
contact after some seconds are excluded, and those that MuJoCo finds unstable and resets.
"""

import argparse
import copy
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import mujoco
import numpy as np
import warp as wp
from tqdm import tqdm

import sim
from bench.report import write_json
from bench.timing import machine

LONGEST = 3.0  # until the first contact [s]
TIMES = (0.2, 1.0)  # after that [s]
MOST_DOFS = 60
ITERATIONS = 200  # maximum of MuJoCo's solver, which ends by itself
INPUTS = 0.3  # random ones, relative to their ranges
HELD = 10  # steps with the same inputs

UNSTABLE = [mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC]

Pair = tuple[np.ndarray, np.ndarray]


@dataclass
class Drift:
    """Distance of the body that is farthest off, after each of ``TIMES`` [m].

    Attributes:
        file: name of the file.
        dofs: its degrees of freedom.
        contacts: number of contacts at the start.
        here: distances between the engines; infinite if a state here isn't finite.
        spread: those between MuJoCo and MuJoCo with the solver and the tolerance of the file.
        energy: largest difference of the energies in any step, relative to the largest kinetic energy; None if a state
            isn't finite.
    """

    file: str
    dofs: int
    contacts: int
    here: list[float]
    spread: list[float]
    energy: float | None


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with MJCF files")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    files = [measure(path, options.folder) for path in tqdm(sorted(options.folder.rglob("*.xml")), unit="file")]
    found = [each for each in files if each is not None]
    for index, seconds in enumerate(TIMES):
        here, spread = (np.array([getattr(each, name)[index] for each in found]) for name in ("here", "spread"))
        print(
            f"{len(found)} files, {seconds} s: median {np.median(here):.2g} m, {(here < 1e-3).sum()} within 1 mm; "
            f"MuJoCo from itself {np.median(spread):.2g} m, {(spread < 1e-3).sum()}"
        )
    if options.json is not None:
        record = {"machine": machine(), "rows": [asdict(each) for each in found]}
        write_json(options.json, record)


def measure(path: Path, folder: Path) -> Drift | None:
    """Measure the drift of a file; None if MuJoCo or the law rejects it, nothing moves or touches, or it is
    unstable.
    """
    try:
        peer = mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return None
    if not 0 < peer.nv <= MOST_DOFS:
        return None
    data = mujoco.MjData(peer)
    steps = [round(seconds / peer.opt.timestep) for seconds in TIMES]
    inputs = random_inputs(peer, round(LONGEST / peer.opt.timestep) + steps[-1])
    begun = 0
    while data.ncon == 0:
        if (begun + 1) * peer.opt.timestep > LONGEST:
            return None
        data.ctrl = inputs[begun]
        mujoco.mj_step(peer, data)
        begun += 1
    inputs, contacts = inputs[begun : begun + steps[-1]], int(data.ncon)
    start = np.concatenate([data.qpos, data.qvel, data.act])
    other = run(peer, start, inputs)
    expected = run(to_the_end(peer), start, inputs)
    if expected is None or other is None:
        return None
    try:
        found = run_here(path, peer, start, inputs)
    except sim.ModelError:
        return None
    here, spread = ([farthest(peer, each[n][0], expected[n][0]) for n in steps] for each in (found, other))
    kinetic, whole, whole_here = (np.array(each) for each in zip(*map(energies_of(peer), expected, found), strict=True))
    energy = float(np.abs(whole_here - whole).max() / max(kinetic.max(), 1e-9))
    energy_or_none = energy if np.isfinite(energy) else None
    return Drift(str(path.relative_to(folder)), peer.nv, contacts, here, spread, energy_or_none)


def to_the_end(peer: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy whose solver runs to convergence."""
    other = copy.deepcopy(peer)
    other.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    other.opt.tolerance = other.opt.ls_tolerance = 0.0
    other.opt.iterations = other.opt.ls_iterations = ITERATIONS
    return other


def random_inputs(peer: mujoco.MjModel, steps: int) -> np.ndarray:
    """Draw inputs of the actuators [steps, nu], each held for some steps."""
    limited = peer.actuator_ctrllimited.astype(bool)
    low, high = (np.where(limited, peer.actuator_ctrlrange[:, side], sign) for side, sign in ((0, -1.0), (1, 1.0)))
    shares = np.random.default_rng(0).uniform(-INPUTS, INPUTS, (-(-steps // HELD), peer.nu))
    return np.repeat(0.5 * (low + high) + 0.5 * shares * (high - low), HELD, axis=0)[:steps]


def run(peer: mujoco.MjModel, start: np.ndarray, inputs: np.ndarray) -> list[Pair] | None:
    """Simulate a motion in MuJoCo: coordinates and velocities of each state; None if it is unstable."""
    data = mujoco.MjData(peer)
    data.qpos, data.qvel, data.act = np.split(start, [peer.nq, peer.nq + peer.nv])
    found = [(data.qpos.copy(), data.qvel.copy())]
    for given in inputs:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        found.append((data.qpos.copy(), data.qvel.copy()))
    return None if any(data.warning[kind].number for kind in UNSTABLE) else found


def run_here(path: Path, peer: mujoco.MjModel, start: np.ndarray, inputs: np.ndarray) -> list[Pair]:
    """Simulate the same motion here, in MuJoCo's coordinates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sim.load(path, dtype="float64")
        simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
        qpos, qvel, act = np.split(start, [peer.nq, peer.nq + peer.nv])
        state = simulator.state(*sim.from_mujoco(model, qpos, qvel), act=act if peer.na else None)
        trajectory = simulator.rollout(state, control=inputs[:, None] if peer.nu else None, steps=len(inputs))
    pairs = zip(trajectory.q.numpy()[:, 0], trajectory.qd.numpy()[:, 0], strict=True)
    return [sim.to_mujoco(model, q, qd) for q, qd in pairs]


def energies_of(peer: mujoco.MjModel) -> Callable[[Pair, Pair], tuple[float, float, float]]:
    """Return a function for the kinetic energy of one state, and the kinetic and potential energy of it and of
    another.
    """
    data = mujoco.MjData(peer)

    def energies(*states: Pair) -> tuple[float, float, float]:
        found = []
        for data.qpos, data.qvel in states:
            mujoco.mj_fwdPosition(peer, data)
            mujoco.mj_fwdVelocity(peer, data)
            mujoco.mj_energyPos(peer, data)
            mujoco.mj_energyVel(peer, data)
            found.append(data.energy.copy())
        return found[0][1], found[0].sum(), found[1].sum()

    return energies


def farthest(peer: mujoco.MjModel, qpos: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest distance of a body from its expected position [m]."""
    positions = []
    for each in (qpos, expected):
        data = mujoco.MjData(peer)
        data.qpos = each
        mujoco.mj_kinematics(peer, data)
        positions.append(data.xpos.copy())
    distance = float(np.linalg.norm(positions[0] - positions[1], axis=1).max())
    return distance if np.isfinite(distance) else float("inf")


if __name__ == "__main__":
    main()
