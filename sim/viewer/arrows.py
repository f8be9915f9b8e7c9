"""Arrows for vectors at points: contact forces, and gradients of a loss with respect to forces on links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.dynamics.kinematics import link_velocities
from sim.errors import ModelError
from sim.model.model import Model
from sim.simulation.trajectory import Trajectory
from warp_kernels import types as codes

if TYPE_CHECKING:
    from viser import SceneApi

LONGEST = 2.0  # maximum length of an arrow, relative to that of the reference; longer ones are clipped


class Arrows:
    """Arrows of one kind.

    Args:
        scene: scene of the viser server.
        name: name of their node.
        color: red, green and blue from 0 to 255.
        length: length of the arrow of the reference [m].
        dots: whether to draw dots at their starting points.
    """

    def __init__(self, scene: SceneApi, name: str, color: tuple[int, int, int], length: float, dots: bool):
        nothing = np.zeros((0, 3))
        self._length, self._color = length, color
        self._points, self._vectors, self._reference, self._zoom = nothing, nothing, 1.0, 1.0
        thick = 0.025 * length
        self._folder = scene.add_frame(name, show_axes=False)
        self._arrows = scene.add_arrows(
            f"{name}/arrows", np.zeros((1, 2, 3)), color, shaft_radius=thick, head_radius=2.2 * thick,
            head_length=5.0 * thick, visible=False,
        )  # fmt: skip
        self._dots: Any = None
        if dots:
            self._dots = scene.add_point_cloud(
                f"{name}/points", np.zeros((1, 3)), color, point_size=2.5 * thick, point_shape="circle",
                precision="float32", visible=False,
            )  # fmt: skip

    def draw(self, points: np.ndarray, vectors: np.ndarray, reference: float) -> None:
        """Draw vectors [n, 3] at points [n, 3]. A vector whose norm is ``reference`` is ``length`` long."""
        self._points, self._vectors, self._reference = points, vectors, reference
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True) / reference
        shown = sizes[:, 0] > 0.0
        lengths = self._zoom * self._length * np.minimum(sizes[shown], LONGEST)
        ends = points[shown] + lengths * vectors[shown] / (sizes[shown] * reference)
        for node, drawn in ((self._arrows, np.stack([points[shown], ends], axis=1)), (self._dots, points[shown])):
            if node is not None:
                if len(drawn):
                    node.points = drawn
                node.visible = bool(len(drawn))

    def clear(self) -> None:
        """Remove all arrows."""
        self.draw(np.zeros((0, 3)), np.zeros((0, 3)), 1.0)

    def zoom(self, factor: float) -> None:
        """Scale the length of all arrows by a factor."""
        self._zoom = factor
        self.draw(self._points, self._vectors, self._reference)

    def show(self, visible: bool) -> None:
        """Show or hide the arrows."""
        self._folder.visible = visible

    def legend(self, what: str, unit: str) -> str:
        """Return the scale of the arrows as a line of Markdown; empty without arrows."""
        if not len(self._points):
            return ""
        red, green, blue = self._color
        swatch = f'<span style="color:rgb({red},{green},{blue})">➜</span>'
        return f"{swatch} {self._zoom * self._length:.2g} m: {what} of {self._reference:.3g}{unit}  \n"


def typical_force(model: Model) -> float:
    """Return the weight of the heaviest free tree, or of all links without free trees [N]; 1 without weight."""
    mass, roots = model.parameters["mass"], model.tree_link_start[:-1]
    trees = [tree.sum() for tree in np.split(mass, roots[1:])]
    free = [tree for tree, root in zip(trees, roots, strict=False) if model.joint_type[root] == codes.FREE]
    weight = float(max(free, default=mass.sum()) * np.linalg.norm(model.parameters["gravity"]))
    return weight if weight > 0.0 else 1.0


def force_gradients(trajectory: Trajectory, q_grad: Any = None, qd_grad: Any = None) -> np.ndarray:
    """Compute the gradient of a loss with respect to forces at the link origins, each applied for one step.

    Such a force f is equivalent to the joint force J^T f, where J is the Jacobian of the link's origin before the step.
    The gradient in f is therefore J times the gradient in tau. It is computed as the velocity of the origin for a joint
    velocity equal to that gradient.

    Args:
        trajectory: a rollout with ``tau`` (which may be zeros) that stores all its states.
        q_grad: derivative of the loss in every q or in the last one, as for :meth:`sim.Trajectory.backward`.
        qd_grad: the same for qd.

    Returns:
        [steps, num_worlds, num_links, 3], along world axes, in units of the loss per N.

    Raises:
        ModelError: for a trajectory without tau or with a checkpoint interval, and for wrong shapes.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.viewer import force_gradients
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), np.zeros((10, 1, model.nv)))
        >>> force_gradients(trajectory, q_grad=np.ones((1, model.nq))).shape
        (10, 1, 7, 3)
    """
    if trajectory.tau is None:
        raise ModelError("force_gradients: the rollout has no tau; pass zeros [steps, num_worlds, nv]")
    if trajectory.checkpoint_interval != 1:
        raise ModelError("force_gradients: the rollout does not store all its states; omit checkpoint_interval")
    model = trajectory.simulator.model
    tau_bar: Any = trajectory.backward(q_grad, qd_grad).tau
    steps, worlds = tau_bar.shape[:2]
    before = trajectory.q[:steps].reshape((steps * worlds, model.nq))
    velocity = link_velocities(model, before, tau_bar.reshape((steps * worlds, model.nv))).numpy()
    return velocity[:, :, 3:].reshape(steps, worlds, model.num_links, 3).astype(np.float64)
