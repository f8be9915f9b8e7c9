"""Study of the number of sweeps that a scene needs: rollouts with few sweeps compared with a reference with many."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays.critical_sections import serialized
from sim.diagnostics.finite_differences import start_state
from sim.errors import ModelError
from sim.model.checks import is_whole, items_of, require_seed, require_type
from sim.model.parameters import number_of_dims
from sim.simulation.batches import ArrayLike
from sim.simulation.engine.first_state import first_broken
from sim.simulation.options import PgsContact
from sim.simulation.simulator import Simulator
from sim.simulation.state import State
from sim.simulation.trajectory import Trajectory

# Number of evenly spaced states checked for penetration, in addition to the final one.
LOOKS = 50


@dataclass(frozen=True)
class SweepResult:
    """Errors of a rollout for one number of sweeps.

    Attributes:
        sweeps: number of sweeps per step.
        warm_start: whether each step started from the impulses of the previous one.
        residual: largest change of a row's velocity in the last sweep of a step [m/s].
        position: largest difference of the final q from the reference [m or rad].
        drift: largest change of a coordinate in the second half of the rollout [m or rad]; in a scene at rest, creep.
        penetration: largest penetration depth of a contact [m].
        gradient: relative error (Euclidean norm) of the gradient of a random projection of the final state in the
            initial q and qd, relative to the reference.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> options = sim.PgsContact()
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu", contact=options)
        >>> study = sim.study_sweeps(simulator, simulator.initial_state(), steps=5, sweeps=(5, 20))
        >>> all(result.penetration < 1e-3 for result in study.results)
        True
    """

    sweeps: int
    warm_start: bool
    residual: float
    position: float
    drift: float
    penetration: float
    gradient: float


@dataclass(frozen=True)
class SweepStudy:
    """Result of :func:`study_sweeps`, to be printed.

    Attributes:
        results: results for each number of sweeps, from zero impulses and with a warm start.
        reference: result of the reference rollout; its position and gradient are zero by definition.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> options = sim.PgsContact()
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu", contact=options)
        >>> study = sim.study_sweeps(simulator, simulator.initial_state(), steps=5, sweeps=(5, 20))
        >>> study.reference.gradient, len(study.results)
        (0.0, 4)
    """

    results: tuple[SweepResult, ...]
    reference: SweepResult

    def __str__(self) -> str:
        heads = ("residual [m/s]", "position [m]", "drift [m]", "overlap [m]", "gradient")
        lines = [f"{'sweeps':>8}{'start':>7}" + "".join(f"{head:>16}" for head in heads)]
        for row in (*self.results, self.reference):
            start = "warm" if row.warm_start else "cold"
            values = (row.residual, row.position, row.drift, row.penetration, row.gradient)
            lines.append(f"{row.sweeps:>8}{start:>7}" + "".join(f"{value:>16.1e}" for value in values))
        return "\n".join([*lines, f"position and gradient: differences from {self.reference.sweeps} sweeps"])


@serialized
def study_sweeps(
    simulator: Simulator,
    state: State,
    tau: ArrayLike | None = None,
    control: ArrayLike | None = None,
    *,
    steps: int | None = None,
    sweeps: Iterable[int] = (5, 10, 20, 50),
    reference: int = 1000,
    world: int = 0,
    seed: int = 0,
) -> SweepStudy:
    """Compare rollouts for several numbers of sweeps, each with a cold start (zero impulses) and a warm start.

    All rollouts are in float64, whatever the simulator's dtype, and without early termination. The backward pass of the
    reference stores three vectors per constraint and sweep.

    Args:
        simulator: the simulator; its other options and its parameters are kept.
        state: the state before the first step; its impulses are ignored.
        tau: joint forces, as for :meth:`sim.Simulator.rollout`.
        control: inputs of the actuators, as for :meth:`sim.Simulator.rollout`.
        steps: number of steps; required if neither tau nor control is given.
        sweeps: numbers of sweeps to try.
        reference: number of sweeps of the reference rollout, which starts from zero impulses.
        world: the world to study.
        seed: seed of the random projection.

    Raises:
        ModelError: for wrong shapes, a world that does not exist, numbers of sweeps that are not whole numbers, and a
            simulator whose solver has no sweeps.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.0999))
        >>> simulator = sim.Simulator(scene.finalize(), 1 / 240, device="cpu", contact=sim.PgsContact())
        >>> study = sim.study_sweeps(simulator, simulator.initial_state(), steps=10)
        >>> [result.sweeps for result in study.results if not result.warm_start]
        [5, 10, 20, 50]
    """
    require_type("study_sweeps: simulator", simulator, Simulator, "a sim.Simulator")
    require_type("study_sweeps: state", state, State, "a sim.State: make one with simulator.state(q, qd)")
    require_seed("study_sweeps: seed", seed)
    numbers = items_of("study_sweeps: sweeps", sweeps, "numbers of sweeps")
    contact = simulator.contact
    if not isinstance(contact, PgsContact):
        raise ModelError(
            f"study_sweeps: the contact is a sim.{type(contact).__name__}, whose solver has no sweeps; use "
            "sim.PgsContact, or read simulator.residual for the distance from the solution"
        )
    if not is_whole(world, 0) or world >= simulator.num_worlds:
        raise ModelError(f"study_sweeps: there is no world {world!r}; indices go from 0 to {simulator.num_worlds - 1}")
    inputs = [
        None if given is None else given.numpy()[:, [world]].astype(np.float64)
        for given in (
            simulator.engine.batches.of_steps(tau, simulator.model.nv, "tau"),
            simulator.engine.batches.of_steps(control, simulator.model.nu, "control"),
        )
    ]
    q, qd = (array.numpy()[[world]].astype(np.float64) for array in (state.q, state.qd))
    act = None if state.act is None else state.act.numpy()[[world]].astype(np.float64)
    begun = first_broken(simulator.engine, state.broken, state.own_broken)
    broken = None if begun is None else begun.numpy()[[world]]

    def trial(number: int, warm_start: bool) -> Trajectory:
        alone = _alone(simulator, world, replace(contact, sweeps=number, warm_start=warm_start, tolerance=0.0))
        return alone.rollout(start_state(alone, q, qd, None, act, broken), inputs[0], steps, control=inputs[1])

    best = trial(reference, False)
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=array.shape[1:]) for array in (best.q, best.qd)]
    right = _gradient(best, weights)

    def result(trajectory: Trajectory) -> SweepResult:
        options = trajectory.simulator.contact
        assert isinstance(options, PgsContact)
        residual = float(trajectory.simulator.residual[0])  # read before the calls of contacts below take further steps
        q = trajectory.q.numpy()
        position = float(np.abs(q[-1] - best.q.numpy()[-1]).max())
        drift = float(np.abs(q[trajectory.steps // 2 :] - q[-1]).max())
        gradient = np.linalg.norm(_gradient(trajectory, weights) - right) / max(float(np.linalg.norm(right)), 1e-300)
        overlap = _penetration(trajectory)
        return SweepResult(options.sweeps, options.warm_start, residual, position, drift, overlap, float(gradient))

    results = [result(trial(number, warm_start)) for number in numbers for warm_start in (False, True)]
    return SweepStudy(tuple(results), result(best))


def _alone(simulator: Simulator, world: int, contact: PgsContact) -> Simulator:
    """Return a float64 copy of one world of a simulator, with another number of sweeps."""
    m = simulator.model
    parameters = {
        name: value[world] if value.ndim > number_of_dims(name) else value
        for name, value in simulator.parameters.items()
    }
    double = replace(m, dtype="float64")
    return simulator.replace(1, model=double, contact=contact, parameters=parameters, contact_sensors=())


def _gradient(trajectory: Trajectory, weights: list[np.ndarray]) -> np.ndarray:
    gradients = trajectory.backward(*weights)
    return np.concatenate([gradients.q.numpy().ravel(), gradients.qd.numpy().ravel()])


def _penetration(trajectory: Trajectory) -> float:
    """Return the largest penetration depth [m]; zero without penetration."""
    simulator = trajectory.simulator
    looks = np.unique(np.linspace(0, trajectory.steps, LOOKS + 1).astype(int))
    distances = [simulator.contacts(trajectory.state(int(step))).distance for step in looks]
    return float(max(0.0, -np.concatenate([*distances, np.zeros(1)]).min()))
