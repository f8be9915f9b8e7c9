"""Gradients of distances, points and normals against central differences, pair by pair and world by world."""

import numpy as np
import pytest
import torch

import sim
from tests.distances.scenes import all_pairs, both, random_poses

STEP = 1e-6
WORLDS = 25
PARAMETERS = ("geometry_placement", "geometry_size")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return both(tmp_path_factory.mktemp("scene"))[0]


def random_change(model, name, value, rng):
    """A change of a leaf that leaves quaternions of unit length, and zeros of sizes that a shape doesn't have."""
    change = torch.as_tensor(rng.normal(size=value.shape))
    turns = []
    if name == "q":
        turns = [slice(start + 3, start + 7) for start in model.joint_q_start]
    elif name == "geometry_placement":
        turns = [slice(3, 7)]
    else:
        change = change * value
    for part in turns:
        turn = value[..., part]
        change[..., part] -= (change[..., part] * turn).sum(dim=-1, keepdim=True) * turn
    return change


@pytest.mark.parametrize("spread", [0.1, 0.4, 3.0])
def test_distances_points_and_normals(model, spread):
    robot = sim.torch.Robot(model)
    pairs = [*all_pairs(), ("box2", "sphere1"), ("stone2", "cylinder1"), ("plane", "box1")]
    rng = np.random.default_rng(2)
    values = {name: torch.as_tensor(model.parameters[name]).expand(WORLDS, -1, -1).clone() for name in PARAMETERS}
    leaves = {"q": torch.as_tensor(random_poses(model, WORLDS, spread, seed=4)), **values}

    def parts(given):
        """Distance, and points and normal each with a weight of their own [worlds, pairs]."""
        found = robot.geometry_distances(given["q"], pairs, **{name: given[name] for name in PARAMETERS})
        return [
            found.distance,
            *((value * weight).sum(dim=-1) for value, weight in zip(found[1:], weights, strict=True)),
        ]

    weights = torch.as_tensor(rng.normal(size=(3, WORLDS, len(pairs), 3)))
    tracked = {name: value.clone().requires_grad_() for name, value in leaves.items()}
    results = parts(tracked)
    for name, value in leaves.items():
        change = random_change(model, name, value, rng)
        ahead, behind = (parts({**leaves, name: value + side * STEP * change}) for side in (1.0, -1.0))
        for k, result in enumerate(results):
            expected = (ahead[k] - behind[k]) / (2.0 * STEP)
            found = torch.zeros_like(expected)
            for pair in range(len(pairs)):
                gradient = torch.autograd.grad(result[:, pair].sum(), tracked[name], retain_graph=True)[0]
                found[:, pair] = (gradient * change).flatten(1).sum(dim=1)
            close = 1e-7 if k == 0 else 1e-5
            torch.testing.assert_close(found, expected, rtol=close, atol=close)


def test_the_distance_of_a_ball_from_a_plane_has_the_gradient_of_its_formula():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.5, mass=1.0, position=(0.0, 0.0, 2.0), name="ball")
    model = builder.finalize(dtype="float64")
    q = torch.as_tensor(model.q0).requires_grad_()
    size = torch.as_tensor(model.parameters["geometry_size"]).requires_grad_()
    found = sim.torch.Robot(model).geometry_distances(q, [("ball/geometry", "ground")], geometry_size=size)
    found.distance.sum().backward()
    np.testing.assert_allclose(q.grad[:3], [0.0, 0.0, 1.0], atol=1e-12)
    assert size.grad[model.geometry("ball/geometry"), 0] == -1.0
