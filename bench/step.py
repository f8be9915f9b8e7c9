"""Time and memory of a step and its gradient, compared with MuJoCo and Pinocchio on the same robot.

On one CPU core processor time is measured, so that other work on the machine has little effect.

python -m bench.step --json out/bench/step.json
python -m bench.step --worlds 4096 65536 --device cuda:0
python -m bench.step --worlds 4096 65536 --device cuda:0 --threads-per-world 16
python -m bench.step --quick
"""

import argparse
import functools
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import warp as wp

import sim
from bench import peers
from bench.memory import bytes_per_step
from bench.report import Record, print_table, with_machine, write_json
from bench.standing import DAMPING, DT, STIFFNESS, standing, start_pose
from bench.timing import Timing, machine, pinned, time_call
from scenes import quadruped
from sim.arrays.device_model import DeviceModel

STEPS = 100
SWEEPS = sim.PgsContact.sweeps
CONTACTS = {"newton": sim.HardContact(), "pgs": sim.PgsContact()}
SOLVERS = {"newton": "Newton's method", "pgs": f"{SWEEPS} sweeps from a cold start"}
MEMORY_STEPS = (50, 100, 500, 1000, 5000)
DYNAMICS_BATCH = 1024
LINEARISED = 64  # worlds


def main() -> None:
    options = parse()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    where = machine()
    records: list[Record] = []
    with pinned(options.cores):
        # Teams solve by Newton's method alone.
        for solver in CONTACTS if options.threads_per_world == 1 else ("newton",):
            own = [time_step(worlds, solver, options) for worlds in options.worlds]
            own.append(time_linearise(solver, options))
            add_peer(own, "MuJoCo", "mujoco", functools.partial(mujoco_times, solver, options))
            records += own
        dynamics = [time_forward_dynamics(dtype, options) for dtype in ("float32", "float64")]
        add_peer(dynamics, "Pinocchio", "pinocchio", lambda: pinocchio_times(options))
        memory = [measure_memory(steps, options) for steps in (MEMORY_STEPS[:3] if options.quick else MEMORY_STEPS)]
        for record in records:
            record.bytes_per_step = memory[-1].bytes_per_step
        records += dynamics + memory
    print_table(records, where)
    if options.json is not None:
        write_json(options.json, with_machine(records, where))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the records to this file")
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 64, 1024], help="numbers of worlds (1 64 1024)")
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda:0"')
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--cores", type=int, default=1, help="processor cores for each engine (1)")
    parser.add_argument("--threads-per-world", type=int, default=1, help="threads of a GPU for each world's solver (1)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, shorter rollouts for measuring memory")
    return parser.parse_args()


def time_step(worlds: int, solver: str, options: argparse.Namespace) -> Record:
    """Time the forward and the backward pass (with recompute) of a rollout of standing robots."""
    contact = CONTACTS[solver]
    case = standing(
        worlds, device=options.device, dtype=options.dtype, cores=options.cores, contact=contact,
        threads_per_world=options.threads_per_world,
    )  # fmt: skip
    tau = case.control(STEPS)
    seed = wp.ones_like(case.state.q)
    trajectory = case.simulator.rollout(case.state, tau)

    def forward() -> None:
        case.simulator.rollout(case.state, tau)
        wp.synchronize_device(options.device)

    def backward() -> None:
        trajectory.backward(seed)
        wp.synchronize_device(options.device)

    per_world_step = 1e6 / (STEPS * worlds)
    forward_us = timed(forward, options).median * per_world_step
    case.check_contacts()
    return Record(
        f"quadruped standing, {solver}",
        worlds,
        options.device,
        options.dtype,
        forward_us=forward_us,
        backward_us=timed(backward, options).median * per_world_step,
        cores=options.cores,
        steps=STEPS,
        note=f"Backswing: {SOLVERS[solver]}, friction cone; backward runs each step again",
    )


def time_linearise(solver: str, options: argparse.Namespace) -> Record:
    """Time the whole Jacobian of a step, for which MuJoCo has finite differences."""
    contact = CONTACTS[solver]
    case = standing(
        LINEARISED, device=options.device, dtype=options.dtype, cores=options.cores, contact=contact,
        threads_per_world=options.threads_per_world,
    )  # fmt: skip

    def linearise() -> None:
        case.simulator.linearise(case.state)

    return Record(
        f"quadruped standing, {solver}, linearise",
        LINEARISED,
        options.device,
        options.dtype,
        backward_us=timed(linearise, options).median * 1e6 / LINEARISED,
        cores=options.cores,
        note=f"Backswing: {SOLVERS[solver]}; whole Jacobian of a step in state and joint forces",
    )


