"""The browser's view of a model: shapes, ground, names, arrows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.model.model import Model
from sim.render import Camera, Marker, fit_camera
from sim.render.fit import fit_worlds_camera
from sim.render.view import length_unit, visible_planes, visible_solids
from sim.simulation.contacts import Contacts
from sim.viewer.arrows import Arrows, typical_force
from sim.viewer.geometries import Shapes, TendonLines, add_plane, byte_color
from sim.viewer.labels import Axes, Labels
from sim.viewer.lights import SceneLights
from sim.viewer.pull import Pull
from warp_kernels import types as codes

if TYPE_CHECKING:
    from viser import SceneApi, SceneNodeDragEvent

FORCE, GRADIENT = (214, 0, 147), (0, 150, 70)
PULL, PULL_WIDTH = (20, 90, 220), 3.0  # the width in pixels
COLLIDER = (1.0, 0.55, 0.15, 0.4)
# Lengths of the reference arrows, relative to the height of one world's picture.
FORCE_LENGTH, GRADIENT_LENGTH = 0.5, 0.2


class Picture:
    """Everything drawn of all worlds.

    Args:
        scene: scene of the viser server.
        model: the model of one world.
        poses: initial link poses [num_worlds, num_links, 7].
        offsets: displayed position of the origin of each world [num_worlds, 3].
        markers: fixed balls in every world.

    Raises:
        ModelError: for a plane on a link.
    """

    def __init__(
        self, scene: SceneApi, model: Model, poses: np.ndarray, offsets: np.ndarray, markers: Sequence[Marker]
    ):
        self._scene, self._model, self._offsets = scene, model, offsets
        camera = fit_camera(model, poses[:1])
        height = 2.0 * camera.distance * np.tan(np.radians(camera.fov) / 2.0)
        scene.set_up_direction("+z")
        self._lights = SceneLights(scene, model, poses, offsets, np.array(camera.position))
        for k in visible_planes(model):
            size = camera.distance + float(np.linalg.norm(np.ptp(offsets, axis=0)))
            add_plane(scene, f"/ground/{k}", model.geometries[k], length_unit(camera.distance), size)
        for world, update in enumerate(offsets):
            for marker in markers:
                scene.add_icosphere(
                    f"/markers/{world}_{marker.name}", marker.radius, byte_color(marker.color),
                    position=update + np.asarray(marker.position),
                )  # fmt: skip
        self._visuals = Shapes(scene, "/shapes", [model.geometries[k] for k in visible_solids(model)], offsets)
        self._colliders: Shapes | None = None
        self._tendons = TendonLines(scene, "/tendons", model, offsets)
        self._axes = Axes(scene, "/axes", len(offsets) * model.num_links, 0.08 * height)
        moving = [
            "" if kind == codes.FIXED else name for name, kind in zip(model.joint_names, model.joint_type, strict=True)
        ]
        self._link_names = Labels(scene, "/link_names", model.link_names, "bottom-left")
        self._joint_names = Labels(scene, "/joint_names", moving, "top-left")
        self._forces = Arrows(scene, "/contacts", FORCE, FORCE_LENGTH * height, dots=True)
        self._gradients = Arrows(scene, "/gradients", GRADIENT, GRADIENT_LENGTH * height, dots=False)
        self._pull: Any = scene.add_line_segments(
            "/pull", np.zeros((1, 2, 3)), PULL, thickness=PULL_WIDTH, thickness_units="screen", visible=False
        )
        self._typical_force = typical_force(model)
        self.update(poses, 0)

    def update(self, poses: np.ndarray, world: int) -> None:
        """Move everything to link poses [num_worlds, num_links, 7]. Names are shown for ``world`` only."""
        self._poses = poses
        origins = poses.copy()
        origins[..., :3] += self._offsets[:, None]
        self._lights.update(poses)
        self._visuals.update(poses)
        self._tendons.update(poses)
        if self._colliders is not None:
            self._colliders.update(poses)
        self._axes.update(origins.reshape(-1, 7))
        for labels in (self._link_names, self._joint_names):
            labels.update(origins[world, :, :3])

    def camera_at(self, world: int) -> Camera:
        """Return a camera that sees exactly one world, at its displayed position."""
        one = slice(world, world + 1)
        return fit_worlds_camera(self._model, self._poses[None, one], self._offsets[one], aspect=1.0, margin=1.3)

    def draw_contacts(self, contacts: Contacts) -> None:
        """Draw points and forces of the contacts with non-zero force."""
        self._forces.draw(contacts.point + self._offsets[contacts.world], contacts.force, self._typical_force)

    def on_drag(self, dragged: Callable[[int, int, np.ndarray, np.ndarray, bool], None]) -> None:
        """Call a function when the user drags a shape of a link with Ctrl or Cmd.

        Args:
            dragged: gets the indices of world and link, the point of the link and the pointer, both in the frame of the
                world [3], and whether the user still holds it.
        """

        def run(link: int, event: SceneNodeDragEvent[Any]) -> None:
            world = event.instance_index or 0
            point = np.asarray(event.start_position) - self._offsets[world]
            pointer = np.asarray(event.end_position) - self._offsets[world]
            dragged(world, link, point, pointer, event.phase != "end")

        self._visuals.on_drag(run)

    def draw_pull(self, pull: Pull | None) -> None:
        """Draw a line from the point of a link that the user pulls on to the pointer, or remove it."""
        if pull is not None:
            ends = np.stack([pull.grabbed(self._poses), pull.target]) + self._offsets[pull.world]
            self._pull.points = ends[None].astype(np.float32)
        self._pull.visible = pull is not None

    def draw_gradients(self, points: np.ndarray, vectors: np.ndarray, worlds: np.ndarray) -> None:
        """Draw vectors [n, 3] at points [n, 3] of worlds [n], scaled so that the longest has the reference length."""
        longest = float(np.linalg.norm(vectors, axis=1).max(initial=0.0))
        self._gradients.draw(points + self._offsets[worlds], vectors, longest if longest > 0.0 else 1.0)

    def draw_link_gradients(self, vectors: np.ndarray) -> None:
        """Draw vectors [num_worlds, num_links, 3] at the origins of the links."""
        worlds = np.repeat(np.arange(len(self._offsets)), self._model.num_links)
        self.draw_gradients(self._poses[..., :3].reshape(-1, 3), vectors.reshape(-1, 3), worlds)

    def clear_contacts(self) -> None:
        """Remove the contact forces."""
        self._forces.clear()

    def clear_gradients(self) -> None:
        """Remove the gradients."""
        self._gradients.clear()

    def zoom_arrows(self, factor: float) -> None:
        """Scale the length of all arrows by a factor."""
        self._forces.zoom(factor)
        self._gradients.zoom(factor)

    def fade(self, opacity: float) -> None:
        """Set the opacity of the shapes."""
        self._visuals.fade(opacity)

    @property
    def switches(self) -> Sequence[tuple[str, bool, Callable[[bool], None]]]:
        """Return switches for showing and hiding: name, initial value, and a function that applies it."""
        bare = not any(geometry.visible for geometry in self._model.geometries)
        return (
            ("Shapes", True, self._visuals.show),
            ("Collision shapes", False, self._show_colliders),
            ("Link axes", bare, self._axes.show),
            ("Link names", False, self._link_names.show),
            ("Joint names", False, self._joint_names.show),
            *((("Tendons", True, self._tendons.show),) if self._tendons.any else ()),
            ("Contact forces", True, self._forces.show),
            ("Gradients", True, self._gradients.show),
        )

    @property
    def legend(self) -> str:
        """The scale of the arrows."""
        return f"{self._forces.legend('contact force', ' N')}{self._gradients.legend('gradient', '')}"

    def _show_colliders(self, visible: bool) -> None:
        if self._colliders is None and visible:  # created when first shown
            touching = [g for g in self._model.geometries if g.collides and g.type != codes.PLANE]
            self._colliders = Shapes(self._scene, "/colliders", touching, self._offsets, COLLIDER)
            self._colliders.update(self._poses)
        if self._colliders is not None:
            self._colliders.show(visible)
