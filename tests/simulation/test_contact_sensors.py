"""Forces of contacts in a trajectory: against the weight, against `contacts`, and gradients against differences."""

import pickle

import numpy as np
import pytest
import torch
import warp as wp

import sim
from tests.errors import raises_naming, refuses
from tests.simulation.differences import DT

SOLVERS = {
    "newton": sim.HardContact(),
    "unrolled": sim.PgsContact(),
    "implicit": sim.PgsContact(sweeps=400, adjoint="implicit"),
}
STEPS = 12


def stack(restitution: float = 0.0) -> sim.Model:
    """A ball on a box on the ground."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    builder.add_box(name="box", half_extents=(0.2, 0.15, 0.05), mass=2.0, position=(0.0, 0.0, 0.049))
    builder.add_sphere(
        name="ball", radius=0.1, mass=0.5, position=(0.03, 0.01, 0.1985), surface=sim.Surface(restitution=restitution)
    )
    return builder.finalize("float64")


def two_balls(restitution: float = 0.0) -> sim.Model:
    """One ball on another: no contact is redundant, which the adjoint of the sweeps' solution needs."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.4))
    builder.add_sphere(name="box", radius=0.1, mass=2.0, position=(0.0, 0.0, 0.099))
    builder.add_sphere(
        name="ball", radius=0.1, mass=0.5, position=(0.03, 0.01, 0.294), surface=sim.Surface(restitution=restitution)
    )
    return builder.finalize("float64")


def simulator(model: sim.Model, contact: sim.ContactMethod, worlds: int = 1, **others: object) -> sim.Simulator:
    return sim.Simulator(model, DT, worlds, "cpu", contact, contact_sensors=names(model), **others)


def names(model: sim.Model) -> list[str]:
    return [geometry.name for geometry in model.geometries]


def tensors(model: sim.Model, qd: np.ndarray, worlds: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(model.q0).expand(worlds, -1), torch.tensor(qd).expand(worlds, -1)


def moving(model: sim.Model) -> np.ndarray:
    """The box slides and the ball rolls on it."""
    return np.array([0.02, -0.03, 0.04, 0.9, 0.4, 0.0, 0.3, 0.2, 0.1, 0.6, 0.5, 0.0])


@pytest.mark.parametrize("contact", SOLVERS.values(), ids=SOLVERS)
class TestValues:
    def test_they_carry_the_weight_at_rest(self, contact):
        model = stack()
        trajectory = simulator(model, contact).rollout(simulator(model, contact).initial_state(), steps=400)
        ground, box, ball = trajectory.contact_force.numpy()[-1, 0]
        np.testing.assert_allclose(ball, (0.0, 0.0, 0.5 * 9.81), atol=2e-3)
        np.testing.assert_allclose(ground, (0.0, 0.0, -2.5 * 9.81), atol=2e-3)
        np.testing.assert_allclose(box + ball + ground, 0.0, atol=1e-12)

    @pytest.mark.cpu_shapes
    def test_they_are_those_of_contacts(self, contact):
        """In every step, in worlds of several shards."""
        model, worlds = stack(), 20
        several = simulator(model, contact, worlds, threads=2)
        assert len(several.engine.shards) == 2
        qd = np.linspace(0.5, 1.5, worlds)[:, None] * moving(model)
        trajectory = several.rollout(several.state(model.q0, qd), steps=STEPS)
        for step in range(STEPS):
            found = several.contacts(trajectory.state(step))
            for geometry in range(model.num_geometries):
                force = trajectory.contact_force.numpy()[step, :, geometry]
                np.testing.assert_allclose(force, found.force_on(geometry, worlds), atol=1e-9)

    def test_the_rollout_is_as_without(self, contact):
        model = stack()
        with_them, without = simulator(model, contact), sim.Simulator(model, DT, 1, "cpu", contact)
        results = [each.rollout(each.state(model.q0, moving(model)), steps=STEPS) for each in (with_them, without)]
        np.testing.assert_array_equal(results[0].q.numpy(), results[1].q.numpy())
        assert results[1].contact_force is None


def loss(
    model: sim.Model, contact: sim.ContactMethod, inputs: dict[str, torch.Tensor], **settings: int
) -> torch.Tensor:
    """Of forces in all steps, and of the last state."""
    weights = torch.as_tensor(np.random.default_rng(3).normal(size=(STEPS, 1, model.num_geometries, 3)))
    q, qd, force = sim.torch.rollout(simulator(model, contact), steps=STEPS, contact_forces=True, **inputs, **settings)
    weights = weights.unflatten(0, (len(force), -1)).mean(1)
    return (weights * force).sum() * DT + (force**2).sum() * 1e-4 + qd[-1].sum() + q[-1].sum()


@pytest.mark.parametrize("restitution", [0.0, 0.6])
@pytest.mark.parametrize("contact", SOLVERS.values(), ids=SOLVERS)
def test_gradients_are_those_of_differences(contact, restitution):
    """Where things slide, roll and, with restitution, bounce: in velocities, forces, friction and masses."""
    model = (two_balls if contact == SOLVERS["implicit"] else stack)(restitution)
    q0 = model.q0.copy()
    q0[-5] += 0.01 if restitution else 0.0  # the ball falls on the box
    qd = moving(model)
    qd[-1] = -0.5 if restitution else 0.0
    rng = np.random.default_rng(0)
    values = {
        "q": q0[None], "qd": qd[None], "tau": 0.1 * rng.normal(size=(STEPS, 1, model.nv)),
        "friction": model.parameters["friction"], "mass": model.parameters["mass"],
    }  # fmt: skip
    inputs = {name: torch.tensor(value, requires_grad=name != "q") for name, value in values.items()}
    loss(model, contact, inputs).backward()
    for name in ("qd", "tau", "friction", "mass"):
        gradient = inputs[name].grad.numpy()
        entries = rng.permutation(values[name].size)[:8]
        differences = [difference(model, contact, values, name, entry) for entry in entries]
        scale = max(np.abs(differences).max(), 1e-6)
        np.testing.assert_allclose(gradient.reshape(-1)[entries] / scale, np.array(differences) / scale, atol=2e-6)


def difference(
    model: sim.Model, contact: sim.ContactMethod, values: dict[str, np.ndarray], name: str, entry: int
) -> float:
    """Central difference of the loss, of fourth order."""
    found = []
    step = 1e-5 * max(np.abs(values[name]).max(), 1e-2)
    for times in (1, -1, 2, -2):
        changed = {key: torch.tensor(value) for key, value in values.items()}
        changed[name].view(-1)[entry] += times * step
        found.append(float(loss(model, contact, changed)))
    return (8.0 * (found[0] - found[1]) - (found[2] - found[3])) / (12.0 * step)


def test_gradients_are_the_same_with_a_checkpoint_interval_and_on_a_tape():
    model, contact = stack(0.6), sim.HardContact()
    q, qd = tensors(model, moving(model))
    found = []
    for interval in (1, 5):
        given = qd.clone().requires_grad_(True)
        force = sim.torch.rollout(
            simulator(model, contact), q, given, steps=STEPS, checkpoint_interval=interval, contact_forces=True
        ).contact_force
        (force**2).sum().backward()
        found.append(given.grad.numpy())
    one = simulator(model, contact)
    state = one.state(model.q0, moving(model))
    state.qd.requires_grad = True
    with wp.Tape() as tape:
        trajectory = one.rollout(state, steps=STEPS)
    force = trajectory.contact_force
    tape.backward(grads={force: wp.array(2.0 * force.numpy(), dtype=wp.float64, device="cpu")})
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], state.qd.grad.numpy())


