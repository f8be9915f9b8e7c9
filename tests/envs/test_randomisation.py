"""Parameters that a task draws for each episode: each acts, and a reset changes those of the worlds that begin."""

import numpy as np
import pytest
import torch

import sim
from sim.envs import Task, TaskState, VectorEnv

NAMES = ("mass", "friction", "actuator_gear", "damping", "gravity", "armature")
WORLDS = 6


class Sled(Task):
    """A box that slides, with an arm that swings on it; all episodes begin alike, but for one parameter."""

    dt, frame_skip = 0.005, 4

    def __init__(self, drawn: str):
        super().__init__("float64")
        self.drawn = drawn
        builder = sim.ModelBuilder()
        builder.add_ground()
        builder.add_box(half_extents=(0.2, 0.2, 0.1), mass=1.0, position=(0.0, 0.0, 0.1), name="box")
        builder.add_link("arm", mass=0.2, com=(0.0, 0.0, 0.2), inertia=(1e-3, 1e-3, 1e-3))
        builder.add_joint(
            "hinge",
            "continuous",
            child="arm",
            parent="box",
            axis=(0, 1, 0),
            spring=sim.Spring(damping=0.1),
            armature=0.02,
        )
        builder.add_actuator("hinge", gear=0.5)
        self._model = builder.finalize(self.dtype)

    def model(self) -> sim.Model:
        return self._model

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        q = torch.as_tensor(self._model.q0).repeat(n, 1)
        qd = torch.zeros(n, self._model.nv, dtype=torch.float64)
        qd[:, 0], qd[:, -1] = 1.0, 2.0
        return self.episodes(q, qd)

    def observe(self, state: TaskState) -> torch.Tensor:
        return torch.cat([state.q, state.qd], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        return after.qd[:, 0]

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        given = torch.as_tensor(self._model.parameters[self.drawn])
        share = self.uniform((n, *[1] * given.dim()), generator, 0.5, 2.0)
        return {self.drawn: share * given}


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_draws_anew_for_the_worlds_that_begin(name):
    env, other = (VectorEnv(Sled(name), WORLDS, device="cpu", seed=1, autoreset_mode="disabled") for _ in range(2))
    action = torch.full((WORLDS, 1), 0.5, dtype=torch.float64)
    for each in (env, other):
        each.reset()
        first = each.step(action)[0]
    drawn = env.simulator.parameters[name].copy()
    given = env.simulator.model.parameters[name]
    assert drawn.shape == (WORLDS, *given.shape)
    assert len(np.unique(drawn.reshape(WORLDS, -1), axis=0)) == WORLDS
    assert len(first.unique(dim=0)) == WORLDS  # it acts

    mask = torch.tensor([False, True, False, False, True, False])
    env.reset(options={"reset_mask": mask})
    again = env.simulator.parameters[name]
    np.testing.assert_array_equal(again[~mask], drawn[~mask])
    assert (again[mask] != drawn[mask]).any(axis=tuple(range(1, drawn.ndim))).all()
    second, expected = env.step(action)[0], other.step(action)[0]
    assert torch.equal(second[~mask], expected[~mask])
    assert (second[mask] != first[mask]).any(dim=1).all()  # from the same start

    for parameter in set(NAMES) - {name}:
        kept, given = env.simulator.parameters[parameter], env.simulator.model.parameters[parameter]
        np.testing.assert_array_equal(kept, np.broadcast_to(given, kept.shape))
