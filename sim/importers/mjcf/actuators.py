"""Actuators of an MJCF file with affine force laws, and muscles, on scalar joints, tendons, sites and bodies."""

from typing import Any

import numpy as np

from sim.importers.force_laws import ForceLaw, NoForceLawError, affine_law
from sim.importers.mjcf.notes import names_of
from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.servos import further_inputs, has_plugin, of_plugin, servo_gains, servo_law, servo_state
from sim.importers.mjcf.tree import joint_type
from sim.importers.muscles import muscle_law
from sim.model.builder.properties import ACTUATOR_FIELDS, Delay, Gains, in_groups
from sim.model.conventions import MUJOCO_INFINITY
from sim.model.model import ACTUATOR_KIND_NAMES
from sim.model.specs import DYNAMICS_CODES
from warp_kernels import types as codes
from warp_kernels.actuators.activation import SHORTEST

# Kinds of transmissions, by MuJoCo's name
TRANSMISSIONS = {
    "mjTRN_JOINT": "joint", "mjTRN_JOINTINPARENT": "joint", "mjTRN_TENDON": "tendon", "mjTRN_SITE": "frame",
    "mjTRN_BODY": "adhesion",
}  # fmt: skip


def transmission_of(reader: Reader, actuator: int) -> str:
    """Return MuJoCo's name of an actuator's transmission."""
    return str(reader.file.mujoco.mjtTrn(int(reader.file.model.actuator_trntype[actuator])).name)


def limits_of_sums(reader: Reader) -> list[str]:
    """Return a note on joints whose ``actuatorfrcrange`` differs from MuJoCo's meaning; empty without them.

    MuJoCo clamps the sum of all actuator forces on them. Backswing clamps the force of each of their actuators.
    """
    model = reader.file.model
    own, reached = np.zeros(model.njnt, dtype=int), np.zeros(model.njnt, dtype=bool)
    for actuator in reader.actuators:
        if TRANSMISSIONS[transmission_of(reader, actuator)] == "joint":
            own[int(model.actuator_trnid[actuator, 0])] += 1
        else:
            reached[list(_reached(reader, actuator))] = True
    which = np.flatnonzero(model.jnt_actfrclimited.astype(bool) & ((own > 1) | reached))
    if not len(which):
        return []
    return [
        "ignored: force limits of joints on the sum of several actuators, and on those of tendons, sites and bodies "
        f"({names_of(reader.file, 'joint', which)}); each single actuator of such a joint is clamped to them"
    ]


def _reached(reader: Reader, actuator: int) -> set[int]:
    """Return the joints on which an actuator of a tendon, a site or a body may act."""
    model = reader.file.model
    kind = TRANSMISSIONS[transmission_of(reader, actuator)]
    driven, other = (int(each) for each in model.actuator_trnid[actuator])
    if kind == "adhesion":  # it pulls at every body in contact
        return set(range(model.njnt))
    if kind == "frame":
        bodies = [int(model.site_bodyid[driven]), 0 if other < 0 else int(model.site_bodyid[other])]
        return _between(reader, bodies)
    wraps, first = reader.file.mujoco.mjtWrap, int(model.tendon_adr[driven])
    parts = range(first, first + int(model.tendon_num[driven]))
    if model.wrap_type[first] == wraps.mjWRAP_JOINT:
        return {int(model.wrap_objid[part]) for part in parts}
    carriers = {int(wraps.mjWRAP_SITE): model.site_bodyid, int(wraps.mjWRAP_SPHERE): model.geom_bodyid,
                int(wraps.mjWRAP_CYLINDER): model.geom_bodyid}  # fmt: skip
    return _between(
        reader,
        [
            int(carriers[int(model.wrap_type[part])][model.wrap_objid[part]])
            for part in parts
            if int(model.wrap_type[part]) in carriers
        ],
    )


def _between(reader: Reader, bodies: list[int]) -> set[int]:
    """Return the joints that carry some of the bodies, but not all."""
    model, chains = reader.file.model, list[set[int]]()
    for body in bodies:
        chain = set[int]()
        while body > 0:
            first = int(model.body_jntadr[body])
            chain |= set(range(first, first + int(model.body_jntnum[body])))
            body = int(model.body_parentid[body])
        chains.append(chain)
    return chains[0].union(*chains[1:]) - chains[0].intersection(*chains[1:])


# Last group of actuators that MuJoCo can disable
LAST_GROUP = 30


