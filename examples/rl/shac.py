"""Policy training by short-horizon actor-critic, with gradients through the simulator.

The algorithm is that of Xu et al., *Accelerated Policy Learning with Parallel Differentiable Simulation* (ICLR 2022).
All environments take some steps. The gradient of the rewards, and of the value that a critic predicts after them, is
propagated through the simulator to the policy. The critic learns from TD(λ) targets, and its target network follows it.

    python -m examples.rl.shac CartpoleSwingup
    python -m examples.rl.shac Ant --minutes 10
    torchrun --nproc-per-node 2 -m examples.rl.shac Ant      # several processes, see examples/processes.py

Files: curve.png, the return of episodes over the environment steps; shac.npz with these figures; policy.pt, the network
with its options, for `python -m examples.rl.transfer`; policy.gif, an animation of the policy.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import torch

from examples import processes
from examples.options import command, make_folder, parse_example
from examples.resume import Progress
from examples.rl.networks import Policy, Value
from examples.rl.training import physics, train, training_parser, write_training
from sim.envs import VectorEnv, make


@dataclass(frozen=True)
class Settings:
    """Settings of the algorithm.

    Attributes:
        horizon: steps of the environment through which gradients pass.
        discount: discount of rewards per step.
        trace: λ of the critic's targets.
        policy_rate: initial learning rate of the policy; it falls to a tenth.
        value_rate: initial learning rate of the critic.
        gradient_norm: maximum norm of the policy's gradient.
        target_share: fraction of the critic that the target network adopts per iteration.
        value_epochs: passes of the critic over the steps of an iteration.
        value_batches: batches of a pass.
        deviation: initial standard deviation of the policy's actions, before they are bounded.
        hidden: widths of the policy's layers.
        value_hidden: widths of the critic's layers.
    """

    horizon: int = 32
    discount: float = 0.99
    trace: float = 0.95
    policy_rate: float = 2e-3
    value_rate: float = 2e-3
    gradient_norm: float = 1.0
    target_share: float = 0.8
    value_epochs: int = 16
    value_batches: int = 4
    deviation: float = 0.3
    hidden: Sequence[int] = (128, 64, 32)
    value_hidden: Sequence[int] = (64, 64)


@dataclass
class Experience:
    """Steps of an iteration, without history [horizon, num_envs, ...].

    Attributes:
        observation: observation before each step.
        reward: reward of each step.
        after: observation after each step, before any reset.
        final: mask of terminal steps: an episode failed, or its time is over and that is final.
        ended: mask of steps at which an episode ended.
    """

    observation: torch.Tensor
    reward: torch.Tensor
    after: torch.Tensor
    final: torch.Tensor
    ended: torch.Tensor


class Shac:
    """Short-horizon actor-critic.

    Args:
        env: a differentiable environment that resets episodes within a step.
        settings: settings of the algorithm.
        iterations: number of iterations over which the learning rates fall.
        seed: seed of networks and random numbers.
    """

    def __init__(self, env: VectorEnv, settings: Settings, iterations: int, seed: int = 0):
        self.env, self.settings, self.iterations = env, settings, iterations
        torch.manual_seed(seed)
        bounds = (env.action_low, env.action_high)
        self.policy = Policy(env.num_observations, *bounds, settings.hidden, settings.deviation).to(env.device)
        self.value = Value(env.num_observations, settings.value_hidden).to(env.device)
        self.target = copy.deepcopy(self.value)
        self.seed = seed
        self.generator = torch.Generator(env.device).manual_seed(processes.own_seed(seed) + 1)
        betas = (0.7, 0.95)
        policy, value = self.policy.parameters(), self.value.parameters()
        self.policy_optimiser = torch.optim.Adam(policy, lr=settings.policy_rate, betas=betas, fused=True)
        self.value_optimiser = torch.optim.Adam(value, lr=settings.value_rate, betas=betas, fused=True)
        self.iteration = 0
        self.last_episodes: list[list[float]] = []  # return and length of the last ``num_envs`` that ended
        env.reset(seed=processes.own_seed(seed))

    def iterate(self) -> dict[str, float]:
        """Run one iteration: a gradient step of the policy, then the critic's.

        Returns:
            the mean return and length of the last ``num_envs`` episodes (NaN before the first has ended), and the norm
            of the policy's gradient.
        """
        share = 1.0 - 0.9 * min(self.iteration / max(self.iterations, 1), 1.0)
        for optimiser, rate in (
            (self.policy_optimiser, self.settings.policy_rate), (self.value_optimiser, self.settings.value_rate)
        ):  # fmt: skip
            optimiser.param_groups[0]["lr"] = share * rate
        objective, seen = self._play()
        self.policy_optimiser.zero_grad()
        (-objective / (self.settings.horizon * self.env.num_envs)).backward()
        processes.average_gradients(self.policy)
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.settings.gradient_norm)
        if norm.isfinite():
            self.policy_optimiser.step()
        self._learn_value(seen)
        self.policy.normaliser.update(processes.of_all_processes(seen.observation))
        with torch.no_grad():
            for target, value in zip(self.target.parameters(), self.value.parameters(), strict=True):
                target.lerp_(value, self.settings.target_share)
        self.iteration += 1
        ended = torch.tensor(self.last_episodes or [[math.nan, math.nan]]).mean(dim=0).tolist()
        return {"return": ended[0], "length": ended[1], "gradient_norm": float(norm)}

    def state(self) -> dict[str, Any]:
        """Return everything that determines the further training."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        random = self.generator.get_state()
        done = {"iteration": self.iteration, "last_episodes": self.last_episodes}
        return {**parts, **done, "random": random, "env": self.env.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of :meth:`state`."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.iteration, self.last_episodes = state["iteration"], state["last_episodes"]
        if processes.number() == 0:
            self.generator.set_state(state["random"])
            self.env.set_state(state["env"])
        else:  # the state is that of the first process; the others begin episodes of their own
            self.env.reset(seed=processes.own_seed(self.seed) + self.iteration)

    def _parts(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in ("policy", "value", "target", "policy_optimiser", "value_optimiser")
        }

    def _play(self) -> tuple[torch.Tensor, Experience]:
        """Act for a horizon. Returns the policy's objective, and the steps."""
        env, settings, normalise = self.env, self.settings, self.policy.normaliser
        env.detach()
        observation = env.task.observe(env.state)
        weight = torch.ones(env.num_envs, dtype=env.dtype, device=env.device)
        objective = torch.zeros_like(weight)
        seen: list[tuple[torch.Tensor, ...]] = []
        for step in range(settings.horizon):
            before = observation
            action = self.policy.sample(before, self.generator)
            observation, reward, terminated, truncated, info = env.step(action)
            ended, final = terminated | truncated, env.task.is_final(terminated, truncated)
            objective = objective + weight * reward
            weight = weight * settings.discount
            last = step == settings.horizon - 1
            if last or bool(ended.any()):
                expected = self.target(normalise(info["final_obs"])).masked_fill(final, 0.0)
                objective = objective + torch.where(ended | last, weight * expected, 0.0)
                figures = torch.stack([info["episode_return"][ended], info["episode_length"][ended]], dim=1)
                self.last_episodes = [*self.last_episodes, *figures.tolist()][-env.num_envs :]
            weight = torch.where(ended, 1.0, weight)
            seen.append((before.detach(), reward.detach(), info["final_obs"].detach(), final, ended))
        return objective.sum(), Experience(*(torch.stack(parts) for parts in zip(*seen, strict=True)))

    def _learn_value(self, seen: Experience) -> None:
        """Fit the critic to the TD(λ) targets of the steps."""
        with torch.no_grad():
            observations = self.policy.normaliser(seen.observation).flatten(0, 1)
            expected = self.target(self.policy.normaliser(seen.after)).masked_fill(seen.final, 0.0)
            targets = lambda_returns(seen.reward, expected, seen.ended, self.settings).flatten()
        size = -(-len(targets) // self.settings.value_batches)
        for _ in range(self.settings.value_epochs):
            order = torch.randperm(len(targets), generator=self.generator, device=targets.device)
            for rows in order.split(size):
                loss = (self.value(observations[rows]) - targets[rows]).square().mean()
                self.value_optimiser.zero_grad()
                loss.backward()
                processes.average_gradients(self.value)
                torch.nn.utils.clip_grad_norm_(self.value.parameters(), self.settings.gradient_norm)
                self.value_optimiser.step()


def lambda_returns(
    reward: torch.Tensor, expected: torch.Tensor, ended: torch.Tensor, settings: Settings
) -> torch.Tensor:
    """Compute TD(λ) targets of the critic [horizon, num_envs].

    Args:
        reward: reward of each step.
        expected: value of the state after each step, zero after terminal steps.
        ended: mask of steps at which an episode ended; the next step belongs to another one.
        settings: discount and trace.
    """
    following = expected[-1]
    targets = torch.empty_like(reward)
    for step in reversed(range(len(reward))):
        mixed = (1.0 - settings.trace) * expected[step] + settings.trace * following
        following = reward[step] + settings.discount * torch.where(ended[step], expected[step], mixed)
        targets[step] = following
    return targets


# Settings of tasks that need other values than the defaults. Robots that walk need many environments with different
# contacts, and clipped adjoints; with more noise than this they fall before they learn. A hopper has to leave its
# standing pose, which takes more noise, a wider bound and a longer horizon.
WALKING = {"envs": 256, "horizon": 16, "deviation": 0.1, "adjoint_clip": 3.0}
HOPPING = {**WALKING, "deviation": 0.3, "adjoint_clip": 30.0, "discount": 0.995}
HOPPING_ON_SOFT_GROUND = {**HOPPING, "deviation": 0.5, "adjoint_clip": 3.0}
PRESETS: dict[str, dict[str, float]] = {
    "Hopper": HOPPING,
    **dict.fromkeys(("Ant", "AntPaper", "HalfCheetah", "Humanoid"), WALKING),
}


def learner_of(
    task: str,
    iterations: int,
    seed: int,
    device: str | None = "cpu",
    task_options: Mapping[str, Any] = MappingProxyType({}),
    threads: int | None = None,
    **chosen: float,
) -> Shac:
    """Make a learner with the defaults of the task.

    Args:
        task: name of the environment.
        iterations: number of iterations over which the learning rates fall.
        seed: seed of all random numbers.
        device: device of the environment.
        task_options: options of the task, such as ``law``.
        threads: CPU threads. Default: this process's share of the cores.
        chosen: values that differ from the defaults: of :class:`Settings`, ``envs`` and ``adjoint_clip``.
    """
    preset = PRESETS.get(task, {})
    if task == "Hopper" and task_options.get("law") == "mujoco":
        preset = HOPPING_ON_SOFT_GROUND
    options = {"envs": 64, "adjoint_clip": math.inf, **preset, **chosen}
    envs, clip = int(options.pop("envs")), options.pop("adjoint_clip")
    env = make(
        task, envs, device=device, differentiable=True, adjoint_clip=clip, threads=threads or processes.threads(),
        **task_options,
    )  # fmt: skip
    return Shac(env, Settings(**options), iterations, seed)  # type: ignore[arg-type]


@command
def main() -> None:
    """Train a policy and write the results."""
    defaults: dict[str, float] = {**asdict(Settings()), "envs": 64, "adjoint_clip": math.inf}
    parser = training_parser(__doc__, task="CartpoleSwingup", out="out/shac", iterations=300)
    about = {
        "envs": "environments in each process",
        "horizon": "steps with gradient",
        "policy_rate": "initial learning rate of the policy",
        "deviation": "initial standard deviation of actions, before they are bounded",
        "adjoint_clip": "maximum norm of the gradient propagated from a step of an environment to the previous one",
    }
    for name, text in about.items():
        shown = f"{text} ({defaults[name]:g}; for robots that walk {WALKING.get(name, defaults[name]):g})"
        kind = int if name in ("envs", "horizon") else float
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=None, help=shown)
    options = parse_example(parser, finite=("policy_rate", "deviation"), positive=("iterations", "minutes", *about))
    make_folder(options.out)
    options.device = processes.join(options.device)
    file = options.out / "interrupted.npz" if processes.number() == 0 else None
    chosen = {name: getattr(options, name) for name in about if getattr(options, name) is not None}
    task = physics(options)
    learner = learner_of(options.task, options.iterations, options.seed, options.device, task, **chosen)
    problem = {name: getattr(options, name) for name in ("task", "seed", "iterations")}
    with Progress(file, {**problem, **task, "chosen": str(chosen)}, options.restart) as kept:
        training = train(learner, options.iterations, 60.0 * options.minutes, learner.settings.horizon, kept)
        if processes.number() == 0:
            write_training(options, "shac", learner, training, task)


if __name__ == "__main__":
    main()
