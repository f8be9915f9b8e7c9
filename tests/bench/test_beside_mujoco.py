"""Robots beside MuJoCo, along its motion and in motions of their own, and the page that says so."""

from dataclasses import asdict

import pytest

from bench.beside_mujoco import page
from bench.beside_mujoco.differences import Difference, Row, measure
from tests.importers.reference import GYMNASIUM

# Rounding of some hundred operations with forces that cancel: 4e-14 at most in 1,000 steps of these files.
ROUNDING = 1e-12
STEPS = 120


@pytest.mark.parametrize("name", ["hopper", "half_cheetah"])
def test_rounding_is_all_that_differs(name):
    """RK4 and Euler's method, through contacts and limits; MuJoCo's own solver ends with more of an error."""
    path = GYMNASIUM / f"{name}.xml"
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    row = measure(path, f"gymnasium/{name}.xml", STEPS)
    assert row.touching > 20
    assert not row.left_out
    assert set(row.along) == {"velocity", "energy", "contact", "constraint", "actuator", "passive"}
    assert len(row.sensors) > 20
    apart = {key: each.converged for key, each in {**row.along, **row.sensors}.items()}
    assert max(apart.values()) < ROUNDING, apart
    assert max(apart.values()) > 0.0, "they are two engines"
    assert row.free["position"].here < 1e-9  # metres; MuJoCo's tolerance may show


def test_what_a_medium_hides_is_found_by_balance():
    path = GYMNASIUM / "swimmer.xml"
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    row = measure(path, "gymnasium/swimmer.xml", STEPS)
    assert len(row.left_out) == 1
    assert "medium" in row.left_out[0]
    apart = {key: each.converged for key, each in {**row.along, **row.sensors}.items()}
    assert max(apart.values()) < ROUNDING, apart


def test_page():
    small = Difference(2e-9, 3e-15, 2e-9, 5.0)
    free = Difference(float("inf"), None, 1e-8, 1.0)
    row = Row(
        "a b",
        7,
        "RK4",
        3,
        along={"energy": small, "constraint": small, "velocity": small},
        sensors={"gyro": small, "touch": Difference(0.0, 0.0, 0.0, 1.0)},
        free={"position": free, "energy": free},
        free_sensors={"gyro": free},
        left_out=["Simulator: sensor 'x' can't measure the force of tendon 't' on its link"],
    )
    assert row.record["free"]["position"] == {**asdict(free), "here": None}
    text = page.section({"steps": 1000, "rows": [row.record]})
    assert "| a b¹² | 7 | 3 | 3e-15 | 3e-15 | - | - | 3e-15 gyro | 2e-9 |" in text
    assert "| gyro | 1 | 3e-15 | 3e-15 | a b |" in text
    assert "| a b | - (1e-8) | - (1e-8) | - | - | - (1e-8) |" in text
    assert "for 1,000 steps" in text
    assert "what the tendon t pulls at (a b)" in text
