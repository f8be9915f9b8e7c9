"""Time of a step and of its gradient over the number of worlds, for five scenes, compared with MuJoCo.

    python -m bench.worlds --json bench/results/worlds_cpu.json
    python -m bench.worlds --mjx-python jax/bin/python --warp-python warp/bin/python    # the ant in MJX and mujoco_warp

Everything runs on one core, in turns, from the same states and with the same inputs; times are processor time, per
world and step [us]. Backswing computes in float32, MuJoCo in float64. Robots that are read from MJCF files move under
MuJoCo's law here, the quadruped and the heap under the hard one. MuJoCo has its Newton method with its defaults; with
one iteration and four of its line search, as MJX's models have; and 50 sweeps of PGS, with elliptic cones. Sweeps here
are those of the hard law. The gradient is that of the last state, with the steps forward.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import mujoco
import numpy as np
import warp as wp
from mujoco.rollout import Rollout

import sim
from bench import peers
from bench.report import write_json
from bench.standing import DAMPING, STIFFNESS, start_pose
from bench.standing import DT as STANDING_DT
from bench.timing import machine, pinned
from bench.worlds_peers import ant_in_mjx, ant_in_mujoco_warp
from scenes import crowd, quadruped
from scenes.mjcf import to_mjcf

ASSETS = Path(gymnasium.__file__).parent / "envs/mujoco/assets"
WORLDS = (1, 16, 64, 256, 1024, 4096)
PGS_WORLDS = 64  # setting of the 50 sweeps
SWEEPS = 50
FEW, STEPS, MANY_STEPS = 256, 20, 100  # steps of a call, more with few worlds
SAMPLE = 64  # states in motion, which worlds share
SETTLE, HOLD, SHARE = 1.0, 0.02, 0.2  # seconds of motion before, seconds of one input, share of the inputs' range
LONG = 20.0  # seconds
BRIEF = 0.02  # seconds for which shorter calls are repeated: the first one finds the caches full of another engine's
BOXES, HEAP_DT = 10, 1.0 / 240.0
LAW = sim.MujocoContact(friction="pyramid")


@dataclass(frozen=True)
class Case:
    """Scene in both engines.

    Attributes:
        name: name of the scene.
        model: model for Backswing.
        peer: MuJoCo's model, with its default solver.
        data: its initial state.
        settings: arguments of :class:`sim.Simulator`.
    """

    name: str
    model: sim.Model
    peer: mujoco.MjModel
    data: mujoco.MjData
    settings: dict[str, Any] = field(default_factory=dict)

    def inputs(self, steps: int, worlds: int, seed: int) -> np.ndarray:
        """Draw inputs of the actuators [steps, worlds, nu], each held for a while."""
        held = max(1, round(HOLD / self.peer.opt.timestep))
        low, high = self.peer.actuator_ctrlrange.T
        random = np.random.default_rng(seed).uniform(-1.0, 1.0, (-(-steps // held), worlds, self.peer.nu))
        return (0.5 * (low + high) + 0.5 * SHARE * (high - low) * random).repeat(held, axis=0)[:steps]

    def states(self) -> tuple[np.ndarray, np.ndarray]:
        """Return states in motion after a second in MuJoCo, in its conventions [SAMPLE, ...], and its solver's warm
        starts.
        """
        steps = round(SETTLE / self.peer.opt.timestep)
        inputs = self.inputs(steps, SAMPLE, seed=0)
        found, warm = [], []
        for world in range(SAMPLE):
            data = mujoco.MjData(self.peer)
            data.qpos[:] = self.data.qpos
            for control in inputs[:, world]:
                data.ctrl[:] = control
                mujoco.mj_step(self.peer, data)
            found.append(np.concatenate([[0.0], data.qpos, data.qvel]))
            warm.append(data.qacc_warmstart.copy())
        return np.array(found), np.array(warm)


def cases() -> list[Case]:
    """Return all scenes."""
    return [
        standing(),
        from_file("Ant", ASSETS / "ant.xml", "euler"),
        from_file("Ant, Runge-Kutta", ASSETS / "ant.xml", "rk4"),
        from_file("Humanoid", ASSETS / "humanoid.xml", "euler"),
        from_file("Humanoid, Runge-Kutta", ASSETS / "humanoid.xml", "rk4"),
        from_file("arm with a gripper", Path(__file__).with_name("gripper.xml"), "euler"),
        heap(),
    ]


def from_file(name: str, path: Path, integrator: str) -> Case:
    """Load the robot of an MJCF file under MuJoCo's law."""
    builder = sim.ModelBuilder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.MJCFWarning)
        builder.add_mjcf(path)
    integrators = {"euler": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}
    peer = mujoco.MjModel.from_xml_path(str(path))
    default = mujoco.MjSpec().option
    peer.opt.integrator = integrators[integrator]
    for option in ("solver", "iterations", "tolerance"):
        setattr(peer.opt, option, getattr(default, option))
    settings = {"dt": peer.opt.timestep, "contact": LAW, "integrator": integrator}
    return Case(name, builder.finalize(), peer, mujoco.MjData(peer), settings)


