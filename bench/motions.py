"""Methods of sim.optimise on the same costs, and time of receding-horizon control.

python -m bench.motions --json bench/results/motions_cpu.json     # python -m bench.results then makes the tables

Seconds are processor time, on one core, with the kernels compiled beforehand. With --crocoddyl, an interpreter
that has Crocoddyl, its Box-DDP solves the arm's problem too; see bench/crocoddyl_arm.py.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import sim
from bench.report import write_json
from bench.timing import machine
from scenes import pendulum, quadruped
from scenes.manipulator import MANIPULATOR_URDF
from sim import optimise

# Maximum number of iterations per method.
MOST = {"gradient": 300, "ilqr": 100, "lbfgs": 300, "cmaes": 300}
NEAR = 1.01  # a cost counts as reached below this, relative to the best of all methods
ARM_START = (0.0, 0.6, 0.0, -1.2, 0.0, 0.5, 0.0)
ARM_TARGET = (0.45, 0.3, 0.8)
ARM_STAGES, ARM_DT = 100, 0.01
ARM_EFFORT, ARM_POSITION, ARM_REST = 1e-5, 500.0, 1.0


@dataclass(frozen=True)
class Run:
    """One method on one problem.

    Attributes:
        problem: its name.
        method: its name.
        cost: the smallest cost.
        rollouts: number of motions of one world.
        seconds: processor time.
        near: rollouts until the cost was within 1 % of the best of all methods; None if it never was.
        message: reason for the end.
    """

    problem: str
    method: str
    cost: float
    rollouts: int
    seconds: float
    near: int | None
    message: str


def swing() -> tuple[optimise.Problem, np.ndarray]:
    """Make a problem: a pendulum is swung up by a torque that can't hold it horizontally."""
    scene = pendulum.build(1, "float64", angle=0.0, damping=0.02)
    simulator = sim.Simulator(scene.model, 0.02, device="cpu", threads=1)
    costs = [optimise.Effort(1e-2), optimise.Posture([np.pi], 100.0, at=-1), optimise.Velocity(weight=10.0, at=-1)]
    problem = optimise.Problem(simulator, 50, costs, hold=2, q0=[0.0], limits=(-1.5, 1.5))
    return problem, np.full((50, 1), 0.1)


def arm() -> tuple[optimise.Problem, np.ndarray]:
    """Make a problem: an arm of seven joints brings its last link to a point and stops there."""
    builder = sim.ModelBuilder()
    builder.add_urdf(MANIPULATOR_URDF, collision=False)
    model = builder.finalize("float64")
    # Smooth, and as in Crocoddyl: without friction in the joints and without limits of their angles.
    free = {
        "damping": np.zeros(model.nv), "friction_loss": np.zeros(model.nv),
        "lower_limit": np.full(model.nv, -np.inf), "upper_limit": np.full(model.nv, np.inf),
    }  # fmt: skip
    simulator = sim.Simulator(model, ARM_DT, device="cpu", threads=1, parameters=free)
    costs = [
        optimise.Position("link7", ARM_TARGET, ARM_POSITION, at=-1), optimise.Velocity(weight=ARM_REST, at=-1),
        optimise.Effort(ARM_EFFORT),
    ]  # fmt: skip
    problem = optimise.Problem(simulator, ARM_STAGES, costs, q0=ARM_START)
    hold = sim.inverse_dynamics(model, np.array([ARM_START]), np.zeros((1, 7)), np.zeros((1, 7))).numpy()
    return problem, np.tile(hold, (ARM_STAGES, 1))


def push() -> tuple[optimise.Problem, np.ndarray]:
    """Make a problem: a quadruped with servos, pushed sideways, returns to its stance on four feet."""
    problem = standing(20)
    problem.qd0 = np.zeros(problem.model.nv)
    problem.qd0[1] = 0.4
    return problem, np.tile(quadruped_pose(), (20, 1))


def standing(stages: int) -> optimise.Problem:
    """Make a problem: a standing quadruped with its servos' angles as controls, in stages of 20 ms."""
    scene = quadruped.build("float32", servo=True)
    simulator = sim.Simulator(scene.model, 0.02, device="cpu", threads=1)
    weight, speed = np.ones(scene.model.nv), np.full(scene.model.nv, 0.02)
    weight[:3], weight[3:6], speed[:6] = 50.0, 20.0, 1.0
    costs = [optimise.Posture(scene.q0, weight), optimise.Velocity(weight=speed),
             optimise.Effort(0.1, quadruped_pose())]  # fmt: skip
    return optimise.Problem(simulator, stages, costs, q0=scene.q0)


def quadruped_pose() -> np.ndarray:
    """Return the angles of the legs' joints at which it stands [12]."""
    return quadruped.build().q0[7:]


PROBLEMS: dict[str, Callable[[], tuple[optimise.Problem, np.ndarray]]] = {
    "pendulum swings up": swing, "arm reaches": arm, "quadruped is pushed": push,
}  # fmt: skip