def add_actuators(reader: Reader) -> dict[str, int]:
    """Add the supported actuators; note the others in the reader.

    Returns:
        The index in MuJoCo's ``ctrl`` of each actuator's input, by the actuator's name.

    Raises:
        ImportFileError: naming the actuator.
    """
    file = reader.file
    _add_rotors(reader)
    if file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_ACTUATION):
        return {}
    inputs: dict[str, int] = {}
    for actuator in range(int(file.array("nactuator", file.model.nu))):
        try:
            law = _law(reader, actuator)
        except NoForceLawError as reason:
            reader.notes.append(f"ignored: {file.label('actuator', actuator)}, {reason}")
            continue
        name = reader.actuators[actuator] = _add(reader, actuator, law)
        inputs[name] = _control(reader, actuator)
        for further, (what, gain) in enumerate(further_inputs(reader, actuator).items(), 1):
            own = _add_input(reader, actuator, f"{name}/{what}", gain, inputs[name] + further)
            inputs[own] = inputs[name] + further
    reader.notes += [*_of_disabled_groups(reader), *limits_of_sums(reader)]
    return inputs


def _of_disabled_groups(reader: Reader) -> list[str]:
    """Return a note on actuators that act although their groups are disabled; empty if there are none."""
    model = reader.file.model
    bits, groups = int(model.opt.disableactuator), model.actuator_group
    acting = [number for number in reader.actuators if 0 <= groups[number] <= LAST_GROUP and bits >> groups[number] & 1]
    if not acting:
        return []
    return [
        f"actuatorgroupdisable has no effect: these actuators stay active: {names_of(reader.file, 'actuator', acting)}"
    ]


def _add_rotors(reader: Reader) -> None:
    """Add armature and damping of actuators to those of their joints; note what isn't added in the reader."""
    file, model = reader.file, reader.file.model
    count = int(file.array("nactuator", model.nu))
    armature, damping = (file.array(f"actuator_{name}", np.zeros(count)) for name in ("armature", "damping"))
    curved = np.any(file.array("actuator_dampingpoly", np.zeros((count, 1))), axis=1)
    for actuator in np.flatnonzero((armature != 0.0) | (damping != 0.0) | curved).tolist():
        label = file.label("actuator", actuator)
        if TRANSMISSIONS.get(transmission_of(reader, actuator)) != "joint":
            reader.notes.append(f"ignored: armature and damping of {label}, which doesn't act on a joint")
            continue
        if curved[actuator]:
            reader.notes.append(f"ignored: polynomial damping of {label}; its linear part is kept")
        joint = reader.builder.joints[reader.joints[int(model.actuator_trnid[actuator, 0])]]
        output = int(file.array("actuator_outadr", np.arange(count))[actuator])
        square = float(model.actuator_gear[output, 0]) ** 2
        joint.armature += square * float(armature[actuator])
        joint.damping += square * float(damping[actuator])


def _law(reader: Reader, actuator: int) -> ForceLaw:
    """Return the force law. Raise NoForceLawError if there is none."""
    model, mujoco = reader.file.model, reader.file.mujoco
    if has_plugin(reader, actuator):
        of_plugin(reader, actuator)
    transmission = transmission_of(reader, actuator)
    if transmission not in TRANSMISSIONS:
        raise NoForceLawError(
            f"with transmission {transmission.removeprefix('mjTRN_').lower()}; only joints, tendons, sites and bodies "
            "are supported"
        )
    driven = int(model.actuator_trnid[actuator, 0])
    if TRANSMISSIONS[transmission] == "joint":
        kind = joint_type(reader, driven)
        if kind not in ("revolute", "prismatic"):
            raise NoForceLawError(f"on a {kind} joint; apply joint forces (tau) instead")
    if transmission == "mjTRN_BODY" and model.body_weldid[driven] == 0:
        raise NoForceLawError("which acts on a static body")
    if has_plugin(reader, actuator):
        return _on_joint(reader, actuator, of_plugin(reader, actuator)[0])
    _dynamics(reader, actuator)
    if model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_MUSCLE:
        return _muscle(reader, actuator)
    if model.actuator_gaintype[actuator] in servo_gains(mujoco):
        return _on_joint(reader, actuator, servo_law(reader, actuator))
    gain = _linear(model.actuator_gaintype[actuator], model.actuator_gainprm[actuator], mujoco.mjtGain, "GAIN")
    bias = _linear(model.actuator_biastype[actuator], model.actuator_biasprm[actuator], mujoco.mjtBias, "BIAS")
    law = affine_law(gain, bias)
    if law.factor != 1.0 and transmission != "mjTRN_BODY":
        # Kept apart from the gear, so that sensors read the actuator's own position and force.
        return ForceLaw(codes.AFFINE, gain=law.factor)
    return law


