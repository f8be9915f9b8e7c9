"""Writes many worlds to one file: one PointInstancer per link, one instance per world."""

import numpy as np
from pxr import Sdf, Usd, UsdGeom

from sim.model.model import Model
from sim.render.shapes import tessellate
from sim.render.view import transform_points
from sim.usd.links import link_paths
from sim.usd.materials import Materials
from sim.usd.motion import InstanceMotion
from sim.usd.shapes import add_visual, child_name


def add_instancers(
    stage: Usd.Stage, model: Model, num_worlds: int, materials: Materials
) -> list[tuple[int, InstanceMotion]]:
    """Draw every link in every world. Links without visible geometry are omitted.

    Returns:
        the links drawn, each with its motion.
    """
    paths = link_paths(model)
    for parent in sorted({path.GetParentPath() for path in paths}):
        UsdGeom.Xform.Define(stage, parent)
    motions = []
    for link, path in enumerate(paths):
        visuals = [geometry for geometry in model.geometries if geometry.link == link and geometry.visible]
        if not visuals:
            continue
        corners = [transform_points(geometry.placement, tessellate(geometry).vertices) for geometry in visuals]
        reach = float(np.linalg.norm(np.concatenate(corners), axis=1).max())
        motion = InstanceMotion(stage, path, path.AppendChild("prototype"), num_worlds, reach)
        prototype = UsdGeom.Xform.Define(stage, path.AppendChild("prototype"))
        taken: set[str] = set()
        for geometry in visuals:
            name = child_name(geometry.name.rsplit("/", 1)[-1], taken)
            add_visual(stage, Sdf.Path(prototype.GetPath()).AppendChild(name), geometry, materials)
        motions.append((link, motion))
    return motions
