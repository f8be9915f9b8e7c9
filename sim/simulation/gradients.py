"""What a way back through a rollout finds: gradients of a loss, and how large its derivative is in every state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from sim.errors import ModelError

LINES = 20
BAR = 40


@dataclass(frozen=True)
class Gradients:
    """Gradients of a loss through a trajectory.

    Attributes:
        q: of the first state's coordinates [num_worlds, nq], ambient; tangent to the unit sphere for quaternions.
        qd: of its velocities [num_worlds, nv].
        tau: of the joint forces [steps, num_worlds, nv]; None where there were none.
        control: of the actuators' inputs [steps, num_worlds, nu]; None where there were none.
        parameters: of the parameters asked for, each in the shape of its value; shared ones summed over all worlds.
        impulses: of those that the first step began with [num_worlds, max_constraints, 3]; None without a warm start.
        act: of the first states of actuators [num_worlds, na]; None where there are none.

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


@dataclass(frozen=True)
class GradientNorms:
    """Euclidean norms of the derivative of a loss in every state, all later steps included.

    Made by :meth:`sim.Trajectory.gradient_norms`. Printed, it shows the world in which they grow most.

    Attributes:
        q: of the derivative in the coordinates [steps + 1, num_worlds].
        qd: of that in the velocities [steps + 1, num_worlds].
        worlds: numbers of the worlds [num_worlds].

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
        """Where, on the way back from the end, a norm first exceeds a bound or isn't finite.

        Args:
            bound: of both norms; by default only what isn't finite counts.
            world: the world to look at; None for all.

        Returns:
            the state (0 is the first one, ``steps`` the last) and the world; None if there is no such place.
        """
        beyond = ~((self.q <= bound) & (self.qd <= bound)) | ~np.isfinite(self.q) | ~np.isfinite(self.qd)
        if world is not None:
            beyond &= np.array(self.worlds) == world
        states = np.flatnonzero(beyond.any(axis=1))
        if not len(states):
            return None
        return int(states[-1]), self.worlds[int(np.argmax(beyond[states[-1]]))]

    def table(self, world: int, lines: int = LINES) -> str:
        """The norms of one world as text, from the last state to the first, with bars on a logarithmic scale.

        With more states than lines, each line is the state of a stretch in which they are largest.

        Raises:
            ModelError: for a world that isn't among :attr:`worlds`.
        """
        if world not in self.worlds:
            raise ModelError(f"there are no norms of world {world!r}; there are those of {list(self.worlds)}")
        column = self.worlds.index(world)
        q, qd = self.q[:, column], self.qd[:, column]
        last = len(q) - 1
        size = np.hypot(q, qd)
        stretches = np.array_split(np.arange(last, -1, -1), min(lines, last + 1))
        states = [stretch[np.nan_to_num(size[stretch], nan=np.inf).argmax()] for stretch in stretches]
        shown = size[np.isfinite(size) & (size > 0.0)]
        # At least one decade, so that norms that hardly change don't look as if they did.
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
