"""Scenes with a known answer: what Backswing makes of them, and that the error shrinks with the time step."""

import numpy as np
import pytest

from bench.fidelity import measure, run_mujoco, table
from scenes.physics import spinning
from scenes.physics.scene import PhysicsScene
from scenes.physics.suite import scenes


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
def test_quantities(device, scene: PhysicsScene):
    motion = scene.run(device)
    for quantity in scene.quantities:
        off = quantity.measure(motion) - quantity.expected
        assert abs(off) <= quantity.bound, f"{quantity.name}: off by {off:.2e}; {quantity.why}"


@pytest.mark.parametrize("build", [spinning.top, spinning.tossed_body, spinning.floating_chain])
def test_free_motion_is_first_order(build):
    """A quarter of the step, a quarter of the error. What is called second order shrinks by its square."""
    coarse, fine = build(2e-4), build(5e-5)
    motions = coarse.run(), fine.run()
    for quantity, again in zip(coarse.quantities, fine.quantities, strict=True):
        errors = [abs(q.measure(m) - q.expected) for q, m in zip((quantity, again), motions, strict=True)]
        order = np.log(errors[0] / errors[1]) / np.log(4.0)
        expected = 2.0 if "second" in quantity.why else 1.0
        assert abs(order - expected) < 0.15, f"{quantity.name}: order {order:.2f}"


@pytest.mark.parametrize("build", [spinning.top, spinning.tossed_body, spinning.floating_chain])
def test_free_motion_is_that_of_mujoco(build):
    """Same integrator, same equations, other code: equal but for rounding, which two seconds let grow."""
    scene = build()
    own, peer = scene.run(), run_mujoco(scene)
    np.testing.assert_allclose(own.qd, peer.qd, atol=1e-8)
    np.testing.assert_allclose(own.q, peer.q, atol=1e-8)


def test_table():
    """One line per quantity, with the difference of both engines."""
    scene = scenes()[0]
    rows = measure(scene)
    assert [row.quantity for row in rows] == [quantity.name for quantity in scene.quantities]
    (line,) = table(rows).splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[0] == scene.name
    assert float(cells[4]) == pytest.approx(rows[0].backswing - rows[0].expected, rel=0.1)
    assert float(cells[5]) == pytest.approx(rows[0].mujoco - rows[0].expected, rel=0.1)
