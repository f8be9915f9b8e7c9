"""Results of a backward pass: gradients of a loss, and norms of its derivative in every state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from sim.errors import ModelError
from sim.model.checks import require_type, require_whole

LINES = 20
BAR = 40


@dataclass(frozen=True)
class Gradients:
    """Gradients of a loss through a trajectory.

    Attributes:
        q: in the first state's coordinates [num_worlds, nq], ambient; tangent to the unit sphere for quaternions.
        qd: in its velocities [num_worlds, nv].
        tau: in the joint forces [steps, num_worlds, nv]; None if none were given.
        control: in the actuators' inputs [steps, num_worlds, nu]; None if none were given.
        parameters: in the requested parameters, each in the shape of its value; shared ones summed over all worlds.
        impulses: in the initial impulses [num_worlds, max_constraints, 3]; None without a warm start.
        act: in the initial states of actuators [num_worlds, na]; None if no actuator has one.
        kinematic_qd: in the velocities of kinematic joints [steps, num_worlds, nk]; None if none were given.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), np.zeros((10, 1, model.nv)))
        >>> gradients = trajectory.backward(np.ones((1, model.nq)), parameters=["mass"])
        >>> gradients.tau.shape, gradients.parameters["mass"].shape
        ((10, 1, 7), (7,))
    """

    q: wp.array
    qd: wp.array
    tau: wp.array | None
    control: wp.array | None
    parameters: dict[str, Any]
    impulses: wp.array | None = None
    act: wp.array | None = None
    kinematic_qd: wp.array | None = None


@dataclass(frozen=True)
class GradientNorms:
    """Euclidean norms of the derivative of a loss in every state, through all later steps.

    Made by :meth:`sim.Trajectory.gradient_norms`. Printing it shows the world with the largest growth.

    Attributes:
        q: norms of the derivative in the coordinates [steps + 1, num_worlds].
        qd: norms of the derivative in the velocities [steps + 1, num_worlds].
        worlds: indices of the worlds [num_worlds].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> trajectory = simulator.rollout(simulator.initial_state(), steps=10)
        >>> trajectory.gradient_norms(np.ones((1, model.nq))).q.shape
        (11, 1)
    """

    q: np.ndarray
    qd: np.ndarray
    worlds: tuple[int, ...]

    def first_beyond(self, bound: float = np.inf, world: int | None = None) -> tuple[int, int] | None:
        """Return the last state at which a norm exceeds a bound or isn't finite: the first one in the backward pass.

        Args:
            bound: bound of both norms. Default: only values that aren't finite count.
            world: index of one world. Default: all worlds.

        Returns:
            the state (0 is the initial one, ``steps`` the last) and the world; None if no norm exceeds the bound.
        """
        require_type("first_beyond: bound", bound, (int, float, np.number), "a number")
        if world is not None:
            require_whole("first_beyond", world=world)
        beyond = ~((self.q <= bound) & (self.qd <= bound)) | ~np.isfinite(self.q) | ~np.isfinite(self.qd)
        if world is not None:
            beyond &= np.array(self.worlds) == world
        states = np.flatnonzero(beyond.any(axis=1))
        if not len(states):
            return None
        return int(states[-1]), self.worlds[int(np.argmax(beyond[states[-1]]))]

    def table(self, world: int, lines: int = LINES) -> str:
        """Return the norms of one world as text, from the last state to the first, with bars on a logarithmic scale.

        If there are more states than lines, each line shows the state with the largest norm of a range of states.

        Raises:
            ModelError: for a world that isn't among :attr:`worlds`.
        """
        require_whole("table", world=world, lines=lines)
        if world not in self.worlds:
            raise ModelError(f"no norms of world {world!r}; available worlds: {list(self.worlds)}")
        column = self.worlds.index(world)
        q, qd = self.q[:, column], self.qd[:, column]
        last = len(q) - 1
        size = np.hypot(q, qd)
        stretches = np.array_split(np.arange(last, -1, -1), max(1, min(lines, last + 1)))
        states = [stretch[np.nan_to_num(size[stretch], nan=np.inf).argmax()] for stretch in stretches]
        shown = size[np.isfinite(size) & (size > 0.0)]
        # At least one decade, so that small changes don't fill the scale.
        low, high = (np.log10(shown.min()), np.log10(shown.max())) if len(shown) else (0.0, 0.0)
        decades = max(high - low, 1.0)
        text = [f"world {world}: norms of the derivatives in q and qd of each state, in the backward pass", ""]
        text.append(f"{'state':>8}  {'d/dq':>10}  {'d/dqd':>10}  bar: logarithm, {decades:.1f} decades")
        for state in states:
            bar = "not finite"
            if np.isfinite(size[state]):
                full = (np.log10(size[state]) - low) / decades if size[state] > 0.0 else 0.0
                bar = "#" * round(BAR * full)
            text.append(f"{state:>8}  {q[state]:>10.3e}  {qd[state]:>10.3e}  {bar}".rstrip())
        return "\n".join(text)

    def __str__(self) -> str:
        bad = self.first_beyond()
        size = np.hypot(self.q, self.qd)
        world = bad[1] if bad else self.worlds[int(np.argmax(size.max(axis=0)))]
        text = self.table(world)
        if bad:
            text += f"\nnot finite from state {bad[0]} of world {bad[1]} back"
        return text
