"""Error, cost and memory of the two adjoints over the number of sweeps, with finite differences as the reference.

python -m bench.adjoints --json bench/results/adjoints_cpu.json
python -m bench.adjoints --quick
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import warp as wp

import sim
from bench.report import with_machine, write_json
from bench.standing import standing
from bench.timing import machine, pinned, time_call
from scenes import crowd, quadruped

SWEEPS = (5, 10, 20, 50, 200)
REFERENCE_SWEEPS = 2000  # taken as converged
WORLDS = 64
STEPS = 20
SAMPLES = 40  # number of directions of the finite differences
STEP = 1e-6  # step of a finite difference in the velocities


@dataclass
class Row:
    """One scene, adjoint and number of sweeps.

    Attributes:
        scene: name of the scene.
        adjoint: "unrolled" or "implicit".
        sweeps: number of sweeps of projected Gauss-Seidel.
        residual: residual of the sweeps [m/s].
        adjoint_residual: relative residual of the linear solve; zero for "unrolled".
        own_error: relative error of the gradient against finite differences with the same number of sweeps.
        solution_error: relative error against finite differences with REFERENCE_SWEEPS sweeps.
        backward_us: time of the backward pass per world and step of the standing quadruped, float32; None for other
            scenes.
        kilobytes: working memory per world for the backward pass alone, half that of float64.
    """

    scene: str
    adjoint: str
    sweeps: int
    residual: float
    adjoint_residual: float
    own_error: float
    solution_error: float
    backward_us: float | None
    kilobytes: float


@dataclass(frozen=True)
class Scene:
    """Motion whose derivative is checked: final velocities with respect to initial velocities."""

    name: str
    model: sim.Model
    q: np.ndarray
    qd: np.ndarray
    dt: float
    steps: int
    contact: sim.PgsContact
    parameters: dict[str, np.ndarray]


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--quick", action="store_true", help="few numbers of sweeps, few repeats")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    wp.init()
    where = machine()
    with pinned(1):
        rows = [row for scene in scenes() for row in measure(scene, options.quick)]
    print_rows(rows)
    if options.json is not None:
        write_json(options.json, with_machine(rows, where))


def scenes() -> Iterator[Scene]:
    """Build a quadruped that lands and slides, balls in a heap, and a box that slides and turns, hard and slightly
    soft.
    """
    robot = quadruped.build("float64", friction=0.4, height=0.004)
    joints = robot.model.dof_q >= 0
    springs = {
        "stiffness": 60.0 * joints, "damping": 2.0 * joints,
        "rest_position": np.where(joints, robot.q0[robot.model.dof_q], 0.0),
    }  # fmt: skip
    qd = np.zeros(robot.model.nv)
    qd[:6] = 1.2, 0.3, -0.2, 0.1, 0.2, 0.1
    yield Scene("quadruped lands", robot.model, robot.q0, qd, 1 / 500, 30, sim.PgsContact(), springs)
    heap = crowd.loose("ball", 9, "float64", spacing=0.0995, layers=2)
    qd = 0.2 * np.random.default_rng(1).normal(size=heap.model.nv)
    yield Scene("balls in a heap", heap.model, heap.q0, qd, 1 / 240, 10, sim.PgsContact(), {})
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(
        half_extents=(0.1, 0.2, 0.05), mass=0.7, position=(0.0, 0.0, 0.05), surface=sim.Surface(friction=0.6)
    )
    box = builder.finalize("float64")
    qd = np.array([2.0, 0.7, 0.0, 0.0, 0.0, 4.0])
    for name, cfm in (("hard box turns", 0.0), ("soft box turns", 0.5)):
        yield Scene(name, box, box.q0, qd, 1 / 240, 10, sim.PgsContact(cfm=cfm), {})


def measure(scene: Scene, quick: bool) -> Iterator[Row]:
    """Measure both adjoints with all numbers of sweeps."""
    weight = np.random.default_rng(3).normal(size=scene.model.nv)
    reference = differences(scene, REFERENCE_SWEEPS, weight)
    for sweeps in SWEEPS[:2] if quick else SWEEPS:
        own = differences(scene, sweeps, weight)
        for adjoint in ("unrolled", "implicit"):
            contact = replace(scene.contact, sweeps=sweeps, adjoint=adjoint)
            simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu", contact, scene.parameters)
            trajectory = simulator.rollout(simulator.state(scene.q, scene.qd), steps=scene.steps)
            found = directions(scene) @ trajectory.backward(qd_grad=weight[None]).qd.numpy()[0]
            yield Row(
                scene.name, adjoint, sweeps, float(simulator.residual[0]), float(simulator.adjoint_residual[0]),
                error(found, own), error(found, reference), backward_time(scene, adjoint, sweeps, quick),
                working_memory(scene, contact),
            )  # fmt: skip


def directions(scene: Scene) -> np.ndarray:
    """Draw random directions in the initial velocities [SAMPLES, nv]."""
    return np.random.default_rng(7).normal(size=(SAMPLES, scene.model.nv))


def differences(scene: Scene, sweeps: int, weight: np.ndarray) -> np.ndarray:
    """Compute central differences of weight . qd(final) along the directions [SAMPLES]."""
    contact = replace(scene.contact, sweeps=sweeps)
    simulator = sim.Simulator(scene.model, scene.dt, 2 * SAMPLES, "cpu", contact, scene.parameters)
    change = STEP * directions(scene)
    qd = scene.qd + np.concatenate([change, -change])
    trajectory = simulator.rollout(simulator.state(np.tile(scene.q, (2 * SAMPLES, 1)), qd), steps=scene.steps)
    losses = trajectory.qd.numpy()[-1] @ weight
    return (losses[:SAMPLES] - losses[SAMPLES:]) / (2.0 * STEP)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the relative root-mean-square error over the directions."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def backward_time(scene: Scene, adjoint: str, sweeps: int, quick: bool) -> float | None:
    """Measure the time of the backward pass of the standing quadruped [us]; None for other scenes."""
    if "quadruped" not in scene.name:
        return None
    contact = replace(scene.contact, sweeps=sweeps, adjoint=adjoint)
    case = standing(WORLDS, device="cpu", dtype="float32", cores=1, contact=contact)
    trajectory = case.simulator.rollout(case.state, case.control(STEPS))
    seed = wp.ones_like(case.state.q)
    run: Callable[[], object] = lambda: trajectory.backward(seed)  # noqa: E731
    return time_call(run, seconds=0.05 if quick else 0.5).best * 1e6 / (STEPS * WORLDS)


def working_memory(scene: Scene, contact: sim.ContactMethod) -> float:
    """Measure the memory that the first backward pass adds to a simulator's arrays, per world, halved for float32
    [kB].
    """
    simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu", contact, scene.parameters)
    trajectory = simulator.rollout(simulator.state(scene.q, scene.qd), steps=1)
    step = simulator.engine.shards[0].step
    before = held(step)
    trajectory.backward(np.ones((1, scene.model.nq)))
    return (held(step) - before) / 2000.0


def held(step: object) -> int:
    """Count the bytes of an object's array attributes; arrays that share memory count once."""
    arrays = [value for value in vars(step).values() if isinstance(value, wp.array)]
    return sum({array.ptr: array.capacity for array in arrays}.values())


def print_rows(rows: list[Row]) -> None:
    """Print a table."""
    print(
        f"{'scene':18}{'adjoint':10}{'sweeps':>7}{'residual':>10}{'adjoint r.':>11}{'own error':>11}{'solution':>10}"
        f"{'backward us':>12}{'kB':>8}"
    )
    for row in rows:
        time = "-" if row.backward_us is None else f"{row.backward_us:.1f}"
        print(
            f"{row.scene:18}{row.adjoint:10}{row.sweeps:7}{row.residual:10.1e}{row.adjoint_residual:11.1e}"
            f"{row.own_error:11.1e}{row.solution_error:10.1e}{time:>12}{row.kilobytes:8.1f}"
        )


if __name__ == "__main__":
    main()
