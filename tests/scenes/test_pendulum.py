"""The pendulum scene."""

import numpy as np

import sim
from scenes import pendulum
from tests.errors import refuses


def test_links_hang_in_a_chain():
    scene = pendulum.build(3, "float64", length=0.4, angle=0.0)
    poses = sim.forward_kinematics(scene.model, scene.q0[None]).numpy()[0]
    np.testing.assert_allclose(poses[:, :3], [[0, 0, 1.2], [0, 0, 0.8], [0, 0, 0.4]], atol=1e-15)
    swung = sim.forward_kinematics(scene.model, [[np.pi / 2, 0.0, 0.0]]).numpy()[0]
    np.testing.assert_allclose(swung[:, :3], [[0, 0, 1.2], [-0.4, 0, 1.2], [-0.8, 0, 1.2]], atol=1e-15)


def test_masses_inertias_and_start():
    scene = pendulum.build(4, length=0.5, mass=2.0, radius=0.02, damping=0.1, angle=0.3)
    model = scene.model
    np.testing.assert_array_equal(model.parameters["mass"], 2.0)
    np.testing.assert_array_equal(model.parameters["damping"], 0.1)
    np.testing.assert_array_equal(scene.q0, [0.3, 0, 0, 0])
    # Between a thin rod as long as the cylinder and one as long as the link.
    across = model.parameters["inertia"][0][0, 0]
    assert 2.0 * 0.46**2 / 12 < across < 2.0 * 0.5**2 / 12 + 2.0 * 0.02**2 / 4
    assert not any(geometry.collides for geometry in model.geometries)


def test_bad_arguments_are_refused():
    refuses(lambda: pendulum.build(0), "at least one")
    refuses(lambda: pendulum.build(1, length=0.1, radius=0.06), "radius", 0.06)
