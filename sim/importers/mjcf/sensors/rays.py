"""Which geoms of an MJCF file rangefinders meet."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.importers.decomposition import is_convex_solid
from sim.importers.mjcf.geoms.meshes import mesh_of
from sim.importers.mjcf.notes import names_of
from sim.importers.mjcf.reader import Reader
from warp_kernels import types as codes


def met_by_rays(reader: Reader) -> np.ndarray:
    """Whether rangefinders of the file meet a geom: all that aren't invisible, whatever their group [ngeom]."""
    return np.asarray(bool(_rangefinders(reader)) & ~_invisible(reader))


def notes_on_rays(reader: Reader, shapes: Mapping[int, Sequence[str]]) -> list[str]:
    """Notes on what rangefinders meet in MuJoCo but not here, or the reverse.

    Args:
        reader: of the file.
        shapes: names of the geometries, by geom.
    """
    if not _rangefinders(reader):
        return []
    blind = [sensor for sensor in _rangefinders(reader) if _is_beside_geoms(reader, sensor)]
    invisible = [geom for geom in np.flatnonzero(_invisible(reader)).tolist() if geom in shapes]
    hulls = [geom for geom, names in shapes.items() if _is_in_its_hull(reader, geom, names)]
    notes = (
        ("rangefinders meet invisible geoms", "geom", invisible),
        ("rangefinders meet the hulls of meshes", "geom", hulls),
        ("rangefinders pass through geoms of bodies that are fixed to theirs", "sensor", blind),
    )
    return [f"{what} ({names_of(reader.file, kind, which)})" for what, kind, which in notes if which]


def _rangefinders(reader: Reader) -> list[int]:
    """The indices of the file's rangefinders."""
    kind = int(reader.file.mujoco.mjtSensor.mjSENS_RANGEFINDER)
    return np.flatnonzero(reader.file.model.sensor_type == kind).tolist()


def _is_beside_geoms(reader: Reader, sensor: int) -> bool:
    """Whether visible geoms belong to other bodies that are fixed to that of a rangefinder's site or camera."""
    model, index = reader.file.model, int(reader.file.model.sensor_objid[sensor])
    of_camera = model.sensor_objtype[sensor] == reader.file.mujoco.mjtObj.mjOBJ_CAMERA
    body = int((model.cam_bodyid if of_camera else model.site_bodyid)[index])
    beside = (model.body_weldid[model.geom_bodyid] == model.body_weldid[body]) & (model.geom_bodyid != body)
    return bool(np.any(beside & ~_invisible(reader)))


def _is_in_its_hull(reader: Reader, geom: int, names: Sequence[str]) -> bool:
    """Whether a mesh that isn't convex collides as convex geometries, which are met before it is."""
    if not names or reader.builder.geometries[names[0]].geometry.type != codes.CONVEX:
        return False
    collides = reader.builder.geometries[names[0]].geometry.collides
    return collides and not is_convex_solid(mesh_of(reader, int(reader.file.model.geom_dataid[geom])))


def _invisible(reader: Reader) -> np.ndarray:
    """Whether a geom's material, or the geom itself without one, is wholly transparent [ngeom]."""
    model = reader.file.model
    own = np.array(model.geom_rgba[:, 3])
    with_material = model.geom_matid >= 0
    own[with_material] = model.mat_rgba[model.geom_matid[with_material], 3]
    return np.asarray(own == 0.0)
