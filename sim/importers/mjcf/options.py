"""Options, flags and the medium of an MJCF file, and notes on options without effect."""

from collections.abc import Iterable

import numpy as np

from sim.errors import ImportFileError
from sim.importers.mjcf.contacts import unbounded
from sim.importers.mjcf.reader import Reader, pose
from sim.importers.mjcf.source.file import MJCFFile
from sim.model.medium import LIGHTEST, inertia_box
from sim.model.model import MUJOCO_INTEGRATORS, MujocoOptions
from sim.model.poses import compose

# Flags that disable a feature, and the arrays that are zero without it
ZEROED = {
    "mjDSBL_CONSTRAINT": (
        "jnt_limited",
        "dof_frictionloss",
        "tendon_limited",
        "tendon_frictionloss",
        "geom_contype",
        "geom_conaffinity",
        "eq_active0",
    ),
    "mjDSBL_EQUALITY": ("eq_active0",),
    "mjDSBL_FRICTIONLOSS": ("dof_frictionloss", "tendon_frictionloss"),
    "mjDSBL_LIMIT": ("jnt_limited", "tendon_limited"),
    "mjDSBL_CONTACT": ("geom_contype", "geom_conaffinity"),
    "mjDSBL_SPRING": ("jnt_stiffness", "tendon_stiffness", "jnt_stiffnesspoly", "tendon_stiffnesspoly"),
    "mjDSBL_DAMPER": (
        "dof_damping",
        "tendon_damping",
        "actuator_damping",
        "dof_dampingpoly",
        "tendon_dampingpoly",
        "actuator_dampingpoly",
    ),
    "mjDSBL_CLAMPCTRL": ("actuator_ctrllimited",),
}
# Flags that don't affect what is read, affect only MuJoCo's solver, or are handled elsewhere.
IRRELEVANT = {
    "mjDSBL_ACTUATION", "mjDSBL_AUTORESET", "mjDSBL_EULERDAMP", "mjDSBL_GRAVITY", "mjDSBL_ISLAND", "mjDSBL_MIDPHASE",
    "mjDSBL_MULTICCD", "mjDSBL_NATIVECCD", "mjDSBL_REFSAFE", "mjDSBL_SENSOR", "mjDSBL_WARMSTART",
}  # fmt: skip
# Flags that enable another computation in MuJoCo; other flags don't change the motion, or come with an integrator that
# is rejected.
CHANGING = {
    "mjENBL_OVERRIDE": "o_margin, o_solref, o_solimp, o_friction", "mjENBL_DIAGEXACT": "diagexact",
    "mjENBL_SPECULATIVE": "speculative", "mjENBL_SLEEP": "sleep",
}  # fmt: skip
# Elements whose softness is read
SOFT = ("geom", "jnt", "dof", "eq", "pair")
OF_THE_SOFT_LAW = "used with MuJoCo's law alone, Simulator(model, **sim.mujoco_settings(model))"


def mujoco_options(file: MJCFFile) -> MujocoOptions:
    """Return the options of the file that MuJoCo's contact uses.

    Raises:
        ImportFileError: for an integrator that isn't supported.
    """
    option, enums = file.model.opt, file.mujoco
    integrator = enums.mjtIntegrator(int(option.integrator)).name.removeprefix("mjINT_").lower()
    if option.disableflags & int(enums.mjtDisableBit.mjDSBL_EULERDAMP) and _damps(file):
        integrator = "explicit"
    if integrator not in MUJOCO_INTEGRATORS:
        message = f"integrator '{integrator}' is not supported; choose one of {', '.join(MUJOCO_INTEGRATORS)}"
        raise ImportFileError(file.path, message, "<option>")
    elliptic = option.cone == enums.mjtCone.mjCONE_ELLIPTIC
    return MujocoOptions(
        integrator,
        "elliptic" if elliptic else "pyramidal",
        float(option.impratio),
        max(0, int(option.noslip_iterations)),
        max(0.0, float(option.noslip_tolerance)),
    )


def gravity(file: MJCFFile) -> np.ndarray:
    """Return the gravity of the file [m/s^2]."""
    off = file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    return np.zeros(3) if off else np.array(file.model.opt.gravity, dtype=np.float64)


