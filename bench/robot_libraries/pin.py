"""Pinocchio: batched C++ calls if available, otherwise single calls minus the Python call overhead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio

import sim
from bench.peers import one_joint
from bench.robot_libraries.base import Call, Library, Robot, State, Unsupported

SINGLE = 256  # number of states for timing single calls


class Calls(Library):
    """Calls of Pinocchio, see :class:`Library`."""

    note = (
        "Pinocchio: always float64; rnea and aba by rneaInParallel and abaInParallel; the rest, which has no batched "
        "call, by single calls from Python, minus the time of the same call on a one-joint robot; gradients: all "
        "derivatives of rnea and aba, the Jacobian for fk"
    )

    def __init__(self, robot: Robot, dtype: str, device: str):
        if device != "cpu":
            raise Unsupported("no GPU")
        if dtype != "float64":
            raise Unsupported("it computes in float64")
        base = (pinocchio.JointModelFreeFlyer(),) if robot.floating else ()
        self.model = pinocchio.buildModelFromUrdf(str(robot.urdf), *base)
        self.ours = sim.load(robot.urdf, floating_base=robot.floating, dtype="float64")
        roots = [self.ours.joint_names[0]] if robot.floating else []
        self.order = [*roots, *list(self.model.names)[1 + len(roots) :]]
        self.frame = self.model.getFrameId(robot.tip, pinocchio.BODY)
        self.floating = robot.floating
        self.pool = pinocchio.ModelPool(self.model, 1)

    def call(self, case: str, state: State) -> Call | None:
        """Make a case, see :class:`Library`."""
        if case in ("rnea", "aba"):
            return self._whole_batch(case, state)
        forward, overhead = self._single(SINGLE_CALLS[case], state)
        backward, more = self._single(DERIVATIVES[case], state) if case in DERIVATIVES else (None, None)
        return Call(forward, backward, lambda: self.value(case, state), None, SINGLE, SINGLE, overhead, more)

    def _whole_batch(self, case: str, state: State) -> Call:
        arrays = [np.asfortranarray(array.T) for array in self._converted(state)]
        result = np.asfortranarray(np.zeros_like(arrays[2]))
        parallel = {"rnea": pinocchio.rneaInParallel, "aba": pinocchio.abaInParallel}[case]
        backward, more = self._single(DERIVATIVES[case], state)
        return Call(
            lambda: parallel(1, self.pool, *arrays, result),
            backward,
            lambda: self.value(case, state),
            None,
            len(state.q),
            SINGLE,
            backward_overhead=more,
        )

    def _single(
        self, function: Callable[..., object], state: State
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Make a loop of SINGLE single calls, repeating the states if there are fewer, and a loop with the same
        overhead.
        """
        converted = [np.resize(array, (SINGLE, array.shape[1])) for array in self._converted(state)]
        states = [tuple(x.copy() for x in each) for each in zip(*converted, strict=True)]
        model, data, frame = self.model, self.model.createData(), self.frame

        def loop() -> None:
            for each in states:
                function(model, data, frame, *each)

        return loop, _overhead(function)

    def _converted(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Convert q and v to Pinocchio's conventions. Accelerations or forces are arbitrary, since only time is
        measured.
        """
        q, v = sim.to_pinocchio(self.ours, state.q, state.qd, self.order)
        return q, v, state.tau

    def value(self, case: str, state: State) -> np.ndarray:
        """Return the reference for all libraries, in Backswing's conventions."""
        data = self.model.createData()
        states = zip(state.q, state.qd, state.qdd, state.tau, strict=True)
        return np.array([self._value(case, data, *each) for each in states])

    def _value(
        self, case: str, data: Any, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, tau: np.ndarray
    ) -> np.ndarray:
        model, nv = self.model, self.model.nv
        # Velocities of the two libraries are related linearly: v = turn qd, so that a = turn qdd + drift.
        units = np.vstack([np.eye(nv), qd])
        x, v = sim.to_pinocchio(self.ours, np.tile(q, (nv + 1, 1)), units, self.order)
        x, v, turn = x[0], v[-1], v[:-1].T
        drift = np.zeros(nv)
        if self.floating:
            drift[:3] = -np.cross(v[3:6], v[:3])
        if case == "fk":
            pinocchio.framesForwardKinematics(model, data, x)
            return np.array(data.oMf[self.frame].homogeneous)
        if case == "jacobian":
            jacobian = pinocchio.computeFrameJacobian(model, data, x, self.frame, pinocchio.LOCAL_WORLD_ALIGNED)
            return np.vstack([jacobian[3:], jacobian[:3]]) @ turn
        if case == "crba":
            upper = np.triu(pinocchio.crba(model, data, x))
            return turn.T @ (upper + np.triu(upper, 1).T) @ turn
        if case == "aba":
            return np.linalg.solve(turn, pinocchio.aba(model, data, x, v, np.linalg.solve(turn.T, tau)) - drift)
        qdd = qdd if case == "rnea" else np.zeros(nv)
        return turn.T @ pinocchio.rnea(model, data, x, v, turn @ qdd + drift)


def _jacobian(model: Any, data: Any, frame: int, q: np.ndarray, v: np.ndarray, third: np.ndarray) -> object:
    return pinocchio.computeFrameJacobian(model, data, q, frame, pinocchio.LOCAL_WORLD_ALIGNED)


SINGLE_CALLS: dict[str, Callable[..., object]] = {
    "fk": lambda model, data, frame, q, v, third: pinocchio.framesForwardKinematics(model, data, q),
    "jacobian": _jacobian,
    "crba": lambda model, data, frame, q, v, third: pinocchio.crba(model, data, q),
}
DERIVATIVES: dict[str, Callable[..., object]] = {
    "fk": _jacobian,
    "rnea": lambda model, data, frame, *state: pinocchio.computeRNEADerivatives(model, data, *state),
    "aba": lambda model, data, frame, *state: pinocchio.computeABADerivatives(model, data, *state),
}


def _overhead(function: Callable[..., object]) -> Callable[[], object]:
    """Make a loop of SINGLE calls on a one-joint robot."""
    model, numbers = one_joint(), np.zeros(1)
    data, frame = model.createData(), model.nframes - 1

    def loop() -> None:
        for _ in range(SINGLE):
            function(model, data, frame, numbers, numbers, numbers)

    return loop
