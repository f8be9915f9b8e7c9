"""Receding-horizon control: at each stage a few iterations of iterative LQR from the present state."""

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole
from sim.optimise.methods.dynamics import Law, States
from sim.optimise.methods.ilqr import IterativeLQR, require_stages
from sim.optimise.methods.search import warn_of_lost_gradients, warn_of_zero_gradients
from sim.optimise.problem import Problem
from sim.torch.modes import with_gradients

REALTIME_STEPS = np.array([1.0, 0.5, 0.2, 0.0])  # step lengths to try; 0 is the old plan with its gains
FIRST_CALL = 10  # iterations of the first call, relative to later ones


class MPC:
    """Receding-horizon controller: plans ahead from each given state, starting at the last plan.

    A call returns the controls of the present stage. The last plan is shifted by one stage, repeating its last
    controls; the problem is linearised about it; and the plan is followed from the given state with the resulting gains
    (the real-time iteration of Diehl, Bock and Schloeder 2005). :meth:`prepare` does all but the last part before the
    state is known.

    Args:
        problem: costs and controls over the horizon; its initial state isn't used. Targets of its costs may be changed
            between calls, such as ``cost.target[:] = ...``.
        guess: the first plan [stages, size]. Default: zeros.
        iterations: iterations of iterative LQR in each call; the first call takes ten times as many.

    Attributes:
        plan: controls of the horizon [stages, size].
        cost: cost of the plan.
        gains: feedback gains of the controls on a change of the state, in tangent coordinates [stages, size, 2 nv +
            na].

    Raises:
        ModelError: for a problem with another parametrisation than :class:`PerStage`, or with constraints.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import MPC, Effort, Posture, Problem
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0), Effort(1e-3)])
        >>> controller = MPC(problem)
        >>> state = simulator.initial_state()
        >>> for _ in range(50):
        ...     control = controller(state.q, state.qd)
        ...     state = simulator.step(state, control[None])
        >>> bool(abs(state.q.numpy()[0, 0] - 1.0) < 0.05)
        True
    """

    @with_gradients()
    def __init__(self, problem: Problem, guess: npt.ArrayLike | None = None, *, iterations: int = 1):
        require_stages(problem, "MPC")
        if problem.constraints:
            raise ModelError("MPC: the problem has constraints; give them as costs, sim.optimise.Penalty(...)")
        if not is_whole(iterations, 1):
            raise ModelError(f"MPC: iterations is {iterations!r}; it must be a whole number of at least 1")
        self.problem, self.iterations = problem, int(iterations)
        rows = problem.parametrisation.guess(problem.space, guess)[0]
        warn_of_lost_gradients(problem, "MPC")
        self._search = IterativeLQR(problem)
        self._first = rows.reshape(problem.stages, 1, problem.space.size)
        self._law: Law | None = None
        self._prepared = False

    @property
    def plan(self) -> np.ndarray:
        """Controls of the horizon [stages, size]."""
        return self._first[:, 0] if self._law is None else self._search.states.controls[:, 0]

    @property
    def cost(self) -> float:
        """Cost of the plan."""
        return float(self._search.cost[0]) if self._law is not None else float("inf")

    @property
    def gains(self) -> np.ndarray:
        """Feedback gains of the controls on a change of the state [stages, size, 2 nv + na].

        Raises:
            ModelError: before the first call.
        """
        if self._law is None:
            raise ModelError("MPC: gains exist only after the first call; call the controller first")
        return self._law.gains[:, 0]

    @with_gradients()
    def __call__(self, q: npt.ArrayLike, qd: npt.ArrayLike, act: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the controls [size] of the stage that begins at a state.

        Args:
            q: coordinates [nq], or [1, nq] as a simulator of one world has them.
            qd: velocities [nv], likewise.
            act: states of the actuators that have one [na], likewise; not allowed if none has.

        Raises:
            ModelError: for wrong shapes, a missing act of actuators with states, and a plan that makes the simulation
                diverge.
        """
        if self.problem.model.na and act is None:
            raise ModelError("MPC: actuators of the model have states; give act, their present states")
        if act is not None and not self.problem.model.na:
            raise ModelError("MPC: act is given, but no actuator of the model has a state; remove it")
        model = self.problem.model
        start = (
            _state("q", q, model.nq), _state("qd", qd, model.nv), _state("act", [] if act is None else act, model.na)
        )  # fmt: skip
        search, more = self._search, self.iterations - 1
        if self._law is None:
            warn_of_zero_gradients(self.problem, "MPC", self._first.reshape(1, -1), start)
            search.begin(self._first, start)
            more = FIRST_CALL * self.iterations
        else:
            self.prepare()
            law, self._prepared = self._law, False
            tried = search.dynamics.follow(law, REALTIME_STEPS, start)
            best = np.argmin(search.dynamics.costs(tried))
            search.adopt(tried.of(np.array([best])))
        if not np.isfinite(search.cost).all():
            self._law = None
            raise ModelError("MPC: the plan makes the simulation diverge from this state; start from another guess")
        for _ in range(more):
            search.iterate(start, REALTIME_STEPS)
            if search.done(0.0).all():
                break
        if more:
            self._law = search.law
        return search.states.controls[0, 0].copy()

    @with_gradients()
    def prepare(self) -> None:
        """Move the plan on by a stage and compute its update; the next call then only follows it.

        Call it once the controls are on their way to the robot, before its next state is known. A call does it itself
        if you haven't.
        """
        if self._law is None or self._prepared:
            return
        search, hold = self._search, self.problem.hold
        old = search.states
        last = self.problem.stages - 1
        end = search.dynamics.run(old.controls[-1:], (old.q[-1], old.qd[-1], old.act[-1]), last)
        plan = States(
            np.concatenate([old.q[hold:], end.q[1:]]), np.concatenate([old.qd[hold:], end.qd[1:]]),
            np.concatenate([old.act[hold:], end.act[1:]]), np.concatenate([old.controls[1:], end.controls]),
            np.concatenate([old.force[1:], end.force]),
        )  # fmt: skip
        self._law, self._prepared = search.law_about(plan), True


def _state(name: str, given: npt.ArrayLike, size: int) -> np.ndarray:
    """Return a part of the present state [size], from an array of this shape or [1, size]. Raises ModelError for
    anything else.
    """
    found = as_numbers(f"MPC: {name}", given)
    if found.shape not in ((size,), (1, size)):
        raise ModelError(f"MPC: {name} has shape {found.shape}; expected {(size,)}, or {(1, size)}")
    return found.reshape(size)
