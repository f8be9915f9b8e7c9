"""Lights of the viewer, by the formulas of the browser's library: irradiance over pi, powers of the distance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sim
from sim.render.colors import light_of
from sim.render.lights import fitting_exposure
from sim.viewer import Viewer
from sim.viewer.lights import falloff

TURN = (0.0, np.sin(0.3), 0.0, np.cos(0.3))
BACK = np.array([np.sin(0.6), 0.0, np.cos(0.6)])  # where a light with this rotation comes from


def model_with(**lights):
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("slide", "prismatic", child="arm", axis=(1.0, 0.0, 0.0))
    scene.add_geometry("arm", "box", size=(0.2, 0.2, 0.2), position=(0.0, 0.0, 0.5))
    for name, (light, link) in lights.items():
        scene.add_light(name, light, link, (0.1, 0.2, 1.5), TURN)
    return scene.finalize()


def shown(viewer):
    """Return the nodes of the lights by name."""
    return {one.name: node for one, node in viewer._picture._lights._placed}


def reflected(node, distance=1.0):
    """Return the light of a node on a matte white surface that faces it [3]."""
    decay = getattr(node, "decay", 0.0)
    return light_of(np.array(node.color) / 255.0) * node.intensity / np.pi / distance**decay


def test_lights_of_the_model():
    """Each is as bright, where, and as wide as in the ray tracer."""
    lights = {
        "sun": (sim.Light("directional", (1.0, 0.8, 0.5)), "world"),
        "lamp": (sim.Light("point", (2.0, 1.0, 0.5)), "arm"),
        "far": (sim.Light("point", (0.4, 0.4, 0.4), attenuation=(2.0, 0.0, 0.0), shadow=False), "world"),
        "spot": (sim.Light("point", (0.2, 0.3, 0.9), cone=35.0, softness=0.3), "arm"),
        "panel": (sim.Light("area", (0.2, 0.3, 0.9), size=(0.3, 0.2)), "world"),
        "headlight": (sim.Light("headlight", (0.1, 0.1, 0.1)), "world"),
    }
    model = model_with(**lights)
    exposure = fitting_exposure(model, model.lights)
    with Viewer(model, port=0) as viewer:
        nodes = shown(viewer)
        assert set(nodes) == set(lights)
        for name, (light, _) in lights.items():
            for distance in (0.5, 3.0):
                fall = (
                    1.0 if light.type in ("directional", "headlight") else distance ** np.arange(3) @ light.attenuation
                )
                expected = exposure * np.array(light.color) / fall
                assert_allclose(reflected(nodes[name], distance), expected, rtol=0.02, atol=1e-3)  # bytes
        assert_allclose(nodes["sun"].position, BACK, atol=1e-6)
        assert_allclose(nodes["lamp"].position, (0.1, 0.2, 1.5), atol=1e-6)
        assert_allclose(nodes["spot"].wxyz, np.roll(TURN, 1), atol=1e-6)
        assert nodes["spot"].angle == pytest.approx(np.radians(35.0))
        assert nodes["spot"].penumbra == pytest.approx(0.3)
        assert nodes["lamp"].cast_shadow
        assert not nodes["far"].cast_shadow
        viewer.show([0.7])
        assert_allclose(nodes["lamp"].position, (0.8, 0.2, 1.5), atol=1e-6)
        assert_allclose(nodes["far"].position, (0.1, 0.2, 1.5), atol=1e-6)


def test_attenuations_that_the_browser_lacks_are_right_at_the_middle():
    light = sim.Light("point", (0.5, 0.4, 0.3), attenuation=(1.0, 0.5, 0.2))
    for distance in (0.3, 2.0):
        decay, ratio = falloff(light, distance)
        near, there = (1.0 / (d ** np.arange(3) @ light.attenuation) for d in (1.001 * distance, distance))
        assert ratio / distance**decay == pytest.approx(there)
        assert ratio / (1.001 * distance) ** decay == pytest.approx(near, rel=1e-6)  # and its slope


def test_skies_light_what_faces_up_and_down():
    """A uniform sky and the image of one, whose upper half is blue."""
    image = np.zeros((16, 32, 3), dtype=np.float32)
    image[:8] = (0.2, 0.4, 0.8)
    dome = sim.Light("sky", texture=sim.Texture(image))
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_light("sky", sim.Light("sky", (0.1, 0.1, 0.1)))
    scene.add_light("dome", dome)
    model = scene.finalize()
    exposure = fitting_exposure(model, model.lights)
    with Viewer(model, port=0) as viewer:
        node = viewer._picture._lights.sky
        above, below = (
            light_of(np.array(color) / 255.0) * node.intensity / np.pi for color in (node.sky_color, node.ground_color)
        )
    # Half of the sphere around the normal; spherical harmonics up to order 2 miss nothing along this axis.
    assert_allclose(above / exposure, np.array([0.3, 0.5, 0.9]), rtol=0.05)
    assert_allclose(below / exposure, np.array([0.1, 0.1, 0.1]), atol=0.05)


def test_models_without_lights_have_fixed_ones():
    with Viewer(model_with(), port=0) as viewer:
        assert not shown(viewer)
        assert viewer._picture._lights.sky.intensity == 1.5


def test_several_worlds_have_the_lights_without_a_position():
    lights = {"sun": (sim.Light("directional"), "world")}
    with Viewer(model_with(**lights), 2, port=0) as viewer:
        assert set(shown(viewer)) == {"sun"}
    lights["lamp"] = (sim.Light("point"), "world")
    with Viewer(model_with(**lights), 2, port=0) as viewer:
        assert not shown(viewer)
