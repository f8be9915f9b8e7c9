"""Many bodies in one world: blocks act on each other over shared trees only, and room that runs out is counted."""

import numpy as np
import pytest

import sim
from sim import workspace
from tests.contact.worlds import DT
from warp_kernels.types import BOX


def loose_boxes(count: int, dtype: str = "float64") -> sim.Model:
    """Boxes on the ground, in one place and yet blind to each other."""
    builder = sim.ModelBuilder()
    builder.add_ground(friction=0.5)
    for number in range(count):
        builder.add_box(half_extents=(0.2, 0.15, 0.1), mass=1.0 + number, position=(0.0, 0.0, 0.1), name=f"box{number}")
        for other in range(number):
            builder.exclude_collision(f"box{number}", f"box{other}")
    return builder.finalize(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bodies_that_do_not_touch_are_separate_simulations(dtype, device):
    """Bit for bit, states and gradients: what stands elsewhere in a world plays no part."""
    count, steps = 4, 30
    model = loose_boxes(count, dtype)
    rng = np.random.default_rng(2)
    qd = rng.normal(size=(count, 6))
    tau = rng.normal(size=(steps, count, 6))
    names = ("mass", "friction")
    together = sim.Simulator(model, DT, 1, device)
    trajectory = together.rollout(together.state(model.q0, qd.reshape(-1)), tau.reshape(steps, -1))
    seed = rng.normal(size=(steps + 1, 1, count, 7))
    gradients = trajectory.backward(seed.reshape(steps + 1, 1, -1), parameters=names)
    for number in range(count):
        alone = loose_boxes(1, dtype)
        alone.parameters.update({n: model.parameters[n][[number]] for n in ("mass", "inertia")})
        single = sim.Simulator(alone, DT, 1, device)
        own = single.rollout(single.state(alone.q0, qd[number]), tau[:, number])
        place = slice(7 * number, 7 * number + 7)
        np.testing.assert_array_equal(own.q.numpy()[:, 0], trajectory.q.numpy()[:, 0, place])
        back = own.backward(seed[:, :, number], parameters=names)
        np.testing.assert_array_equal(back.q.numpy()[0], gradients.q.numpy()[0, place])
        np.testing.assert_array_equal(back.parameters["mass"], gradients.parameters["mass"][[number]])
        np.testing.assert_array_equal(back.parameters["friction"][1], gradients.parameters["friction"][1 + number])


def plank_with_balls(count: int) -> sim.Model:
    """A plank on a vertical slider with a limit below it, and balls that stand on it, blind to each other."""
    builder = sim.ModelBuilder()
    builder.add_link("plank", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("slide", "prismatic", child="plank", axis=(0, 0, 1), lower=0.0)
    builder.add_geometry("plank", BOX, size=(0.1 * count, 0.1, 0.05), position=(0.0, 0.0, -0.05))
    for number in range(count):
        x = 0.2 * number - 0.1 * (count - 1)
        builder.add_sphere(radius=0.05, mass=0.2, position=(x, 0.0, 0.05), name=f"ball{number}", friction=0.5)
        for other in range(number):
            builder.exclude_collision(f"ball{number}", f"ball{other}")
    return builder.finalize("float64")


@pytest.fixture
def little_room(monkeypatch):
    """Room for two couplings per block."""
    monkeypatch.setattr(workspace, "COUPLINGS_PER_BLOCK", 2)


def test_couplings_that_find_no_room_are_counted(little_room, device):
    """Six balls on a plank and its limit all act on each other: with room for 16 couplings two rows of seven stay.

    The rest of the blocks, the limit of the slider last, is left out, aloud, and what stays is solved as if there were
    no other; forwards and backwards.
    """
    model = plank_with_balls(6)
    crowded = sim.Simulator(model, DT, 2, device)
    with pytest.warns(sim.ContactOverflowWarning, match=r"25 contacts .* in world 0 .*max_contacts"):
        trajectory = crowded.rollout(crowded.initial_state(), steps=5)
    np.testing.assert_array_equal(crowded.contact_overflow, [25, 25])
    free = loose_limit(model)
    few = sim.Simulator(free, DT, 2, device, sim.ContactOptions(max_contacts=2))
    with pytest.warns(sim.ContactOverflowWarning):
        expected = few.rollout(few.initial_state(), steps=5)
    np.testing.assert_array_equal(trajectory.q.numpy(), expected.q.numpy())
    seed = np.random.default_rng(0).normal(size=trajectory.q.shape)
    found, known = (each.backward(seed, parameters=["mass"]) for each in (trajectory, expected))
    assert np.abs(found.q.numpy()).max() > 0.1
    np.testing.assert_array_equal(found.q.numpy(), known.q.numpy())
    np.testing.assert_array_equal(found.parameters["mass"], known.parameters["mass"])


def loose_limit(model: sim.Model) -> sim.Model:
    """The same without limits."""
    rebuilt = plank_with_balls(6)
    rebuilt.parameters["lower_limit"] = np.full_like(model.parameters["lower_limit"], -np.inf)
    return rebuilt