def test_hold_averages_over_the_steps_of_an_input():
    model, contact = stack(), sim.HardContact()
    inputs = {"q": torch.tensor(model.q0)[None], "qd": torch.tensor(moving(model))[None]}
    single, held = (
        sim.torch.rollout(
            simulator(model, contact), steps=STEPS, hold=hold, contact_forces=True, **inputs
        ).contact_force
        for hold in (1, 4)
    )
    assert held.shape == (STEPS // 4, 1, model.num_geometries, 3)
    np.testing.assert_allclose(held, single.unflatten(0, (-1, 4)).mean(1), rtol=1e-14)


def test_a_world_that_went_bad_passes_nothing_on():
    model, contact = stack(), sim.HardContact()
    q, qd = (x.clone() for x in tensors(model, moving(model), 2))
    qd[1] = torch.nan
    qd.requires_grad_(True)
    with pytest.warns(sim.NotFiniteWarning):
        force = sim.torch.rollout(
            simulator(model, contact, 2), q, qd, steps=3, leave_out_bad_worlds=True, contact_forces=True
        ).contact_force
    force[:, 0, 1].sum().backward()
    assert torch.isfinite(qd.grad).all()
    assert (qd.grad[0] != 0.0).any()


def test_what_is_asked_for_wrongly_is_refused():
    model = stack()
    refuses(lambda: sim.Simulator(model, DT, contact_sensors=["plate"]), "geometry", "'plate'")
    refuses(lambda: sim.Simulator(model, DT, contact_sensors=[3]), "contact_sensors", 3)
    refuses(lambda: sim.Simulator(model, DT, contact_sensors=[0, "ground"]), "twice")
    without = sim.Simulator(model, DT, 1, "cpu")
    with raises_naming("contact_sensors"):
        sim.torch.rollout(without, *tensors(model, moving(model)), steps=1, contact_forces=True)
    trajectory = without.rollout(without.initial_state(), steps=1)
    refuses(lambda: trajectory.backward(contact_force_grad=np.zeros((1, 1, 3, 3))), "contact_force_grad")
    trajectory = simulator(model, sim.HardContact()).rollout(without.initial_state(), steps=1)
    refuses(lambda: trajectory.backward(contact_force_grad=np.zeros((1, 1, 2, 3))), "contact_force_grad", "shape")


def test_pickling_keeps_them():
    model = stack()
    one = simulator(model, sim.HardContact())
    trajectory = one.rollout(one.initial_state(), steps=2)
    again = pickle.loads(pickle.dumps(trajectory))
    np.testing.assert_array_equal(again.contact_force.numpy(), trajectory.contact_force.numpy())
    assert again.simulator.contact_sensors == one.contact_sensors
