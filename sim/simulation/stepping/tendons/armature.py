"""The stage of a step that gives tendons their armature; see :mod:`warp_kernels.solver.tendons.armature`."""

from typing import Any

import numpy as np
import warp as wp

from sim.arrays.allocation import zeros
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import clear
from warp_kernels.kinematics.acceleration import acceleration_kernels
from warp_kernels.solver.tendons.armature import tendon_armature_kernels


class HeavyTendons:
    """Arrays of the tendons with armature, for one step; they have no rows where there is none.

    Args:
        device_model: the model's arrays, with parameters of these worlds.
        heavy: those tendons and the last degrees of freedom that they act on, see
            :func:`sim.simulation.stepping.tendons.layout.heavy_tendons` [n, 2].
    """

    def __init__(self, device_model: DeviceModel, heavy: np.ndarray):
        model, t, scalar = device_model.model, device_model.types, device_model.model.scalar
        self._device, self.num_worlds = device_model.device, device_model.num_worlds
        self._kernels = tendon_armature_kernels(scalar)
        self.count = len(heavy)
        tendons, tails = np.ascontiguousarray(heavy.T, dtype=np.int32)
        self.heavy_tendon: wp.array = wp.array(tendons, dtype=wp.int32, device=self._device)
        self.heavy_tail: wp.array = wp.array(tails, dtype=wp.int32, device=self._device)

        def worlds_last(count: int, dtype: Any = scalar) -> wp.array:
            return zeros((count if self.count else 0, self.num_worlds), dtype, self._device)

        # Motion of links whose coordinates don't accelerate, where a tendon runs through points.
        spatial = any(len(model.tendons.segments(tendon)) for tendon in heavy[:, 0].tolist())
        links = model.num_links if spatial else 0
        self.velocity, self.acceleration = worlds_last(links, t.spatial), worlds_last(links, t.spatial)
        self.no_acceleration = zeros((self.num_worlds, model.nv if links else 0), scalar, self._device)
        self.tendon_curvature = worlds_last(self.count)
        self.armature_scratch = worlds_last(model.nv)

    @property
    def differentiated(self) -> list[wp.array]:
        """The arrays whose gradients kernels add to."""
        return [self.velocity, self.acceleration, self.tendon_curvature]

    def curve(self, step: Any) -> None:
        """Second derivatives of lengths at constant velocities; recorded on an active tape."""
        clear(self.tendon_curvature)
        if self.velocity.shape[0]:
            kernel, dim = acceleration_kernels(step.scalar).link_motion, (step.model.num_trees, self.num_worlds)
            step.launch(kernel, dim, self, tape=True, qdd=self.no_acceleration)
            self._launch(
                step,
                self._kernels.tendon_curvatures,
                self.count,
                self.num_worlds,
                tape=True,
                curved_tendon=self.heavy_tendon,
            )

    def add(self, step: Any) -> None:
        """From factors and accelerations of the bodies alone to those with tendons."""
        self._launch(step, self._kernels.add_tendon_armature, self.num_worlds)

    def add_adjoint(self, step: Any) -> None:
        """What reaches slopes, curvatures and armature."""
        self._launch(step, self._kernels.tendon_armature_adjoint, self.num_worlds)

    def _launch(self, step: Any, kernel: wp.Kernel, *dim: int, tape: bool = False, **named: wp.array) -> None:
        step.launch(kernel, dim, self, tape=tape, **named)
