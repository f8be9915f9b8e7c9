"""Pictures of environments: from where they are taken."""

import numpy as np
import pytest
import torch

import sim
import sim.envs
from sim.envs.view import View
from sim.render import Camera
from tests.errors import raises_naming

ASPECT = 4.0 / 3.0


def poses(model: sim.Model, q: np.ndarray) -> np.ndarray:
    return sim.forward_kinematics(model, q).numpy()


def same(one: Camera, other: Camera) -> bool:
    return np.allclose(one.position, other.position) and np.allclose(one.target, other.target) and one.fov == other.fov


@pytest.mark.parametrize("name", ["Pendulum-1", "CartpoleSwingup"])
def test_a_camera_stays_while_joints_move(name):
    model = sim.envs.make_task(name).model()
    view = View(model)
    first, spacing = view.camera(poses(model, model.q0[None]), ASPECT)
    rng = np.random.default_rng(1)
    for _ in range(20):
        q = model.q0 + rng.uniform(-1.0, 1.0, model.nq) * (0.1 if name == "CartpoleSwingup" else np.pi)
        seen, apart = view.camera(poses(model, q[None]), ASPECT)
        assert same(seen, first)
        assert apart == spacing


def test_a_camera_goes_along_with_what_travels():
    """Both worlds on display, whose box is wider than the ball by 2 cm: from side to side it needn't move."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(0.0, 0.0, 0.1))
    model = builder.finalize()
    view, cameras = View(model), []
    for x in (0.0, 0.009, 30.0, 0.0):
        q = np.repeat(model.q0[None], 2, axis=0)
        q[:, 0] += x
        cameras.append(view.camera(poses(model, q), ASPECT)[0])
    assert same(cameras[0], cameras[1])
    for name in ("position", "target"):
        first, _, far, last = (np.array(getattr(camera, name)) for camera in cameras)
        np.testing.assert_allclose(far - first, [29.99, 0.0, 0.0], atol=1e-4)
        np.testing.assert_allclose(last - first, [0.01, 0.0, 0.0], atol=1e-4)


def test_pictures_are_steady_and_may_have_a_camera_of_their_own():
    env = sim.envs.make("Pendulum-1", 2, device="cpu", seed=0)
    env.reset()
    below = env.render(width=64, height=48)
    state = env.get_state()
    env.set_state({**state, "q": torch.full((2, 1), 3.0)})
    turned = env.render(width=64, height=48)
    assert (below != turned).any()
    corner = (slice(0, 4), slice(0, 4))
    assert np.array_equal(below[corner], turned[corner])
    own = Camera(position=(3.0, 0.0, 0.0), target=(0.0, 0.0, 0.0))
    assert (env.render(width=64, height=48, camera=own) != turned).any()
    with raises_naming("0 x 48"):
        env.render(width=0, height=48)
