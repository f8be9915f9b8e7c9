"""Masses, centres of mass and inertias of an arm's links: as drawn, and the numbers that determine joint torques."""

import copy
from dataclasses import dataclass

import numpy as np
import torch

import sim.torch
from examples.learning import draw


@dataclass(frozen=True)
class Bodies:
    """Mass [n], centre of mass [n, 3] and inertia about it [n, 3, 3] of links."""

    mass: torch.Tensor
    com: torch.Tensor
    inertia: torch.Tensor

    @classmethod
    def of(cls, robot: sim.torch.Robot, links: list[int]) -> "Bodies":
        """The present values of a robot's links."""
        return cls(*(robot.value(name)[links] for name in ("mass", "com", "inertia")))

    @property
    def spread(self) -> torch.Tensor:
        """Second moments of the mass distribution about its centre, per mass [n, 3, 3]."""
        return (0.5 * trace(self.inertia) - self.inertia) / self.mass[:, None, None]

    @property
    def linear(self) -> torch.Tensor:
        """Ten numbers per link in which torques are linear: mass, first moments, inertia about the link's origin."""
        outer = self.com[:, :, None] * self.com[:, None, :]
        about = self.inertia + self.mass[:, None, None] * (trace(outer) - outer)
        rows, columns = np.tril_indices(3)
        return torch.cat([self.mass[:, None], self.mass[:, None] * self.com, about[:, rows, columns]], dim=1)


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
        """Random bodies, drawn with the uncertainty of the drawing."""
        drawn = self.bodies
        z = draw(seed, len(drawn.mass), 13, like=drawn.mass)
        mass = drawn.mass * torch.exp(self.mass_error * z[:, 0])
        root = torch.linalg.cholesky(drawn.spread)
        strained = root @ (torch.eye(3).to(z) + self.shape_error * z[:, 4:].view(-1, 3, 3).tril())
        spread = mass[:, None, None] * strained @ strained.mT
        return Bodies(mass, drawn.com + self.com_error * z[:, 1:4], trace(spread) - spread)

    def deviations(self, bodies: Bodies) -> torch.Tensor:
        """Deviations of bodies from the drawing, in standard deviations [n, 10]."""
        root = torch.linalg.cholesky(self.bodies.spread)
        half = torch.linalg.solve_triangular(root, bodies.spread, upper=False)
        strain = torch.linalg.solve_triangular(root, half.mT, upper=False) - torch.eye(3).to(half)
        # A lower triangular strain E turns the unit matrix into about 1 + E + E'.
        strain = strain - 0.5 * torch.diag_embed(strain.diagonal(dim1=-2, dim2=-1))
        rows, columns = np.tril_indices(3)
        return torch.cat(
            [
                (bodies.mass / self.bodies.mass).log()[:, None] / self.mass_error,
                (bodies.com - self.bodies.com) / self.com_error,
                strain[:, rows, columns] / self.shape_error,
            ],
            dim=1,
        )


def trace(matrices: torch.Tensor) -> torch.Tensor:
    """Identity matrices times the traces of matrices [n, 3, 3]."""
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] * torch.eye(3).to(matrices)


def moving_links(robot: sim.torch.Robot) -> list[int]:
    """Indices of the links that a joint moves."""
    return [link for link, joint in enumerate(robot.model.joint_names) if joint in robot.joint_names]


@torch.no_grad()
def torque_columns(
    robot: sim.torch.Robot, links: list[int], q: torch.Tensor, qd: torch.Tensor, qdd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Regressor of the torques, which are ``columns @ Bodies.linear.flatten() + rest``.

    Each column is inverse dynamics with a single number set to one.

    Args:
        robot: the arm; the masses and inertias of its links are ignored.
        links: links with a mass.
        q: coordinates [samples, nq].
        qd: velocities [samples, nv].
        qdd: accelerations [samples, nv].

    Returns:
        columns [samples, nv, 10 * links], and the rest, from damping and springs [samples, nv].
    """
    arm = copy.deepcopy(robot)
    for value in (arm.mass, arm.com, arm.inertia):
        value.zero_()
    rest = arm.inverse_dynamics(q, qd, qdd)
    columns = []
    for link in links:
        for number in range(10):
            mass, com, inertia = arm.mass[link], arm.com[link], arm.inertia[link]
            if number < 4:
                mass.fill_(1.0)
            if 0 < number < 4:  # a unit mass at unit distance, minus the inertia that it implies
                com[number - 1] = 1.0
                inertia.copy_(torch.outer(com, com) - torch.eye(3).to(com))
            if number >= 4:
                row, column = (int(index[number - 4]) for index in np.tril_indices(3))
                inertia[row, column] = inertia[column, row] = 1.0
            columns.append(arm.inverse_dynamics(q, qd, qdd) - rest)
            if 0 < number < 4:
                columns[-1] -= columns[-1 - number]
            for value in (mass, com, inertia):
                value.zero_()
    return torch.stack(columns, dim=-1), rest
