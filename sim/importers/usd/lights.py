"""Lights of a stage as lights of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pxr import Sdf, Usd

from sim.errors import ModelError
from sim.importers.radiance import read_sky
from sim.importers.usd.looks import read_image
from sim.importers.usd.reader import Reader
from sim.importers.usd.stage import moving_attributes
from sim.model.looks.lights import MountedLight
from sim.model.specs import WORLD
from sim.usd.lights import image_of, is_light, kept_headlights, light_of_prim, not_shown, sky_placement


def add_lights(reader: Reader) -> None:
    """Add the visible lights of the stage, to the links of the bodies above them; note what isn't shown of them."""
    scene = reader.scene
    for prim in scene.prims():
        if not is_light(prim):
            continue
        path, body = prim.GetPath(), scene.body_of(prim.GetPath())
        try:
            pose, stretch = scene.placed(prim)
            local = reader.in_link(body, pose if body is None else scene.relative(body, pose))
            one = light_of_prim(prim, local, np.linalg.norm(stretch, axis=0), scene.length)
            asset = image_of(prim)
        except (ModelError, TypeError, ValueError) as error:  # the last two of values of another type
            scene.notes.append(f"ignored: light '{path}': {error}")
            continue
        scene.notes.extend(f"ignored: {what} of light '{path}'" for what in not_shown(prim))
        if asset is not None:
            one, body = _pictured(reader, prim, one, asset, pose), None
        if body is None and moving_attributes(prim):
            scene.notes.append(f"light '{path}' moves; it stays where it is at first")
        _add_light(reader, path, one, WORLD if body is None else reader.names[body])
    top = scene.stage.GetDefaultPrim()
    for one in kept_headlights(top) if top else ():
        _add_light(reader, top.GetPath(), one, WORLD)


def _pictured(
    reader: Reader, prim: Usd.Prim, one: MountedLight, asset: Sdf.AssetPath, pose: np.ndarray
) -> MountedLight:
    """Return a sky with its image, in the world; without one, with a note, if it can't be read."""
    texture = read_image(reader.scene, asset, read_sky)
    if texture is None:
        return one
    return replace(one, light=replace(one.light, texture=texture), placement=sky_placement(prim, pose), follows="link")


def _add_light(reader: Reader, path: Sdf.Path, one: MountedLight, link: str) -> None:
    reader.add(
        path, reader.builder.add_light, reader.unique(one.name, path, reader.builder.lights), one.light, link,
        one.placement[:3], one.placement[3:], follows=one.follows, point=one.point,
    )  # fmt: skip
