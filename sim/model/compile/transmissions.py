"""Actuators on frames and contacts: placement of the frames, and geometries of the adhesions."""

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Homes
from sim.model.poses import IDENTITY, compose
from sim.model.specs import WORLD, WorldSpec
from sim.model.topology import NO_LINK, Transmissions


def lay_out_transmissions(world: WorldSpec, home: Homes) -> tuple[Transmissions, dict[str, np.ndarray]]:
    """Return the actuators on frames and contacts, and their parameters by name; empty without such actuators.

    Raises:
        ModelError: naming the actuator, for an unknown frame or link.
    """
    specs = [spec for spec in world.actuators.values() if spec.frame is not None or spec.adhesion is not None]
    if not specs:
        return Transmissions(), {}
    numbers = {name: number for number, name in enumerate(world.actuators)}
    nowhere = NO_LINK, IDENTITY
    frames = [nowhere if s.frame is None else _placed(s.name, s.frame, world, home) for s in specs]
    references = [nowhere if s.reference is None else _placed(s.name, s.reference, world, home) for s in specs]
    adheres = np.zeros((len(specs), len(world.geometries)), dtype=np.int32)
    for row, spec in enumerate(specs):
        if spec.adhesion is not None:
            if spec.adhesion not in home:
                raise ModelError(f"actuator '{spec.name}': unknown link '{spec.adhesion}'")
            adheres[row] = [each.link == spec.adhesion for each in world.geometries.values()]
    found = Transmissions(
        actuator=np.array([numbers[spec.name] for spec in specs], dtype=np.int32),
        target=tuple(str(spec.frame or spec.adhesion) for spec in specs),
        reference=tuple(spec.reference or "" for spec in specs),
        link=np.array([link for link, _ in frames], dtype=np.int32),
        placement=np.array([placement for _, placement in frames]),
        reference_link=np.array([link for link, _ in references], dtype=np.int32),
        reference_placement=np.array([placement for _, placement in references]),
        adheres=adheres,
    )
    axes = {
        f"actuator_{name}": np.array([getattr(spec, name) for spec in world.actuators.values()])
        for name in ("force_axis", "torque_axis")
    }
    return found, axes


def _placed(actuator: str, frame: str, world: WorldSpec, home: Homes) -> tuple[int, np.ndarray]:
    """Return the body of a frame or link, and the placement there [7]."""
    if frame == WORLD:
        return -1, IDENTITY
    link, placement = world.frames.get(frame, (frame, IDENTITY))
    if link not in home:
        raise ModelError(f"actuator '{actuator}': unknown frame '{frame}'")
    number, base = home[link]
    return number, compose(base, placement)
