"""Pages narrower than high: their camera sees the whole scene, also if the browser applies the initial one later."""

import contextlib
from types import SimpleNamespace

import numpy as np

from sim.viewer import Viewer
from sim.viewer.viewer import PANEL_WIDTH
from tests.viewer.worlds import arm_and_box


class Page:
    """A client of viser, whose camera reports what it is moved to."""

    def __init__(self, width, height):
        self.camera = SimpleNamespace(
            position=np.array([3.0, 3.0, 3.0]), look_at=np.zeros(3), image_width=width, image_height=height,
            on_update=self.listen,
        )  # fmt: skip
        self.listeners, self.moves = [], 0

    def listen(self, report):
        self.listeners.append(report)

    def atomic(self):
        self.moves += 1
        return contextlib.nullcontext()

    def goes_to(self, position, target):
        """Move the camera as the user or the browser does."""
        self.camera.position, self.camera.look_at = np.array(position), np.array(target)
        for report in self.listeners:
            report(self.camera)


def test_a_late_initial_camera_is_replaced():
    with Viewer(arm_and_box(), 2, port=0, spacing=4.0) as viewer:
        initial, page = viewer._server.initial_camera, Page(390, 844)
        viewer._aim_narrow(page)
        narrow = page.camera.position.copy()
        assert np.linalg.norm(narrow - initial.look_at) > 1.5 * np.linalg.norm(initial.position - initial.look_at)
        page.goes_to(initial.position.astype(np.float32), initial.look_at)
        np.testing.assert_allclose(page.camera.position, narrow)
        page.goes_to(0.9 * narrow, initial.look_at)  # by the user
        np.testing.assert_allclose(page.camera.position, 0.9 * narrow)


def test_a_camera_that_is_in_place_is_not_moved_again():
    """A page slightly narrower than high, whose camera hardly differs from the initial one: no endless reports."""
    with Viewer(arm_and_box(), 2, port=0, spacing=4.0) as viewer:
        initial, page = viewer._server.initial_camera, Page(2000 + PANEL_WIDTH, 2001)
        viewer._aim_narrow(page)
        moves = page.moves
        assert 0.0 < np.linalg.norm(page.camera.position - initial.position) < 1e-3 * np.linalg.norm(initial.position)
        page.goes_to(page.camera.position.astype(np.float32), page.camera.look_at.astype(np.float32))
        assert page.moves == moves == 1


def test_wide_pages_keep_the_initial_camera():
    with Viewer(arm_and_box(), 2, port=0, spacing=4.0) as viewer:
        initial, page = viewer._server.initial_camera, Page(1280, 800)
        viewer._aim_narrow(page)
        page.goes_to(initial.position, initial.look_at)
        np.testing.assert_array_equal(page.camera.position, initial.position)
