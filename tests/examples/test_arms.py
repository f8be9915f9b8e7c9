"""Arms in a row: the scene shows what was computed, and the motions are what they are said to be."""

import argparse
import copy

import numpy as np
import torch
from scipy.spatial.transform import Rotation

import sim.torch
from examples import arms, inertias, origins
from examples import reach as reaching
from examples.learning import moving
from scenes.manipulator import MANIPULATOR_URDF


def test_the_scene_shows_what_was_computed(monkeypatch, tmp_path):
    """Pointers, by the model of the scene, and balls stand where each arm's own kinematics and the caller have them."""
    drawn = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    built = origins.built_otherwise(drawn, origins.chain(drawn, "link7"), 0)
    q = torch.rand(2, 5, 7, dtype=torch.float64)
    row = [arms.Arm("#ff0000", drawn, q[0], arms.pointer(built, q[0], "link7")),
           arms.Arm("#0000ff", built, q[1], arms.pointer(built, q[0], "link7"))]  # fmt: skip
    shown = {}
    monkeypatch.setattr(arms, "write_motion", lambda *given, **more: shown.update(given=given, **more))
    options = argparse.Namespace(robot=MANIPULATOR_URDF, out=tmp_path)
    arms.write_arms(options, "row", row, "link7", 0.01, base=arms.ON_A_WALL, trails=True)
    _, name, model, coordinates, dt = shown["given"]
    assert (name, dt) == ("row", 0.01)
    poses = sim.forward_kinematics(model, coordinates).numpy()
    (first, second) = (model.geometries[[g.name for g in model.geometries].index(f"arm{k}/pointer")] for k in (0, 1))
    np.testing.assert_allclose(first.rgba, (1.0, 0.0, 0.0, 1.0))
    for k, geometry in enumerate((first, second)):
        hand = poses[:, geometry.link]
        rod = Rotation.from_quat(geometry.placement[3:]).apply((0.0, 0.0, geometry.size[1])) + geometry.placement[:3]
        end = Rotation.from_quat(hand[:, 3:]).apply(rod) + hand[:, :3]
        ball = poses[:, model.link(f"ball{k}"), :3]
        wanted, path = shown["trails"][2 * k : 2 * k + 2]
        np.testing.assert_allclose(path.points, end, atol=1e-9)
        np.testing.assert_allclose(wanted.points, ball, atol=1e-9)
        apart = row[k].ball - arms.pointer(row[k].robot, q[k], "link7")
        np.testing.assert_allclose(ball - end, arms.ON_A_WALL.apply(apart.numpy()), atol=1e-8)
        assert end[:, 2].min() > 0.0
    # The arms don't reach into each other.
    left, right = (poses[:, [name.startswith(arm) for name in model.link_names], 0] for arm in ("arm0", "arm1"))
    assert left.max() < right.min()


@torch.no_grad()
def test_a_known_arm_follows():
    """To the error of its steps; with masses a third off it stays behind."""
    arm = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    other = copy.deepcopy(arm)
    other.mass.mul_(4.0 / 3.0)
    motion = [x[:250] for x in moving(arm, 1.0, 3, inertias.SHOWN_DT)]
    off, far = ((inertias.follow(arm, known, *motion) - motion[0]).abs().max() for known in (arm, other))
    assert off < 0.01 < 0.05 < far


@torch.no_grad()
def test_an_arm_comes_to_rest_whose_damping_is_known_too_large():
    """As one that is known: damping of 5 N m s/rad too much, fed back, made joints speed up until they were NaN."""
    arm = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    other = copy.deepcopy(arm)
    other.damping.add_(5.0)
    q = torch.tensor([0.35, 0.65, -0.15, 1.25, 0.45, 0.55, 0.15], dtype=torch.float64).repeat(500, 1)
    q[0] -= 0.05
    still = torch.zeros_like(q)
    off, known = (inertias.follow(arm, each, q, still, still) - q for each in (other, arm))
    torch.testing.assert_close(off, known)
    assert off[-1].abs().max() < 0.02


@torch.no_grad()
def test_a_load_is_drawn_where_it_is_held(tmp_path, monkeypatch):
    """A box of the arm's link, in its axes."""
    seen = {}
    monkeypatch.setattr(arms, "write_motion", lambda options, name, model, q, dt, **more: seen.update(model=model))
    arm = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    q = torch.zeros(2, arm.nq, dtype=torch.float64)
    turned = Rotation.from_euler("z", 30.0, degrees=True)
    load = arms.Load("link7", np.array([0.03, 0.02, 0.05]), np.array([0.0, 0.1, 0.05]), turned.as_matrix())
    ball = arms.pointer(arm, q, "link7")
    arms.write_arms(argparse.Namespace(robot=MANIPULATOR_URDF), "held", [arms.Arm("#26639e", arm, q, ball, load)],
                    "link7", 0.01)  # fmt: skip
    model = seen["model"]
    box = model.geometries[model.geometry("arm0/load")]
    assert model.link_names[box.link] == "arm0/link7"
    np.testing.assert_allclose(box.size, load.half_extents)
    np.testing.assert_allclose(box.placement, [0.0, 0.1, 0.05, *turned.as_quat()], atol=1e-12)
    assert not box.collides


@torch.no_grad()
def test_a_known_arm_leads_its_rod_along_a_path():
    arm = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    begin = torch.tensor([0.3, 0.6, -0.2, 1.2, 0.4, 0.5, 0.1], dtype=torch.float64)
    angle = torch.linspace(0.0, 6.3, 50, dtype=torch.float64)
    around = torch.stack([angle.cos() - 1.0, 0.0 * angle, angle.sin()], dim=1)
    path = arms.pointer(arm, begin, "link7") + 0.1 * around
    q = origins.trace(arm, path, begin, "link7")
    torch.testing.assert_close(arms.pointer(arm, q, "link7"), path, rtol=0.0, atol=1e-5)
    assert q.diff(dim=0).abs().max() < 0.2


def test_the_lever_is_the_derivative_of_the_pointer():
    arm = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    q = torch.rand(7, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(lambda x: arms.pointer(arm, x, "link7"), q)
    torch.testing.assert_close(origins.lead(arm, q, "link7"), expected)


def test_a_visit_rests_at_every_place():
    targets = torch.rand(4, 7, dtype=torch.float64)
    q = reaching.visit(targets)
    per_target = reaching.GO_FRAMES + reaching.STAY_FRAMES
    assert len(q) == 3 * per_target
    for k, target in enumerate(targets[1:]):
        rest = q[k * per_target + reaching.GO_FRAMES - 1 : (k + 1) * per_target]
        torch.testing.assert_close(rest, target.expand_as(rest))
    steps = q.diff(dim=0).norm(dim=1)
    assert steps[0] < 0.1 * steps.max()
