"""The hand-written robots: the numbers in the files are those of the primitives."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes.manipulator import MANIPULATOR_URDF
from scenes.quadruped import QUADRUPED_URDF
from scenes.throw import ARM_URDF
from warp_kernels import types as codes

ROBOTS = [ARM_URDF, MANIPULATOR_URDF, QUADRUPED_URDF]


def numbers(element, key, default="0 0 0"):
    return np.array((element.get(key, default) if element is not None else default).split(), dtype=float)


def solid_moments(geometry, mass):
    """Principal moments of a solid primitive, from textbook formulas."""
    shape = geometry[0]
    if shape.tag == "box":
        x, y, z = numbers(shape, "size")
        return mass / 12 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    r = float(shape.get("radius"))
    if shape.tag == "sphere":
        return np.full(3, 0.4 * mass * r * r)
    assert shape.tag == "capsule"
    h = float(shape.get("length"))
    # Integrated over discs: the square of the profile's radius at height z is r^2 - max(|z| - h/2, 0)^2.
    z, w = np.polynomial.legendre.leggauss(20)
    pieces = [(-h / 2 - r, -h / 2), (-h / 2, h / 2), (h / 2, h / 2 + r)]
    volume = axial = across = 0.0
    for low, high in pieces:
        heights, weights = 0.5 * (high + low) + 0.5 * (high - low) * z, 0.5 * (high - low) * w * np.pi
        square = r * r - np.maximum(np.abs(heights) - h / 2, 0.0) ** 2
        volume += weights @ square
        axial += weights @ (square**2 / 2)
        across += weights @ (square**2 / 4 + square * heights**2)
    return mass / volume * np.array([across, across, axial])


@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: path.stem)
def test_inertias_are_those_of_the_first_visual(path):
    links = ET.parse(path).getroot().findall("link")
    assert links
    for link in links:
        inertial, visual = link.find("inertial"), link.find("visual")
        mass = float(inertial.find("mass").get("value"))
        file = {key: float(value) for key, value in inertial.find("inertia").attrib.items()}
        moments = solid_moments(visual.find("geometry"), mass)
        np.testing.assert_allclose(
            [file["ixx"], file["iyy"], file["izz"]], moments, rtol=1e-8, err_msg=link.get("name")
        )
        assert file["ixy"] == file["ixz"] == file["iyz"] == 0.0
        for key in ("xyz", "rpy"):
            np.testing.assert_array_equal(numbers(inertial.find("origin"), key), numbers(visual.find("origin"), key))


@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: path.stem)
def test_colliders_are_visible_and_of_supported_types(path):
    builder = sim.ModelBuilder()
    builder.add_urdf(path)
    colliders = [g for g in builder.finalize().geometries if g.collides]
    assert colliders
    assert {g.type for g in colliders} <= {codes.SPHERE, codes.CAPSULE, codes.BOX}


def test_arm_has_the_joints_it_should():
    builder = sim.ModelBuilder()
    part = builder.add_urdf(ARM_URDF)
    model = builder.finalize("float64")
    assert (model.nq, model.nv) == (9, 9)
    assert list(model.joint_type) == [codes.REVOLUTE] * 7 + [codes.PRISMATIC] * 2
    assert np.isfinite(model.parameters["lower_limit"]).all()
    assert (model.parameters["lower_limit"] < 0).all()
    assert (model.parameters["upper_limit"] > 0).all()
    assert np.isfinite(model.effort_limit).all()
    assert (model.parameters["damping"] > 0).all()
    total = sum(spec.mass for spec in builder.links.values())
    assert total == pytest.approx(20.77)
    assert model.qd_slice(part) == slice(0, 9)


def test_manipulator_has_its_masses_beside_the_axes():
    model = sim.load(MANIPULATOR_URDF, dtype="float64")
    assert (model.nq, model.nv) == (7, 7)
    moving = np.flatnonzero(model.joint_type == codes.REVOLUTE)
    assert model.parameters["mass"][moving].sum() == pytest.approx(21.3)
    assert (np.abs(model.parameters["com"][moving][:, 0]) > 0.04).all()
    assert (model.velocity_limit > 0.0).all()


def test_quadruped_is_symmetric():
    builder = sim.ModelBuilder()
    builder.add_urdf(QUADRUPED_URDF, floating_base=True)
    model = builder.finalize("float64")
    assert (model.nq, model.nv) == (19, 18)
    assert model.parameters["mass"].sum() == pytest.approx(13.64)
    for leg, sign in (("fl", (1, 1)), ("fr", (1, -1)), ("rl", (-1, 1)), ("rr", (-1, -1))):
        hip, calf = model.link(f"{leg}_hip"), model.link(f"{leg}_calf")
        np.testing.assert_allclose(model.parameters["joint_placement"][hip][:2], np.multiply(sign, (0.19, 0.05)))
        # The foot, welded on, is part of the calf: mass, centre of mass and inertia by hand.
        assert model.parameters["mass"][calf] == pytest.approx(0.31)
        com = (0.25 * 0.1065 + 0.06 * 0.213) / 0.31
        np.testing.assert_allclose(model.parameters["com"][calf], [0, 0, -com], atol=1e-15)
        rod, reduced = 0.25, 0.25 * 0.06 / 0.31
        calf_element = next(link for link in ET.parse(QUADRUPED_URDF).getroot() if link.get("name") == "fl_calf")
        expected = solid_moments(calf_element.find("visual/geometry"), rod) + 0.4 * 0.06 * 0.02**2
        expected[:2] += reduced * 0.1065**2
        np.testing.assert_allclose(np.diag(model.parameters["inertia"][calf]), expected, rtol=1e-7)


def test_rotations_in_the_files_are_exact_quarters():
    for path in ROBOTS:
        for origin in ET.parse(path).getroot().iter("origin"):
            turn = Rotation.from_euler("xyz", numbers(origin, "rpy")).as_matrix()
            np.testing.assert_allclose(turn, np.round(turn), atol=1e-11)
