"""Geometries and tendons of all worlds in the browser, with one node per geometry and one instance per world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.model.geometries import Geometry
from sim.model.looks.looks import DEFAULT_MATERIAL
from sim.model.model import Model
from sim.render.tendons import COLOR, RADIUS, num_tendon_pieces, tendon_pieces
from sim.render.tessellation import Triangles, textured, with_normals
from sim.render.view import instance_poses
from sim.viewer.glb import glb_of

if TYPE_CHECKING:
    from viser import SceneApi, SceneNodeDragEvent

TILE = 0.5  # side length of a square of the ground [m]
GROUND = 100.0  # distance from the camera up to which a plane is drawn, in units of length


class Shapes:
    """Geometries that are shown and hidden together.

    Args:
        scene: scene of the viser server.
        folder: name of their parent node.
        geometries: geometries of one model, without planes.
        offsets: displayed position of the origin of each world [num_worlds, 3].
        rgba: colour of all geometries, overriding their own.
    """

    def __init__(
        self,
        scene: SceneApi,
        folder: str,
        geometries: Sequence[Geometry],
        offsets: np.ndarray,
        rgba: tuple[float, float, float, float] | None = None,
    ):
        self._geometries, self._offsets = list(geometries), offsets
        self._folder = scene.add_frame(folder, show_axes=False)
        self._nodes: list[Any] = []
        self._coats: dict[int, Any] = {}  # nodes with a material, by geometry; their opacity can't change
        upright = np.tile([1.0, 0.0, 0.0, 0.0], (len(offsets), 1))
        for number, geometry in enumerate(self._geometries):
            triangles, color = textured(geometry), geometry.rgba if rgba is None else rgba
            vertices, faces = split_creases(triangles)
            name = f"{folder}/{number}_{geometry.name.replace('/', '_')}"
            coated = rgba is None and geometry.material != DEFAULT_MATERIAL
            self._nodes.append(
                scene.add_batched_meshes_simple(
                    name,
                    vertices,
                    faces,
                    upright,
                    offsets,
                    batched_colors=byte_color(color),
                    opacity=see_through(color[3]),
                    side="double",  # meshes from files aren't always closed
                    lod="off",
                    visible=not coated,
                )
            )
            if coated:
                data = glb_of(triangles, geometry.rgba, geometry.material)
                self._coats[number] = scene.add_batched_glb(f"{name}_coat", data, upright, offsets, lod="off")

    def on_drag(self, dragged: Callable[[int, SceneNodeDragEvent[Any]], None]) -> None:
        """Call a function when a shape of a link is dragged with Ctrl or Cmd, with the link's index and the event."""
        every = [*enumerate(self._nodes), *self._coats.items()]
        for node, geometry in ((node, self._geometries[number]) for number, node in every):
            if geometry.link < 0:
                continue

            # viser keeps the order of events for coroutines alone.
            async def run(event: SceneNodeDragEvent[Any], link: int = geometry.link) -> None:
                dragged(link, event)

            node.on_drag("left", modifier="cmd/ctrl")(run)

    def update(self, link_poses: np.ndarray) -> None:
        """Move the shapes to link poses [num_worlds, num_links, 7], each in the frame of its world."""
        poses = instance_poses(self._geometries, link_poses, self._offsets)
        for number, of_worlds in enumerate(poses.swapaxes(0, 1)):
            for node in (self._nodes[number], self._coats.get(number)):
                if node is not None:
                    node.batched_positions = of_worlds[:, :3]
                    node.batched_wxyzs = to_wxyz(of_worlds[:, 3:])

    def fade(self, opacity: float) -> None:
        """Multiply the opacity of all shapes by ``opacity``; materials are shown at full opacity only."""
        for number, coat in self._coats.items():
            coat.visible = opacity >= 1.0
            self._nodes[number].visible = opacity < 1.0
        for node, geometry in zip(self._nodes, self._geometries, strict=True):
            node.opacity = see_through(opacity * geometry.rgba[3])

    def show(self, visible: bool) -> None:
        """Show or hide the shapes."""
        self._folder.visible = visible


def add_plane(scene: SceneApi, name: str, plane: Geometry, unit: float, size: float) -> None:
    """Draw a plane fixed to the world, with grid lines, in a scene with a unit of length [m] and a size [m].

    One with a texture is a square that shows it.
    """
    if plane.material.texture is not None and plane.material.repeat is not None:
        half = max(GROUND * unit, 20.0 * size)
        corners = half * np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
        square = with_normals(corners, np.array([[0, 1, 2], [0, 2, 3]]))
        square = replace(square, uv=0.5 + corners[square.faces][..., :2] * plane.material.repeat)
        wxyz = to_wxyz(plane.placement[3:])
        data = glb_of(square, plane.rgba, plane.material)
        scene.add_glb(name, data, position=plane.placement[:3], wxyz=wxyz, cast_shadow=False)
        return
    color = np.array(byte_color(plane.rgba))
    scene.add_grid(
        name,
        infinite_grid=True,
        fade_distance=max(GROUND * unit, 20.0 * size),
        position=plane.placement[:3],
        wxyz=to_wxyz(plane.placement[3:]),
        cell_size=TILE * unit,
        section_size=10 * TILE * unit,
        cell_color=tuple(0.8 * color),
        section_color=tuple(0.6 * color),
        plane_color=tuple(color),
        plane_opacity=1.0,
        shadow_opacity=0.25,
    )


def split_creases(triangles: Triangles) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices [n, 3] and faces [m, 3] in which corners share a vertex only if they share a normal.

    The browser smooths the shading across all faces at a vertex.
    """
    corners = np.column_stack([triangles.faces.ravel(), np.round(triangles.normals.reshape(-1, 3), 3)])
    _, first, number = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    return triangles.vertices[triangles.faces.ravel()[first]], number.reshape(-1, 3)


def byte_color(rgba: Sequence[float]) -> tuple[int, int, int]:
    """Return red, green and blue from 0 to 255."""
    red, green, blue = (round(255 * min(max(float(c), 0.0), 1.0)) for c in rgba[:3])
    return red, green, blue


def see_through(alpha: float) -> float | None:
    """Return the opacity in viser's convention: None if opaque."""
    return float(alpha) if alpha < 1.0 else None


def to_wxyz(xyzw: np.ndarray) -> np.ndarray:
    """Convert quaternions [..., 4] to viser's order."""
    return np.roll(xyzw, 1, axis=-1)


class TendonLines:
    """Lines along the spatial tendons of a model; nothing without tendons.

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
        """True if there are tendons to draw."""
        return self._node is not None

    def update(self, poses: np.ndarray) -> None:
        """Move the lines to link poses [num_worlds, num_links, 7], each in the frame of its world."""
        if self._node is not None:
            pieces = [
                tendon_pieces(self._model, of_world) + offset
                for of_world, offset in zip(poses, self._offsets, strict=True)
            ]
            self._node.points = np.concatenate(pieces).astype(np.float32)

    def show(self, visible: bool) -> None:
        """Show or hide the lines."""
        if self._node is not None:
            self._node.visible = visible
