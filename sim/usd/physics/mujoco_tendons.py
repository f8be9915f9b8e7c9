"""Tendons of joint coordinates and their actuators in MuJoCo's schema, for other programs."""

from collections.abc import Sequence

import numpy as np
from pxr import Sdf, Usd, UsdGeom

from sim.model.conventions import MUJOCO_INFINITY
from sim.model.model import Model
from sim.model.specs import DYNAMICS_CODES
from sim.usd.annotations import keep_text
from sim.usd.geometries import child_name
from sim.usd.physics.drives import SIDES, Actuator, actuators_of_tendon
from sim.usd.physics.physics import state_softness
from sim.usd.physics.series import Series
from warp_kernels import types as codes

# Activation dynamics that MuJoCo's schema has, by code
DYNAMICS = {DYNAMICS_CODES[name]: name for name in ("none", "integrator", "filter", "filterexact")}
# MuJoCo takes -1 for the initial length, also in single precision.
NEXT_TO_MINUS_ONE = -1.0000003


def state_tendons(stage: Usd.Stage, model: Model, joints: list[Sdf.Path], series: Series) -> None:
    """Write fixed tendons and their actuators as MuJoCo's and Newton's readers expect them.

    Omitted are those of several joints between two bodies, of which Newton reads a part, and what the schema has no
    attributes for: polynomials of springs, delays, motors and muscles.

    Args:
        stage: the stage.
        model: the model.
        joints: the prim of the joint of each link.
        series: its joints in series.
    """
    tendons, taken = model.tendons, dict[str, set[str]]()
    for number, name in enumerate(tendons.names):
        links = [int(model.dof_link[tendons.term_dof[term]]) for term in tendons.terms(number)]
        curved = any(model.parameters[f"tendon_{each}_polynomial"][number].any() for each in ("stiffness", "damping"))
        if not links or curved or any(series.is_shared(link) for link in links):
            continue
        scope = UsdGeom.Scope.Define(stage, "/World/Tendons").GetPath()
        path = scope.AppendChild(child_name(name, taken.setdefault("tendons", set())))
        prim = stage.DefinePrim(path, "MjcTendon")
        keep_text(prim, "name", name)
        _state_tendon(prim, model, number, [joints[link] for link in links])
        for actuator in actuators_of_tendon(model, number):
            if actuator.motor is None and actuator.muscle is None and not actuator.delay_samples:
                if actuator.dynamics in DYNAMICS:
                    below = UsdGeom.Scope.Define(stage, "/World/Actuators").GetPath()
                    label = child_name(actuator.name, taken.setdefault("actuators", set()))
                    _state_actuator(stage.DefinePrim(below.AppendChild(label), "MjcActuator"), actuator, path)


def affine_numbers(actuator: Actuator) -> np.ndarray:
    """Return MuJoCo's gains and biases of an affine law [2, 3]: constants and factors of length and velocity."""
    kp, kd = actuator.kp, actuator.kd
    return np.array({
        codes.TORQUE: ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        codes.POSITION: ((kp, 0.0, 0.0), (0.0, -kp, -kd)),
        codes.VELOCITY: ((kd, 0.0, 0.0), (0.0, 0.0, -kd)),
    }.get(actuator.kind, (
        (actuator.gain, -actuator.kp_per_input, -actuator.kd_per_input), (actuator.offset, -kp, -kd)
    )))  # fmt: skip


def bounded(limits: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return limits that are finite, as MuJoCo has them."""
    return np.clip(np.asarray(limits, dtype=np.float64), -MUJOCO_INFINITY, MUJOCO_INFINITY)


def _state_tendon(prim: Usd.Prim, model: Model, number: int, joints: list[Sdf.Path]) -> None:
    parameters, tendons = model.parameters, model.tendons
    unique = list(dict.fromkeys(joints))
    prim.CreateRelationship("mjc:path", False).SetTargets(unique)
    _state(prim, "type", Sdf.ValueTypeNames.Token, "fixed")
    _state(prim, "path:indices", Sdf.ValueTypeNames.IntArray, [unique.index(joint) for joint in joints])
    coefficients = [float(parameters["tendon_coefficient"][term]) for term in tendons.terms(number)]
    _state(prim, "path:coef", Sdf.ValueTypeNames.DoubleArray, coefficients)
    for name in ("stiffness", "damping", "armature"):
        _state(prim, name, Sdf.ValueTypeNames.Double, float(parameters[f"tendon_{name}"][number]))
    _state(prim, "frictionloss", Sdf.ValueTypeNames.Double, float(parameters["tendon_friction_loss"][number]))
    if parameters["tendon_stiffness"][number]:
        rest = [float(parameters[f"tendon_rest_{side}"][number]) for side in ("lower", "upper")]
        rest[0] = NEXT_TO_MINUS_ONE if rest[0] == -1.0 else rest[0]
        _state(prim, "springlength", Sdf.ValueTypeNames.DoubleArray, rest)
    _state_range(prim, "range", "limited", [float(parameters[f"tendon_{side}_limit"][number]) for side in SIDES])
    _state(prim, "margin", Sdf.ValueTypeNames.Double, float(parameters["tendon_limit_margin"][number]))
    state_softness(prim, tendons.limit_softness[number], "limit")
    state_softness(prim, tendons.friction_softness[number], "friction")
    if "tendon_force_lower" in parameters and (model.actuator_tendon == number).any():
        forces = [float(parameters[f"tendon_force_{side}"][number]) for side in SIDES]
        _state_range(prim, "actuatorfrcrange", "actuatorfrclimited", forces)


def _state_actuator(prim: Usd.Prim, actuator: Actuator, target: Sdf.Path) -> None:
    keep_text(prim, "name", actuator.name)
    prim.CreateRelationship("mjc:target", False).SetTargets([target])
    gain, bias = affine_numbers(actuator).tolist()
    for name, numbers, constant in (("gain", gain, "fixed"), ("bias", bias, "none")):
        affine = any(numbers[1:]) if name == "gain" else any(numbers)
        _state(prim, f"{name}Type", Sdf.ValueTypeNames.Token, "affine" if affine else constant)
        _state(prim, f"{name}Prm", Sdf.ValueTypeNames.DoubleArray, [*numbers, *[0.0] * 7])
    _state(prim, "gear", Sdf.ValueTypeNames.DoubleArray, [actuator.gear, *[0.0] * 5])
    _state_range(prim, "ctrlRange", "ctrlLimited", actuator.control_range)
    _state_range(prim, "forceRange", "forceLimited", actuator.force_range)
    if actuator.dynamics != codes.STATELESS:
        _state(prim, "dynType", Sdf.ValueTypeNames.Token, DYNAMICS[actuator.dynamics])
        _state(prim, "dynPrm", Sdf.ValueTypeNames.DoubleArray, [actuator.time_constant, *[0.0] * 9])
        _state_range(prim, "actRange", "actLimited", actuator.act_range)
        _state(prim, "actEarly", Sdf.ValueTypeNames.Bool, actuator.act_early)


def _state_range(prim: Usd.Prim, name: str, limited: str, limits: Sequence[float]) -> None:
    if np.isfinite(limits).any():
        _state(prim, limited, Sdf.ValueTypeNames.Token, "true")
        for end, bound in zip(("min", "max"), bounded(limits).tolist(), strict=True):
            _state(prim, f"{name}:{end}", Sdf.ValueTypeNames.Double, bound)


def _state(prim: Usd.Prim, name: str, kind: Sdf.ValueTypeName, value: object) -> None:
    prim.CreateAttribute(f"mjc:{name}", kind, False, Sdf.VariabilityUniform).Set(value)
