"""The same step written in PyTorch (:mod:`bench.torch_step`), eager or compiled, differentiated by autograd."""

import torch
import warp as wp

from bench.standing import standing
from bench.tables.backswing import SOLVER
from bench.torch_step import TorchStep, rollout


class PyTorch:
    """Autograd records every operation of every step.

    Args:
        robots: number of worlds, with one robot each. A batch of worlds suits PyTorch better than several
            robots in one world.
        compiled: compile each stage of a step, and a sweep, as one graph.
    """

    chunk = 1

    def __init__(self, robots: int, compiled: bool):
        torch.set_num_threads(1)
        case = standing(robots, device="cpu", dtype="float32", cores=1, contact=SOLVER)
        self.state = [wp.to_torch(array).clone() for array in (case.state.q, case.state.qd)]
        self.step = TorchStep(case.simulator)
        if compiled:
            for stage in ("free_step", "contact_problem", "sweep", "finish"):
                setattr(self.step, stage, torch.compile(getattr(self.step, stage), fullgraph=True))
        how = "each stage of a step and a sweep compiled (inductor)" if compiled else "eager"
        self.note = f"float32, autograd over all operations, {how}; several robots as a batch of worlds"
        self.inputs: list[torch.Tensor] = []
        self.last: torch.Tensor | None = None

    def begin(self, steps: int) -> None:
        q, qd = (value.clone().requires_grad_() for value in self.state)
        self.inputs = [q, qd, torch.zeros(steps, *qd.shape, requires_grad=True)]

    def forward(self, steps: int) -> None:
        self.last, _ = rollout(self.step, *self.inputs)

    def backward(self) -> None:
        assert self.last is not None
        self.last.sum().backward()

    def forget(self) -> None:
        self.inputs, self.last = [], None
