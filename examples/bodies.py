"""Masses, centres of mass and inertias of an arm's links: as drawn, and as linear parameters of joint torques."""

from dataclasses import dataclass

import torch

import sim.torch
from examples.learning import draw
from sim.identify import InertialPrior, linear_parameters, torque_regressor
from sim.identify.regressor import spread, to_linear, trace


@dataclass(frozen=True)
class Bodies:
    """Mass [n], centre of mass [n, 3] and inertia about it [n, 3, 3] of links."""

    mass: torch.Tensor
    com: torch.Tensor
    inertia: torch.Tensor

    @classmethod
    def of(cls, robot: sim.torch.Robot, links: list[int]) -> "Bodies":
        """Return the present values of a robot's links."""
        return cls(*(robot.value(name)[links] for name in ("mass", "com", "inertia")))

    @property
    def linear(self) -> torch.Tensor:
        """Return ten numbers per link in which torques are linear, see :data:`sim.identify.INERTIAL_NAMES` [n, 10]."""
        return to_linear(self.mass, self.com, self.inertia)


@dataclass(frozen=True)
class Drawing:
    """Prior knowledge: the bodies as drawn, and their uncertainty.

    Attributes:
        bodies: the bodies as drawn.
        mass_error: standard deviation of the logarithm of a mass.
        com_error: standard deviation of each coordinate of a centre of mass [m].
        shape_error: standard deviation of each entry of the strain that maps the drawn shape to the true one.
    """

    bodies: Bodies
    mass_error: float
    com_error: float
    shape_error: float

    def differing(self, seed: int) -> Bodies:
        """Sample random bodies, with the uncertainty of the drawing."""
        drawn = self.bodies
        z = draw(seed, len(drawn.mass), 13, like=drawn.mass)
        mass = drawn.mass * torch.exp(self.mass_error * z[:, 0])
        root = torch.linalg.cholesky(spread(drawn.mass, drawn.inertia))
        strained = root @ (torch.eye(3).to(z) + self.shape_error * z[:, 4:].view(-1, 3, 3).tril())
        moments = mass[:, None, None] * strained @ strained.mT
        return Bodies(mass, drawn.com + self.com_error * z[:, 1:4], trace(moments) - moments)

    def deviations(self, bodies: Bodies) -> torch.Tensor:
        """Compute deviations of bodies from the drawing, in standard deviations [n, 10]."""
        prior = InertialPrior(self.mass_error, self.com_error, self.shape_error)
        given, drawn = ((each.mass, each.com, each.inertia) for each in (bodies, self.bodies))
        return prior.deviations(given, drawn)


def moving_links(robot: sim.torch.Robot) -> list[int]:
    """Return indices of the links that a joint moves."""
    return [link for link, joint in enumerate(robot.model.joint_names) if joint in robot.joint_names]


@torch.no_grad()
def torque_columns(
    robot: sim.torch.Robot, links: list[int], q: torch.Tensor, qd: torch.Tensor, qdd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the regressor of the torques, which are ``columns @ Bodies.linear.flatten() + rest``.

    Args:
        robot: the arm; the masses and inertias of its links have no influence.
        links: links with a mass.
        q: coordinates [samples, nq].
        qd: velocities [samples, nv].
        qdd: accelerations [samples, nv].

    Returns:
        columns [samples, nv, 10 * links], and the rest, from damping and springs [samples, nv].
    """
    columns = torque_regressor(robot, q, qd, qdd)
    rest = robot.inverse_dynamics(q, qd, qdd) - columns @ linear_parameters(robot)
    return columns.unflatten(-1, (-1, 10))[..., links, :].flatten(-2), rest
