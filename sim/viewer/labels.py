"""Labels with names of links and joints, and the axes of links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.viewer.geometries import to_wxyz

if TYPE_CHECKING:
    from viser import SceneApi


class Labels:
    """Labels with names at the origins of links, created when first shown.

    Args:
        scene: scene of the viser server.
        folder: name of their parent node.
        names: one per link; empty names are not shown.
        anchor: corner of the label at the origin, in viser's terms.
    """

    def __init__(self, scene: SceneApi, folder: str, names: Sequence[str], anchor: Any):
        self._scene, self._name, self._anchor = scene, folder, anchor
        self._texts = {number: name for number, name in enumerate(names) if name}
        self._folder: Any = None
        self._nodes: dict[int, Any] = {}
        self._origins = np.zeros((len(names), 3))

    def update(self, origins: np.ndarray) -> None:
        """Move the labels to the displayed origins of the links [num_links, 3]."""
        self._origins = origins
        for number, node in self._nodes.items():
            node.position = origins[number]

    def show(self, visible: bool) -> None:
        """Show or hide the labels."""
        if self._folder is None and visible:
            self._folder = self._scene.add_frame(self._name, show_axes=False)
            for number, text in self._texts.items():
                self._nodes[number] = self._scene.add_label(
                    f"{self._name}/{number}", text, position=self._origins[number], anchor=self._anchor,
                    font_screen_scale=0.8,
                )  # fmt: skip
        if self._folder is not None:
            self._folder.visible = visible


class Axes:
    """Axes of all links of all worlds: x red, y green, z blue.

    Args:
        scene: scene of the viser server.
        name: name of their node.
        count: number of links in all worlds.
        length: length of an axis [m].
    """

    def __init__(self, scene: SceneApi, name: str, count: int, length: float):
        self._node: Any = scene.add_batched_axes(
            name, np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)), np.zeros((count, 3)), axes_length=length,
            axes_radius=0.06 * length, visible=False,
        )  # fmt: skip

    def update(self, poses: np.ndarray) -> None:
        """Move the axes to displayed poses [count, 7]."""
        self._node.batched_positions = poses[:, :3]
        self._node.batched_wxyzs = to_wxyz(poses[:, 3:])

    def show(self, visible: bool) -> None:
        """Show or hide the axes."""
        self._node.visible = visible
