"""Lights of an MJCF file, its headlight and its ambient light.

MuJoCo adds colours of the screen; their light is linear here, at a distance of 1 m.
"""

from collections import defaultdict

import numpy as np
from scipy.spatial.transform import Rotation

from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.sky import add_sky
from sim.importers.mjcf.tree import Mount, mount_of
from sim.model.looks.lights import Light, aimed
from sim.model.poses import compose, inverse
from sim.render.colors import light_of

SPECULAR = 0.3 / 0.7  # specular over diffuse light of a light that states neither
HEADLIGHT, AMBIENT = "headlight", "ambient"
TURNING = "lights that turn to a body, or follow the centre of mass of a fixed one, keep their direction in the link"


def add_lights(reader: Reader) -> None:
    """Add the sky and the lights that are on, and if there are any the headlight and the sum of all ambient light.

    Note what isn't kept.
    """
    model, notes = reader.file.model, defaultdict[str, list[str]](list)
    kinds = _kinds(reader)
    shown = []
    for light, kind in enumerate(kinds):
        name = reader.name("light", light, f"light_{light}", reader.builder.lights)
        if not model.light_active[light]:
            notes["skipped: lights that are off"].append(name)
        elif kind == "image":
            notes["skipped: lights that are images"].append(name)
        else:
            _add_light(reader, light, kind, name, notes)
            shown.append(light)
    reader.notes += [f"{what}: {', '.join(names)}" for what, names in notes.items()]
    if add_sky(reader) or shown:
        _add_headlight(reader, model.light_ambient[shown].sum(axis=0))


def _kinds(reader: Reader) -> list[str]:
    """Return "spot", "directional", "point" or "image" for each light."""
    types = reader.file.mujoco.mjtLightType
    return [types(int(kind)).name.removeprefix("mjLIGHT_").lower() for kind in reader.file.model.light_type]


def _add_light(reader: Reader, light: int, kind: str, name: str, notes: dict[str, list[str]]) -> None:
    model, builder = reader.file.model, reader.builder
    at_first = Rotation.from_quat(aimed(model.light_dir0[light]))
    mount = mount_of(reader, "light", light, aimed(model.light_dir[light]), at_first)
    if mount is None:
        notes[TURNING].append(name)
        mount = _posed_at_first(reader, light)
    falloff = tuple(np.maximum(model.light_attenuation[light], 0.0).tolist())
    own = Light(
        "directional" if kind == "directional" else "point",
        _color(model.light_diffuse[light]),
        attenuation=falloff if any(falloff) and kind != "directional" else (1.0, 0.0, 0.0),
        cone=float(np.clip(model.light_cutoff[light], 0.0, 180.0)) if kind == "spot" else 180.0,
        exponent=max(float(model.light_exponent[light]), 0.0) if kind == "spot" else 0.0,
        size=tuple(_bulb(reader, light)) if kind != "directional" else (),
        specular=_specular(model.light_diffuse[light], model.light_specular[light], name, notes),
        shadow=bool(model.light_castshadow[light]),
    )
    with reader.file.located("light", light, f"light '{name}'"):
        builder.add_light(
            name, own, mount.link, mount.placement[:3], mount.placement[3:], follows=mount.follows, point=mount.point
        )


def _posed_at_first(reader: Reader, light: int) -> Mount:
    """Return the link of a light, and its pose there at the first coordinates."""
    model, mujoco = reader.file.model, reader.file.mujoco
    data, body = mujoco.MjData(model), int(model.light_bodyid[light])
    for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight):
        compute(model, data)
    seen = np.concatenate([data.light_xpos[light], aimed(data.light_xdir[light])])
    local = compose(inverse(pose(data.xpos[body], data.xquat[body])), seen)
    return Mount(reader.links[body], compose(reader.frames[body], local), "link", (0.0, 0.0, 0.0))


def _add_headlight(reader: Reader, ambient: np.ndarray) -> None:
    """Add the headlight, and the ambient light of all lights [3] with its own as light of the sky; once in a scene."""
    head, builder = reader.file.model.vis.headlight, reader.builder
    if head.active:
        ambient = ambient + head.ambient
        if np.any(head.diffuse) and HEADLIGHT not in builder.lights:
            notes = defaultdict[str, list[str]](list)
            share = _specular(np.array(head.diffuse), np.array(head.specular), HEADLIGHT, notes)
            reader.notes += [f"{what}: {HEADLIGHT}" for what in notes]
            builder.add_light(HEADLIGHT, Light("headlight", _color(head.diffuse), specular=share))
    if np.any(ambient) and AMBIENT not in builder.lights:
        builder.add_light(AMBIENT, Light("sky", _color(ambient)))


def _bulb(reader: Reader, light: int) -> list[float]:
    """Return the radius of the bulb, in a list; an empty one without."""
    radius = float(reader.file.array("light_bulbradius", np.zeros(reader.file.model.nlight))[light])
    return [radius] if radius > 0.0 else []


def _specular(diffuse: np.ndarray, specular: np.ndarray, name: str, notes: dict[str, list[str]]) -> float:
    """Return the factor of highlights: specular over diffuse light, compared with that of MuJoCo's default."""
    if not np.any(diffuse):
        return 0.0
    share = float(specular.sum() / diffuse.sum())
    if np.abs(specular - share * diffuse).max() > 0.1:
        notes["of specular colours of lights the mean is used"].append(name)
    return share / SPECULAR


def _color(screen: np.ndarray) -> tuple[float, float, float]:
    red, green, blue = light_of(np.maximum(np.array(screen, dtype=np.float64), 0.0)).tolist()
    return red, green, blue