def _on_joint(reader: Reader, actuator: int, law: ForceLaw) -> ForceLaw:
    """Return the law of a controller or motor. Raise NoForceLawError for one that requires a joint and has none."""
    if TRANSMISSIONS[transmission_of(reader, actuator)] != "joint" and (law.motor or _dynamics(reader, actuator)):
        raise NoForceLawError("with integral action, inductance or a limited voltage, but not on a joint")
    return law


def _muscle(reader: Reader, actuator: int) -> ForceLaw:
    """Return the law of a muscle. Raise NoForceLawError for one that isn't MuJoCo's element ``muscle``."""
    model, mujoco = reader.file.model, reader.file.mujoco
    if transmission_of(reader, actuator) not in ("mjTRN_JOINT", "mjTRN_JOINTINPARENT", "mjTRN_TENDON"):
        raise NoForceLawError("which is a muscle, but acts neither on a joint nor on a tendon")
    bias = int(model.actuator_biastype[actuator])
    if bias not in (mujoco.mjtBias.mjBIAS_MUSCLE, mujoco.mjtBias.mjBIAS_NONE):
        raise NoForceLawError("which is a muscle with a passive force that isn't that of a muscle")
    output = int(reader.file.array("actuator_outadr", np.arange(actuator + 1))[actuator])
    return muscle_law(
        model.actuator_gainprm[actuator],
        model.actuator_biasprm[actuator] if bias == mujoco.mjtBias.mjBIAS_MUSCLE else None,
        model.actuator_lengthrange[output], float(model.actuator_acc0[output]),
    )  # fmt: skip


def _linear(type: int, numbers: np.ndarray, kinds: Any, name: str) -> tuple[float, float, float]:
    """Return gain or bias: a constant and factors of length and velocity. Raise NoForceLawError for other kinds."""
    if type == int(getattr(kinds, f"mj{name}_AFFINE")):
        return float(numbers[0]), float(numbers[1]), float(numbers[2])
    label = kinds(int(type)).name.removeprefix(f"mj{name}_").lower()
    if label not in ("fixed", "none"):
        raise NoForceLawError(f"whose force law ({name.lower()}type {label}) is not supported")
    return (float(numbers[0]) if label == "fixed" else 0.0), 0.0, 0.0


def _add(reader: Reader, actuator: int, law: ForceLaw) -> str:
    model, builder = reader.file.model, reader.builder
    driven = _driven(reader, actuator)
    label = next(iter(driven.values()))
    name = reader.name("actuator", actuator, label.removeprefix(reader.prefix), builder.actuators)
    output = int(reader.file.array("actuator_outadr", np.arange(actuator + 1))[actuator])
    gears, gear = model.actuator_gear[output], law.factor
    if "frame" in driven:
        driven |= {"force_axis": gears[:3], "torque_axis": gears[3:]}
    elif "adhesion" not in driven:
        gear *= float(gears[0])
    options: dict[str, Any] = {
        "gear": gear,
        **law.gains,
        "control_range": _control_range(reader, _control(reader, actuator)),
    }
    options |= {"muscle": law.muscle, "motor": law.motor}
    options["force_limit"] = _force_range(reader, actuator, law.factor, gear)
    options |= _dynamics(reader, actuator)
    options["delay"] = _delay(reader, actuator)
    with reader.file.located("actuator", actuator, f"actuator '{name}'"):
        options = in_groups(ACTUATOR_FIELDS, options)
        return builder.add_actuator(kind=ACTUATOR_KIND_NAMES[law.kind], name=name, **driven, **options)


def _add_input(reader: Reader, actuator: int, wanted: str, gain: float, control: int) -> str:
    """Add an actuator for a further input of a controller, which adds its part to the force; return its name."""
    file, name = reader.file, reader.free(wanted, reader.builder.actuators, "actuator")
    output = int(file.array("actuator_outadr", np.arange(actuator + 1))[actuator])
    with file.located("actuator", actuator, f"actuator '{name}'"):
        return reader.builder.add_actuator(
            **_driven(reader, actuator), kind="affine", name=name, gear=float(file.model.actuator_gear[output, 0]),
            gains=Gains(gain=gain), force_limit=np.inf, control_range=_control_range(reader, control),
        )  # fmt: skip


def _driven(reader: Reader, actuator: int) -> dict[str, Any]:
    """Return the target of an actuator, as arguments of the builder."""
    kind = TRANSMISSIONS[transmission_of(reader, actuator)]
    driven, other = (int(each) for each in reader.file.model.actuator_trnid[actuator])
    if kind == "joint":
        return {"joint": reader.joints[driven]}
    if kind == "tendon":
        return {"tendon": reader.tendons[driven]}
    if kind == "adhesion":
        return {"adhesion": reader.links[driven]}
    found = {"frame": reader.sites[driven]}
    return found if other < 0 else {**found, "reference": reader.sites[other]}


