"""Stage of a step for actuators on frames and contacts, between contacts and constraints."""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from sim.arrays.allocation import fill, integer_array
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import clear
from sim.model.model import Model
from sim.simulation.stepping.collision import CollisionModel
from sim.simulation.stepping.mujoco_law import adhesion_distance
from sim.simulation.stepping.tendon_layout import DAMPED_LINE, deferred_rows, dofs_above
from warp_kernels.actuators.transmission import slope_kernels, transmission_force_kernels, transmission_structs

if TYPE_CHECKING:
    from sim.simulation.stepping.workspace import Workspace

# Arrays whose gradients kernels add to.
DIFFERENTIATED = ("line_length", "line_slope", "line_rate", "line_force", "line_push")


class TransmissionStage:
    """Arrays of actuators on frames and contacts for one step; a model without such actuators has no such stage.

    Args:
        device_model: arrays of the model, with parameters of these worlds.
        collision: collision arrays.
        dampers: dampers that are constraints, see :class:`TendonStage` [n, 4].
    """

    def __init__(self, device_model: DeviceModel, collision: CollisionModel, dampers: np.ndarray):
        model, t = device_model.model, device_model.types
        self._scalar, self._device, self._num_worlds = model.scalar, device_model.device, device_model.num_worlds
        found = model.transmissions
        self.num_lines, self._nv = len(found), model.nv
        self._frames, self._adheres = bool((found.link >= -1).any()), bool(found.adheres.any())
        self.lines = fill(
            transmission_structs(model.scalar).Lines,
            **{name: self._integers(getattr(found, name)) for name in ("actuator", "link", "reference_link")},
            **{
                name: wp.array(getattr(found, name), dtype=t.transform, device=self._device)
                for name in ("placement", "reference_placement")
            },
            adheres=self._integers(found.adheres if self._adheres else np.zeros((0, 0))),
            adhesion_distance=wp.array(
                adhesion_distance(model, collision) if self._adheres else [], dtype=model.scalar, device=self._device
            ),
            moved=self._integers(moved_links(model)),
        )
        self.line_deferred = self._integers(deferred_rows(dampers, DAMPED_LINE, self.num_lines))
        self.line_length, self.line_rate, self.line_force = (self._worlds_last(self.num_lines) for _ in range(3))
        self.line_slope = self._worlds_last(self.num_lines, model.nv)
        self.line_push, self.push_response = (self._worlds_last(model.nv) for _ in range(2))
        self.touching: wp.array = wp.zeros((self.num_lines, self._num_worlds), dtype=wp.int32, device=self._device)

    @property
    def differentiated(self) -> list[wp.array]:
        """Return the arrays whose gradients kernels add to."""
        return [getattr(self, name) for name in DIFFERENTIATED]

    def push(self, step: "Workspace") -> None:
        """Add the forces of these actuators to the joint forces, and update what depends on them; recorded on a
        tape.
        """
        slopes, forces = slope_kernels(self._scalar), transmission_force_kernels(self._scalar)
        for array in (self.line_slope, self.line_rate, self.line_push):
            clear(array)
        if self._frames:
            self._launch(step, slopes.frame_lengths, self.num_lines)
            self._launch(step, slopes.frame_slopes, self.num_lines, self._nv)
        if self._adheres and step.max_contacts:
            self._launch(step, slopes.count_touching, self.num_lines, tape=False)
            self._launch(step, slopes.adhesion_slopes, self.num_lines, self._nv)
        self._launch(step, forces.line_rates, self.num_lines)
        self._launch(step, forces.line_forces, self.num_lines)
        self._launch(step, forces.line_pushes, self._nv)
        self._launch(step, forces.add_line_pushes, self._nv)
        self._launch(step, forces.pushed_acceleration, tape=False)

    def _launch(self, step: "Workspace", kernel: wp.Kernel, *dim: int, tape: bool = True) -> None:
        step.launch(kernel, (*dim, self._num_worlds), self, tape=tape)

    def _worlds_last(self, *counts: int) -> wp.array:
        return wp.zeros((*counts, self._num_worlds), dtype=self._scalar, device=self._device)

    def _integers(self, values: np.ndarray) -> wp.array:
        return integer_array(values, self._device)


def moved_links(model: Model) -> np.ndarray:
    """Return 1 where a degree of freedom moves a link [num_links, nv]."""
    moved = np.zeros((model.num_links, model.nv), dtype=np.int32)
    for link, tail in enumerate(model.link_tail_dof.tolist()):
        moved[link, list(dofs_above(model, tail))] = 1
    return moved
