"""Gradients of distance and normal against central differences."""

import numpy as np
import torch
import warp as wp

import sim
from tests.rays.scenes import both, random_rays

STEP = 1e-6


def weighted(hits, weight, solid):
    distance, _, normal = hits
    return (torch.where(solid, distance, 0.0) * weight[..., 0]).sum() + (normal * weight[..., 1:]).sum()


def test_distance_and_normal_in_everything(tmp_path):
    model, _ = both(tmp_path)
    robot = sim.torch.Robot(model)
    q, origin, direction = (torch.as_tensor(x) for x in random_rays(model, worlds=4, rays=300, seed=2))
    names = ("geometry_placement", "geometry_size", "height")
    parameters = {name: torch.as_tensor(model.parameters[name]).clone() for name in names}
    leaves = {"q": q, "origin": origin, "direction": direction, **parameters}

    def cast(values):
        return robot.cast_rays(*(values[name] for name in ("q", "origin", "direction")),
                               **{name: values[name] for name in parameters})  # fmt: skip

    first = cast(leaves)
    rng = np.random.default_rng(3)
    weight = torch.as_tensor(rng.normal(size=(4, 300, 4)))
    # A ray that grazes an outline has a derivative that differences don't resolve.
    unit = direction / direction.norm(dim=-1, keepdim=True)
    solid = torch.isfinite(first[0]) & ((first[2] * unit).sum(dim=-1).abs() > 0.1)
    weight = weight * solid[..., None]
    assert solid.sum() > 500
    met = {model.geometries[k].name for k in torch.unique(first[1][solid]).tolist()}
    assert met == {geometry.name for geometry in model.geometries if geometry.collides}
    tracked = {name: value.clone().requires_grad_() for name, value in leaves.items()}
    weighted(cast(tracked), weight, solid).backward()
    for name, value in leaves.items():
        gradient = tracked[name].grad
        for _ in range(3):
            change = torch.as_tensor(rng.normal(size=value.shape))
            if name == "geometry_size":
                change = change * value  # zeros of a size that a shape doesn't have stay
            both_sides = [cast({**leaves, name: value + side * STEP * change}) for side in (1.0, -1.0)]
            assert all((hits[1] == first[1])[solid].all() for hits in both_sides)
            ahead, behind = (weighted(hits, weight, solid) for hits in both_sides)
            expected = float(ahead - behind) / (2.0 * STEP)
            found = float((gradient * change).sum())
            assert abs(found - expected) <= 2e-6 * max(1.0, abs(expected)), name


def test_the_distance_to_a_sphere_has_the_gradient_of_its_formula():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.5, mass=1.0)
    model = builder.finalize(dtype="float64")
    q = torch.as_tensor(model.q0[None]).requires_grad_()
    size = torch.as_tensor(model.parameters["geometry_size"]).requires_grad_()
    origin = torch.tensor([[[-2.0, 0.3, 0.0]]], dtype=torch.float64, requires_grad=True)
    direction = torch.tensor([[[1.0, 0.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    distance, _, _ = sim.torch.Robot(model).cast_rays(q, origin, direction, geometry_size=size)
    distance.sum().backward()
    assert abs(float(distance.detach()) - 1.6) < 1e-14
    # The plane of the hit point has the normal (-0.8, 0.6, 0): d = n . (p - o) / n . e.
    np.testing.assert_allclose(origin.grad[0, 0], (-1.0, 0.75, 0.0), atol=1e-14)
    np.testing.assert_allclose(q.grad[0, :3], (1.0, -0.75, 0.0), atol=1e-14)
    np.testing.assert_allclose(direction.grad[0, 0], (0.0, 1.2, 0.0), atol=1e-14)
    np.testing.assert_allclose(size.grad[0], (-1.25, 0.0, 0.0), atol=1e-14)


def test_a_tape_gives_gradients_to_coordinates_rays_and_parameters():
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.2, 0.3, 0.4), mass=1.0)
    model = builder.finalize(dtype="float64")
    m = sim.DeviceModel(model, "cpu", requires_grad=["geometry_size"])
    q, origin, direction = (
        wp.array(np.array(x, dtype=np.float64), dtype=wp.float64, requires_grad=True)
        for x in (model.q0[None], [[[2.0, 0.1, 0.1]]], [[[-1.0, 0.0, 0.0]]])
    )
    with wp.Tape() as tape:
        hits = sim.cast_rays(m, q, origin, direction)
    hits.distance.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(hits.distance.numpy(), [[1.8]], atol=1e-14)
    np.testing.assert_allclose(origin.grad.numpy()[0, 0], (1.0, 0.0, 0.0), atol=1e-14)
    np.testing.assert_allclose(q.grad.numpy()[0, :3], (-1.0, 0.0, 0.0), atol=1e-14)
    np.testing.assert_allclose(m.gradient("geometry_size"), [[-1.0, 0.0, 0.0]], atol=1e-14)


def test_rays_that_meet_nothing_have_no_gradient():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.5, mass=1.0)
    model = builder.finalize(dtype="float64")
    origin = torch.tensor([[[5.0, 5.0, 5.0]]], dtype=torch.float64, requires_grad=True)
    distance, _, _ = sim.torch.Robot(model).cast_rays(torch.as_tensor(model.q0), origin, torch.ones_like(origin))
    distance.clamp(max=10.0).sum().backward()
    assert not origin.grad.any()
