"""This simulator with its checkpoints, and fully taped, with separate working arrays for every step."""

import numpy as np
import warp as wp

import sim
from bench.standing import standing
from sim.simulation.stepping.pipeline import Step

SWEEPS = 50
SOLVER = sim.PgsContact(sweeps=SWEEPS)


class Checkpointed:
    """Rollout as users run it.

    Args:
        robots: number of robots in one world.
        interval: number of steps between stored states.
        worlds: number of worlds.
        given: pass joint forces for every step and compute their gradients.
    """

    chunk = 1

    def __init__(self, robots: int, interval: int = 1, worlds: int = 1, given: bool = True):
        self.case = standing(worlds, robots=robots, device="cpu", dtype="float32", cores=1, contact=SOLVER)
        self.interval = interval
        self.given = given
        self.tau: wp.array | None = None
        self.trajectory: sim.Trajectory | None = None
        self.note = "float32, stores the states and runs each step again"

    def begin(self, steps: int) -> None:
        self.tau = self.case.control(steps) if self.given else None

    def forward(self, steps: int) -> None:
        simulator = self.case.simulator
        self.trajectory = simulator.rollout(self.case.state, self.tau, steps, checkpoint_interval=self.interval)

    def backward(self) -> None:
        assert self.trajectory is not None
        self.trajectory.backward(np.ones(self.case.state.q.shape))

    def forget(self) -> None:
        self.case.check_contacts()
        self.tau = self.trajectory = None


class Taped:
    """The same launches without recomputation: each step keeps separate working arrays and adjoints."""

    chunk = 1
    note = (
        "float32, all arrays of every step kept on one tape, no step runs again; times exclude allocation and recording"
    )

    def __init__(self, robots: int):
        self.case = standing(1, robots=robots, device="cpu", dtype="float32", cores=1, contact=SOLVER)
        # Load all kernels first: a capture must not load any.
        self.case.simulator.rollout(self.case.state, steps=1).backward(np.ones(self.case.state.q.shape))
        self.steps: list[Step] = []
        self.graphs: tuple[wp.Graph, wp.Graph] | None = None

    def begin(self, steps: int) -> None:
        self.steps = [self._new_step() for _ in range(steps)]
        first = self.steps[0]
        wp.copy(first.q, self.case.state.q)
        wp.copy(first.qd, self.case.state.qd)
        self.steps[-1].q_next.grad.fill_(1.0)
        with wp.ScopedCapture(device="cpu") as forward, wp.Tape() as tape:
            for before, step in zip([first, *self.steps], self.steps, strict=False):
                if step is not first:
                    wp.copy(step.q, before.q_next)
                    wp.copy(step.qd, before.qd_next)
                step.record(tape)
                step.kinematics.integrate()
        with wp.ScopedCapture(device="cpu") as backward:
            tape.backward()
        self.graphs = forward.graph, backward.graph

    def forward(self, steps: int) -> None:
        assert self.graphs is not None
        wp.capture_launch(self.graphs[0])

    def backward(self) -> None:
        assert self.graphs is not None
        wp.capture_launch(self.graphs[1])

    def forget(self) -> None:
        self.graphs = None
        self.steps = []

    def _new_step(self) -> Step:
        own = self.case.simulator.engine.shards[0].step
        step = Step(
            own.device_model,
            own.collision,
            own.layout,
            own.contact_options,
            float(own.dt),
            (own.total_worlds, own.first_world),
            own.max_contacts,
            own.law,
            (float(own.largest_q), float(own.largest_qd)),
            own.threads_per_world,
        )
        step.prepare_backward()
        step.watch_parameters(())
        return step
