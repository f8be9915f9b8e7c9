"""Loads far heavier than what bears them: the bound on the velocity that removes an overlap doesn't bound the force."""

import numpy as np
import pytest
from scipy.optimize import brentq

import sim
from tests.simulation.differences import case, check
from warp_kernels.constraints.immovable import LEAST_SHARE

DT = 1.0 / 240.0
G = 9.81


def boxes(ratio: float, dtype: str = "float64", ground: str = "plane") -> sim.Model:
    """A box of 1 kg on the ground that carries a box of ``ratio`` kg."""
    b = sim.ModelBuilder()
    if ground == "plane":
        b.add_ground(surface=sim.Surface(friction=0.5))
    else:
        b.add_geometry(
            "world",
            "box",
            size=(2.0, 2.0, 0.5),
            position=(0.0, 0.0, -0.5),
            surface=sim.Surface(friction=0.5),
            name="ground",
        )
    b.add_box(
        half_extents=(0.1, 0.1, 0.1),
        mass=1.0,
        position=(0.0, 0.0, 0.1),
        surface=sim.Surface(friction=0.5),
        name="light",
    )
    b.add_box(
        half_extents=(0.1, 0.1, 0.1),
        mass=ratio,
        position=(0.0, 0.0, 0.3),
        surface=sim.Surface(friction=0.5),
        name="heavy",
    )
    return b.finalize(dtype)


def settled(model: sim.Model, dt: float = DT, worlds: int = 1, **inputs) -> tuple[sim.Simulator, np.ndarray]:
    """Coordinates after three seconds."""
    simulator = sim.Simulator(model, dt=dt, num_worlds=worlds, device="cpu")
    trajectory = simulator.rollout(simulator.state(model.q0), steps=round(3.0 / dt), **inputs)
    assert simulator.residual.max() < (1e-11 if model.dtype == "float64" else 1e-5)
    return simulator, trajectory.q.numpy()[-1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ground", ["plane", "box"])
@pytest.mark.parametrize(("ratio", "dt"), [(8000.0, DT), (30000.0, DT), (4000.0, 1.0 / 60.0)])
def test_boxes_sink_in_proportion_to_their_load(ratio, dt, ground, dtype):
    """Each side of the light box overlaps as a load of 500 kg and the ratio of both say."""
    _, q = settled(boxes(500.0, dtype, ground), dt)
    expected = (0.1 - q[0, 2]) * ratio / 500.0
    _, q = settled(boxes(ratio, dtype, ground), dt)
    assert expected > 7e-3
    # Contacts lie nearer to the centre of what has sunk, which moves less beside them.
    assert 0.1 - q[0, 2] == pytest.approx(expected, rel=0.1)
    assert 0.2 - (q[0, 9] - q[0, 2]) == pytest.approx(0.1 - q[0, 2], rel=0.02)


@pytest.mark.parametrize("worlds", [1, 16])
@pytest.mark.parametrize("load", [100.0, 5e3, 2e4])
def test_ball_under_a_load(load, worlds):
    """The overlap in closed form: the bounded velocity over what is left of R is the impulse of the load."""
    radius, mass = 0.1, 1.0
    b = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    b.add_ground(surface=sim.Surface(friction=0.5))
    b.add_sphere(radius=radius, mass=mass, position=(0.0, 0.0, radius), surface=sim.Surface(friction=0.5), name="ball")
    model = b.finalize("float64")
    force = np.tile([0.0, 0.0, -load * G, 0.0, 0.0, 0.0], (round(3.0 / DT), worlds, 1))
    simulator, q = settled(model, worlds=worlds, tau=force)

    def excess(overlap: float) -> float:
        inverse_inertia = 1.0 / (0.4 * mass * radius**2)
        mean = 1.0 / mass + 2.0 / 3.0 * (radius - overlap / 2.0) ** 2 * inverse_inertia
        wanted = overlap / (DT + simulator.contact.recovery_time)
        speed = min(wanted, simulator.contact.corrections[0])
        least = LEAST_SHARE * (1.0 / mass)
        return speed - simulator.contact.regularisation * (least + speed / wanted * (mean - least)) * DT * load * G

    np.testing.assert_allclose(radius - q[:, 2], brentq(excess, 1e-6, 0.1, xtol=1e-14), rtol=1e-6)


@pytest.mark.parametrize("by", ["joint", "tendon"])
@pytest.mark.parametrize("load", [100.0, 4e4])
def test_limit_under_a_load(load, by):
    """A slider of 1 kg leans on its limit: d / (h + T) = R h F with R = regularisation / mass."""
    b = sim.ModelBuilder(gravity=(0.0, 0.0, -load * G))
    b.add_link("slider", mass=1.0, inertia=(1.0, 1.0, 1.0))
    b.add_joint(
        "slide",
        "prismatic",
        child="slider",
        axis=(0.0, 0.0, 1.0),
        limits=sim.Limits(lower=0.0 if by == "joint" else -np.inf),
    )
    if by == "tendon":
        b.add_fixed_tendon("rope", {"slide": 1.0}, limits=(0.0, np.inf))
    simulator, q = settled(b.finalize("float64"))
    expected = (DT + simulator.contact.recovery_time) * simulator.contact.regularisation * DT * load * G
    assert -q[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("inside", [2e-3, 1e-2, 3e-2, 9e-2])
def test_overlaps_at_the_start_fade_without_a_hop(inside):
    model = boxes(3.0)
    simulator = sim.Simulator(model, dt=DT, device="cpu")
    q = model.q0.copy()
    q[[2, 9]] -= inside
    trajectory = simulator.rollout(simulator.state(q), steps=300)
    z, speed = trajectory.q.numpy()[:, 0, 2], trajectory.qd.numpy()[:, 0, 2]
    assert speed.max() <= simulator.contact.corrections[0] + 1e-9
    assert 0.1 - 1e-4 < z[-1] <= z.max() < 0.1 + 1e-6


def balls(ratio: float) -> sim.Model:
    b = sim.ModelBuilder()
    b.add_ground(surface=sim.Surface(friction=0.5))
    b.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.09), surface=sim.Surface(friction=0.5), name="light")
    b.add_sphere(radius=0.1, mass=ratio, position=(0.02, 0.01, 0.27), surface=sim.Surface(friction=0.5), name="heavy")
    return b.finalize("float64")


def test_gradients_under_a_load():
    """Beside differences, where the velocity is bounded."""
    qd = np.random.default_rng(0).normal(size=12) * 0.1
    check(case(balls(50.0), 6, qd=qd), ["mass", "com", "geometry_size", "gravity"])


def test_gradients_of_many_worlds_under_a_load():
    """Those of one world."""
    model = balls(50.0)
    names, gradients = ["mass", "geometry_size"], []
    for worlds in (1, 16):
        simulator = sim.Simulator(model, DT, worlds, "cpu")
        trajectory = simulator.rollout(simulator.state(model.q0), steps=6)
        shape = (7, worlds)
        found = trajectory.backward(np.ones((*shape, model.nq)), np.ones((*shape, model.nv)), names)
        gradients.append([found.q.numpy()[0], *(found.parameters[name] / worlds for name in names)])
    for one, many in zip(*gradients, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-7, atol=1e-9)
