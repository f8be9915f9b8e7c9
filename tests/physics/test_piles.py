"""Dominoes beside MuJoCo."""

import numpy as np

from bench.fidelity import run_mujoco
from scenes.physics import piles


def test_dominoes_fall_as_in_mujoco():
    """The wave runs through the row in the same time: 1 % of it, MuJoCo's contacts being soft."""
    scene = piles.dominoes()
    starts = []
    for motion in (scene.run(), run_mujoco(scene)):
        moving = piles.tilts(motion) > 0.15
        assert moving[:, 1:].any(axis=0).all()
        starts.append(motion.time[moving.argmax(axis=0)])
    own, peer = (times[-1] - times[1] for times in starts)
    assert (np.diff(starts[0][1:]) > 0.0).all()
    np.testing.assert_allclose(own, peer, rtol=0.01)
