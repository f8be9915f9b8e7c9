"""The page in Chromium: it shows what is where, and does what the user asks for. Needs Debian's chromium-driver."""

import io
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import sim
from sim.optimise import Effort, Posture, Problem, ilqr
from sim.render import Camera
from sim.viewer import Viewer
from tests.viewer.worlds import arm_and_box

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--window-size=860,560"
)
DT = 1 / 240
SPACING = 4.0

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no chromium with a chromedriver")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


class Page:
    """What a user sees of a viewer, and does."""

    def __init__(self, browser, viewer):
        self.browser, self.viewer = browser, viewer
        self.load()

    def load(self):
        self.browser.get(self.viewer.url)
        self.wait(lambda: self.found("//label[text()='hinge [rad]']"))
        self.wait(lambda: self.picture().std() > 20)  # nothing is drawn at first, then it fades in
        for close in self.browser.find_elements(By.CSS_SELECTOR, ".mantine-Notification-closeButton"):
            close.click()

    def found(self, path):
        return self.browser.find_elements(By.XPATH, path)

    def shows(self, path):
        return any(element.is_displayed() for element in self.found(path))

    def wait(self, condition):
        # The page may replace an element between the moments in which it is found and asked.
        replaced = (StaleElementReferenceException,)
        WebDriverWait(self.browser, 60, 0.05, replaced).until(lambda _: condition())

    def click_on(self, path):
        self.wait(lambda: self.found(path)[0].click() is None)

    def click(self, text):
        self.click_on(f"//button[.//*[text()='{text}'] or text()='{text}']")

    def row(self, label):
        return self.found(f"//label[text()='{label}']/ancestor::*[.//*[@role='slider']][1]")[0]

    def type(self, label, value):
        field = self.row(label).find_element(By.CSS_SELECTOR, "input[inputmode]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(str(value), Keys.ENTER)

    def choose(self, label, option):
        self.click_on(f"//label[text()='{label}']/following::input[1]")
        self.wait(lambda: self.found(f"//*[@role='option'][.//*[text()='{option}']]"))
        self.click_on(f"//*[@role='option'][.//*[text()='{option}']]")

    def picture(self):
        canvas = self.browser.find_element(By.CSS_SELECTOR, "canvas")
        whole = Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")
        size = canvas.size
        return np.asarray(whole)[: size["height"], : size["width"]].astype(float)

    def pixel(self, point, picture):
        """Column and row of a point [3] as the page's camera sees it."""
        clients = self.viewer._server.get_clients()
        own = clients[max(clients)].camera
        camera = Camera(own.position, own.look_at, np.degrees(own.fov))
        return camera.project(point, picture.shape[1], picture.shape[0]).astype(int)

    def sees(self, point, color):
        """Whether a point of the picture [3] has most of one colour, 0 red to 2 blue."""
        picture = self.picture()
        column, row = self.pixel(point, picture)
        seen = picture[row - 1 : row + 2, column - 1 : column + 2].mean(axis=(0, 1))
        return seen[color] > 1.5 * np.delete(seen, color).max()


@pytest.mark.slow
@pytest.mark.parametrize("width", [800, 1920])
def test_everything_has_room(browser, width, tmp_path):
    """The scene has most of the width, and nothing is wider than the panel or below the window."""
    model = arm_and_box()
    browser.set_window_size(width, 750)
    with Viewer(model, 2, port=0, spacing=SPACING) as viewer:
        simulator = sim.Simulator(model, DT, 2)
        trajectory = simulator.rollout(simulator.initial_state(), steps=100)
        viewer.play(trajectory, playing=False)
        page = Page(browser, viewer)
        page.wait(lambda: page.found("//*[contains(@class, 'uplot')]"))
        viewer._player.seek(90)
        page.wait(lambda: page.found("//*[text()='0.375 s of 0.417 s']"))
        high = browser.execute_script("return window.innerHeight")
        canvas = browser.find_element(By.CSS_SELECTOR, "canvas")
        assert canvas.size["width"] >= width - 340
        chart = page.found("//*[contains(@class, 'uplot')]")[0]
        for each in (chart, page.row("State"), *page.found("//button[.//*[text()='Play']]")):
            rectangle = each.rect
            assert canvas.size["width"] <= rectangle["x"]
            assert rectangle["x"] + rectangle["width"] <= width
            assert rectangle["y"] + rectangle["height"] <= high
        assert page.found("//*[contains(text(), 'contact force of')]")
        browser.save_screenshot(str(tmp_path / f"{width}.png"))  # for a look at it
        page.click_on("//*[text()='Settings']")
        page.wait(lambda: page.shows("//label[text()='Opacity']"))
        clients = viewer._server.get_clients()
        camera = clients[max(clients)].camera
        before = np.array(camera.look_at)
        page.click("Look at the selected world")
        page.wait(lambda: np.linalg.norm(camera.look_at - before) > 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height", "free"), [(390, 844, (390, 338)), (800, 1000, (480, 1000))])
def test_narrow_pages_show_the_whole_scene(browser, width, height, free, tmp_path):
    """The boxes of both worlds are beside the panel, on a phone above it."""
    model = arm_and_box()
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 576}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        with Viewer(model, 2, port=0, spacing=SPACING) as viewer:
            page = Page(browser, viewer)
            for offset in (-SPACING / 2, SPACING / 2):
                box = model.q0[-7:-4] + np.array([offset, 0, 0])
                page.wait(lambda box=box: page.sees(box, 1))
                assert (page.pixel(box, page.picture()) < free).all()
            assert browser.execute_script("return document.documentElement.scrollWidth") == width
            browser.save_screenshot(str(tmp_path / f"{width}.png"))  # for a look at it
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_the_page(browser):
    browser.set_window_size(860, 560)
    model = arm_and_box()
    hinge = model.q_slice("hinge").start
    offsets = np.array([[-SPACING / 2, 0, 0], [SPACING / 2, 0, 0]])
    down, up = np.array([0.5, 0, 1]), np.array([0, 0, 1.5])  # the middle of the arm's box, and half pi further
    with Viewer(model, 2, port=0, spacing=SPACING) as viewer:
        viewer.offer_simulation(sim.Simulator(model, DT, 2))
        page = Page(browser, viewer)
        page.wait(lambda: all(page.sees(offset + down, 0) for offset in offsets))
        assert all(page.sees(offset + model.q0[-7:-4], 1) for offset in offsets)
        assert not any(page.sees(offset + up, 0) for offset in offsets)

        page.type("hinge [rad]", 1.5)
        page.wait(lambda: viewer.q[0, hinge] == 1.5)
        page.wait(lambda: page.sees(offsets[0] + up, 0))
        assert not page.sees(offsets[0] + down, 0)
        assert page.sees(offsets[1] + down, 0)  # the other world
        page.row("hinge [rad]").find_element(By.CSS_SELECTOR, "[role=slider]").send_keys(Keys.ARROW_LEFT)
        page.wait(lambda: viewer.q[0, hinge] == pytest.approx(1.499))

        q = np.tile(model.q0, (200, 2, 1))
        q[:, 1, hinge] = np.linspace(0, 1.4, 200)
        viewer.play(q, 0.05, playing=False)
        page.wait(lambda: page.found("//*[text()='0.000 s of 9.950 s']"))
        page.click("Play")
        page.wait(lambda: viewer.q[1, hinge] > q[4, 1, hinge])
        page.click("Pause")
        page.wait(lambda: page.found("//button[.//*[text()='Play']]"))
        paused = viewer._player.number
        time.sleep(0.1)
        np.testing.assert_array_equal(viewer.q, q[paused])
        page.click("Forward")
        page.wait(lambda: np.array_equal(viewer.q, q[paused + 1]))
        page.type("State", 199)
        page.wait(lambda: np.array_equal(viewer.q, q[199]))
        turned = np.array([0.5 * np.cos(1.4), 0, 1 + 0.5 * np.sin(1.4)])
        page.wait(lambda: page.sees(offsets[1] + turned, 0))

        page.click("Simulate from here")
        page.wait(lambda: page.found("//button[.//*[text()='Pause']]"))
        page.wait(lambda: viewer._player.number > 20)
        page.click("Pause")
        page.wait(lambda: page.found("//*[contains(text(), 'contact force')]"))
        assert abs(viewer.q[1, hinge] - 1.4) > 0.01


@pytest.mark.slow
def test_a_box_is_lifted_with_the_mouse(browser, tmp_path):
    """Ctrl and the mouse lift the box of one world while the simulation runs; it falls when the button is released."""
    browser.set_window_size(860, 560)
    model = arm_and_box()
    with Viewer(model, 2, port=0, spacing=SPACING) as viewer:
        viewer.offer_simulation(sim.Simulator(model, DT, 2))
        page = Page(browser, viewer)
        page.click("Simulate from here")
        page.wait(lambda: viewer._player.number > 20)
        picture = page.picture()
        column, row = page.pixel(model.q0[-7:-4] + np.array([SPACING / 2, 0, 0]), picture)
        canvas = browser.find_element(By.CSS_SELECTOR, "canvas")
        mouse = ActionChains(browser, duration=50)
        mouse.move_to_element_with_offset(canvas, column - picture.shape[1] // 2, row - picture.shape[0] // 2)
        mouse.key_down(Keys.CONTROL).click_and_hold()
        for _ in range(8):
            mouse.move_by_offset(0, -12)
        mouse.perform()
        page.wait(lambda: viewer.q[1, -5] > 0.6)
        assert viewer.q[0, -5] == pytest.approx(0.2, abs=1e-3)
        browser.save_screenshot(str(tmp_path / "pull.png"))  # for a look at it
        ActionChains(browser).release().key_up(Keys.CONTROL).perform()
        page.wait(lambda: viewer._live.pull is None and viewer.q[1, -5] < 0.5)


@pytest.mark.slow
def test_a_tendon_a_sensor_and_a_search(browser):
    """The tendon is drawn, its length and the sensor are among the curves, and a search shows its cost."""
    browser.set_window_size(860, 560)
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="rod", position=(0, 0, 1), axis=(0, 1, 0))
    builder.add_geometry("rod", "box", size=(0.05, 0.05, 0.4), position=(0, 0, -0.5), collides=False)
    builder.add_spatial_tendon("cord", [("world", (0.8, 0, 1)), ("rod", (0, 0, -0.9))])
    builder.add_sensor("speed", "joint_velocity", "hinge")
    simulator = sim.Simulator(builder.finalize("float64"), DT)
    trajectory = simulator.rollout(simulator.state([0.5]), steps=60)
    with Viewer(simulator.model, port=0) as viewer:
        viewer.play(trajectory, playing=False)
        page = Page(browser, viewer)
        page.wait(lambda: page.found("//*[contains(@class, 'uplot')]//canvas"))
        for choice, curve in (("Tendon lengths", "cord"), ("Sensor speed", "speed")):
            page.choose("Curves", choice)
            page.wait(lambda curve=curve: page.found(f"//*[contains(text(), '{curve}') and contains(text(), ': ')]"))
            page.wait(lambda: page.shows("//*[contains(@class, 'uplot')]//canvas"))
        drawn = page.picture()
        viewer._picture._tendons.show(False)
        page.wait(lambda: np.abs(page.picture() - drawn).max() > 50.0)

        costs = [Posture([1.0], weight=10.0, at=-1), Effort(1e-3)]
        ilqr(Problem(simulator, 10, costs, hold=2), iterations=3, watch=viewer.watch)
        page.choose("Curves", "Cost over iterations")
        page.wait(lambda: page.shows("//*[contains(@class, 'uplot')]//canvas"))
        page.wait(lambda: page.found("//*[contains(text(), 'cost') and contains(text(), ': ')]"))


@pytest.mark.slow
def test_a_texture_and_a_colour(browser):
    """The image lies on the side that faces up as the ray tracer has it, times the colour of the geometry."""
    halves = np.full((2, 64, 3), 255, dtype=np.uint8)
    halves[:, :32], halves[:, 32:] = (255, 40, 40), (40, 40, 255)  # red where x < 0, blue where x > 0
    scene = sim.ModelBuilder()
    scene.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="arm", axis=(0.0, 0.0, 1.0), limits=sim.Limits(-3.0, 3.0))
    image = sim.Material(0.9, texture=sim.Texture(halves), repeat=(1.0, 1.0))
    scene.add_geometry("arm", "box", size=(0.5, 0.5, 0.5), rgba=(1.0, 1.0, 1.0, 1.0), material=image)
    with Viewer(scene.finalize(), 1, port=0) as viewer:
        page = Page(browser, viewer)
        page.wait(lambda: page.sees((-0.25, 0.0, 0.5), 0) and page.sees((0.25, 0.0, 0.5), 2))
        page.type("hinge [rad]", 3.0)
        page.wait(lambda: page.sees((-0.25, 0.0, 0.5), 2) and page.sees((0.25, 0.0, 0.5), 0))
