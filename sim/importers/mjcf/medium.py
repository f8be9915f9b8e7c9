"""The medium of an MJCF file and the boxes that it drags: MuJoCo's inertia-box model."""

import numpy as np

from sim.importers.mjcf.reader import Reader, pose
from sim.model.medium.medium import inertia_box
from sim.model.poses import compose

# MuJoCo leaves out lighter bodies [kg].
LIGHTEST = 1e-15


def add_medium(reader: Reader) -> None:
    """Fill the world with the file's medium, and add the box of each body that moves."""
    model = reader.file.model
    density, viscosity, wind = float(model.opt.density), float(model.opt.viscosity), np.array(model.opt.wind)
    if density == 0.0 and viscosity == 0.0:
        return
    before = reader.builder.medium
    reader.builder.set_medium(density, viscosity, wind)
    if before is not None and (before.density, before.viscosity) != (density, viscosity):
        reader.notes.append(f"the medium of the world becomes that of density {density:g} and viscosity {viscosity:g}")
    shaped = set(model.geom_bodyid[model.geom_fluid[:, 0] > 0.0].tolist())
    for body in range(1, model.nbody):
        moves = model.body_weldid[body] != 0
        if not moves or model.body_mass[body] < LIGHTEST:
            continue
        if body in shaped:
            label = reader.file.label("body", body)
            reader.notes.append(f"left out: fluidshape of geoms of {label}; the box of its inertia is dragged")
        placement = compose(reader.frames[body], pose(model.body_ipos[body], model.body_iquat[body]))
        reader.builder.add_drag_box(
            reader.links[body],
            size=inertia_box(float(model.body_mass[body]), np.array(model.body_inertia[body])),
            position=placement[:3],
            orientation=placement[3:],
        )
