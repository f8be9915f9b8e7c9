"""Velocities of kinematic joints along a path of their coordinates."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sim.dynamics.arguments import require_coordinates
from sim.dynamics.kinematics import difference
from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, require_type
from sim.model.model import Model
from sim.simulation.simulator import Simulator

Path = npt.ArrayLike | Callable[[float], npt.ArrayLike]


def velocities_along(simulator: Simulator, path: Path, steps: int | None = None) -> np.ndarray:
    """Return the velocities with which kinematic joints follow a path: the input ``kinematic_qd`` of a rollout.

    After each step, the coordinates of the kinematic joints are those of the path, to rounding. With the integrators
    "midpoint" and "rk4" joints that carry others by joints reach a velocity at the end of its step, and are half a step
    behind.

    Args:
        simulator: its model has the joints, its ``dt`` is the time from one row of the path to the next.
        path: coordinates before the first step and after each step, of all kinematic joints in the order of q:
            [steps + 1, num_worlds, n] or [steps + 1, n] for all worlds; or poses of bodies, if all kinematic joints are
            free, [steps + 1, num_worlds, bodies, 7]: position [m] and quaternion xyzw. Or a function from time [s] to
            one row of it.
        steps: number of steps, for a function.

    Returns:
        [steps, num_worlds, nk] or [steps, nk]. A rotation from one row to the next is less than half a turn.

    Raises:
        ModelError: for a model without kinematic joints, a path of another shape, numbers that aren't finite, and zero
            quaternions.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("lift")
        >>> _ = scene.add_joint("mast", "prismatic", child="lift", axis=(0, 0, 1), kinematic=True)
        >>> simulator = sim.Simulator(scene.finalize("float64"), dt=0.01, device="cpu")
        >>> heights = sim.velocities_along(simulator, lambda time: [0.1 * np.sin(3.0 * time)], steps=50)
        >>> trajectory = simulator.rollout(simulator.initial_state(), kinematic_qd=heights)
        >>> heights.shape, bool(np.isclose(trajectory.q.numpy()[-1, 0, 0], 0.1 * np.sin(1.5)))
        ((50, 1), True)
    """
    require_type("velocities_along: simulator", simulator, Simulator, "a sim.Simulator")
    model = simulator.model
    columns = kinematic_coordinates(model)
    if callable(path):
        if not is_whole(steps, 0):
            raise ModelError(f"velocities_along: steps is {steps!r}; a function needs a whole number of steps")
        path = np.stack([as_numbers("path", path(float(time))) for time in simulator.dt * np.arange(int(steps) + 1)])  # type: ignore[arg-type]
    rows = as_numbers("path", path)
    rows = rows.reshape(path_shape(model, rows.shape, simulator.num_worlds))
    q = np.broadcast_to(model.q0, (*rows.shape[:-1], model.nq)).copy()
    q[..., columns] = rows
    require_coordinates(model, "velocities_along", q.reshape(len(q), -1, model.nq))
    change: np.ndarray = difference(model, q[:-1], q[1:]).numpy()
    return change[..., model.kinematic_dofs] / simulator.dt


def kinematic_coordinates(model: Model) -> np.ndarray:
    """Return the indices in q of the coordinates of kinematic joints. Raises ModelError if there are none."""
    ends = np.append(model.joint_q_start[1:], model.nq)
    links = np.unique(model.dof_link[model.kinematic_dofs])
    if not len(links):
        raise ModelError("the model has no kinematic joint that moves; give add_joint(..., kinematic=True)")
    return np.concatenate([np.arange(model.joint_q_start[link], ends[link]) for link in links])


def path_shape(model: Model, shape: tuple[int, ...], num_worlds: int) -> tuple[int, ...]:
    """Return the shape of a path's coordinates, with poses of bodies joined. Raises ModelError for another shape."""
    count = len(kinematic_coordinates(model))
    joined = (*shape[:2], shape[2] * shape[3]) if len(shape) == 4 and shape[3] == 7 else shape
    if len(joined) not in (2, 3) or joined[-1] != count or joined[0] < 1 or joined[1:-1] not in ((), (num_worlds,)):
        raise ModelError(
            f"path has shape {shape}; expected coordinates (steps + 1, {num_worlds}, {count}) or (steps + 1, {count}), "
            f"or poses (steps + 1, {num_worlds}, bodies, 7)"
        )
    return joined
