"""A box that a kinematic body pushes, lifts, and carries by friction: belt, turntable, shaken table."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from scenes.physics.scene import G, Motion, PhysicsScene, Quantity
from sim import ModelBuilder
from sim.model.builder.properties import Surface
from sim.model.model import Model

FRICTION = 0.5
SIZE = 0.1  # half extent of the box [m]
DT = 1e-3
CREEP = "friction that sticks creeps by its regularisation"
STEP = "one step at the speed of the body"


def belt(speed: float) -> PhysicsScene:
    """Build a belt that starts at once: the box slips until it is as fast, and follows from then on."""
    model, rest = _on_a_slide("belt", (1, 0, 0))
    slip = speed**2 / (2 * FRICTION * G)
    seconds = speed / (FRICTION * G) + 0.3
    quantities = (
        Quantity("slip", "m", slip, speed * DT, STEP, lambda m: float(m.q[-1, 0] - m.q[-1, 1])),
        Quantity("speed of the box", "m/s", speed, 1e-3 * speed, CREEP, lambda m: float(m.qd[-1, 1])),
    )
    return _scene(f"box on a belt of {speed:g} m/s", model, rest, seconds, lambda time: [speed], quantities)


def lift(speed: float) -> PhysicsScene:
    """Build a platform that goes up and stops, never faster downwards than its load falls."""
    model, rest = _on_a_slide("mast", (0, 0, 1))
    rate = 0.9 * G / speed  # of v (1 - cos) / 2, whose largest acceleration is half of that times v
    quantities = (
        Quantity(
            "gap", "m", 0.0, 1e-5, "sag of the contacts", lambda m: float(np.abs(m.q[:, 3] - m.q[:, 0] - rest).max())
        ),
        Quantity("height", "m", np.pi * speed / rate, 1e-5, "sag of the contacts", lambda m: float(m.q[-1, 3] - rest)),
    )  # fmt: skip
    seconds = DT * round(2 * np.pi / rate / DT)
    pace = lambda time: [0.5 * speed * (1 - np.cos(rate * (time + 0.5 * DT)))]  # noqa: E731
    return _scene(f"box on a lift of {speed:g} m/s", model, rest, seconds, pace, quantities)


def pusher(speed: float) -> PhysicsScene:
    """Build a wall that starts at once and pushes the box over the ground."""
    builder = ModelBuilder()
    builder.add_ground(surface=Surface(friction=FRICTION))
    builder.add_link("wall", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("rail", "prismatic", child="wall", position=(-0.15, 0, 0.15), axis=(1, 0, 0), kinematic=True)
    builder.add_geometry("wall", "box", size=(0.05, 0.5, 0.1), surface=Surface(friction=0.0))
    builder.add_box(half_extents=(SIZE,) * 3, mass=1.0, position=(0.0, 0.0, SIZE))
    model = builder.finalize("float64")
    quantities = (
        Quantity("overlap", "m", 0.0, 2e-5, "weight on the contacts", lambda m: float((m.q[:, 0] - m.q[:, 1]).max())),
        Quantity("speed of the box", "m/s", speed, 1e-3 * speed, CREEP, lambda m: float(m.qd[-1, 1])),
    )
    return _scene(f"box before a wall of {speed:g} m/s", model, 0.0, 0.5, lambda time: [speed], quantities)


def turntable() -> PhysicsScene:
    """Build a table that is spun up with a box on it, which friction holds throughout."""
    spin, radius = 2.0, 0.4
    builder = ModelBuilder()
    builder.add_link("table", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("axle", "revolute", child="table", axis=(0, 0, 1), kinematic=True)
    builder.add_geometry("table", "box", size=(1.0, 1.0, 0.05), surface=Surface(friction=1.0))
    builder.add_box(
        half_extents=(SIZE,) * 3, mass=1.0, position=(radius, 0.0, 0.05 + SIZE), surface=Surface(friction=FRICTION)
    )
    model = builder.finalize("float64")
    quantities = (
        Quantity("radius", "m", radius, 2e-3, CREEP, lambda m: float(np.hypot(m.q[-1, 1], m.q[-1, 2]))),
        Quantity("lag", "rad", 0.0, 3e-3, CREEP, _lag),
    )
    return _scene("box on a turntable", model, 0.0, 2.0, lambda time: [min(time, 1.0) * spin], quantities)


def shaken(ratio: float) -> PhysicsScene:
    """Build a table that is shaken sideways, with ``ratio`` times the acceleration that friction can give the box."""
    size, rate = 0.05, float(np.sqrt(ratio * FRICTION * G / 0.05))
    model, rest = _on_a_slide("rail", (1, 0, 0))
    seconds = DT * round(2.5 * np.pi / rate / DT) * 2
    expected = _position(size, rate, seconds)
    bound = 4 * size * rate * DT
    quantities = (
        Quantity("position of the box", "m", expected, bound, "a step at each reversal", lambda m: float(m.q[-1, 1])),
    )
    speed = lambda time: [size * (np.sin(rate * (time + DT)) - np.sin(rate * time)) / DT]  # noqa: E731
    name = f"box on a table shaken with {ratio:g} of the acceleration of friction"
    return _scene(name, model, rest, seconds, speed, quantities)


def _on_a_slide(joint: str, axis: tuple[int, int, int]) -> tuple[Model, float]:
    """Return a box on a wide plate on a slide, and the height of its centre above the plate's."""
    builder = ModelBuilder()
    builder.add_link("plate", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint(joint, "prismatic", child="plate", axis=axis, kinematic=True)
    builder.add_geometry("plate", "box", size=(10.0, 1.0, 0.05), surface=Surface(friction=1.0))
    builder.add_box(
        half_extents=(SIZE,) * 3, mass=1.0, position=(0.0, 0.0, 0.05 + SIZE), surface=Surface(friction=FRICTION)
    )
    return builder.finalize("float64"), 0.05 + SIZE


def _scene(
    name: str,
    model: Model,
    rest: float,
    seconds: float,
    speed: Callable[[float], list[float]],
    quantities: tuple[Quantity, ...],
) -> PhysicsScene:
    given = np.array([speed(DT * step) for step in range(round(seconds / DT))])
    return PhysicsScene(name, model, np.zeros(model.nv), DT, seconds, quantities, given)


def _lag(motion: Motion) -> float:
    angle = np.unwrap(np.arctan2(motion.q[:, 2], motion.q[:, 1]))
    return float(motion.q[-1, 0] - angle[-1])


def _position(size: float, rate: float, end: float) -> float:
    """Return where Coulomb friction takes a body at rest on a table at ``size sin(rate t)``."""

    def table(time: float) -> float:
        return float(size * rate * np.cos(rate * time))

    time, place, speed, most = 0.0, 0.0, 0.0, FRICTION * G
    while time < end:
        ahead = np.minimum(time + 1e-4 / rate + np.linspace(0.0, np.pi / rate, 4001), end)
        pull = -size * rate**2 * np.sin(rate * (time + 1e-6 / rate))
        if abs(table(time) - speed) < 1e-9 * size * rate and abs(pull) <= most:
            # Sticks until the table accelerates more than friction can.
            slips = np.abs(size * rate**2 * np.sin(rate * ahead)) > most
            until = float(ahead[np.argmax(slips)]) if slips.any() else float(ahead[-1])
            place += size * (np.sin(rate * until) - np.sin(rate * time))
            time, speed = until, table(until)
            continue
        gap = table(time) - speed
        push = most * np.sign(gap if abs(gap) > 1e-9 * size * rate else pull)
        slip = size * rate * np.cos(rate * ahead) - speed - push * (ahead - time)
        crosses = np.flatnonzero(slip * np.sign(push) <= 0.0)
        until = float(ahead[-1])
        if len(crosses) and crosses[0] > 0:
            bracket = ahead[crosses[0] - 1], ahead[crosses[0]]
            until = float(brentq(lambda t: table(t) - speed - push * (t - time), *bracket, xtol=1e-14))  # noqa: B023
        place += speed * (until - time) + 0.5 * push * (until - time) ** 2
        speed, time = speed + push * (until - time), until
    return place
