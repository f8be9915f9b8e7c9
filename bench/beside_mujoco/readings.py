"""What is compared: forces, sensors and the next state at each state of a motion, as MuJoCo gives them.

Two things are told differently here, see docs/learning.md and docs/mujoco.md, and made equal in these readings: passive
forces have the dampers of joints at the end of an Euler step, which takes them implicitly, and the potential energy is
without that of bodies that don't move.
"""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from bench.drift import UNSTABLE


@dataclass
class Motion:
    """States, and the input that acts in the step from each but the last.

    Attributes:
        qpos: [steps + 1, nq].
        qvel: [steps + 1, nv].
        act: [steps + 1, na].
        ctrl: [steps, nu].
    """

    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    ctrl: np.ndarray


@dataclass
class Readings:
    """What one engine says at each state of a motion but the last, in MuJoCo's coordinates.

    Attributes:
        forces: generalised ones by origin, "constraint", "actuator" and "passive" [steps, nv].
        contacts: on each geom, along world axes [steps, ngeom, 3], N.
        sensors: by name [steps, numbers].
        energy: kinetic and potential, of the state after the step [steps, 2], J.
        qpos: after the step [steps, nq].
        qvel: after the step [steps, nv].
        left_out: what isn't there, and why.
    """

    forces: dict[str, np.ndarray]
    contacts: np.ndarray
    sensors: dict[str, np.ndarray]
    energy: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    left_out: list[str] = field(default_factory=list)


def motion_of(peer: mujoco.MjModel, inputs: np.ndarray) -> Motion:
    """A motion of MuJoCo from where the file begins: its first keyframe, or its default.

    Raises:
        RuntimeError: where MuJoCo finds it unstable and begins anew.
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
    """Copies of coordinates, velocities and states of actuators."""
    return data.qpos.copy(), data.qvel.copy(), data.act.copy()


def read_theirs(peer: mujoco.MjModel, motion: Motion) -> Readings:
    """MuJoCo's readings at each state of a motion, and where its step leads from there."""
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
        {peer.sensor(number).name: every[:, _place(peer, number)] for number in range(peer.nsensor)},
        np.array(energies),
        np.array(qpos),
        np.array(qvel),
    )


def damped_implicitly(peer: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """By how much forces of joint dampers at the end of an Euler step differ from those at its start [nv]."""
    mass, step = np.zeros((peer.nv, peer.nv)), peer.opt.timestep
    mujoco.mj_fullM(peer, data, mass)
    change = step * np.linalg.solve(mass + step * np.diag(peer.dof_damping), mass @ data.qacc)
    return -peer.dof_damping * change


def energy_of_what_is_still(peer: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Potential energy of bodies that don't move [J]."""
    still = peer.body_weldid == 0
    return -float(peer.body_mass[still] @ data.xipos[still] @ peer.opt.gravity)


def _place(peer: mujoco.MjModel, number: int) -> slice:
    return slice(peer.sensor_adr[number], peer.sensor_adr[number] + peer.sensor_dim[number])


def contact_forces(peer: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """The sum of the forces of contacts on each geom [ngeom, 3], along world axes."""
    found, force = np.zeros((peer.ngeom, 3)), np.zeros(6)
    for number in range(data.ncon):
        mujoco.mj_contactForce(peer, data, number, force)
        contact = data.contact[number]
        along = contact.frame.reshape(3, 3).T @ force[:3]
        for geom, sign in zip(contact.geom, (-1.0, 1.0), strict=True):
            found[geom] += sign * along
    return found


def energy_of(peer: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray, qvel: np.ndarray) -> tuple[float, float]:
    """Kinetic and potential energy of a state [J]."""
    data.qpos, data.qvel = qpos, qvel
    mujoco.mj_fwdPosition(peer, data)
    mujoco.mj_fwdVelocity(peer, data)
    mujoco.mj_energyPos(peer, data)
    mujoco.mj_energyVel(peer, data)
    return float(data.energy[1]), float(data.energy[0])