def apply_flags(file: MJCFFile) -> list[str]:
    """Apply the file's flags to arrays, except geoms' softness; return notes on flags without effect."""
    model, flags = file.model, {name: int(bit) for name, bit in file.mujoco.mjtDisableBit.__members__.items()}
    set_ = [name for name, bit in flags.items() if name.startswith("mjDSBL_") and model.opt.disableflags & bit]
    for name in set_:
        for array in ZEROED.get(name, ()):
            file.array(array, np.zeros(0))[:] = 0
    for array in ("jnt_solref", "dof_solref", "eq_solref", "pair_solref", "tendon_solref_lim", "tendon_solref_fri"):
        getattr(model, array)[:] = unbounded(file, getattr(model, array))
    unknown = [name.removeprefix("mjDSBL_").lower() for name in set_ if name not in IRRELEVANT | ZEROED.keys()]
    return [f"disabled in the file, but active in Backswing: {', '.join(unknown)}"] if unknown else []


def notes_on_options(file: MJCFFile) -> list[str]:
    """Return notes on options that differ from their defaults and change only MuJoCo's motion."""
    enums, option = file.mujoco, file.model.opt
    bits = {name: int(bit) for name, bit in enums.mjtEnableBit.__members__.items()}
    ignored = [what for name, what in CHANGING.items() if option.enableflags & bits.get(name, 0)]
    for what in ("plugin", "skin"):
        count = int(file.array(f"n{what}", 0))
        if what == "plugin":  # those of actuators have notes of their own
            count -= len(np.unique([k for k in file.array("actuator_plugin", np.zeros(0)) if k >= 0]))
        if count:
            ignored.append(f"{count} {what}{'s' if count > 1 else ''}")
    return [f"ignored: {'; '.join(ignored)}"] if ignored else []


def _damps(file: MJCFFile) -> bool:
    """Return whether the integrator is Euler's, and joints have damping."""
    euler = file.model.opt.integrator == file.mujoco.mjtIntegrator.mjINT_EULER
    return bool(euler and (file.model.dof_damping.any() or file.array("actuator_damping").any()))


def of_the_soft_law(file: MJCFFile) -> list[str]:
    """Return a note on what hard contact ignores; empty if there is nothing."""
    option, integrators = file.model.opt, file.mujoco.mjtIntegrator
    softness = [
        what
        for what, present in (
            ("solref and solimp", _is_soft(file, SOFT)),
            ("margin of geoms", np.any(file.model.geom_margin)),
            (f"impratio {option.impratio:g}", option.impratio != 1.0),
            (f"noslip_iterations {option.noslip_iterations}", option.noslip_iterations > 0),
            ("integrator RK4", option.integrator == integrators.mjINT_RK4),
            ("integrator implicit", option.integrator == integrators.mjINT_IMPLICIT),
            ("integrator implicitfast", option.integrator == integrators.mjINT_IMPLICITFAST),
        )
        if present
    ]
    return [f"{file.path}: {OF_THE_SOFT_LAW}: {'; '.join(softness)}"] if softness else []


def _is_soft(file: MJCFFile, parts: Iterable[str]) -> bool:
    """Return whether an element's softness isn't MuJoCo's default."""
    default = file.mujoco.MjOption()
    return any(
        _differs(getattr(file.model, f"{part}_{key}"), getattr(default, f"o_{key}"))
        for part in parts
        for key in ("solref", "solimp")
    )


def _differs(values: np.ndarray, default: np.ndarray) -> bool:
    return bool(np.any(values != default))


def add_medium(reader: Reader) -> None:
    """Set the world's medium to the file's, and add the drag box of each moving body."""
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
            reader.notes.append(f"ignored: fluidshape of geoms of {label}; the box of its inertia is used for drag")
        placement = compose(reader.frames[body], pose(model.body_ipos[body], model.body_iquat[body]))
        reader.builder.add_drag_box(
            reader.links[body],
            size=inertia_box(float(model.body_mass[body]), np.array(model.body_inertia[body])),
            position=placement[:3],
            orientation=placement[3:],
        )
