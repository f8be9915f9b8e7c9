"""MuJoCo's readings to compare: forces, sensors and the next state at each state of a motion.

Two quantities have other definitions here (docs/learning.md, docs/mujoco.md) and are converted in these readings:
passive forces include the dampers of joints at the end of an Euler step, which is implicit in them, and the potential
energy excludes bodies that don't move.
"""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from bench.drift import UNSTABLE


@dataclass
class Motion:
    """States, and the input in the step from each but the last.

    Attributes:
        qpos: coordinates [steps + 1, nq].
        qvel: velocities [steps + 1, nv].
        act: activations [steps + 1, na].
        ctrl: inputs [steps, nu].
    """

    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    ctrl: np.ndarray


@dataclass
class Readings:
    """Readings of one engine at each state of a motion but the last, in MuJoCo's coordinates.

    Attributes:
        forces: generalised forces by origin, "constraint", "actuator" and "passive" [steps, nv].
        contacts: contact forces on each geom, along world axes [steps, ngeom, 3], N.
        sensors: readings by name [steps, numbers].
        energy: kinetic and potential energy after the step [steps, 2], J.
        qpos: coordinates after the step [steps, nq].
        qvel: velocities after the step [steps, nv].
        left_out: missing quantities, with reasons.
    """

    forces: dict[str, np.ndarray]
    contacts: np.ndarray
    sensors: dict[str, np.ndarray]
    energy: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    left_out: list[str] = field(default_factory=list)


def motion_of(peer: mujoco.MjModel, inputs: np.ndarray) -> Motion:
    """Simulate a motion in MuJoCo from the file's first keyframe, or its default.

    Raises:
        RuntimeError: if MuJoCo finds it unstable and resets.
    """
    data = mujoco.MjData(peer)
    if peer.nkey:
        mujoco.mj_resetDataKeyframe(peer, data, 0)
    states = [state_of(data)]
    for given in inputs:
        data.ctrl = given
        mujoco.mj_step(peer, data)
        states.append(state_of(data))
    if any(data.warning[kind].number for kind in UNSTABLE):
        raise RuntimeError("MuJoCo finds the motion unstable")
    qpos, qvel, act = (np.array(each) for each in zip(*states, strict=True))
    return Motion(qpos, qvel, act, inputs)


def state_of(data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return copies of coordinates, velocities and states of actuators."""
    return data.qpos.copy(), data.qvel.copy(), data.act.copy()


def read_theirs(peer: mujoco.MjModel, motion: Motion) -> Readings:
    """Return MuJoCo's readings at each state of a motion, and the state after a step from there."""
    data, after = mujoco.MjData(peer), mujoco.MjData(peer)
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("constraint", "actuator", "passive")}
    contacts, sensors, energies, qpos, qvel = [], [], [], [], []
    for step, given in enumerate(motion.ctrl):
        data.qpos, data.qvel, data.ctrl = motion.qpos[step], motion.qvel[step], given
        data.act = motion.act[step]
        mujoco.mj_forward(peer, data)
        for name, values in found.items():
            values.append(getattr(data, f"qfrc_{name}").copy())
        found["passive"][-1] += damped_implicitly(peer, data)
        contacts.append(contact_forces(peer, data))
        sensors.append(data.sensordata.copy())
        mujoco.mj_step(peer, data)
        qpos.append(data.qpos.copy())
        qvel.append(data.qvel.copy())
        energies.append(energy_of(peer, after, data.qpos, data.qvel))
    every = np.array(sensors)
    still = energy_of_what_is_still(peer, data)
    every[:, peer.sensor_adr[peer.sensor_type == mujoco.mjtSensor.mjSENS_E_POTENTIAL]] -= still
    energies = [(kinetic, potential - still) for kinetic, potential in energies]
    return Readings(
        {name: np.array(values) for name, values in found.items()},
        np.array(contacts),
        {peer.sensor(number).name: every[:, _columns(peer, number)] for number in range(peer.nsensor)},
        np.array(energies),
        np.array(qpos),
        np.array(qvel),
    )


def damped_implicitly(peer: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Return the difference of joint damper forces between the end and the start of an Euler step [nv]."""
    mass, step = np.zeros((peer.nv, peer.nv)), peer.opt.timestep
    mujoco.mj_fullM(peer, data, mass)
    change = step * np.linalg.solve(mass + step * np.diag(peer.dof_damping), mass @ data.qacc)
    return -peer.dof_damping * change


def energy_of_what_is_still(peer: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Compute the potential energy of bodies that don't move [J]."""
    still = peer.body_weldid == 0
    return -float(peer.body_mass[still] @ data.xipos[still] @ peer.opt.gravity)


def _columns(peer: mujoco.MjModel, number: int) -> slice:
    return slice(peer.sensor_adr[number], peer.sensor_adr[number] + peer.sensor_dim[number])


def contact_forces(peer: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Compute the sum of the contact forces on each geom [ngeom, 3], along world axes."""
    found, force = np.zeros((peer.ngeom, 3)), np.zeros(6)
    for number in range(data.ncon):
        mujoco.mj_contactForce(peer, data, number, force)
        contact = data.contact[number]
        along = contact.frame.reshape(3, 3).T @ force[:3]
        for geom, sign in zip(contact.geom, (-1.0, 1.0), strict=True):
            found[geom] += sign * along
    return found


def energy_of(peer: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray, qvel: np.ndarray) -> tuple[float, float]:
    """Compute kinetic and potential energy of a state [J]."""
    data.qpos, data.qvel = qpos, qvel
    mujoco.mj_fwdPosition(peer, data)
    mujoco.mj_fwdVelocity(peer, data)
    mujoco.mj_energyPos(peer, data)
    mujoco.mj_energyVel(peer, data)
    return float(data.energy[1]), float(data.energy[0])
