"""The medium of a model in an MJCF file. MuJoCo's drag acts on the box with a body's inertia."""

import xml.etree.ElementTree as ET

import numpy as np
from scipy.spatial.transform import Rotation

from sim.exporters.files import number, numbers
from sim.exporters.losses import Losses
from sim.model.medium import inertia_box
from sim.model.model import Model
from sim.model.shapes.inertia import principal_moments

# Tolerance for edges, positions and axes that differ from those of the inertia, relative to their size
CLOSE = 1e-6
# Off-diagonal entries up to this share of the diagonal count as rounding errors.
DIAGONAL = 1e-12


def add_medium(option: ET.Element, model: Model, losses: Losses) -> None:
    """Write density, viscosity and wind; report the links on which MuJoCo's drag would differ."""
    if "wind" not in model.parameters:
        return
    for key, name in (("density", "medium_density"), ("viscosity", "medium_viscosity")):
        option.set(key, number(float(model.parameters[name])))
    option.set("wind", numbers(model.parameters["wind"]))
    moving = np.flatnonzero((model.link_tail_dof >= 0) & (model.parameters["mass"] > 0.0))
    others = [model.link_names[link] for link in moving if not _is_of_inertia(model, int(link))]
    losses.changes_motion("drag boxes that differ from the box of a link's inertia", others)


def inertia_axes(model: Model, link: int) -> tuple[np.ndarray, Rotation]:
    """Return principal moments [3] of a link's inertia and the rotation of their axes in it.

    Bodies with equal moments, such as balls and capsules, allow several choices: the axes of the drag box are used.
    """
    inertia, own = model.parameters["inertia"][link], np.flatnonzero(model.drag_boxes.link == link)
    if len(own) == 1:
        axes = Rotation.from_quat(model.drag_boxes.placement[own[0], 3:])
        turned = axes.as_matrix().T @ inertia @ axes.as_matrix()
        moments = np.diag(turned)
        if np.abs(turned - np.diag(moments)).max() <= DIAGONAL * moments.max():
            return moments, axes
    return principal_moments(inertia)


def _is_of_inertia(model: Model, link: int) -> bool:
    """Return whether a link's only drag box is that of its inertia."""
    own = np.flatnonzero(model.drag_boxes.link == link)
    if len(own) != 1:
        return False
    size, placement = model.drag_boxes.size[own[0]], model.drag_boxes.placement[own[0]]
    moments, axes = inertia_axes(model, link)
    expected = inertia_box(float(model.parameters["mass"][link]), moments)
    turn = np.abs(axes.as_matrix().T @ Rotation.from_quat(placement[3:]).as_matrix())
    aligned = np.abs(turn - np.round(turn)).max() <= CLOSE
    same = np.abs(np.round(turn) @ size - expected).max() <= CLOSE * expected.max()
    centred = np.abs(placement[:3] - model.parameters["com"][link]).max() <= CLOSE * expected.max()
    return bool(aligned and same and centred)
