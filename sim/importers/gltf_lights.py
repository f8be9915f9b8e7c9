"""Lights of glTF files: the extension KHR_lights_punctual."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.builder import WorldBuilder
from sim.model.checks import free_name, is_whole
from sim.model.looks.lights import Light, MountedLight, aimed
from sim.model.poses import compose

EXTENSION = "KHR_lights_punctual"
KINDS = {"directional", "point", "spot"}
ANGLE = np.pi / 4.0  # of a cone that states none


def lights_of(description: dict[str, Any], notes: list[str]) -> list[MountedLight]:
    """Return the lights of the nodes of a file in its frame; those that can't be read are noted.

    Args:
        description: JSON text of a file whose nodes have been checked.
        notes: added to.
    """
    listed = _extension(description).get("lights")
    stated = listed if isinstance(listed, list) else []
    nodes = description.get("nodes", [])
    carriers = [number for number, node in enumerate(nodes) if "light" in _extension(node)]
    parents = {child: number for number, node in enumerate(nodes) for child in node.get("children", ())}
    shown = _roots(description)
    found: list[MountedLight] = []
    for number in carriers:
        name = str(nodes[number].get("name", f"light_{number}"))
        try:
            index = _extension(nodes[number])["light"]
            if not is_whole(index, 0):
                raise ValueError(f"its index is {index!r:.80}")
            light, matrix, top = _light(stated[index]), _matrix(nodes[number]), number
            while top in parents:
                top = parents[top]
                matrix = _matrix(nodes[top]) @ matrix
            if shown is not None and top not in shown:
                raise ValueError("its node isn't part of the scene")
            axis = -matrix[:3, 2] / np.linalg.norm(matrix[:3, 2])
            placement = np.concatenate([matrix[:3, 3], aimed(axis)])
            if not np.isfinite(placement).all():
                raise ValueError("its pose is not finite")
            found.append(MountedLight(name, light, -1, placement))
        except (ModelError, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
            notes.append(f"ignored: light '{name}': {error}")
    return found


def add_lights(builder: WorldBuilder, lights: list[MountedLight], link: str, around: np.ndarray) -> None:
    """Add the lights of a mesh to a link, in which the mesh has a pose [7]."""
    for one in lights:
        placed = compose(around, one.placement)
        builder.add_light(free_name(f"{link}/{one.name}", builder.lights), one.light, link, placed[:3], placed[3:])


def _roots(description: dict[str, Any]) -> list[Any] | None:
    """Return the nodes at the top of the scene that a file shows; None if it has no scenes."""
    scenes, number = description.get("scenes"), description.get("scene", 0)
    scene = scenes[number] if isinstance(scenes, list) and is_whole(number, 0) and number < len(scenes) else None
    return list(scene.get("nodes", ())) if isinstance(scene, dict) else None


def _extension(item: dict[str, Any]) -> dict[str, Any]:
    """Return what an object says of lights; an empty dictionary if nothing."""
    extensions = item.get("extensions")
    own = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    return own if isinstance(own, dict) else {}


def _light(stated: dict[str, Any]) -> Light:
    """Return a light. glTF has lux and candela: pi times the light that a white surface reflects, at 1 m."""
    kind, spot = stated["type"], stated.get("spot", {})
    if kind not in KINDS:
        raise ValueError(f"its type is {kind!r}")
    red, green, blue = (np.array(stated.get("color", (1.0, 1.0, 1.0)), dtype=np.float64).reshape(3)).tolist()
    strength = float(stated.get("intensity", 1.0)) / np.pi
    outer, inner = float(spot.get("outerConeAngle", ANGLE)), float(spot.get("innerConeAngle", 0.0))
    return Light(
        "directional" if kind == "directional" else "point", (strength * red, strength * green, strength * blue),
        cone=float(np.degrees(outer)) if kind == "spot" else 180.0,
        softness=float(np.clip(1.0 - inner / outer, 0.0, 1.0)) if kind == "spot" and outer > 0.0 else 0.0,
    )  # fmt: skip


def _matrix(node: dict[str, Any]) -> np.ndarray:
    """Return the transform of a node [4, 4], for column vectors."""
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    turn = Rotation.from_quat(node.get("rotation", (0.0, 0.0, 0.0, 1.0))).as_matrix()
    matrix[:3, :3] = turn * np.array(node.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64).reshape(3)
    matrix[:3, 3] = np.array(node.get("translation", (0.0, 0.0, 0.0)), dtype=np.float64).reshape(3)
    return matrix
