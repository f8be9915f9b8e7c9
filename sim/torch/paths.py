"""Velocities of kinematic joints along a path of their coordinates, with the gradient in the path."""

from weakref import WeakKeyDictionary

import torch

from sim.model.checks import require_type
from sim.simulation.paths import kinematic_coordinates, path_shape
from sim.simulation.simulator import Simulator
from sim.torch.arrays import TORCH_DTYPES, require_dense, require_tensor, torch_device
from sim.torch.robot.robot import Robot

_robots: "WeakKeyDictionary[Simulator, Robot]" = WeakKeyDictionary()


def velocities_along(simulator: Simulator, path: torch.Tensor) -> torch.Tensor:
    """Return the velocities with which kinematic joints follow a path, as :func:`sim.velocities_along`, differentiable.

    Args:
        simulator: its model has the joints, its ``dt`` is the time from one row of the path to the next.
        path: coordinates before the first step and after each step, of all kinematic joints in the order of q:
            [steps + 1, num_worlds, n] or [steps + 1, n] for all worlds; or poses of bodies, if all kinematic joints are
            free, [steps + 1, num_worlds, bodies, 7]: position [m] and quaternion xyzw.

    Returns:
        [steps, num_worlds, nk], the input ``kinematic_qd`` of :func:`rollout`.

    Raises:
        ModelError: for a model without kinematic joints, and for a path of another shape, dtype or device.

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("lift")
        >>> _ = scene.add_joint("mast", "prismatic", child="lift", axis=(0, 0, 1), kinematic=True)
        >>> simulator = sim.Simulator(scene.finalize("float64"), dt=0.01, device="cpu")
        >>> heights = torch.linspace(0.0, 0.3, 51, dtype=torch.float64).unsqueeze(1).requires_grad_()
        >>> led = sim.torch.velocities_along(simulator, heights)
        >>> start = torch.zeros(1, 1, dtype=torch.float64)
        >>> q, qd = sim.torch.rollout(simulator, start, start, kinematic_qd=led)
        >>> q[-1].sum().backward()
        >>> q[-1].round(decimals=6).tolist(), heights.grad[-1].round(decimals=6).tolist()
        ([[0.3]], [1.0])
    """
    require_type("velocities_along: simulator", simulator, Simulator, "a sim.Simulator")
    model = simulator.model
    robot = _robots.get(simulator)
    if robot is None:
        robot = _robots[simulator] = Robot(model, device=simulator.device)
    require_dense("velocities_along: path", path)
    require_tensor("velocities_along: path", path, tuple(path.shape), TORCH_DTYPES[model.dtype])
    home = torch.as_tensor(model.q0, dtype=path.dtype, device=torch_device(simulator.device))
    rows = path.reshape(path_shape(model, tuple(path.shape), simulator.num_worlds))
    if rows.dim() == 2:
        rows = rows.unsqueeze(1).expand(-1, simulator.num_worlds, -1)
    columns = torch.as_tensor(kinematic_coordinates(model), device=home.device)
    dofs = torch.as_tensor(model.kinematic_dofs, device=home.device)
    q = home.expand(*rows.shape[:-1], model.nq).index_copy(-1, columns, rows)
    return robot.difference(q[:-1], q[1:]).index_select(-1, dofs) / simulator.dt
