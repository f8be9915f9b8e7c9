"""States of actuators along a log."""

import warnings

import numpy as np

from sim.errors import NotFiniteWarning
from sim.identify.logs.log import Log
from sim.model.model import Model
from sim.simulation.simulator import Simulator


def activations_of(model: Model, log: Log, qd: np.ndarray, dt: float, hold: int) -> np.ndarray:
    """States of actuators in each row of a log [n, na]: those that it has, or what its inputs make of zeros.

    They follow from inputs and parameters alone, wherever the simulated joints go.

    Args:
        model: the model.
        log: the log.
        qd: velocities of its rows [n, nv].
        dt: time step [s].
        hold: number of steps from one row to the next.
    """
    if log.act is not None:
        return log.act
    found = np.zeros((len(log), model.na))
    if model.na and log.control is not None:
        simulator = Simulator(model, dt, device="cpu")
        state = simulator.state(log.q[0], qd[0])
        control = np.repeat(log.control[:-1], hold, axis=0)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFiniteWarning)
            states = simulator.rollout(state, control=control, checkpoint_interval=hold).act
        assert states is not None, "the model has some"
        found[:] = np.nan_to_num(states.numpy()[:, 0], nan=0.0, posinf=0.0, neginf=0.0)
    return found
