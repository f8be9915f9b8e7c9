"""Policy training by soft actor-critic, with the policy's gradient enhanced by the simulator's derivatives.

The algorithm is that of Haarnoja et al., *Soft Actor-Critic Algorithms and Applications* (2018), without gradients
through the simulator. Policy enhancement is that of Qiao et al. (ICML 2021, equations 13 and 14): in place of the
critic's slope in the action, the policy follows that of the reward and of the value after the step,

    dr/da + γ ds'/da' dV/ds'.

With `--enhance jacobian` the derivatives of each step are stored with it and reused for the policy's action, which has
changed by then; `--near` weighs them by exp(-|a - a0|), the distance of both (equation 16). With `--enhance simulated`
the policy's own action is simulated from the stored state: one product, and nothing is stored.

Sample enhancement, from the same paper, adds transitions with actions near those that were taken. `--extras 9`
simulates nine of them from the same state; with `--first-order` they follow from the step's derivatives instead
(examples/rl/neighbours.py).

    python -m examples.rl.sac Pendulum-1 --enhance simulated
    python -m examples.rl.sac Pendulum-2 --enhance jacobian --minutes 10
    python -m examples.rl.sac Pendulum-1 --extras 9

Files: curve.png, the return of episodes over the environment steps; sac.npz with these figures; policy.pt, the network
with its options; policy.gif, an animation of the policy.
"""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from examples.options import command, make_folder, parse_example
from examples.resume import Progress
from examples.rl.neighbours import Batch, FirstOrder, Simulated, beside, derivatives, simulate
from examples.rl.networks import Policy, layers
from examples.rl.training import physics, train, training_parser, write_training
from sim.envs import VectorEnv, make_task

ENHANCEMENTS = ("none", "jacobian", "simulated")
DISCOUNT = 0.99  # for truncated episodes that have a value


@dataclass(frozen=True)
class Settings:
    """Settings of the algorithm.

    Qiao et al. have layers of 256, a rate of 3e-4, batches of 256, 5 updates and an entropy of -0.01.

    Attributes:
        enhance: "none", "jacobian" or "simulated".
        near: reduce the weight of stored derivatives with the distance of the actions.
        extras: number of transitions added to each step of an environment.
        first_order: predict their states by the step's derivatives instead of simulating them.
        spread: maximum distance of their actions from the one taken, relative to half the range of actions.
        steps: steps of each environment in an iteration.
        updates: updates of the networks for each step of all environments.
        batch: transitions per update.
        capacity: capacity of the replay buffer, in transitions.
        random_steps: number of initial transitions with random actions.
        discount: discount of rewards per step; 1 for tasks whose episodes end by their time.
        rate: learning rate.
        target_share: fraction of the critics that their targets adopt per update.
        entropy: target entropy of the policy, for each action.
        hidden: widths of the networks' layers.
    """

    enhance: str = "none"
    near: bool = False
    extras: int = 0
    first_order: bool = False
    spread: float = 0.1
    steps: int = 25
    updates: int = 8
    batch: int = 128
    capacity: int = 200_000
    random_steps: int = 2000
    discount: float = 1.0
    rate: float = 1e-3
    target_share: float = 0.005
    entropy: float = -1.0
    hidden: tuple[int, ...] = (64, 64)