def standing() -> Case:
    """Return the quadruped of :mod:`bench.standing`."""
    peer = peers.mujoco_newton(quadruped.mjcf(dt=STANDING_DT, sweeps=SWEEPS), dt=STANDING_DT)
    data = peers.mujoco_standing(peer, start_pose(), stiffness=STIFFNESS, damping=DAMPING)
    scene = crowd.herd(1)
    settings = {"dt": STANDING_DT, "parameters": crowd.springs(scene, STIFFNESS, DAMPING)}
    return Case("quadruped", scene.model, peer, data, settings)


def heap() -> Case:
    """Return boxes in two layers that lie on each other."""
    scene = crowd.loose("box", BOXES, spacing=2.5 * crowd.SIZE, layers=2)
    peer = peers.mujoco_newton(to_mjcf(scene.model, dt=HEAP_DT, sweeps=SWEEPS), dt=HEAP_DT)
    return Case(f"heap of {BOXES} boxes", scene.model, peer, mujoco.MjData(peer), {"dt": HEAP_DT})


def measure(case: Case, counts: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Measure a row for each number of worlds, engines in turns."""
    states, warm = case.states()
    theirs = {"mujoco_us": case.peer, "mujoco_fast_us": fast(case.peer), "mujoco_pgs_us": pgs(case.peer)}
    calls = {name: in_mujoco(case, peer, states, warm) for name, peer in theirs.items()}
    rows = []
    for worlds in counts:
        steps = MANY_STEPS if worlds <= FEW else STEPS
        forward, back, contacts = here(case, states, worlds, steps, case.settings)
        works = {"forward_us": forward, "back_us": back}
        if worlds == PGS_WORLDS and case.settings.get("integrator") != "rk4":
            hard = {name: value for name, value in case.settings.items() if name not in ("contact", "integrator")}
            hard["contact"] = sim.PgsContact(sweeps=SWEEPS)
            works["pgs_us"] = here(case, states, worlds, steps, hard)[0]
        own = in_turns({**works, **calls}, rounds)
        found = {name: own[name] / (steps * worlds) for name in works}
        found |= {name: own[name] / (STEPS * SAMPLE) for name in calls}
        row: dict[str, Any] = {"case": case.name, "worlds": worlds, "contacts": contacts}
        row |= {name: 1e6 * value for name, value in found.items()}
        row["gradient_us"] = row["forward_us"] + row.pop("back_us")
        print(", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
        rows.append(row)
    return rows


def here(case: Case, states: np.ndarray, worlds: int, steps: int, settings: dict[str, Any]) -> tuple[Any, Any, float]:
    """Return functions for steps forward and their backward pass, and the contacts of a world."""
    simulator = sim.Simulator(case.model, num_worlds=worlds, device="cpu", threads=1, **settings)
    nq = case.peer.nq
    q, qd = sim.from_mujoco(case.model, states[:, 1 : 1 + nq], states[:, 1 + nq :])
    chosen = np.arange(worlds) % SAMPLE
    state = simulator.state(np.asarray(q)[chosen], np.asarray(qd)[chosen])
    inputs = case.inputs(steps, SAMPLE, seed=1)[:, chosen]
    control: wp.array | None = wp.array(inputs, dtype=case.model.scalar, device="cpu") if case.model.nu else None
    seed = wp.ones_like(state.q)
    trajectory = simulator.rollout(state, control=control, steps=steps)
    trajectory.backward(seed)
    contacts = float(
        np.concatenate([each.step.contact_stage.contact_count.numpy() for each in simulator.engine.shards]).mean()
    )
    return (
        lambda: simulator.rollout(state, control=control, steps=steps),
        lambda: trajectory.backward(seed),
        contacts,
    )


def in_mujoco(case: Case, peer: mujoco.MjModel, states: np.ndarray, warm: np.ndarray) -> Callable[[], object]:
    """Make a function that takes steps of MuJoCo in a loop."""
    rollout, data = Rollout(nthread=0), mujoco.MjData(peer)
    inputs = np.ascontiguousarray(case.inputs(STEPS, SAMPLE, seed=1).transpose(1, 0, 2)) if peer.nu else None
    return lambda: rollout.rollout(peer, data, states, inputs, nstep=STEPS, initial_warmstart=warm)


def fast(peer: mujoco.MjModel) -> mujoco.MjModel:
    """Return the model with the settings of MJX's models."""
    changed = peer.__copy__()
    changed.opt.iterations, changed.opt.ls_iterations = 1, 4
    return changed


def pgs(peer: mujoco.MjModel) -> mujoco.MjModel:
    """Return the model with a fixed number of sweeps of projected Gauss-Seidel."""
    changed = peer.__copy__()
    changed.opt.solver, changed.opt.iterations = mujoco.mjtSolver.mjSOL_PGS, SWEEPS
    changed.opt.tolerance, changed.opt.cone = 0.0, mujoco.mjtCone.mjCONE_ELLIPTIC
    return changed


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Measure the median processor time of each [s]; fewer turns if they take long."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds):
        if turn >= 3 and sum(map(sum, times.values())) > LONG:
            break
        for name, work in works.items():
            count, start = 0, time.process_time()
            while count == 0 or time.process_time() - start < BRIEF:
                work()
                count += 1
            times[name].append((time.process_time() - start) / count)
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--worlds", type=int, nargs="+", default=list(WORLDS), help="numbers of worlds")
    parser.add_argument("--cases", nargs="+", help="only scenes whose names begin so")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each engine (7)")
    parser.add_argument("--mjx-python", help="a Python with mujoco-mjx")
    parser.add_argument("--warp-python", help="a Python with mujoco_warp")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    record: dict[str, Any] = {"machine": machine(), "rows": []}
    with pinned(1):
        for case in cases():
            if options.cases is None or case.name.startswith(tuple(options.cases)):
                record["rows"] += measure(case, options.worlds, options.rounds)
                save(record, options.json)
        # If a peer fails, earlier measurements are kept.
        if options.mjx_python:
            record["mjx"] = ant_in_mjx(options.mjx_python, ASSETS / "ant.xml")
            save(record, options.json)
        if options.warp_python:
            record["mujoco_warp"] = ant_in_mujoco_warp(options.warp_python, ASSETS / "ant.xml")
            save(record, options.json)


def save(record: dict[str, Any], path: Path | None) -> None:
    """Write the record, if a file is given."""
    if path is not None:
        write_json(path, record)


if __name__ == "__main__":
    main()