def _dynamics(reader: Reader, actuator: int) -> dict[str, Any]:
    """Return the activation dynamics of an actuator, if it has a state. Raise NoForceLawError for others."""
    if has_plugin(reader, actuator):
        return of_plugin(reader, actuator)[1]
    model, kinds = reader.file.model, reader.file.mujoco.mjtDyn
    name = kinds(int(model.actuator_dyntype[actuator])).name.removeprefix("mjDYN_").lower()
    if name == "none":
        return {}
    if name in ("pid", "dcmotor"):
        return servo_state(reader, actuator)
    if name not in DYNAMICS_CODES or int(model.actuator_actnum[actuator]) != 1:
        raise NoForceLawError(f"whose activation dynamics (dyntype {name}) are not supported")
    found: dict[str, Any] = {"dynamics": name, "act_early": bool(model.actuator_actearly[actuator])}
    times = [max(float(number), SHORTEST) for number in model.actuator_dynprm[actuator, :2]]
    if name != "integrator":
        found["time_constant"] = times[0]
    if name == "muscle":
        found |= {"fall_time": times[1], "smoothing": max(float(model.actuator_dynprm[actuator, 2]), 0.0)}
    if model.actuator_actlimited[actuator]:
        lower, upper = (float(bound) for bound in model.actuator_actrange[actuator])
        unbounded = lower <= -MUJOCO_INFINITY, upper >= MUJOCO_INFINITY
        found["act_range"] = (-np.inf if unbounded[0] else lower), (np.inf if unbounded[1] else upper)
    return found


# MuJoCo's kinds of interpolation between past inputs.
HOLD, CUBIC = 0, 2


def _delay(reader: Reader, actuator: int) -> Delay | None:
    """Return the delay of an actuator's input; note a difference from MuJoCo's in the reader.

    MuJoCo knows the inputs of past steps only, so that its delays last at least a step. If it holds them, a delay lasts
    until the next step.
    """
    file, step = reader.file, float(reader.file.model.opt.timestep)
    delay = float(file.array("actuator_delay", np.zeros(actuator + 1))[actuator])
    if delay <= 0.0:
        return None
    samples, kind = (int(number) for number in file.array("actuator_history", np.zeros((actuator + 1, 2)))[actuator])
    delay = min(max(delay, step), samples * step)
    if kind == HOLD:
        delay = min(float(np.ceil(delay / step - 1e-9)), samples) * step
    elif kind == CUBIC and abs(delay / step - round(delay / step)) > 1e-9:
        reader.notes.append(
            f"{file.label('actuator', actuator)}: its past inputs are interpolated linearly, not cubically"
        )
    return Delay(delay, samples)


def _force_range(reader: Reader, actuator: int, factor: float, gear: float) -> tuple[float, float]:
    """Return the force limits: the range of the actuator, intersected with that of its joint or tendon.

    MuJoCo clamps the sum of all forces on a joint or tendon to its range: on a joint after the actuator's range and
    with its gear (see :func:`limits_of_sums`), on a tendon before that range and without gear. The range of a tendon
    with several actuators is the tendon's.
    """
    model, driven = reader.file.model, int(reader.file.model.actuator_trnid[actuator, 0])
    bounds = np.array([-np.inf, np.inf])
    if model.actuator_forcelimited[actuator]:
        bounds = np.sort(model.actuator_forcerange[actuator] / factor)
    kind = TRANSMISSIONS[transmission_of(reader, actuator)]
    if kind == "joint" and model.jnt_actfrclimited[driven] and gear:
        bounds = np.clip(bounds, *np.sort(model.jnt_actfrcrange[driven] / gear))
    alone = kind == "tendon" and reader.builder.tendons[reader.tendons[driven]].force_range is None
    if alone and reader.file.array("tendon_actfrclimited", np.zeros(driven + 1))[driven]:
        bounds = np.clip(np.sort(model.tendon_actfrcrange[driven] / factor), *bounds)
    return float(bounds[0]), float(bounds[1])


def _control_range(reader: Reader, control: int) -> tuple[float, float]:
    """Return the limits to which an input is clamped, by its index in MuJoCo's ``ctrl``."""
    model = reader.file.model
    if not model.actuator_ctrllimited[control]:
        return -np.inf, np.inf
    lower, upper = (float(bound) for bound in model.actuator_ctrlrange[control])
    return (lower if lower > -MUJOCO_INFINITY else -np.inf), (upper if upper < MUJOCO_INFINITY else np.inf)


def _control(reader: Reader, actuator: int) -> int:
    """Return the index of an actuator's input in MuJoCo's ``ctrl``."""
    return int(reader.file.array("actuator_ctrladr", np.arange(actuator + 1))[actuator])
