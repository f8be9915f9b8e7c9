"""Reports of problems in a rollout: at its end, or on CUDA at a later call, since the host doesn't wait."""

import contextlib
from collections.abc import Iterator

import numpy as np
import warp as wp

from sim.arrays.host_memory import AnyArray
from sim.errors import ContactOverflowWarning, NotFiniteWarning, OpenConstraintWarning
from sim.model.checks import counted
from sim.simulation.engine.anchors import anchor_distances, constraint_forces
from sim.simulation.engine.settings import Settings
from sim.simulation.engine.shard import Shard
from sim.simulation.options import HardContact, hard_options
from sim.simulation.stepping.pipeline import Step

# Warning classes with their texts.
Problems = list[tuple[type[Warning], str]]


class Reports:
    """Reports of the last rollout and the last backward pass.

    Args:
        settings: settings of the simulator.
        shards: shards of its worlds.

    Attributes:
        forward: shards of the last rollout; its parameters may have had another layout than the present ones.
        backward: shards of the last backward pass.
        bad_state: index of each world's first bad state in the last rollout, -1 for none [num_worlds]; None before
            the first rollout.
        late: numbers being copied from a GPU without waiting; None on a CPU.
        most_dropped: maximum number of dropped contacts of all rollouts [num_worlds].
    """

    def __init__(self, settings: Settings, shards: list[Shard]):
        self.forward = self.backward = shards
        self.bad_state: AnyArray | None = None
        self.late = LateReport(settings.device, settings.num_worlds) if settings.device.is_cuda else None
        self.most_dropped = np.zeros(settings.num_worlds, dtype=np.int32)
        self._dt = settings.dt
        self._rollouts, self._open_is_known = 0, False

    @contextlib.contextmanager
    def of_a_trial(self) -> Iterator[None]:
        """Discard the reports of steps in a ``with`` block, before the first rollout."""
        late, self.late = self.late, None
        try:
            yield
        finally:
            self.late, self.bad_state = late, None
            self.most_dropped[:] = 0
            self._rollouts, self._open_is_known = 0, False

    def residual(self) -> np.ndarray:
        """Return the value of :attr:`sim.Simulator.residual`."""
        return np.concatenate([shard.step.largest_residual.numpy() for shard in self.forward])

    def solver_iterations(self) -> np.ndarray:
        """Return the value of :attr:`sim.Simulator.solver_iterations`."""
        return np.concatenate([step.solver_iterations.numpy() for step in self._last_steps()])

    def constraint_error(self) -> np.ndarray:
        """Return the value of :attr:`sim.Simulator.constraint_error`."""
        return np.concatenate([anchor_distances(step).max(axis=1, initial=0.0) for step in self._last_steps()])

    def constraint_force(self) -> dict[str, np.ndarray]:
        """Return the value of :attr:`sim.Simulator.constraint_force`."""
        forces = [constraint_forces(step) for step in self._last_steps()]
        return {name: np.concatenate([each[name] for each in forces]) for name in forces[0]}

    def adjoint_residual(self) -> np.ndarray:
        """Return the value of :attr:`sim.Simulator.adjoint_residual`."""
        return np.concatenate([shard.step.adjoint_residual.numpy() for shard in self.backward])

    def contact_overflow(self) -> np.ndarray:
        """Return the value of :attr:`sim.Simulator.contact_overflow`."""
        return np.concatenate([shard.overflow.numpy() for shard in self.forward])

    def bad_worlds(self) -> dict[int, int]:
        """Return the value of :attr:`sim.Simulator.bad_worlds`."""
        if self.bad_state is None:
            return {}
        states = self.bad_state.numpy()
        return {int(world): int(states[world]) for world in np.flatnonzero(states >= 0)}

    def problems_of(self, bad_state: np.ndarray, overflow: np.ndarray, steps: int, which: str = "rollout") -> Problems:
        """Return the warnings of a rollout. Dropped contacts are reported once.

        Args:
            bad_state: index of each world's first bad state, -1 for none [num_worlds].
            overflow: dropped contacts [num_worlds].
            steps: number of steps.
            which: name of the rollout in the text.
        """
        found: Problems = []
        if np.count_nonzero(bad_state >= 0):  # several times faster than any() for few worlds
            found.append((NotFiniteWarning, f"{which} of {counted(steps, 'step')}: {first_bad_state(bad_state)}"))
        if np.count_nonzero(overflow):
            if not self.most_dropped.any():
                world = int(np.argmax(overflow))
                dropped = f"{int(overflow[world])} contacts exceeded max_contacts in world {world} and were dropped"
                advice = "raise max_contacts of the simulator's contact; this is the only warning, see contact_overflow"
                found.append((ContactOverflowWarning, f"{which}: {dropped}; {advice}"))
            np.maximum(self.most_dropped, overflow, out=self.most_dropped)
        return found

    def open_constraint(self) -> Problems:
        """Return a warning, once, of the constraint with the largest gap, if ``max_correction`` limits its rate of
        closing.

        Checked after the first, second, fourth, eighth ... rollout, so that single steps stay fast. MuJoCo's law has no
        such limit.
        """
        step = self.forward[0].step
        if self._open_is_known or step.by_mujoco or not step.model.equalities.anchor_names:
            return []
        self._rollouts += 1
        if self._rollouts & (self._rollouts - 1):
            return []
        distances = np.concatenate([anchor_distances(step) for step in self._last_steps()])
        options = step.contact_options
        bound = hard_options(options).corrections[0]
        recovery = options.recovery_time if isinstance(options, HardContact) else HardContact.recovery_time
        tolerance = bound * (self._dt + recovery)
        if not np.nanmax(distances) > tolerance:
            return []
        self._open_is_known = True
        world, anchor = np.unravel_index(np.nanargmax(distances), distances.shape)
        where = (
            f"constraint '{step.model.equalities.anchor_names[anchor]}' has a gap of {distances[world, anchor]:.3g} m"
        )
        closes = f"in world {world}, which closes at {bound:g} m/s at most"
        advice = "give a q0 that closes it, lighter loads or a shorter dt; see Simulator.constraint_error"
        return [(OpenConstraintWarning, f"{where} {closes}; this is the only warning; {advice}")]

    def _last_steps(self) -> list[Step]:
        """Return the steps whose working arrays hold what the last step of the last rollout computed."""
        for shard in self.forward:
            shard.show_last_step()
        return [shard.step for shard in self.forward]

    def last_bad_steps(self) -> list[wp.array]:
        """Return each world's last step of a backward pass with a gradient that isn't finite, -1 for none, by shard."""
        return [shard.step.last_bad_step for shard in self.backward]


