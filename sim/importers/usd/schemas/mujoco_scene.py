"""Physics scenes in MuJoCo's schema: options, medium, and rules for masses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pxr import Usd

from sim.importers.usd.stage import Kind, Scene
from sim.model.model import MUJOCO_CONES, MUJOCO_INTEGRATORS, MujocoOptions
from sim.model.softness import LARGEST

# Defaults of the two schemas, which a file doesn't state: time step [s], steps per second.
TIMESTEP, RATE = 0.002, 1000.0


@dataclass(frozen=True)
class MassRules:
    """Rules of MuJoCo's compiler for the masses of bodies, in SI units.

    Attributes:
        least_mass: minimum mass of a body [kg].
        least_inertia: minimum principal moment of a body [kg m^2].
        balanced: whether moments that violate the triangle inequality are replaced by their mean.
        total: sum of the masses after scaling [kg]; None without scaling.
        groups: first and last group of colliders that have mass.
    """

    least_mass: float = 0.0
    least_inertia: float = 0.0
    balanced: bool = False
    total: float | None = None
    groups: tuple[float, float] = (-np.inf, np.inf)


def mujoco_scene(scene: Scene) -> Usd.Prim | None:
    """Return the file's physics scene if it has MuJoCo's schema; None otherwise."""
    prims = (scene.prim(found.primPath) for found in scene.of(Kind.Scene))
    return next((prim for prim in prims if scene.has_schema(prim, "MjcSceneAPI")), None)


def mass_rules(scene: Scene) -> MassRules:
    """Return the rules for masses of a file; without MuJoCo's schema those that change nothing.

    Raises:
        ImportFileError: naming the prim, for values that aren't finite numbers.
    """
    prim = mujoco_scene(scene)
    if prim is None:
        return MassRules()

    def number(name: str, default: float) -> float:
        value = scene.number(prim, f"mjc:compiler:{name}")
        if value is not None and not np.isfinite(value):
            raise scene.error(prim, f"mjc:compiler:{name} is {value}; it must be finite")
        return default if value is None else value

    total = number("setTotalMass", -1.0)
    return MassRules(
        least_mass=number("boundMass", 0.0) * scene.mass,
        least_inertia=number("boundInertia", 0.0) * scene.mass * scene.length**2,
        balanced=bool(scene.stated(prim, "mjc:compiler:balanceInertia")),
        total=total * scene.mass if total > 0.0 else None,
        groups=(number("inertiaGroupRange:min", 0.0), number("inertiaGroupRange:max", 5.0)),
    )


def medium(scene: Scene) -> tuple[float, float, np.ndarray] | None:
    """Return density [kg/m^3], viscosity [Pa s] and wind [3] (m/s, z up) of a file; None for empty space.

    Raises:
        ImportFileError: naming the prim, for values that aren't numbers.
    """
    prim = mujoco_scene(scene)
    if prim is None:
        return None
    density, viscosity = (scene.number(prim, f"mjc:option:{name}") or 0.0 for name in ("density", "viscosity"))
    wind = scene.numbers(prim, "mjc:option:wind", (0.0, 0.0, 0.0))
    if density == viscosity == 0.0:
        return None
    return (
        density * scene.mass / scene.length**3,
        viscosity * scene.mass / scene.length,
        scene.up.apply(wind) * scene.length,
    )


def mujoco_options(scene: Scene) -> tuple[float, MujocoOptions] | None:
    """Return time step [s] and options of a file in MuJoCo's schema; None for other files. Note unsupported options.

    The converter states the time step as a whole number of steps per second, in Newton's schema.
    """
    prim = mujoco_scene(scene)
    if prim is None:
        return None
    step, rate = scene.number(prim, "mjc:option:timestep"), scene.number(prim, "newton:timeStepsPerSecond")
    if step is None and scene.has_schema(prim, "NewtonSceneAPI"):
        step = 1.0 / (RATE if rate is None or not rate > 0.0 else rate)
    step = TIMESTEP if step is None else step
    if not 0.0 < step < np.inf:
        raise scene.error(prim, f"mjc:option:timestep is {step}; it must be positive and finite")
    integrator, cone = (scene.stated(prim, f"mjc:option:{name}") for name in ("integrator", "cone"))
    integrator, cone = integrator or "euler", cone or "pyramidal"
    if scene.stated(prim, "mjc:flag:eulerdamp") is False and integrator == "euler":
        integrator = "explicit"
    if integrator not in MUJOCO_INTEGRATORS or cone not in MUJOCO_CONES:
        scene.notes.append(f"prim '{prim.GetPath()}': integrator '{integrator}' with cone '{cone}' is not supported")
        return None
    ratio, count, tolerance = (
        scene.number(prim, f"mjc:option:{name}") for name in ("impratio", "noslip_iterations", "noslip_tolerance")
    )
    if ratio is not None and not 0.0 < ratio <= LARGEST:
        raise scene.error(prim, f"mjc:option:impratio is {ratio}; it must be positive")
    rounds = 0 if count is None or not 0.0 <= count < 2**31 else int(count)
    least = 1e-6 if tolerance is None else max(0.0, tolerance)
    return step, MujocoOptions(integrator, cone, 1.0 if ratio is None else ratio, rounds, least)
