"""A joint with a direction without inertia is refused before it turns into NaN."""

import numpy as np
import pytest

import sim

DT = 1.0 / 240.0


def chain(*links: dict, **joints: object) -> sim.ModelBuilder:
    """Links one after the other, each with the joint that leads to it."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number, link in enumerate(links):
        joint = link.pop("joint")
        name = builder.add_link(f"link_{number}", **link)
        builder.add_joint(f"joint_{number}", joint, child=name, parent=parent, **joints)
        parent = name
    return builder


SINGULAR = {
    "free point": [{"joint": "free", "mass": 1.0}],
    "spherical point": [{"joint": "spherical", "mass": 1.0, "com": (0.1, 0.0, 0.0)}],
    "mass on the axis": [{"joint": "revolute", "mass": 1.0}],
    "rod on the axis": [{"joint": "revolute", "mass": 1.0, "inertia": (1.0, 1.0, 0.0), "allow_unphysical": True}],
    "coaxial, the first without mass": [
        {"joint": "revolute", "mass": 0.0},
        {"joint": "revolute", "mass": 1.0, "inertia": (1.0, 1.0, 1.0)},
    ],
    "free without mass, a slider on it": [
        {"joint": "free", "mass": 0.0},
        {"joint": "prismatic", "mass": 1.0, "inertia": (1.0, 1.0, 1.0)},
    ],
}


@pytest.mark.parametrize("links", SINGULAR.values(), ids=SINGULAR.keys())
def test_singular(links):
    builder = chain(*(dict(link) for link in links))
    message = "joint 'joint_0' has a direction without inertia.*; give link 'link_0' a mass"
    with pytest.raises(sim.ModelError, match=message):
        sim.Simulator(builder.finalize(), DT)


def moves(simulator: sim.Simulator) -> bool:
    return bool(np.isfinite(simulator.rollout(simulator.initial_state(), steps=5).qd.numpy()).all())


def test_an_armature_is_enough():
    assert moves(sim.Simulator(chain({"joint": "revolute", "mass": 1.0}, armature=0.1).finalize(), DT))


def test_damping_is_enough():
    assert moves(
        sim.Simulator(chain({"joint": "revolute", "mass": 1.0}, spring=sim.Spring(damping=0.1)).finalize(), DT)
    )


def test_of_the_simulator():
    """The simulator's own parameters count, not the model's."""
    model = chain({"joint": "revolute", "mass": 1.0}).finalize()
    assert moves(sim.Simulator(model, DT, 2, parameters={"armature": np.full((2, 1), 0.1)}))


def test_massless_links_of_a_gimbal():
    """Three crossed axes with the mass behind the last one, as in many humanoids; regular, except where it locks."""
    builder = sim.ModelBuilder()
    parent = "world"
    for number, axis in enumerate(np.eye(3)):
        mass = {"mass": 1.0, "com": (0.1, 0.2, 0.3), "inertia": (0.1, 0.1, 0.1)} if number == 2 else {"mass": 0.0}
        builder.add_link(f"link_{number}", **mass)
        builder.add_joint(f"joint_{number}", "revolute", child=f"link_{number}", parent=parent, axis=axis)
        parent = f"link_{number}"
    assert moves(sim.Simulator(builder.finalize("float64"), DT))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_any_size(scale):
    """From 0.2 mm to 20 km."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=np.array([1.0, 2.0, 3.0]) * scale, mass=1000.0 * scale**3)
    assert moves(sim.Simulator(builder.finalize("float64"), DT))