class LateReport:
    """Numbers of a rollout on CUDA that are copied to the host asynchronously.

    The device copies them after the steps, and the host doesn't wait. One copy is in progress at a time: rollouts that
    end meanwhile are not reported, but :attr:`sim.Simulator.bad_worlds` and :attr:`sim.Simulator.contact_overflow`
    include them.

    Args:
        device: a CUDA device.
        num_worlds: number of worlds.
    """

    def __init__(self, device: wp.Device, num_worlds: int):
        self._bad_state, self._overflow = (
            wp.empty(num_worlds, dtype=wp.int32, device="cpu", pinned=True) for _ in range(2)
        )
        self._device, self._arrived = device, wp.Event(device)
        self._steps: int | None = None

    def send(self, bad_state: wp.array, overflow: wp.array, steps: int) -> None:
        """Start copying the reports of a rollout to the host, unless an earlier copy hasn't been read yet."""
        if self._steps is None:
            wp.copy(self._bad_state, bad_state)
            wp.copy(self._overflow, overflow)
            with wp.ScopedDevice(self._device):  # an event belongs to the current device's stream
                wp.record_event(self._arrived)
            self._steps = steps

    def arrived(self) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Return the bad states, dropped contacts and steps of a rollout whose copy ended since the last call."""
        if self._steps is None or not self._arrived.is_complete:
            return None
        steps, self._steps = self._steps, None
        return self._bad_state.numpy(), self._overflow.numpy(), steps


def first_bad_state(bad_state: np.ndarray) -> str:
    """Return a text that names the first bad state and its world, with a remedy."""
    bad = np.flatnonzero(bad_state >= 0)
    world = int(bad[np.argmin(bad_state[bad])])
    state = int(bad_state[world])
    where = "the initial state" if state == 0 else f"the state after step {state - 1}"
    advice = "give other coordinates" if state == 0 else "check dt, masses, controls and quaternions there"
    count = f"{len(bad)} of {len(bad_state)} worlds went bad, see Simulator.bad_worlds"
    others = f"; {count}" if len(bad) > 1 else ""
    return f"{where} is not finite in world {world}{others}, or beyond state_limit; {advice}"
