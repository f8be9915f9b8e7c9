"""Gradient by MuJoCo's finite differences: the Jacobians of single steps, chained."""

import numpy as np

from bench.peers import mujoco_pgs, mujoco_standing
from bench.standing import DAMPING, DT, STIFFNESS, mjcf, start_pose
from bench.tables.backswing import SWEEPS

DIFFERENCE = 1.0e-6  # as in bench.step


class MuJoCo:
    """Gradient by stored states of all steps: the backward pass computes the Jacobian of each step and applies it.

    Args:
        robots: number of robots in one world.
    """

    chunk = 1
    note = "float64, the same solver and sweeps, one-sided mjd_transitionFD of each step in state and controls"

    def __init__(self, robots: int):
        import mujoco
        from mujoco import rollout

        self.mujoco, self.rollout = mujoco, rollout
        self.model = mujoco_pgs(mjcf(robots, SWEEPS), dt=DT, sweeps=SWEEPS)
        self.data = mujoco_standing(self.model, start_pose(robots), stiffness=STIFFNESS, damping=DAMPING)
        self.contacts = self.data.ncon
        self.full = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.first = np.zeros(mujoco.mj_stateSize(self.model, self.full))
        mujoco.mj_getState(self.model, self.data, self.first, self.full)
        self.control = np.zeros((0, self.model.nu))
        self.states = np.zeros((0, len(self.first)))

    def begin(self, steps: int) -> None:
        self.control = np.zeros((steps, self.model.nu))

    def forward(self, steps: int) -> None:
        states, _ = self.rollout.rollout(self.model, self.data, self.first[None], self.control[None])
        self.states = np.concatenate([self.first[None], states[0]])

    def backward(self) -> None:
        m, nv = self.model, self.model.nv
        jacobian, motors = np.zeros((2 * nv + m.na, 2 * nv + m.na)), np.zeros((2 * nv + m.na, m.nu))
        carried = np.concatenate([np.ones(nv), np.zeros(nv + m.na)])
        gradient = np.zeros_like(self.control)
        for step in reversed(range(len(self.control))):
            self.mujoco.mj_setState(m, self.data, self.states[step], self.full)
            self.data.ctrl[:] = self.control[step]
            self.mujoco.mjd_transitionFD(m, self.data, DIFFERENCE, False, jacobian, motors, None, None)
            gradient[step] = carried @ motors
            carried = carried @ jacobian

    def forget(self) -> None:
        if self.data.ncon != self.contacts:
            raise RuntimeError(
                f"the standing robots started with {self.contacts} contacts and now have {self.data.ncon}"
            )
        self.states = self.states[:0]
