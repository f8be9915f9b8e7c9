"""Stages of a step: each array has one owner, and what a model doesn't have takes no room."""

import collections

import pytest
import warp as wp

from sim.arrays.launch import Twin
from sim.simulation.stepping.pipeline import Step
from tests.golden.cases import CASES

MODELS = ("loops_1", "tendons_16", "quadruped_32", "sensors_16", "bouncing_1", "warm_start", "pgs_unrolled")
MODELS_OF_MUJOCO = ("mujoco_noslip_elliptic", "mujoco_states_implicit", "mujoco_implicitfast_16", "mujoco_rk4_1")


def step_of(name: str) -> Step:
    step: Step = CASES[name]().simulator().engine.shards[0].step
    step.prepare_backward()
    return step


@pytest.mark.parametrize("name", [*MODELS, *MODELS_OF_MUJOCO])
def test_an_array_has_one_owner(name: str) -> None:
    owners = collections.defaultdict(set)
    for source in step_of(name).sources:
        if hasattr(source, "__dict__") and not isinstance(source, type):
            for attribute, value in vars(source).items():
                if isinstance(value, wp.array | Twin):
                    owners[attribute].add(type(source).__name__)
    shared = {name: names for name, names in owners.items() if len(names) > 1}
    assert not shared


def test_a_plain_quadruped_has_no_stages_of_tendons_and_few_arrays() -> None:
    step = step_of("quadruped_1")
    assert step.tendons is None
    assert step.transmissions is None
    assert max(len(vars(source)) for source in step.sources if hasattr(source, "__dict__")) <= 77


def test_names_are_checked_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = CASES["quadruped_1"]().simulator()
    state = simulator.state(simulator.model.q0)
    del simulator.engine.shards[0].step.dynamics.factor_d
    monkeypatch.setattr("sim.arrays.launch.load_kernels", lambda *_: pytest.fail("kernels are compiled"))
    with pytest.raises(TypeError, match="factor_d"):
        simulator.rollout(state, steps=1)
