"""What went wrong in a rollout: known at its end, or where the host would have to wait for a GPU, at a later call."""

import numpy as np
import warp as wp

from sim.errors import ContactOverflowWarning, NotFiniteWarning
from sim.model.names import counted

# Kinds of warnings, with what they say.
Problems = list[tuple[type[Warning], str]]


class LateReport:
    """Numbers of a rollout on CUDA on their way to the host.

    The device copies them when it has taken the steps, and nobody waits. One rollout at a time is looked at: what ends
    while the numbers of another one are on their way isn't reported, :attr:`sim.Simulator.bad_worlds` and
    :attr:`sim.Simulator.contact_overflow` tell of it.

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
        """Copy what a rollout reports to the host without waiting, unless an earlier copy hasn't been read yet."""
        if self._steps is None:
            wp.copy(self._bad_state, bad_state)
            wp.copy(self._overflow, overflow)
            with wp.ScopedDevice(self._device):  # an event is of the current one's stream
                wp.record_event(self._arrived)
            self._steps = steps

    def arrived(self) -> Problems:
        """What has arrived since the last call."""
        if self._steps is None or not self._arrived.is_complete:
            return []
        steps, self._steps = self._steps, None
        return problems(self._bad_state.numpy(), self._overflow.numpy(), steps, "an earlier rollout")


def problems(bad_state: np.ndarray, overflow: np.ndarray, steps: int, which: str = "rollout") -> Problems:
    """What is to be said of a rollout.

    Args:
        bad_state: the number of each world's first state that isn't finite, -1 for none [num_worlds].
        overflow: contacts that found no room [num_worlds].
        steps: number of steps.
        which: rollout it was.
    """
    found: Problems = []
    if np.count_nonzero(bad_state >= 0):  # of few worlds, any() takes several times as long
        found.append((NotFiniteWarning, f"{which} of {counted(steps, 'step')}: {first_bad_state(bad_state)}"))
    if np.count_nonzero(overflow):
        world = int(np.argmax(overflow))
        dropped = f"{int(overflow[world])} contacts exceeded max_contacts in world {world} and were dropped"
        found.append((ContactOverflowWarning, f"{which}: {dropped}; raise ContactOptions(max_contacts=...)"))
    return found


def first_bad_state(bad_state: np.ndarray) -> str:
    """Which state was the first that isn't finite, in which world, and what to do."""
    bad = np.flatnonzero(bad_state >= 0)
    world = int(bad[np.argmin(bad_state[bad])])
    state = int(bad_state[world])
    where = "the initial state" if state == 0 else f"the state after step {state - 1}"
    advice = "give other coordinates" if state == 0 else "check dt, masses, controls and quaternions there"
    count = f"{len(bad)} of {len(bad_state)} worlds went bad, see Simulator.bad_worlds"
    others = f"; {count}" if len(bad) > 1 else ""
    return f"{where} is not finite in world {world}{others}; {advice}"
