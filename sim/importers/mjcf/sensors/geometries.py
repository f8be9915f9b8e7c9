"""What sensors of an MJCF file look at that goes by geoms: contacts, distances, and zones of sites."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.model.sensors.kinds import CONTACT_CHOICES, CONTACT_READINGS, ZONE_SIZES
from sim.model.sensors.place import have_distance


def contact_sensor(reader: Reader, number: int, shapes: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """Attributes of a sensor of contacts; its readings and choices have MuJoCo's order here."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    bits, choice, most = map(int, model.sensor_intprm[number][:3])
    attributes: dict[str, Any] = {
        "readings": tuple(name for place, name in enumerate(CONTACT_READINGS) if bits >> place & 1),
        "choice": CONTACT_CHOICES[choice],
        "most": most,
        "target": "world",
        "against": _names(shapes, _geoms(reader, model.sensor_reftype[number], model.sensor_refid[number])),
    }
    index = int(model.sensor_objid[number])
    if model.sensor_objtype[number] == kinds.mjOBJ_SITE:
        return attributes | zone(reader, index) | {"target": reader.sites[index]}
    return attributes | {"geometries": _names(shapes, _geoms(reader, model.sensor_objtype[number], index))}


def near_geometries(reader: Reader, number: int, shapes: Mapping[int, Sequence[str]]) -> dict[str, Any] | None:
    """Both sides of a sensor of distances; None where the model lacks some of their geoms, or a distance of theirs."""
    model = reader.file.model
    first = _geoms(reader, model.sensor_objtype[number], model.sensor_objid[number])
    second = _geoms(reader, model.sensor_reftype[number], model.sensor_refid[number])
    if not all(shapes.get(geom) for geom in (*(first or ()), *(second or ()))):
        return None
    sides = _names(shapes, first) or (), _names(shapes, second) or ()
    if not (sides[0] and sides[1] and all(have_distance(reader.builder, *pair) for pair in product(*sides))):
        return None
    return dict(zip(("geometries", "against"), sides, strict=True))


def zone(reader: Reader, site: int) -> dict[str, Any]:
    """Shape and size of a site."""
    model = reader.file.model
    shape = reader.file.mujoco.mjtGeom(int(model.site_type[site])).name.removeprefix("mjGEOM_").lower()
    return {"zone": shape, "zone_size": tuple(map(float, model.site_size[site][: ZONE_SIZES[shape]]))}


def _geoms(reader: Reader, kind: int, index: int) -> list[int] | None:
    """The geoms of a geom, a body, or a body and all that it carries; None for any."""
    model, kinds = reader.file.model, reader.file.mujoco.mjtObj
    if kind == kinds.mjOBJ_GEOM:
        return [int(index)]
    if kind == kinds.mjOBJ_BODY:
        return np.flatnonzero(model.geom_bodyid == index).tolist()
    if kind != kinds.mjOBJ_XBODY:
        return None
    carried = {int(index)}
    for body in range(int(index) + 1, model.nbody):
        if int(model.body_parentid[body]) in carried:
            carried.add(body)
    return [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in carried]


def _names(shapes: Mapping[int, Sequence[str]], geoms: Sequence[int] | None) -> tuple[str, ...] | None:
    return None if geoms is None else tuple(name for geom in geoms for name in shapes.get(geom, ()))
