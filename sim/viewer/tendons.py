"""The tendons of all worlds, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.model.model import Model
from sim.render.tendons import COLOR, RADIUS, num_tendon_pieces, tendon_pieces
from sim.viewer.shapes import byte_color

if TYPE_CHECKING:
    from viser import SceneApi


class TendonLines:
    """Lines along the spatial tendons of a model; nothing where it has none.

    Args:
        scene: scene of the viser server.
        name: name of their node.
        model: the model of one world.
        offsets: displayed position of the origin of each world [num_worlds, 3].
    """

    def __init__(self, scene: SceneApi, name: str, model: Model, offsets: np.ndarray):
        self._model, self._offsets = model, offsets
        self._node: Any = None
        if num_tendon_pieces(model):
            nothing = np.zeros((len(offsets) * num_tendon_pieces(model), 2, 3), dtype=np.float32)
            self._node = scene.add_line_segments(name, nothing, byte_color(COLOR), thickness=2.0 * RADIUS)

    @property
    def any(self) -> bool:
        """Whether there are tendons to draw."""
        return self._node is not None

    def place(self, poses: np.ndarray) -> None:
        """Move them to link poses [num_worlds, num_links, 7], each in the frame of its world."""
        if self._node is not None:
            pieces = [
                tendon_pieces(self._model, of_world) + offset
                for of_world, offset in zip(poses, self._offsets, strict=True)
            ]
            self._node.points = np.concatenate(pieces).astype(np.float32)

    def show(self, visible: bool) -> None:
        """Show or hide them."""
        if self._node is not None:
            self._node.visible = visible
