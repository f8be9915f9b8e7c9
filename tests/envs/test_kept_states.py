"""States that environments keep: those of ``torch.inference_mode()``, copies, and those that are given back to them."""

import copy
import math
import pickle

import pytest
import torch

import sim
import sim.envs
from sim.envs import Task, TaskState, VectorEnv
from tests.errors import refuses

PUSHED = torch.full((2, 1), 0.3)


class Sliding(Task):
    """A cart that is paid for energy, of which autograd keeps the states before and after, less the cost of control."""

    dt, frame_skip, max_episode_length = 0.01, 2, 5

    def model(self) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_link("cart", mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_joint("rail", "prismatic", child="cart", axis=(1.0, 0.0, 0.0))
        builder.add_actuator("rail")
        return builder.finalize(self.dtype)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        q, qd = (self.uniform((n, 1), generator, 0.5, 1.0) for _ in range(2))
        return self.episodes(q, qd)

    def observe(self, state: TaskState) -> torch.Tensor:
        return torch.cat([state.q, state.qd], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        return (before.q * after.qd**2)[:, 0] - action.square()[:, 0]


def sliding() -> VectorEnv:
    env = VectorEnv(Sliding(), 2, device="cpu", seed=0, differentiable=True)
    env.reset()
    return env


def reset(env: VectorEnv) -> VectorEnv:
    env.reset(seed=1)
    return env


def stepped(env: VectorEnv) -> VectorEnv:
    for _ in range(7):
        env.step(PUSHED)
    return env


def aged(env: VectorEnv) -> VectorEnv:
    env.episode_length_buf = torch.tensor([1, 3])
    return env


def detached(env: VectorEnv) -> VectorEnv:
    env.detach()
    return env


def set_back(env: VectorEnv) -> VectorEnv:
    env.set_state(env.get_state())
    return env


@pytest.mark.parametrize("use", [lambda env: sliding(), reset, stepped, aged, detached, set_back])
def test_a_gradient_passes_through_what_was_kept_in_inference_mode(use):
    with torch.inference_mode():
        env = use(sliding())
    other = copy.deepcopy(env)
    gradients = []
    for each in (env, other):
        action = PUSHED.clone().requires_grad_()
        sum(each.step(action)[1].sum() for _ in range(3)).backward()
        gradients.append(action.grad)
    assert gradients[0].abs().min() > 0.0
    assert torch.equal(*gradients)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_have_no_history_and_go_on_alike(copied):
    env = sliding()
    action = PUSHED.clone().requires_grad_()
    env.step(action)
    other = copied(env)
    assert not other.state.q.requires_grad
    assert env.state.q.requires_grad
    for _ in range(8):
        one, two = env.step(PUSHED), other.step(PUSHED)
        assert all(torch.equal(a, b) for a, b in zip(one[:4], two[:4], strict=True))


def test_an_action_that_is_no_number_spoils_no_gradient():
    env = sliding()
    before = env.state.q.clone()
    action = torch.tensor([[math.nan], [0.3]], requires_grad=True)
    observation, reward, terminated, _, info = env.step(action)
    assert terminated.tolist() == info["not_finite"].tolist() == [True, False]
    assert reward[0] == 0.0
    assert torch.equal(info["final_obs"][0, :1], before[0])
    (reward.sum() + observation.sum()).backward()
    assert action.grad[0] == 0.0
    assert action.grad[1].isfinite()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"q": torch.zeros(2, 1, dtype=torch.float64)},
            "set_state: the state has q of torch.float64; expected",
        ),
        ({"q": torch.zeros(3, 1)}, r"set_state: the state has q \(3, 1\); expected \(2, 1\)"),
        ({"qd": [[0.0], [0.0]]}, "set_state: the state has qd as a list; expected a torch.Tensor"),
        ({"ended": torch.zeros(3, dtype=torch.bool)}, r"set_state: 'ended' has shape \(3,\); expected \(2,\)"),
        (
            {"returns": torch.zeros(2, dtype=torch.int64)},
            "set_state: 'returns' is of torch.int64; expected",
        ),
        ({"generator": None}, "set_state: the state has another generator"),
    ],
)
def test_other_states_are_refused_and_change_nothing(changed, message):
    env = sliding()
    stepped(env)
    kept = env.get_state()
    with pytest.raises(sim.ModelError, match=message):
        env.set_state({**sliding().get_state(), **changed})
    after = env.get_state()
    assert all(torch.equal(kept[name], after[name]) for name in ("q", "qd", "steps", "ended", "returns", "generator"))


def test_what_is_no_state_is_refused():
    env = sliding()
    refuses(lambda: env.set_state(None), "set_state", "state", "NoneType")
    state = env.get_state()
    del state["ended"]
    refuses(lambda: env.set_state(state), "set_state", "state", "'ended'")
