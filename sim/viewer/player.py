"""Playback controls: play, pause, step and scrub."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.errors import ModelError
from sim.viewer.motions import Motion
from sim.viewer.sliders import Slider

if TYPE_CHECKING:
    from viser import GuiApi

FRAMES_PER_SECOND = 30.0
BACK, FORWARD = "Back", "Forward"
SPEEDS = {"1/100": 0.01, "1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "5": 5.0}


class Player:
    """Playback controls of a motion, and the thread that plays it.

    Args:
        gui: interface of the viser server; controls are added at its current position.
        lock: held while a state is shown.
        show: called with the motion and the index of the state to show.
    """

    def __init__(self, gui: GuiApi, lock: threading.RLock, show: Callable[[Motion, int], None]):
        self._lock, self._show = lock, show
        self._motion: Motion | None = None
        self._position = 0.0  # position in the motion, a fractional state index
        self._problem = ""  # reason why the motion could not continue
        self._running, self._closed = threading.Event(), False
        self._folder: Any = gui.add_folder("Motion", visible=False)
        with self._folder:
            self._text: Any = gui.add_markdown("")
            state = gui.add_slider("State", 0, 1, 1, 0, hint="index of the state; drag to scrub")
            self._play: Any = gui.add_button("Play")
            self._step: Any = gui.add_button_group("Step", (BACK, FORWARD), hint="move to the previous or next state")
        self._play.on_click(lambda _: self.play(not self.playing))
        self._step.on_click(lambda _: self.step(1 if self._step.value == FORWARD else -1))
        self._slider = Slider(state, lock, lambda number: self.seek(int(number)))
        self._gui = gui
        self._speed: Any = None
        self._loop: Any = None
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)
        self._thread.start()

    @property
    def playing(self) -> bool:
        """True while the motion is playing."""
        return self._running.is_set()

    @property
    def number(self) -> int:
        """Index of the state shown last."""
        return int(self._position)

    def plays(self, motion: Motion) -> bool:
        """Return whether a motion is playing."""
        return self.playing and self._motion is motion

    def add_settings(self) -> None:
        """Add speed and loop at the current position; needed before anything plays."""
        self._speed = self._gui.add_dropdown(
            "Speed", tuple(SPEEDS), initial_value="1", hint="playback speed relative to real time"
        )
        self._loop = self._gui.add_checkbox("Loop", True, hint="restart at the end of the motion")

    def start(self, motion: Motion, playing: bool) -> None:
        """Start another motion from its first state."""
        with self._lock:
            self._motion, self._problem = motion, ""
            self._folder.visible = True
            self.seek(0)
            self.play(playing)

    def play(self, playing: bool = True) -> None:
        """Play or pause."""
        with self._lock:
            if self._motion is None:
                return
            if playing:
                self._problem = ""
            (self._running.set if playing else self._running.clear)()
            self._play.label = "Pause" if playing else "Play"
            self._show(self._motion, self.number)

    def seek(self, number: int) -> None:
        """Pause at a state, or at the last one if the index is beyond the end."""
        with self._lock:
            if self._motion is not None:
                self._position = float(min(max(number, 0), len(self._motion) - 1))
                self.play(False)
                self._tell()

    def step(self, states: int) -> None:
        """Pause and move by ``states``."""
        with self._lock:
            if self._motion is not None:
                self._advance(self.number + states)
                self.seek(self.number)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._running.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._running.wait()
            began = time.perf_counter()
            with self._lock:
                if self._closed:
                    return
                if self.playing and self._motion is not None:
                    self._tick(self._motion)
            time.sleep(max(0.0, began + 1.0 / FRAMES_PER_SECOND - time.perf_counter()))

    def _tick(self, motion: Motion) -> None:
        further = SPEEDS[self._speed.value] / (FRAMES_PER_SECOND * motion.dt)
        if self._advance(self._position + further):
            self._show(motion, self.number)
            self._tell()
        elif self._loop.value and len(motion) > 1 and not self._problem:
            self._position = 0.0
        else:
            self.seek(self.number)

    def _advance(self, position: float) -> bool:
        """Move to a position, or to the nearest one. Return False if the motion ends before it."""
        assert self._motion is not None
        try:
            self._motion.grow(int(position) - (len(self._motion) - 1))
        except ModelError as error:
            self._problem = str(error)
        last = len(self._motion) - 1
        self._position = min(max(position, 0.0), float(last))
        return position <= last

    def _tell(self) -> None:
        assert self._motion is not None
        last, dt = len(self._motion) - 1, self._motion.dt
        self._slider.handle.max = max(last, 1)
        self._slider.show(self.number)
        self._text.content = self._problem or f"{self.number * dt:.3f} s of {last * dt:.3f} s"
