"""Softness that a file frees from the bound of its time constants."""

import numpy as np

from sim.importers.mjcf.file import MJCFFile


def unbounded(file: MJCFFile, solref: np.ndarray) -> np.ndarray:
    """What MuJoCo makes of solref [n, 2] where the file disables "refsafe"; otherwise the same.

    Time constants below two time steps are then as they are. Here they are stated as the stiffness and the damping that
    they stand for, since these are never bounded.
    """
    if not file.model.opt.disableflags & int(file.mujoco.mjtDisableBit.mjDSBL_REFSAFE):
        return solref
    time, ratio = solref.T
    quick = (time > 0.0) & (ratio > 0.0) & (time < 2.0 * file.model.opt.timestep)
    freed = np.array(solref, dtype=np.float64)
    freed[quick] = np.stack([-1.0 / (time[quick] * ratio[quick]) ** 2, -2.0 / time[quick]], axis=1)
    return freed
