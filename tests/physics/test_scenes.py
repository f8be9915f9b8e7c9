"""Scenes with a known answer: what Backswing makes of them, and that the error shrinks with the time step."""

import numpy as np
import pytest

import sim
from bench.fidelity import measure, run_mujoco, table
from scenes.physics import spinning
from scenes.physics.scene import PhysicsScene
from scenes.physics.suite import hard_scenes, scenes
from tests.simulation.differences import METHODS

# The sweeps hold no stack of ten with their defaults: they creep towards one of many solutions. Softness makes it
# unique, and a warm start lets the sweeps reach it.
SWEEPS = {"stack of 10 boxes": sim.PgsContact(warm_start=True, cfm=0.1)}


def check(scene: PhysicsScene, device: str, solver: str) -> None:
    contact = SWEEPS.get(scene.name) if solver == "pgs" else None
    motion = scene.run(device, contact or METHODS[solver]())
    for quantity in scene.quantities:
        off = quantity.measure(motion) - quantity.expected
        bound = quantity.bound + (quantity.softness if solver == "newton" else 0.0)
        assert abs(off) <= bound, f"{quantity.name}: off by {off:.2e}; {quantity.why}"


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
@pytest.mark.parametrize("solver", ["newton", "pgs"])
def test_quantities(device, scene: PhysicsScene, solver: str):
    check(scene, device, solver)


@pytest.mark.parametrize("scene", hard_scenes(), ids=lambda scene: scene.name)
def test_quantities_of_hard_scenes(device, scene: PhysicsScene):
    check(scene, device, "newton")


@pytest.mark.parametrize("build", [spinning.top, spinning.tossed_body, spinning.floating_chain])
def test_errors_of_free_motion_shrink_with_the_step(build):
    """A quarter of the step, a quarter of the error. What is called second order shrinks by its square."""
    coarse, fine = build(2e-4), build(5e-5)
    motions = coarse.run(), fine.run()
    for quantity, again in zip(coarse.quantities, fine.quantities, strict=True):
        if quantity.why == spinning.KEPT:
            continue
        errors = [abs(q.measure(m) - q.expected) for q, m in zip((quantity, again), motions, strict=True)]
        order = np.log(errors[0] / errors[1]) / np.log(4.0)
        expected = 2.0 if quantity.why == spinning.SECOND_ORDER else 1.0
        assert abs(order - expected) < 0.15, f"{quantity.name}: order {order:.2f}"


@pytest.mark.parametrize("build", [spinning.top, spinning.tossed_body, spinning.floating_chain])
def test_free_motion_converges_to_that_of_mujoco(build):
    """Another rule for gyroscopic forces: a quarter of the step, a quarter of the difference, or less."""
    differences = []
    for dt in (2e-4, 5e-5):
        scene = build(dt)
        own, peer = scene.run(), run_mujoco(scene)
        differences.append(np.abs(own.qd - peer.qd).max() / np.abs(peer.qd).max())
    assert differences[-1] < 5e-3
    assert np.log(differences[0] / differences[1]) / np.log(4.0) > 0.85


def test_table():
    """One line per quantity, with the errors of both solvers and of MuJoCo."""
    scene = scenes()[0]
    rows = measure(scene)
    assert [row.quantity for row in rows] == [quantity.name for quantity in scene.quantities]
    (line,) = table(rows).splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[0] == scene.name
    for cell, value in zip(cells[4:], (rows[0].newton, rows[0].pgs, rows[0].mujoco), strict=True):
        assert float(cell) == pytest.approx(value - rows[0].expected, rel=0.1)