class Replay:
    """Replay buffer: the last transitions, each a row of every tensor."""

    def __init__(self, capacity: int):
        self.capacity, self.size, self._next = capacity, 0, 0
        self.rows: Batch = {}

    def add(self, rows: Batch) -> None:
        """Add transitions [n, ...], replacing the oldest once the capacity is reached."""
        count = len(next(iter(rows.values())))
        slots = (self._next + torch.arange(count)) % self.capacity
        for name, value in rows.items():
            if name not in self.rows:
                self.rows[name] = value.new_zeros(self.capacity, *value.shape[1:])
            self.rows[name][slots] = value.detach()
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """Draw random transitions [count, ...]."""
        slots = torch.randint(self.size, (count,), generator=generator, device=generator.device)
        return {name: value[slots] for name, value in self.rows.items()}

    def state(self) -> dict[str, Any]:
        """Return the whole state."""
        rows = {name: value[: self.size].clone() for name, value in self.rows.items()}
        return {"rows": rows, "size": self.size, "next": self._next}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`."""
        self.rows, self.size = {}, 0
        self._next = 0
        if state["size"]:
            self.add(state["rows"])
        self._next = state["next"]


class Critic(nn.Module):
    """Two estimates of the return from a state and an action; the lower one counts."""

    def __init__(self, observations: int, actions: int, hidden: tuple[int, ...]):
        super().__init__()
        self.both = nn.ModuleList(layers((observations + actions, *hidden, 1)) for _ in range(2))

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return both estimates [2, n] for normalised observations and actions between -1 and 1."""
        given = torch.cat([observation, action], dim=-1)
        return torch.stack([each(given).squeeze(-1) for each in self.both])


class Sac:
    """Soft actor-critic.

    Args:
        env: the environment.
        settings: settings of the algorithm.
        seed: seed of networks and random numbers.

    Raises:
        ModelError: if stored states can't be simulated again, for settings that need it.
    """

    def __init__(self, env: VectorEnv, settings: Settings, seed: int = 0):
        self.env, self.settings = env, settings
        torch.manual_seed(seed)
        bounds = (env.action_low, env.action_high)
        self.policy = Policy(env.num_observations, *bounds, settings.hidden, 1.0).to(env.device)
        self.critic = Critic(env.num_observations, env.num_actions, settings.hidden).to(env.device)
        self.target = copy.deepcopy(self.critic)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.1), device=env.device))
        self.optimisers = {
            "policy": torch.optim.Adam(self.policy.parameters(), lr=settings.rate, fused=True),
            "critic": torch.optim.Adam(self.critic.parameters(), lr=settings.rate, fused=True),
            "temperature": torch.optim.Adam([self.log_temperature], lr=settings.rate, fused=True),
        }
        self.generator = torch.Generator(env.device).manual_seed(seed + 1)
        self.replay = Replay(settings.capacity)
        self.iteration = 0
        self.last_episodes: list[list[float]] = []
        self._again = beside(env, settings.batch, True) if settings.enhance == "simulated" else None
        self._neighbours: FirstOrder | Simulated | None = None
        if settings.extras:
            kind, worlds = (FirstOrder, 1) if settings.first_order else (Simulated, settings.extras)
            self._neighbours = kind(beside(env, worlds * env.num_envs, False))
        env.differentiable = settings.enhance == "jacobian"
        env.reset(seed=seed)

    def iterate(self) -> dict[str, float]:
        """Take some steps of all environments, with updates after each. Returns the mean return and length of the last
        episodes (NaN before the first has ended), and the policy's deviation.
        """
        for _ in range(self.settings.steps):
            self._act()
            if self.replay.size >= self.settings.random_steps:
                for _ in range(self.settings.updates):
                    self._update(self.replay.draw(self.settings.batch, self.generator))
        self.iteration += 1
        ended = torch.tensor(self.last_episodes or [[math.nan, math.nan]]).mean(dim=0).tolist()
        deviation = float(self.policy.log_deviation.detach().exp().mean())
        return {"return": ended[0], "length": ended[1], "deviation": deviation}

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        done = {"iteration": self.iteration, "last_episodes": self.last_episodes}
        numbers = {"random": self.generator.get_state(), "temperature": self.log_temperature.detach().clone()}
        return {**parts, **done, **numbers, "env": self.env.get_state(), "replay": self.replay.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.iteration, self.last_episodes = state["iteration"], state["last_episodes"]
        with torch.no_grad():
            self.log_temperature.copy_(state["temperature"])
        self.generator.set_state(state["random"])
        self.env.set_state(state["env"])
        self.replay.restore(state["replay"])

    def _parts(self) -> dict[str, Any]:
        networks = {name: getattr(self, name) for name in ("policy", "critic", "target")}
        return networks | {f"{name} optimiser": optimiser for name, optimiser in self.optimisers.items()}

    def _act(self) -> None:
        """Take a step, and store it."""
        env = self.env
        env.detach()
        before, observation = env.state, env.task.observe(env.state)
        if self.replay.size < self.settings.random_steps:
            share = torch.rand(env.num_envs, env.num_actions, generator=self.generator, device=env.device)
            action = env.action_low + share * (env.action_high - env.action_low)
        else:
            with torch.no_grad():
                action = self.policy.sample(observation, self.generator)
        action.requires_grad_(env.differentiable)
        _, reward, terminated, truncated, info = env.step(action)
        derivatives = {}
        if env.differentiable:
            derivatives = step_derivatives(action, reward, info["final_obs"])
        self.policy.normaliser.update(observation)
        rows = {"observation": observation, "action": action, "reward": reward, "after": info["final_obs"]}
        rows |= {"q": before.q, "qd": before.qd, "steps": before.steps}
        rows |= {"final": env.task.is_final(terminated, truncated), **derivatives}
        rows = {name: value.detach() for name, value in rows.items()}
        self.replay.add(rows)
        if self.settings.extras:
            self.replay.add(self.extras(rows))
        ended = info["final_mask"]
        figures = torch.stack([info["episode_return"][ended], info["episode_length"][ended]], dim=1)
        self.last_episodes = [*self.last_episodes, *figures.tolist()][-4 * env.num_envs :]

    def extras(self, rows: Batch) -> Batch:
        """Return transitions with actions near those of others [n, ...], ``extras`` for each."""
        assert self._neighbours is not None, "only with extras"
        several = {name: value.repeat_interleave(self.settings.extras, dim=0) for name, value in rows.items()}
        low, high = self.env.action_low, self.env.action_high
        share = 2.0 * torch.rand(several["action"].shape, generator=self.generator, device=low.device) - 1.0
        action = several["action"] + 0.5 * self.settings.spread * (high - low) * share
        action = action.clamp(low, high)
        with torch.no_grad():
            reward, final, after = self._neighbours(rows, action)
        return {**several, "action": action, "reward": reward, "final": final, "after": after}

    def _update(self, batch: Batch) -> None:
        """Run one gradient step of critics, policy and temperature."""
        wanted = self.targets(batch)
        found = self.critic(self.policy.normaliser(batch["observation"]), self._scaled(batch["action"]))
        self._descend("critic", (found - wanted).square().mean(dim=1).sum())
        action, density = self.policy.sample_with_density(batch["observation"], self.generator)
        temperature = self.log_temperature.detach().exp()
        self._descend("policy", (temperature * density - self.worth(batch, action)).mean())
        actions = self.env.num_actions
        excess = -density.detach() - self.settings.entropy * actions
        self._descend("temperature", (self.log_temperature.exp() * excess).mean())
        with torch.no_grad():
            for target, parameter in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(parameter, self.settings.target_share)

    @torch.no_grad()
    def targets(self, batch: Batch) -> torch.Tensor:
        """Return the critics' targets for stored steps [n]."""
        following = self.value(batch["after"], self.target).masked_fill(batch["final"], 0.0)
        return batch["reward"] + self.settings.discount * following

    def worth(self, batch: Batch, action: torch.Tensor) -> torch.Tensor:
        """Return the objective of the policy's actions [n], up to terms that don't depend on them."""
        if self.settings.enhance == "jacobian":
            slope = self._enhanced_slope(batch)
            if self.settings.near:
                apart = (self._scaled(action) - self._scaled(batch["action"])).norm(dim=1, keepdim=True)
                slope = slope * torch.exp(-apart.detach())
            return (slope * action).sum(dim=1)
        if self.settings.enhance == "simulated":
            return self._simulated(batch, action)
        return self.critic(self.policy.normaliser(batch["observation"]), self._scaled(action)).amin(dim=0)

    def value(self, observation: torch.Tensor, critic: Critic) -> torch.Tensor:
        """Return the expected return from observations on, entropy included [n]."""
        action, density = self.policy.sample_with_density(observation, self.generator)
        found = critic(self.policy.normaliser(observation), self._scaled(action)).amin(dim=0)
        return found - self.log_temperature.detach().exp() * density

    def _enhanced_slope(self, batch: Batch) -> torch.Tensor:
        """Return the slope of reward and value in the stored action, by the stored derivatives [n, actions]."""
        after = batch["after"].clone().requires_grad_()
        value = self.value(after, self.critic).masked_fill(batch["final"], 0.0)
        (slope,) = torch.autograd.grad(value.sum(), after)
        return batch["reward_slope"] + self.settings.discount * (slope[:, None] @ batch["after_slope"])[:, 0]

    def _simulated(self, batch: Batch, action: torch.Tensor) -> torch.Tensor:
        """Return reward and value of the policy's own actions, simulated from the stored states."""
        assert self._again is not None, "only with enhance='simulated'"
        reward, final, after = simulate(self._again, batch, action)
        with held(self.policy):  # afterwards the value of the present policy applies
            value = self.value(after, self.critic)
        return reward + self.settings.discount * value.masked_fill(final, 0.0)

    def _scaled(self, action: torch.Tensor) -> torch.Tensor:
        """Scale actions to -1 to 1."""
        low, high = self.env.action_low, self.env.action_high
        return 2.0 * (action - low) / (high - low) - 1.0

    def _descend(self, name: str, loss: torch.Tensor) -> None:
        optimiser = self.optimisers[name]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@contextlib.contextmanager
def held(network: nn.Module) -> Iterator[None]:
    """Exclude a network's parameters from gradients in this context."""
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)


def step_derivatives(action: torch.Tensor, reward: torch.Tensor, after: torch.Tensor) -> Batch:
    """Compute a step's derivatives in its action: ``reward_slope`` [n, actions], ``after_slope`` [n, observations,
    actions].

    It takes one backward pass through the step for the reward and for each observation.
    """
    slopes = derivatives(torch.cat([reward[:, None], after], dim=1), action)
    return {"reward_slope": slopes[:, 0], "after_slope": slopes[:, 1:]}


@command
def main() -> None:
    """Train a policy and write the results."""
    parser = training_parser(__doc__, task="Pendulum-1", out="out/sac", iterations=400)
    parser.add_argument("--envs", type=int, default=16, help="number of environments (16)")
    parser.add_argument("--enhance", choices=ENHANCEMENTS, default="none", help="the policy's gradient (none)")
    parser.add_argument("--near", action="store_true", help="weigh stored derivatives by exp(-|a - a0|)")
    parser.add_argument("--extras", type=int, default=0, help="transitions added to each, with actions nearby (0)")
    parser.add_argument("--first-order", action="store_true", help="extras by derivatives, not by simulation")
    parser.add_argument("--spread", type=float, default=Settings.spread, help=f"of extras' actions ({Settings.spread})")
    parser.add_argument("--updates", type=int, default=Settings.updates, help=f"after each step ({Settings.updates})")
    discount = f"of a later reward (1 for pendulums, whose episodes end by their time; otherwise {DISCOUNT})"
    parser.add_argument("--discount", type=float, default=None, help=discount)
    parser.add_argument("--substeps", type=int, default=8, help="of a pendulum, for each action (8)")
    positive = ("iterations", "minutes", "envs", "substeps", "spread")
    options = parse_example(parser, counts=("updates", "extras"), finite=("spread",), positive=positive)
    if options.discount is not None and not 0.0 <= options.discount <= 1.0:
        parser.error(f"--discount {options.discount}: the number must lie between 0 and 1")
    make_folder(options.out)
    pendulum = {"substeps": options.substeps} if options.task.startswith("Pendulum") else {}
    task = {**pendulum, **physics(options)}
    env = VectorEnv(make_task(options.task, **task), options.envs, device=options.device)
    if options.discount is None:
        options.discount = 1.0 if env.task.time_is_final else DISCOUNT
    of_settings = ("enhance", "near", "extras", "first_order", "spread", "updates", "discount")
    settings = Settings(**{name: getattr(options, name) for name in of_settings})
    names = ("task", "seed", "iterations", "envs", "substeps", *of_settings)
    problem = {name: getattr(options, name) for name in names} | physics(options)
    with Progress(options.out / "interrupted.npz", problem, options.restart) as kept:
        learner = Sac(env, settings, options.seed)
        training = train(learner, options.iterations, 60.0 * options.minutes, settings.steps, kept)
        write_training(options, "sac", learner, training, task)


if __name__ == "__main__":
    main()
