"""The viewer: a page in the browser that shows a model, its motion, and forces on it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.dynamics.kinematics import forward_kinematics
from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole, require_type
from sim.model.model import Model
from sim.render import Camera, Marker, grid_offsets
from sim.render.fit import fit_worlds_camera
from sim.render.frames import fitting_spacing
from sim.render.view import check_poses, clipping_range, listed
from sim.simulation.contacts import Contacts
from sim.simulation.simulator import Simulator
from sim.simulation.trajectory import Trajectory
from sim.viewer import arguments
from sim.viewer.motions import Coordinates, Live, Motion, Rollout
from sim.viewer.picture import Picture
from sim.viewer.player import Player
from sim.viewer.plots import Plots
from sim.viewer.pull import Pull
from sim.viewer.server import address, quiet, serve
from sim.viewer.sliders import JointSliders

SLIDER_PERIOD = 0.2  # time between updates of the sliders during playback [s]
WATCH_PERIOD = 0.5  # minimum time between motions of a search [s]
PANEL_WIDTH = 320  # width of the controls [pixels]
# Width of a page up to which viser puts the panel below the scene [pixels], and the share of the height that it covers.
PHONE_WIDTH, PANEL_SHARE = 576, 0.6
CAMERA_STATES = 50  # maximum number of states of a motion that the camera is fitted to


class Search(Protocol):
    """A search to watch, see :meth:`Viewer.watch`; :class:`sim.optimise.Iteration` is one."""

    @property
    def history(self) -> Sequence[float]:
        """Cost after each iteration so far."""

    @property
    def q(self) -> np.ndarray:
        """Coordinates of the current motions [states, starts, nq]."""

    @property
    def dt(self) -> float:
        """Time between states [s]."""


class Viewer:
    """Viewer of one or several worlds of a model in the browser.

    The page has joint sliders, playback controls, and switches for what is drawn. Methods may be called from any
    thread. Actions of the user on the page run in separate threads.

    Args:
        model: the model of one world.
        num_worlds: number of worlds, drawn side by side.
        host: address to listen on; "0.0.0.0" listens on all network interfaces and allows access from other machines.
        port: port to listen on; 0 for any free port.
        spacing: distance between neighbouring worlds [m]. Default: enough for robots to fall over.
        markers: fixed balls in every world, such as a target.

    Raises:
        ModelError: without the package viser, if it cannot listen on the port or address, for invalid numbers, and for
            planes on links.

    Example:
        >>> import sim
        >>> from sim.viewer import Viewer
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> viewer = Viewer(model, port=0)  # any free port; opens no window
        >>> viewer.show(model.q0)
        >>> viewer.close()
    """

    def __init__(
        self,
        model: Model,
        num_worlds: int = 1,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        spacing: float | None = None,
        markers: Sequence[Marker] = (),
    ):
        require_type("Viewer: model", model, Model, "a sim.Model")
        require_type("Viewer: host", host, str, "an address, such as '127.0.0.1'")
        if not is_whole(num_worlds, 1):
            raise ModelError(f"Viewer: num_worlds is {num_worlds!r}; it must be a positive integer")
        self.model, self.num_worlds = model, int(num_worlds)
        self._markers = listed("markers", markers, Marker)
        self._q = np.tile(model.q0, (self.num_worlds, 1))
        poses = self._poses(self._q)
        self._offsets = grid_offsets(self.num_worlds, roomy_spacing(model, poses) if spacing is None else spacing)
        self._gradients: np.ndarray | None = None
        self._live: Live | None = None  # the simulation started last
        self._sliders_shown = 0.0
        self._watched = 0.0
        self._lock = threading.RLock()
        self._server = serve(host, port)
        try:
            self._picture = Picture(self._server.scene, model, poses, self._offsets, self._markers)
        except BaseException:
            with quiet():
                self._server.stop()
            raise
        self._add_controls()
        self._aim(poses[None])
        self._server.on_client_connect(self._aim_narrow)

    # ---- showing -----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Address of the page."""
        return address(self._server)

    @property
    def q(self) -> np.ndarray:
        """The coordinates shown, including changes by the user [num_worlds, nq]."""
        with self._lock:
            return self._q.copy()

    def show(self, q: Any) -> None:
        """Show coordinates. Pause the motion and remove arrows.

        Args:
            q: coordinates [nq], the same in all worlds, or [num_worlds, nq].

        Raises:
            ModelError: for a wrong shape, non-finite values, or a zero quaternion.
        """
        self._hold(arguments.pose(self.model, self.num_worlds, q))

    def play(
        self,
        motion: Any,
        dt: float | None = None,
        *,
        gradients: npt.ArrayLike | None = None,
        readings: Mapping[str, npt.ArrayLike] | None = None,
        playing: bool = True,
    ) -> None:
        """Show a motion, with play, pause, step and scrub, and curves over time.

        Args:
            motion: a :class:`sim.Trajectory`, whose contacts are drawn too; or coordinates [states, num_worlds, nq], or
                [states, nq] for one world.
            dt: time between states [s]. A trajectory uses the time step of its simulator.
            gradients: vectors at the origins of the links [steps, num_worlds, num_links, 3], for example from
                :func:`sim.viewer.force_gradients`. Arrows are scaled separately in each state, as in
                :meth:`show_gradients`, since gradients may grow a thousandfold over a motion.
            readings: further curves to plot, by name [states or steps, num_worlds], or [..., k] for several in one
                chart.
            playing: whether to start playing immediately.

        Raises:
            ModelError: for a wrong shape, non-finite values, a trajectory that does not store all its states, or a dt
                that is missing or not positive.
        """
        played = self._motion(motion, dt)
        vectors = None
        if gradients is not None:
            vectors = arguments.link_gradients(self.model, self.num_worlds, len(played), gradients)
        curves = arguments.readings(self.num_worlds, len(played), readings or {})
        poses = np.stack([self._poses(played.q(number)) for number in _some(len(played))])
        with self._lock:
            self._gradients = vectors
            self._aim(poses)
            self._plots.start(played, curves)
            self._player.start(played, playing)

    def watch(self, search: Search) -> None:
        """Show the progress of a search: its motions, and its cost over iterations in the plots.

        Pass this method as the argument ``watch`` of a function of :mod:`sim.optimise`. The viewer's worlds show the
        motions of the starts, in order. Motions follow each other at least half a second apart; iterations in between
        are skipped.

        Args:
            search: cost after each iteration so far, ``history``; coordinates of the current iteration, ``q``
                [states, starts, nq]; and the time between states, ``dt`` [s].

        Raises:
            ModelError: for fewer starts than worlds.
        """
        now = time.perf_counter()
        if now < self._watched + WATCH_PERIOD:
            return
        motion = Coordinates(arguments.starts(self.model, self.num_worlds, search.q), search.dt)
        with self._lock:
            if not self._watched:
                self._aim(np.stack([self._poses(motion.q(number)) for number in _some(len(motion))]))
            self._gradients = None
            self._plots.start(motion, {}, search.history)
            self._player.start(motion, playing=True)
        self._watched = time.perf_counter()

    def offer_simulation(self, simulator: Simulator, qd: Any = None, control: Any = None) -> None:
        """Add a button that starts a simulation from the shown pose, which the user may have changed.

        While it runs, the user pulls on links by dragging them with Ctrl or Cmd: see :class:`sim.viewer.pull.Pull`.

        Args:
            simulator: a simulator with the same model and number of worlds.
            qd: initial velocities [nv] or [num_worlds, nv]. Default: zero.
            control: constant inputs of the actuators [nu] or [num_worlds, nu]. Default: zeros.

        Raises:
            ModelError: for a simulator with another model or number of worlds, and for wrong shapes.
        """
        require_type("offer_simulation: simulator", simulator, Simulator, "a sim.Simulator")
        if simulator.model is not self.model or simulator.num_worlds != self.num_worlds:
            raise ModelError(
                f"offer_simulation: the simulator has {simulator.num_worlds} worlds, or another model; it must have "
                f"{self.num_worlds} worlds of the viewer's model"
            )
        simulator.state(self._q, qd)  # raises if qd is invalid
        if not self._simulate.visible:
            self._picture.on_drag(self._dragged)
        held = arguments.inputs(self.model, self.num_worlds, control)

        def simulate(_: object) -> None:
            with self._lock:
                self._gradients = None
                self._live = Live(simulator, simulator.state(self._q, qd), held)
                self._plots.start(self._live, {})
                self._player.start(self._live, playing=True)

        self._simulate.visible = True
        self._simulate.on_click(simulate)

    def show_contacts(self, contacts: Contacts) -> None:
        """Draw points and forces of contacts from :meth:`sim.Simulator.contacts`, until another pose is shown.

        Contacts with zero force are omitted. The forces act on ``geometry_b``.

        Raises:
            ModelError: for contacts of a world that does not exist.
        """
        require_type("show_contacts: contacts", contacts, Contacts, "a result of sim.Simulator.contacts")
        if len(contacts) and contacts.world.max() >= self.num_worlds:
            raise ModelError(
                f"show_contacts: a contact is in world {contacts.world.max()}, but there are {self.num_worlds} worlds"
            )
        with self._lock:
            self._picture.draw_contacts(contacts)
            self._write_legend()

    def show_gradients(self, points: npt.ArrayLike, vectors: npt.ArrayLike, worlds: npt.ArrayLike = 0) -> None:
        """Draw vectors, such as gradients of a loss in forces, until another pose is shown.

        The vectors are scaled so that the longest is a fifth of the height of one world's picture.

        Args:
            points: starting points in the frame of their world [n, 3].
            vectors: the vectors [n, 3].
            worlds: world of each vector [n], or one world for all.

        Raises:
            ModelError: for wrong shapes, non-finite values, or a world that does not exist.
        """
        origins, arrows, owners = arguments.vectors(points, vectors, worlds, self.num_worlds)
        with self._lock:
            self._picture.draw_gradients(origins, arrows, owners)
            self._write_legend()

    # ---- running -----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Print the address, and wait for Ctrl-C."""
        print(f"{self.url} (stop with Ctrl-C)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600.0)

    def close(self) -> None:
        """Stop the server."""
        self._player.close()
        with quiet():
            self._server.stop()

    def __enter__(self) -> Viewer:
        """Enter a ``with`` block, which closes the viewer at its end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the viewer."""
        self.close()

    # ---- inside ------------------------------------------------------------------------------------------------

    def _add_controls(self) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(PANEL_WIDTH)
        self._plots = Plots(gui, self.model, self._locked, lambda: int(self._world.value))
        self._player = Player(gui, self._lock, self._show_state)
        self._simulate: Any = gui.add_button(
            "Simulate from here",
            visible=False,
            color="green",
            hint="simulate, starting from the shown pose; drag links with Ctrl to pull on them",
        )
        self._world: Any = gui.add_dropdown(
            "World", tuple(map(str, range(self.num_worlds))), visible=self.num_worlds > 1,
            hint="world that the sliders and names refer to",
        )  # fmt: skip
        self._world.on_update(self._locked(self._choose_world))
        self._legend: Any = gui.add_markdown("", visible=False)
        tabs = gui.add_tab_group()
        if self.model.nv > 0:
            with tabs.add_tab("Joints"):
                self._sliders = JointSliders(gui, self.model, self._lock, self._moved)
                gui.add_button("Initial pose").on_click(lambda _: self.show(self.model.q0))
        else:
            self._sliders = JointSliders(gui, self.model, self._lock, self._moved)  # some models have none
        with tabs.add_tab("Settings"):
            self._player.add_settings()
            look: Any = gui.add_button("Look at the selected world", visible=self.num_worlds > 1)
            look.on_click(self._look)
            for name, chosen, show in self._picture.switches:
                self._add_switch(name, chosen, show)
            opacity: Any = gui.add_slider("Opacity", 0.1, 1.0, 0.1, 1.0, hint="opacity of the shapes")
            opacity.on_update(self._locked(lambda: self._picture.fade(opacity.value)))
            length: Any = gui.add_slider("Arrow length", 0.1, 10.0, 0.1, 1.0)
            length.on_update(self._locked(lambda: self._picture.zoom_arrows(length.value)))

    def _choose_world(self) -> None:
        self._show_pose(self._q, self._poses(self._q))
        self._plots.redraw()

    def _look(self, event: Any) -> None:
        """Turn the camera of the page that sent the event to the selected world."""
        with self._lock:
            camera = self._picture.camera_at(int(self._world.value))
        for client in [event.client] if event.client is not None else []:
            _move(client, camera)

    def _add_switch(self, name: str, chosen: bool, show: Callable[[bool], None]) -> None:
        box: Any = self._server.gui.add_checkbox(name, chosen)
        show(chosen)
        box.on_update(self._locked(lambda: show(box.value)))

    def _locked(self, work: Callable[[], None]) -> Callable[[object], None]:
        """Wrap a callback for an action of the user."""

        def run(_: object) -> None:
            with self._lock:
                work()
                self._write_legend()

        return run

    def _moved(self, group: int) -> None:
        """Apply a slider moved by the user; the lock is held."""
        q, world = self._q.copy(), int(self._world.value)
        q[world] = self._sliders.apply(group, q[world])
        self._hold(q)

    def _dragged(self, world: int, link: int, point: np.ndarray, target: np.ndarray, held: bool) -> None:
        """Pull on a link of the running simulation, or let go, see :meth:`sim.viewer.picture.Picture.on_drag`."""
        with self._lock:
            live = self._live
            if live is None:
                return
            if not held:
                live.pull = None
            elif live.pull is not None:  # of the first of two browsers
                if (live.pull.world, live.pull.link) == (world, link):
                    live.pull = replace(live.pull, target=target)
            elif self._player.plays(live):
                live.pull = Pull.at(self._poses(self._q), world, link, point, target)

    def _hold(self, q: np.ndarray) -> None:
        """Show a pose [num_worlds, nq] that is not part of a motion."""
        poses = self._poses(q)
        with self._lock, self._server.atomic():
            self._player.play(False)
            self._picture.clear_contacts()
            self._picture.clear_gradients()
            self._show_pose(q, poses)
            self._write_legend()

    def _show_state(self, motion: Motion, number: int) -> None:
        """Show a state of a motion, with its contacts and gradients."""
        q = motion.q(number)
        now = time.perf_counter()
        # Moving many sliders keeps the browser busy, so they are updated less often.
        calm = not self._player.playing or now > self._sliders_shown + SLIDER_PERIOD
        contacts = motion.contacts(number)
        with self._server.atomic():
            self._show_pose(q, self._poses(q), sliders=calm)
            self._picture.draw_pull(motion.pull if isinstance(motion, Live) else None)
            if contacts is None:
                self._picture.clear_contacts()
            else:
                self._picture.draw_contacts(contacts)
            if self._gradients is None or number >= len(self._gradients):
                self._picture.clear_gradients()
            else:
                self._picture.draw_link_gradients(self._gradients[number])
            if calm:
                self._plots.mark(number)
                self._sliders_shown = now
                self._write_legend()

    def _show_pose(self, q: np.ndarray, poses: np.ndarray, sliders: bool = True) -> None:
        world = int(self._world.value)
        self._q = q
        self._picture.update(poses, world)
        if sliders:
            self._sliders.show(q[world])

    def _write_legend(self) -> None:
        self._legend.content = self._picture.legend
        self._legend.visible = bool(self._picture.legend)

    def _motion(self, motion: Any, dt: float | None) -> Motion:
        if not isinstance(motion, Trajectory):
            if not is_positive(dt):
                raise ModelError(f"play: dt is {dt!r}; it must be a positive number, the time between states [s]")
            return Coordinates(arguments.motion(self.model, self.num_worlds, motion), float(np.asarray(dt)))
        if motion.checkpoint_interval != 1:
            raise ModelError("play: the trajectory does not store all its states; remove checkpoint_interval")
        if dt is not None:
            raise ModelError("play: dt is given, but a trajectory has its simulator's dt; remove dt")
        return Rollout(motion, arguments.motion(self.model, self.num_worlds, motion.q))

    def _poses(self, q: np.ndarray) -> np.ndarray:
        """Return link poses [num_worlds, num_links, 7] of coordinates [num_worlds, nq]."""
        return check_poses(self.model, forward_kinematics(self.model, q).numpy())

    def _aim(self, poses: np.ndarray) -> None:
        """Set the initial camera so that it sees link poses [frames, num_worlds, num_links, 7]."""
        self._seen = poses
        camera = self._camera_for(1.0)
        first = self._server.initial_camera
        first.position, first.look_at = np.array(camera.position), np.array(camera.target)
        first.fov = float(np.radians(camera.fov))
        first.near, first.far = clipping_range(camera)

    def _camera_for(self, aspect: float) -> Camera:
        return fit_worlds_camera(
            self.model, self._seen, self._offsets, markers=self._markers, aspect=aspect, margin=1.3
        )

    def _aim_narrow(self, client: Any) -> None:
        """Move the camera of a new page that is narrower than high, for which the initial one is too near.

        A busy browser applies the initial camera only after that, and so does "Reset View": then it is moved again.
        """
        self._move_back(client)

        def check(_: Any) -> None:
            initial = self._server.initial_camera
            gap = np.linalg.norm(np.asarray(client.camera.position) - initial.position)
            if gap < 1e-3 * np.linalg.norm(np.asarray(initial.position) - initial.look_at):
                self._move_back(client)

        client.camera.on_update(check)

    def _move_back(self, client: Any) -> None:
        """Move the camera of a page that is narrower than high so that it sees the whole scene."""
        width, height, free = client.camera.image_width, client.camera.image_height, 1.0
        if width > PHONE_WIDTH:
            width -= PANEL_WIDTH  # the panel docks after the page has connected
        else:
            free -= PANEL_SHARE
        if width >= height:
            return
        with self._lock:
            camera = above_panel(self._camera_for(width / (free * height)), free)
        _move(client, camera)


def _move(client: Any, camera: Camera) -> None:
    """Give the page of a client the position and the target of a camera. No-op if it has them: a page reports moves."""
    eye, target = np.array(camera.position), np.array(camera.target)
    near = 1e-5 * np.linalg.norm(eye - target)
    if np.linalg.norm(client.camera.position - eye) > near or np.linalg.norm(client.camera.look_at - target) > near:
        with client.atomic():
            client.camera.position, client.camera.look_at = eye, target


def above_panel(camera: Camera, free: float) -> Camera:
    """Return the camera that shows in the upper share ``free`` of a picture what another one shows in all of it."""
    eye, target = np.asarray(camera.position, dtype=float), np.asarray(camera.target, dtype=float)
    sight = (target - eye) / free
    right = np.cross(sight, camera.up)
    upwards = np.cross(right, sight)
    upwards *= np.linalg.norm(sight) / np.linalg.norm(upwards)
    shift = (1.0 - free) * np.tan(np.radians(0.5 * camera.fov)) * upwards
    return replace(camera, position=tuple(target - sight - shift), target=tuple(target - shift))


def roomy_spacing(model: Model, poses: np.ndarray) -> float:
    """Return a spacing for poses [num_worlds, num_links, 7] that leaves each world its height on both sides [m].

    An upright arm may reach out sideways later.
    """
    across = poses[None]
    upright = across[..., [2, 2, 2, 3, 4, 5, 6]]
    return max(fitting_spacing(model, across), fitting_spacing(model, upright))


def _some(states: int) -> list[int]:
    """Return the states that the camera is fitted to."""
    return [int(number) for number in np.unique(np.linspace(0, states - 1, CAMERA_STATES).astype(int))]
