"""Parts of policies: networks for actions and values, and normalisation of observations."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn


class Normaliser(nn.Module):
    """Scaling of observations by the mean and standard deviation of those seen so far.

    Args:
        size: number of observations.
    """

    mean: torch.Tensor
    variance: torch.Tensor
    count: torch.Tensor

    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return observations [..., size], scaled and clipped to ±10.

        Nearly constant observations are scaled up by at most 10: larger gains in a policy would make the gradient of a
        whole motion explode.
        """
        return ((observation - self.mean) / (self.variance + 0.01).sqrt()).clamp(-10.0, 10.0)

    @torch.no_grad()
    def update(self, observations: torch.Tensor) -> None:
        """Update the moments with more observations [..., size], but for those that aren't finite (Chan, Golub and
        LeVeque 1979).
        """
        batch = observations.reshape(-1, observations.shape[-1])
        batch = batch[batch.isfinite().all(dim=1)]
        if not len(batch):
            return
        count, total = len(batch), self.count + len(batch)
        difference = batch.mean(dim=0) - self.mean
        squares = self.variance * self.count + batch.var(dim=0, correction=0) * count
        self.variance.copy_((squares + difference**2 * self.count * count / total) / total)
        self.mean.add_(difference * count / total)
        self.count.copy_(total)


def layers(sizes: Sequence[int]) -> nn.Sequential:
    """Make a network with ELU and layer normalisation after every layer but the last."""
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes[:-1]):
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
        nn.init.zeros_(layer.bias)
        parts += [layer, nn.ELU(), nn.LayerNorm(outputs)]
    last = nn.Linear(sizes[-2], sizes[-1])
    nn.init.orthogonal_(last.weight, 0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*parts, last)


class Policy(nn.Module):
    """Bounded stochastic policy: tanh of a normal distribution whose deviation doesn't depend on the observation.

    Args:
        observations: number of observations.
        low: smallest action [actions].
        high: largest action [actions].
        hidden: widths of the hidden layers.
        deviation: initial standard deviation of the normal distribution.

    Example:
        >>> import torch
        >>> import sim.learn
        >>> policy = sim.learn.Policy(3, low=torch.tensor([-2.0, 0.0]), high=torch.tensor([2.0, 5.0]))
        >>> action = policy(torch.zeros(8, 3))
        >>> action.shape, bool((action[:, 1] >= 0.0).all())
        (torch.Size([8, 2]), True)
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(
        self,
        observations: int,
        low: torch.Tensor,
        high: torch.Tensor,
        hidden: Sequence[int] = (128, 64, 32),
        deviation: float = 0.3,
    ):
        super().__init__()
        self.normaliser = Normaliser(observations)
        self.mean = layers((observations, *hidden, len(low)))
        self.log_deviation = nn.Parameter(torch.full((len(low),), math.log(deviation)))
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    @property
    def num_observations(self) -> int:
        """Number of observations."""
        return self.normaliser.mean.numel()

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the deterministic action [..., actions]."""
        return self.bounded(self.mean(self.normaliser(observation)))

    def sample(self, observation: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Sample a random action, differentiable in the policy and the observation [..., actions]."""
        return self.bounded(self.sample_unbounded(observation, generator)[0])

    def sample_unbounded(
        self, observation: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample a value of the normal distribution, before it is bounded, and return its mean too [..., actions]."""
        mean = self.mean(self.normaliser(observation))
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return mean + self.log_deviation.exp() * noise, mean

    def sample_with_density(
        self, observation: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample like :meth:`sample`, with the logarithm of the action's probability density [...], actions scaled to
        ±1.
        """
        mean, deviation = self.mean(self.normaliser(observation)), self.log_deviation.exp()
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        value = mean + deviation * noise
        normal = -0.5 * noise**2 - self.log_deviation - 0.5 * math.log(2.0 * math.pi)
        # log(1 - tanh²), without cancellation for large values.
        slope = 2.0 * (math.log(2.0) - value - nn.functional.softplus(-2.0 * value))
        return self.bounded(value), (normal - slope).sum(dim=-1)

    def bounded(self, value: torch.Tensor) -> torch.Tensor:
        """Return the action between the bounds for a value of the normal distribution [..., actions]."""
        return self.low + (self.high - self.low) * 0.5 * (torch.tanh(value) + 1.0)


class Value(nn.Module):
    """Expected return from an observation on, with the scaling of its observations.

    Args:
        observations: number of observations.
        hidden: widths of the hidden layers.
    """

    def __init__(self, observations: int, hidden: Sequence[int] = (64, 64)):
        super().__init__()
        self.normaliser = Normaliser(observations)
        self.network = layers((observations, *hidden, 1))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return values [...] of observations [..., observations]."""
        return self.network(self.normaliser(observation)).squeeze(-1)
