"""Robots to compare, and their files with sensors added."""

import warnings
from pathlib import Path

import mujoco

from sim.output import write_text

GYMNASIUM = "gymnasium/envs/mujoco/assets"
SUITE = "dm_control/suite"
ROBOSUITE = "robosuite/models/assets/robots"
FILES = [
    *(f"{GYMNASIUM}/{name}.xml" for name in (
        "ant", "half_cheetah", "hopper", "humanoid", "inverted_double_pendulum", "pusher_v5", "reacher", "swimmer",
        "walker2d_v5",
    )),
    *(f"{SUITE}/{name}.xml" for name in (
        "acrobot", "ball_in_cup", "cartpole", "dog", "finger", "fish", "manipulator", "quadruped", "stacker",
    )),
    *(f"{ROBOSUITE}/{name}/robot.xml" for name in ("iiwa", "panda")),
]  # fmt: skip

HINGE_SLIDE = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
ZONE = 1.1  # radius of a touch site, relative to the largest geom of its body
SMALL = 0.05  # of bodies without geoms [m]
OF_JOINTS = ("JOINTPOS", "JOINTVEL", "JOINTACTFRC")
OF_LIMITS = ("JOINTLIMITPOS", "JOINTLIMITVEL", "JOINTLIMITFRC")
OF_BALLS = ("BALLQUAT", "BALLANGVEL")
OF_ACTUATORS = ("ACTUATORPOS", "ACTUATORVEL", "ACTUATORFRC")
OF_TENDONS = ("TENDONPOS", "TENDONVEL")
OF_BODIES = (
    "FRAMEPOS", "FRAMEQUAT", "FRAMELINVEL", "FRAMEANGVEL", "FRAMELINACC", "FRAMEANGACC", "SUBTREECOM", "SUBTREELINVEL",
    "SUBTREEANGMOM",
)  # fmt: skip
OF_SITES = ("ACCELEROMETER", "GYRO", "VELOCIMETER", "TOUCH", "FORCE", "TORQUE")
OF_ALL = ("E_POTENTIAL", "E_KINETIC")


def label(path: str) -> str:
    """Return a short name of a file: "gymnasium ant"."""
    position = Path(path)
    return f"{position.parts[0]} {position.parent.name if position.stem == 'robot' else position.stem}"


def with_sensors(path: Path, folder: Path, name: str) -> Path:
    """Write a file with a name for everything and a standard set of sensors for each joint, body, actuator and tendon.

    Numbers have six digits, as written by MuJoCo; both engines read this file.

    Returns:
        the file, in ``folder``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of MuJoCo's deprecated attributes
        text = _sensed(mujoco.MjSpec.from_file(str(path)), path)
    found = folder / f"{name.replace(' ', '_')}.xml"
    write_text(found, text)
    return found


def _sensed(spec: mujoco.MjSpec, path: Path) -> str:
    """Return the file with names and sensors."""
    spec.meshdir, spec.texturedir = (str((path.parent / each).resolve()) for each in (spec.meshdir, spec.texturedir))
    for kind in ("bodies", "joints", "geoms", "sites", "actuators", "tendons"):
        for number, each in enumerate(getattr(spec, kind)):
            each.name = each.name or f"{kind}_{number}"
    spec.option.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)  # otherwise sensors read the previous energy
    model = spec.compile()
    for number, sensor in enumerate(spec.sensors):
        sensor.name = sensor.name or f"own {number}"
    kinds = mujoco.mjtObj
    for joint in spec.joints:
        number = model.joint(joint.name).id
        if joint.type in HINGE_SLIDE:
            _add(spec, OF_JOINTS, kinds.mjOBJ_JOINT, joint.name)
            if model.jnt_limited[number]:
                _add(spec, OF_LIMITS, kinds.mjOBJ_JOINT, joint.name)
        elif joint.type == mujoco.mjtJoint.mjJNT_BALL:
            _add(spec, OF_BALLS, kinds.mjOBJ_JOINT, joint.name)
    for body in spec.bodies[1:]:
        number = model.body(body.name).id
        if not model.body_jntnum[number]:
            continue
        own = range(model.body_geomadr[number], model.body_geomadr[number] + model.body_geomnum[number])
        largest = max(own, key=lambda geom: model.geom_rbound[geom], default=None)
        position = [0.0] * 3 if largest is None else model.geom_pos[largest]
        radius = SMALL if largest is None else ZONE * float(model.geom_rbound[largest])
        site = body.add_site(name=f"{body.name} sensed", pos=position, size=[radius] * 3)
        _add(spec, OF_BODIES, kinds.mjOBJ_XBODY, body.name)
        _add(spec, OF_SITES, kinds.mjOBJ_SITE, site.name)
    for each in spec.actuators:
        _add(spec, OF_ACTUATORS, kinds.mjOBJ_ACTUATOR, each.name)
    for each in spec.tendons:
        _add(spec, OF_TENDONS, kinds.mjOBJ_TENDON, each.name)
    for kind in OF_ALL:
        spec.add_sensor(name=kind.lower(), type=getattr(mujoco.mjtSensor, f"mjSENS_{kind}"))
    spec.compile()
    return str(spec.to_xml())


def _add(spec: mujoco.MjSpec, sensors: tuple[str, ...], of: mujoco.mjtObj, name: str) -> None:
    for kind in sensors:
        target = mujoco.mjtObj.mjOBJ_BODY if kind.startswith("SUBTREE") else of
        number = getattr(mujoco.mjtSensor, f"mjSENS_{kind}")
        spec.add_sensor(name=f"{kind.lower()} {name}", type=number, objtype=target, objname=name)
