"""Forces of muscles and rates of their activations, as in :mod:`warp_kernels.actuators.muscles`."""

import torch

from sim.model.tendons.muscles import MUSCLE_PARAMETERS
from sim.simulation.simulator import Simulator
from sim.torch.current_parameters import current_parameter
from warp_kernels.actuators.muscles import LEAST


def muscle_forces(
    simulator: Simulator, activation: torch.Tensor, length: torch.Tensor, velocity: torch.Tensor
) -> torch.Tensor:
    """Return the forces of muscles [..., nu]; without meaning for other actuators.

    Args:
        simulator: the simulator, whose present parameters are used, without gradient.
        activation: activations [..., nu].
        length: lengths of the actuators' paths, times the gears [..., nu].
        velocity: rates of these lengths [..., nu].
    """
    peak, fibre, slack, shortest, longest, speed, passive, lengthening, scale, shift = (
        current_parameter(simulator, name, length) for name in MUSCLE_PARAMETERS.values()
    )
    fibre = fibre.clamp(min=LEAST)
    normal, rate = (length - slack) / fibre, velocity / (fibre * speed).clamp(min=LEAST)
    active = _active_length(normal, shortest, longest) * _active_velocity(rate, lengthening)
    return -peak * (active * activation + passive * _passive(scale * normal + shift, longest))


def muscle_rates(
    excitation: torch.Tensor, activation: torch.Tensor, rise: torch.Tensor, fall: torch.Tensor, width: torch.Tensor
) -> torch.Tensor:
    """Return the rates of activations [...], from inputs, time constants and the smoothing width, of the same shape."""
    scale = 0.5 + 1.5 * activation.clamp(0.0, 1.0)
    change = excitation.clamp(0.0, 1.0) - activation
    t = (change / width.clamp(min=LEAST) + 0.5).clamp(0.0, 1.0)
    smooth = t**3 * (3.0 * t * (2.0 * t - 5.0) + 10.0)
    share = torch.where(width < LEAST, (change > 0.0).to(change.dtype), smooth)
    time = fall / scale + (rise * scale - fall / scale) * share
    return change / time.clamp(min=LEAST)


def _active_length(length: torch.Tensor, shortest: torch.Tensor, longest: torch.Tensor) -> torch.Tensor:
    below, above = 0.5 * (shortest + 1.0), 0.5 * (1.0 + longest)
    steep = 0.5 * ((length - shortest) / (below - shortest).clamp(min=LEAST)) ** 2
    left = 1.0 - 0.5 * ((1.0 - length) / (1.0 - below).clamp(min=LEAST)) ** 2
    right = 1.0 - 0.5 * ((length - 1.0) / (above - 1.0).clamp(min=LEAST)) ** 2
    end = 0.5 * ((longest - length) / (longest - above).clamp(min=LEAST)) ** 2
    rising = torch.where(length <= below, steep, left)
    falling = torch.where(length <= above, right, end)
    found = torch.where(length <= 1.0, rising, falling)
    return torch.where((length >= shortest) & (length <= longest), found, 0.0)


def _active_velocity(velocity: torch.Tensor, lengthening: torch.Tensor) -> torch.Tensor:
    y = lengthening - 1.0
    growing = torch.where(velocity <= y, lengthening - (y - velocity) ** 2 / y.clamp(min=LEAST), lengthening)
    return torch.where(velocity <= -1.0, 0.0, torch.where(velocity <= 0.0, (velocity + 1.0) ** 2, growing))


def _passive(length: torch.Tensor, longest: torch.Tensor) -> torch.Tensor:
    extent = 0.5 * (longest - 1.0)
    stretch = (length - 1.0) / extent.clamp(min=LEAST)
    return torch.where(stretch <= 0.0, 0.0, torch.where(stretch <= 1.0, 0.5 * stretch**2, stretch - 0.5))