def run_methods(name: str) -> list[Run]:
    """Run all methods on one problem."""
    problem, guess = PROBLEMS[name]()
    found: list[tuple[str, optimise.Result, float]] = []
    for method, most in MOST.items():
        optimise.solve(problem, method, guess, iterations=1)  # loads the kernels
        begun = time.process_time()
        result = optimise.solve(problem, method, guess, iterations=most)
        found.append((method, result, time.process_time() - begun))
        print(f"{name}: {result}", flush=True)
    best = min(result.cost for _, result, _ in found)
    return [
        Run(name, method, result.cost, result.rollouts, seconds, rollouts_until(result, NEAR * best), result.message)
        for method, result, seconds in found
    ]


def run_crocoddyl(interpreter: str, best: float) -> Run:
    """Run Crocoddyl on the arm's problem. Its cost is that of its controls simulated here.

    Args:
        interpreter: a Python with Crocoddyl.
        best: the smallest cost of all methods.
    """
    problem, guess = arm()
    given = {
        "urdf": str(MANIPULATOR_URDF), "link": "link7", "target": ARM_TARGET, "position": ARM_POSITION,
        "rest": ARM_REST, "effort": ARM_EFFORT, "dt": ARM_DT, "stages": ARM_STAGES, "q0": ARM_START,
        "guess": guess.tolist(), "iterations": MOST["ilqr"], "repeats": 5,
    }  # fmt: skip
    done = subprocess.run(
        [interpreter, Path(__file__).with_name("crocoddyl_arm.py")], input=json.dumps(given), text=True, check=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    found = json.loads(done.stdout)
    cost = float(problem.costs_of(np.reshape(found["controls"], (1, -1)))[0])
    if not np.isclose(cost, found["cost"], rtol=1e-6):
        raise RuntimeError(f"Crocoddyl's cost is {found['cost']}, and of the same controls {cost} here")
    near = found["iterations"] if cost <= NEAR * best else None
    return Run("arm reaches", "Crocoddyl", cost, found["iterations"], found["seconds"], near, "")


def rollouts_until(result: optimise.Result, cost: float) -> int | None:
    """Return the number of rollouts until the cost was below this one; iterations count equally."""
    for number, each in enumerate(result.history):
        if each <= cost:
            return round(result.rollouts * (number + 1) / len(result.history))
    return None


def time_mpc(stages: int = 15, moments: int = 100) -> dict[str, Any]:
    """Measure processor time of each cycle of the quadruped's control [ms]; its plant has steps of 5 ms, and is
    pushed.
    """
    problem = standing(stages)
    model, q0 = problem.model, problem.q0
    control = optimise.MPC(problem, np.tile(quadruped_pose(), (stages, 1)))
    plant = sim.Simulator(model, 0.005, device="cpu", threads=1)
    state, calls, whole, away = plant.state(q0), [], [], []
    for moment in range(moments):
        q, qd = state.numpy()
        if moment == 30:
            qd[0, :2] += 0.3
            state = plant.state(q, qd)
        begun = time.process_time()
        wanted = control(q[0], qd[0])
        between = time.process_time()
        control.prepare()
        calls.append(1000.0 * (between - begun))
        whole.append(1000.0 * (time.process_time() - begun))
        state = plant.rollout(state, control=np.tile(wanted, (4, 1))).final_state
        away.append(float(np.abs(state.q.numpy()[0, :3] - q0[:3]).max()))
    rest = slice(10, None)
    return {
        "stages": stages, "call_ms": float(np.median(calls[rest])), "whole_ms": float(np.median(whole[rest])),
        "slow_ms": float(np.percentile(whole[rest], 95)), "farthest": max(away), "at_the_end": away[-1],
    }  # fmt: skip


def table(record: dict[str, Any]) -> str:
    """Return a table of the methods."""
    lines = ["| problem | method | final cost | rollouts | until within 1 % of the best | seconds |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for run in record["runs"]:
        near = "–" if run["near"] is None else run["near"]
        lines.append(
            f"| {run['problem']} | {run['method']} | {run['cost']:.4g} | {run['rollouts']} | {near} | "
            f"{run['seconds']:.2g} |"
        )
    return "\n".join(lines)


def horizon(record: dict[str, Any]) -> str:
    """Return the time of receding-horizon control, as a sentence."""
    mpc = record["mpc"]
    return (
        f"With {mpc['stages']} stages of 20 ms a cycle takes {mpc['whole_ms']:.0f} ms of one core in the median and "
        f"{mpc['slow_ms']:.0f} ms in the slowest twentieth, {mpc['call_ms']:.0f} ms of it between a state and its "
        "controls."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--crocoddyl", metavar="PYTHON", help="an interpreter that has Crocoddyl")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    info = machine()
    mpc = time_mpc()
    print(mpc, flush=True)
    runs = [run for name in PROBLEMS for run in run_methods(name)]
    if options.crocoddyl is not None:
        runs.append(run_crocoddyl(options.crocoddyl, min(run.cost for run in runs if run.problem == "arm reaches")))
    record = {"machine": info, "mpc": mpc, "runs": [asdict(run) for run in runs]}
    print(table(record))
    if options.json is not None:
        write_json(options.json, record)


if __name__ == "__main__":
    main()
