"""Engine: execution of the worlds of a simulator."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.critical_sections import sole_use
from sim.arrays.topology import last_slides, low_words
from sim.simulation.batches import Batches
from sim.simulation.engine.keeping import KeptRollouts
from sim.simulation.engine.parameter_checks import warn_of_damped_tendons
from sim.simulation.engine.parameters import Parameters, Value
from sim.simulation.engine.reports import Reports
from sim.simulation.engine.settings import Settings
from sim.simulation.engine.shard import Shard
from sim.simulation.engine.shards import ShardPool, ShardSets
from sim.simulation.stepping.integrators import INTEGRATORS


class Engine:
    """Parameters, shards, threads and reports of the worlds of a simulator.

    Args:
        settings: settings of the simulator.
        parameters: values that differ from the model's, by name.
        check_finite: as for :class:`sim.Simulator`.

    Attributes:
        batches: conversion of states and inputs to arrays.
        parameters: parameters with their present values.
        reports: reports of the last rollout and the last backward pass.
        kept_stages: stages of a step whose velocities are kept.
        kept_rollouts: rollouts whose steps are kept.
        num_low: number of low words of a world, see :func:`low_words`.
    """

    def __init__(self, settings: Settings, parameters: Mapping[str, npt.ArrayLike], check_finite: bool = False):
        self.settings = settings
        self.check_finite = check_finite
        self.num_low = low_words(settings.model, last_slides(settings.model))[1]
        self.kept_stages: int = INTEGRATORS[settings.integrator].kept_stages
        self.batches = Batches(settings.model, settings.num_worlds, settings.device)
        self.parameters = Parameters(settings, parameters)
        self._shard_sets = ShardSets(settings, self.parameters)
        self._present = self._shard_sets.present()
        warn_of_damped_tendons(settings, self.parameters.all_numbers())
        self.reports = Reports(settings, self._present.shards)
        self.kept_rollouts = KeptRollouts()
        self._pool = ShardPool(settings.threads)

    @property
    def shards(self) -> list[Shard]:
        """Return the shards of the worlds, with the present values of all parameters."""
        self._present.take(self.parameters.values)
        return self._present.shards

    @property
    def bouncing(self) -> bool:
        """Return whether contacts may bounce, so that coordinates follow another velocity than the next one."""
        return self.shards[0].step.bouncing

    def run_forward(self, work: Callable[[Shard], None]) -> None:
        """Run a function that takes steps on every shard, see :class:`ShardPool`; reports are then of these steps."""
        self.reports.forward = self.shards
        self._pool.run(work, self.reports.forward)

    def run_backward(self, work: Callable[[Shard], None]) -> None:
        """Run a part of a backward pass on every shard; reports of the backward pass are then of it."""
        self.reports.backward = self.shards
        self._pool.run(work, self.reports.backward)

    def run_beside(self, work: Callable[[Shard], None]) -> None:
        """Run a function that takes no steps on every shard; reports remain as they are."""
        self._pool.run(work, self.shards)

    def use(self, values: Mapping[str, Value]) -> None:
        """Set the present values of all parameters; shards copy them on their next use."""
        before, self.parameters.values = self.parameters.values, values
        try:
            self._present = self._shard_sets.present()
        except BaseException:
            self.parameters.values = before
            raise

    @contextlib.contextmanager
    def with_parameters(self, given: Mapping[str, npt.ArrayLike]) -> Iterator[None]:
        """Use other values of some parameters in a ``with`` block; see :attr:`sim.Simulator.parameters`."""
        with sole_use():
            self.parameters.names(given)
            chosen = self.parameters.changed(given)
        with self.with_values(chosen):
            yield

    @contextlib.contextmanager
    def with_values(self, values: Mapping[str, Value]) -> Iterator[None]:
        """Use earlier present values of all parameters in a ``with`` block."""
        before = self.parameters.values
        if values is before:
            yield
            return
        try:
            with sole_use():
                self.use(values)
            # Not guarded: PyTorch runs CUDA's backward pass in another thread, and signals need not wait.
            yield
        finally:
            with sole_use():
                # Parameters set inside the block keep their new values.
                present = self.parameters.values
                untouched = [name for name, value in values.items() if value is before[name]]
                later = {name: present[name] for name in untouched if present[name] is not before[name]}
                self.use({**before, **later} if later else before)

    def parameter_gradient(self, name: str) -> "np.ndarray | wp.array":
        """Return the gradient of one parameter after a backward pass, in the shape of its value.

        Gradients of shared values are summed over all worlds. On CUDA the array stays on the device.
        """
        if self.settings.keeps_on_device:
            (shard,) = self.shards
            gradient = shard.step.device_model.gradient_array(name)
            return gradient.reshape(self.parameters.values[name].shape or (1,))
        parts = [shard.step.device_model.gradient(name) for shard in self.shards]
        return np.concatenate(parts) if self.parameters.per_world(name) else np.sum(parts, axis=0)
