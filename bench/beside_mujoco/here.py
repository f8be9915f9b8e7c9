"""The same readings in Backswing."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import torch

import sim
import sim.torch
from bench.beside_mujoco.readings import Motion, Readings
from sim.model.sensors.sensors import SENSOR_KINDS

MOST_WORLDS = 250
MEMORY = 4000  # degrees of freedom of all worlds in a batch, a world for each state


class Engine:
    """Steps and readings of a file in Backswing.

    Attributes:
        model: the file's model, in float64.
        peer: MuJoCo's model, for masses if forces of a medium can't be separated.
        left_out: sensors that aren't read, with reasons.
    """

    def __init__(self, path: Path, peer: mujoco.MjModel):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = sim.load(path, dtype="float64")
        self.peer, self.left_out = peer, list[str]()
        self._pairs: dict[int, tuple[sim.Simulator, sim.Simulator]] = {}
        self.settings = sim.mujoco_settings(self.model)
        names = [geometry.name for geometry in self.model.geometries]
        self.geoms = [number for number in range(peer.ngeom) if peer.geom(number).name in names]
        self.forces = self._measured([peer.geom(number).name for number in self.geoms])
        known = {each.name for each in self.model.sensors}
        missing = [peer.sensor(n).name for n in range(peer.nsensor) if peer.sensor(n).name not in known]
        self.left_out += [f"sensor '{name}' isn't read from MJCF files" for name in missing]

    def _measured(self, geoms: Sequence[str]) -> list[str]:
        """Return geometries, and the sensors of forces that the simulator supports."""
        by_forces = [each.name for each in self.model.sensors if SENSOR_KINDS[each.kind].by_forces]
        try:
            self._simulator(1, [*geoms, *by_forces])
        except sim.ModelError:
            taken = []
            for name in by_forces:
                try:
                    self._simulator(1, [name])
                    taken.append(name)
                except sim.ModelError as error:
                    self.left_out.append(str(error))
            by_forces = taken
        return [*geoms, *by_forces]

    def _simulator(self, worlds: int, sensors: Sequence[str] = (), **others: str) -> sim.Simulator:
        given = {**self.settings, **others}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sim.Simulator(self.model, **given, num_worlds=worlds, device="cpu", contact_sensors=list(sensors))

    def move(self, motion: Motion) -> Motion:
        """Simulate a motion from the first state of another, with its inputs."""
        simulator = self._simulator(1)
        trajectory = simulator.rollout(
            self._state(simulator, motion, slice(0, 1)),
            control=motion.ctrl[:, None] if self.model.nu else None,
            steps=len(motion.ctrl),
        )
        q, qd = (each.numpy()[:, 0] for each in (trajectory.q, trajectory.qd))
        act = motion.act if trajectory.act is None else trajectory.act.numpy()[:, 0]
        return Motion(*sim.to_mujoco(self.model, q, qd), act, motion.ctrl)

    def _state(self, simulator: sim.Simulator, motion: Motion, rows: slice) -> sim.State:
        q, qd = sim.from_mujoco(self.model, motion.qpos[rows], motion.qvel[rows])
        return simulator.state(q, qd, act=motion.act[rows] if motion.act.shape[1] else None)

    def read(self, motion: Motion) -> Readings:
        """Return the readings at each state of a motion but the last, and the state after a step from there."""
        steps, worlds = len(motion.ctrl), min(MOST_WORLDS, MEMORY // self.model.nv)
        parts = [self._chunk(motion, slice(start, min(start + worlds, steps))) for start in range(0, steps, worlds)]
        return Readings(
            {name: np.concatenate([part.forces[name] for part in parts]) for name in parts[0].forces},
            np.concatenate([part.contacts for part in parts]),
            {name: np.concatenate([part.sensors[name] for part in parts]) for name in parts[0].sensors},
            np.concatenate([part.energy for part in parts]),
            np.concatenate([part.qpos for part in parts]),
            np.concatenate([part.qvel for part in parts]),
            left_out=[*self.left_out, *parts[0].left_out],
        )

    def _chunk(self, motion: Motion, rows: slice) -> Readings:
        worlds = rows.stop - rows.start
        control = motion.ctrl[None, rows] if self.model.nu else None
        simulator, euler = self._pair(worlds)
        step = simulator.rollout(self._state(simulator, motion, rows), control=control, steps=1)
        # Generalised forces are those of Euler's steps; they don't depend on the integrator.
        trial = euler.rollout(self._state(euler, motion, rows), control=control, steps=1)
        inputs = None if control is None else torch.tensor(control)
        left_out: list[str] = []
        sensors = self._sensors(simulator, self._state(simulator, motion, rows), inputs)
        forces = self._forces(euler, trial, inputs, motion, rows, left_out)
        assert step.contact_force is not None
        contacts = np.zeros((worlds, self.peer.ngeom, 3))
        contacts[:, self.geoms] = step.contact_force.numpy()[0, :, : len(self.geoms)]
        q, qd = (each.numpy()[1] for each in (step.q, step.qd))
        state = (torch.tensor(np.array([each, each])) for each in (q, qd))
        energy = sim.torch.Sensors(simulator, ["e_kinetic", "e_potential"])(*state)[0].numpy()
        return Readings(forces, contacts, sensors, energy, *sim.to_mujoco(self.model, q, qd), left_out)

    def _pair(self, worlds: int) -> tuple[sim.Simulator, sim.Simulator]:
        """Make one simulator with the file's integrator that measures forces, and one with Euler's method."""
        if worlds not in self._pairs:
            euler = self._simulator(worlds, integrator="euler")
            self._pairs = {worlds: (self._simulator(worlds, self.forces), euler)}
        return self._pairs[worlds]

    def _sensors(
        self, simulator: sim.Simulator, state: sim.State, control: torch.Tensor | None
    ) -> dict[str, np.ndarray]:
        """Return readings by name, quaternions wxyz."""
        kinds = {each.name: each.kind for each in self.model.sensors}
        names = [
            name for name, kind in kinds.items()
            if kind != "clock" and (name in simulator.contact_sensors or not SENSOR_KINDS[kind].by_forces)
        ]  # fmt: skip
        sensors = sim.torch.Sensors(simulator, names)
        q, qd, act = (None if each is None else torch.tensor(each.numpy()) for each in (state.q, state.qd, state.act))
        assert q is not None
        assert qd is not None
        readings = sim.torch.rollout(simulator, q, qd, control=control, act=act, steps=1, sensors=sensors).readings
        assert readings is not None
        every = readings[0].numpy()
        found = {name: every[:, columns] for name, columns in sensors.slices.items()}
        return {name: each[:, [3, 0, 1, 2]] if each.shape[1] == 4 else each for name, each in found.items()}

    def _forces(
        self,
        simulator: sim.Simulator,
        trial: sim.Trajectory,
        control: torch.Tensor | None,
        motion: Motion,
        rows: slice,
        left_out: list[str],
    ) -> dict[str, np.ndarray]:
        """Return generalised forces along MuJoCo's coordinates."""
        q, qd = (torch.tensor(each.numpy()) for each in (trial.q, trial.qd))
        act = None if trial.act is None else torch.tensor(trial.act.numpy())
        try:
            parts = sim.torch.JointForces(simulator)(q, qd, control=control, act=act)
        except sim.ModelError as error:
            left_out.append(str(error))
            _, after = sim.to_mujoco(self.model, trial.q.numpy()[1], trial.qd.numpy()[1])
            return {"constraint": self._by_balance(motion, rows, after)}
        taken = ("constraint", parts.constraints), ("actuator", parts.actuators), ("passive", parts.passive)
        return {name: self._theirs(q[0].numpy(), part[0].numpy()) for name, part in taken}

    def _theirs(self, q: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Convert forces to MuJoCo's coordinates [worlds, nv]."""
        worlds, nv = force.shape
        units = np.tile(np.eye(nv), (worlds, 1))
        _, moved = sim.to_mujoco(self.model, np.repeat(q, nv, axis=0), units)
        return np.linalg.solve(moved.reshape(worlds, nv, nv), force[..., None])[..., 0]

    def _by_balance(self, motion: Motion, rows: slice, after: np.ndarray) -> np.ndarray:
        """Compute constraint forces as an Euler step's change of momentum minus all other forces of MuJoCo."""
        data, found = mujoco.MjData(self.peer), []
        for number, qvel in zip(range(rows.start, rows.stop), after, strict=True):
            data.qpos, data.qvel, data.ctrl = motion.qpos[number], motion.qvel[number], motion.ctrl[number]
            data.act = motion.act[number]
            mujoco.mj_forward(self.peer, data)
            change = (qvel - motion.qvel[number]) / self.peer.opt.timestep
            moved = np.zeros(self.peer.nv)
            mujoco.mj_mulM(self.peer, data, moved, change)
            damped = self.peer.opt.timestep * self.peer.dof_damping * change
            found.append(moved + damped - data.qfrc_smooth)
        return np.array(found)
