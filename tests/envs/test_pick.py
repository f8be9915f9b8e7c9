"""PickAndPlace: a scripted hand grips, lifts and carries boxes, here and in MuJoCo, from what a policy observes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sim
import sim.envs
from examples.rl import carry
from sim.envs.tasks import pick


class Scripted:
    """Opens the hand above the box, goes down, closes it and moves it to the target."""

    num_observations = 37

    def __call__(self, seen: torch.Tensor) -> torch.Tensor:
        fingers, opening = seen[:, 4:6], seen[:, 4] + 0.1 * seen[:, 16]
        to_box, to_target, box = 0.1 * seen[:, 22:25], 0.1 * seen[:, 25:28], 0.2 * seen[:, 28:31]
        tips = box - to_box  # along axes that turn with the arm
        around = to_box.norm(dim=1) < 0.015
        held = around & (fingers.sum(dim=1) < 0.056)
        goal = torch.where(held[:, None], tips + to_target, box)
        goal[:, 2] += 0.08 * (to_box[:, :2].norm(dim=1) > 0.015)
        postures = (np.stack([pick.posture(*each, 0.0) for each in points.tolist()]) for points in (goal, tips))
        missing = torch.as_tensor(np.subtract(*postures)).to(seen)
        action = 0.3 * missing[:, :5] / missing.new_tensor(pick.RATES)
        action[:, 4] = (torch.where(around, 0.012, pick.OPEN) - opening) / pick.RATES[4]
        return action.clamp(-1.0, 1.0)


class Same(pick.PickAndPlace):
    """All boxes have the model's mass, and its friction times a factor."""

    factor = 1.0

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        found = {name: torch.tensor(self.model().parameters[name]) for name in ("mass", "inertia", "friction")}
        found["friction"] *= self.factor
        return {name: value.expand(n, *value.shape).clone() for name, value in found.items()}


def test_a_scripted_hand_carries_boxes_here_and_in_mujoco(monkeypatch):
    """Both move alike until the fingers touch the box; from then on contact points between boxes differ."""
    pytest.importorskip("mujoco")
    monkeypatch.setattr(carry, "BOXES", 2)
    monkeypatch.setattr(pick, "NOISE", 0.0)
    motions = [play(Scripted(), Same("float64"), 0) for play in (carry.here, carry.in_mujoco)]
    for motion in motions:
        assert (motion.distance[-1] < 0.005).all()
        assert str(motion).startswith("2 of 2")
    apart = np.abs(motions[0].q - motions[1].q)
    assert apart[:10].max() < 1e-9  # MuJoCo ends its iteration at 1e-8 of the forces
    assert apart[-1, :, 6:9].max() < 0.005


def test_friction_alone_holds_the_box(monkeypatch):
    monkeypatch.setattr(carry, "BOXES", 2)
    monkeypatch.setattr(Same, "factor", 0.0)
    motion = carry.here(Scripted(), Same("float64"), 0)
    assert motion.q[:, :, 8].max() < pick.HALF + 0.01


def test_fingertips_are_where_the_arm_has_them():
    task = pick.PickAndPlace("float64")
    q = torch.tensor(np.random.default_rng(0).uniform(-1.0, 1.0, (5, 13)))
    q[:, 4:6], q[:, 9:] = 0.03, torch.nn.functional.normalize(q[:, 9:], dim=1)
    poses = sim.forward_kinematics(task.model(), q.numpy()).numpy()
    left, right, box = (poses[:, task.model().link(name)] for name in ("left", "right", "box"))
    np.testing.assert_allclose(pick.fingertips(q), 0.5 * (left[:, :3] + right[:, :3]), atol=1e-12)
    np.testing.assert_allclose(pick.box_position(q), box[:, :3], atol=1e-12)


def test_starts_targets_and_boxes_are_random_within_their_ranges():
    env = sim.envs.make("PickAndPlace", 200, device="cpu", seed=0, dtype="float64")
    env.reset()
    state, given = env.state, env.task.model().parameters
    for position, (low, high) in ((state.q[:, 6:9], pick.START), (state.data["target"], pick.TARGET)):
        found = torch.stack([position[:, :2].norm(dim=1), torch.atan2(position[:, 1], position[:, 0]), position[:, 2]])
        for values, least, most in zip(found, low, high, strict=True):
            assert least - 1e-9 <= values.min() <= least + 0.1 * (most - least) + 1e-9
            assert most + 1e-9 >= values.max() >= most - 0.1 * (most - least) - 1e-9
    link = env.task.model().link("box")
    factor = state.parameters["mass"][:, link] / given["mass"][link]
    torch.testing.assert_close(
        state.parameters["inertia"][:, link], factor[:, None, None] * torch.tensor(given["inertia"][link])
    )
    assert 0.5 <= factor.min() < 0.55
    assert 1.9 < factor.max() <= 2.0
    others = [k for k in range(env.task.model().num_links) if k != link]
    assert torch.equal(state.parameters["mass"][:, others], torch.tensor(given["mass"][others]).expand(200, -1))


def test_rewards_and_ends_have_names_and_gradients_are_those_of_differences():
    """In the middle of a carry, for one action of all servos."""
    env = sim.envs.make("PickAndPlace", 2, device="cpu", seed=0, dtype="float64", differentiable=True)
    seen, _ = env.reset()
    with torch.no_grad():
        for _ in range(18):
            seen, *_ = env.step(Scripted()(seen["policy"]))
    env.detach()
    kept = env.get_state()

    def reward(action: torch.Tensor) -> torch.Tensor:
        env.set_state(kept)
        _, found, _, _, info = env.step(action)
        assert set(info["reward_terms"]) == {"reach", "grip", "lift", "place", "ground", "smooth"}
        assert set(info["failures"]) == {"away"}
        return found

    action = torch.full((2, 5), 0.2, dtype=torch.float64, requires_grad=True)
    reward(action).sum().backward()
    assert (env.state.q[:, 8] > pick.HALF + 0.01).all()
    with torch.no_grad():
        for column in range(5):
            change = torch.zeros(2, 5, dtype=torch.float64)
            change[:, column] = 1e-5
            slope = (reward(action + change) - reward(action - change)) / 2e-5
            torch.testing.assert_close(action.grad[:, column], slope, rtol=1e-4, atol=1e-5)


def test_a_box_out_of_reach_ends_the_episode():
    task = pick.PickAndPlace("float64")
    state = task.sample_state(2, torch.Generator().manual_seed(0))
    q = state.q.clone()
    q[1, 6] += 1.0
    assert task.terminated(replace(state, q=q))["away"].tolist() == [False, True]
