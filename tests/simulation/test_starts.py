"""Bodies that overlap deeply at the start are named, once, and nothing else changes."""

import re

import numpy as np
import pytest

import sim
from tests.errors import strictly


def scene(height: float, second: float = 5.0) -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0.0, 0.0, height), name="box")
    builder.add_sphere(radius=0.2, mass=1.0, position=(0.0, 0.0, second), name="ball")
    return builder.finalize()


@pytest.mark.parametrize("contact", [sim.HardContact(), sim.MujocoContact(), sim.PgsContact()])
@pytest.mark.parametrize(("height", "second", "named"), [
    (-0.3, 5.0, ["'ground' of 'world' and 'box/geometry' of 'box' .* 400 mm"]),
    (1.0, 1.25, ["'ball/geometry' of 'ball' and 'box/geometry' of 'box' .* 50 mm"]),
    (0.07, 0.15, ["'ground' of 'world' and 'ball/geometry' of 'ball' .* 50 mm", " 30 mm"]),
])  # fmt: skip
def test_deep_overlaps_are_named_once(height, second, named, contact):
    simulator = sim.Simulator(scene(height, second), 1 / 240, 3, "cpu", contact=contact)
    with pytest.warns(sim.OverlapWarning) as caught:
        state = simulator.initial_state()
    (warning,) = caught
    assert warning.filename == __file__
    for text in named:
        assert re.search(text, str(warning.message))
    again = strictly(simulator.initial_state)
    for one, other in zip(state.numpy(), again.numpy(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert simulator.bad_worlds == {}


@pytest.mark.parametrize("height", [0.1, 0.0995, 0.093, 0.5])
def test_touching_and_shallow_starts_are_silent(height):
    simulator = sim.Simulator(scene(height), 1 / 240, device="cpu")
    before = simulator.rollout(simulator.state(simulator.model.q0), steps=5).q.numpy()
    fresh = sim.Simulator(scene(height), 1 / 240, device="cpu")
    np.testing.assert_array_equal(fresh.rollout(fresh.initial_state(), steps=5).q.numpy(), before)


def test_soft_bodies_may_overlap():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.05), surface=sim.Surface(stiffness=1e3))
    sim.Simulator(builder.finalize(), 1 / 240, device="cpu").initial_state()