def time_forward_dynamics(dtype: str, options: argparse.Namespace) -> Record:
    """Time forward dynamics without contact, and with its vector-Jacobian product in q, qd and tau."""
    model = quadruped.build(dtype).model
    random = np.random.default_rng(0)
    q = np.tile(model.q0, (DYNAMICS_BATCH, 1))
    q[:, 7:] = random.uniform(-1.0, 1.0, (DYNAMICS_BATCH, model.nq - 7))
    values = [q, *(random.normal(size=(DYNAMICS_BATCH, model.nv)) for _ in range(2))]
    on_device = DeviceModel(model, options.device)
    arguments: list[wp.array] = [
        wp.array(value, dtype=model.scalar, device=options.device, requires_grad=True) for value in values
    ]
    seed = wp.ones((DYNAMICS_BATCH, model.nv), dtype=model.scalar, device=options.device)

    def forward() -> None:
        sim.forward_dynamics(on_device, *arguments)
        wp.synchronize_device(options.device)

    def with_gradient() -> None:
        with wp.Tape() as tape:
            qdd = sim.forward_dynamics(on_device, *arguments)
        tape.backward(grads={qdd: seed})
        wp.synchronize_device(options.device)

    return Record(
        "quadruped forward dynamics",
        DYNAMICS_BATCH,
        options.device,
        dtype,
        forward_us=timed(forward, options).median / DYNAMICS_BATCH * 1e6,
        backward_us=timed(with_gradient, options).median / DYNAMICS_BATCH * 1e6,
        cores=options.cores,
        note="forward dynamics: no contact; backward includes the forward pass",
    )


def measure_memory(steps: int, options: argparse.Namespace) -> Record:
    """Measure the memory per step of a rollout with its backward pass."""
    kept, peak = bytes_per_step(steps, device=options.device, dtype=options.dtype)
    return Record(
        "quadruped standing, memory",
        256,
        options.device,
        options.dtype,
        bytes_per_step=peak,
        cores=1,
        steps=steps,
        note=f"memory of {steps} steps: rollout keeps {kept:.0f} bytes per world and step, {peak:.0f} with backward",
    )


def mujoco_times(solver: str, options: argparse.Namespace) -> peers.PeerTimes:
    text = quadruped.mjcf(dt=DT, sweeps=SWEEPS)
    model = peers.mujoco_newton(text, dt=DT) if solver == "newton" else peers.mujoco_pgs(text, dt=DT, sweeps=SWEEPS)
    data = peers.mujoco_standing(model, start_pose(), stiffness=STIFFNESS, damping=DAMPING)
    return peers.time_mujoco(model, data, cores=options.cores, seconds=seconds(options), clock=clock(options))


def pinocchio_times(options: argparse.Namespace) -> peers.PeerTimes:
    model = peers.pinocchio_model(quadruped.mjcf(dt=DT, sweeps=SWEEPS))
    return peers.time_pinocchio(
        model, batch=DYNAMICS_BATCH, cores=options.cores, seconds=seconds(options), clock=clock(options)
    )


def add_peer(records: list[Record], name: str, package: str, measure: Callable[[], peers.PeerTimes]) -> None:
    """Measure a peer and add its times to the records, or print that it is not installed."""
    if importlib.util.find_spec(package) is None:
        print(f"{name} is not installed (pip install backswing[peers]); its columns stay empty")
        return
    times = measure()
    for record in records:
        record.peer = name
        record.peer_forward_us, record.peer_backward_us = times.forward_us, times.backward_us
        record.note += f". {times.note}"


def timed(call: Callable[[], object], options: argparse.Namespace) -> Timing:
    return time_call(call, seconds=seconds(options), clock=clock(options))


def clock(options: argparse.Namespace) -> Callable[[], float]:
    """Return the clock: processor time on one CPU core, otherwise time."""
    return time.process_time if options.device == "cpu" and options.cores == 1 else time.perf_counter


def seconds(options: argparse.Namespace) -> float:
    """Time to spend on each figure [s]."""
    return 0.2 if options.quick else 2.0


if __name__ == "__main__":
    main()
