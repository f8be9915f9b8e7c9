"""Models and trajectories as notebooks show them: tables in HTML, and plots."""

import numpy as np
import pytest

import sim


@pytest.fixture(scope="module")
def trajectory():
    """A box that falls beside a post, in two worlds, with stored states two steps apart."""
    scene = sim.ModelBuilder()
    scene.add_box(name="a <box>", half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0.0, 0.0, 1.0))
    scene.add_link("pole", mass=1.0, inertia=(1.0, 1.0, 1.0))
    scene.add_joint("hinge", "revolute", child="pole", axis=(0, 1, 0), position=(2.0, 0.0, 0.0))
    simulator = sim.Simulator(scene.finalize(), dt=0.01, num_worlds=2, device="cpu")
    q = np.tile(simulator.model.q0, (2, 1))
    q[1, 2] = 3.0
    return simulator.rollout(simulator.state(q), steps=5, checkpoint_interval=2)


def test_a_model_is_a_table_of_its_links(trajectory):
    shown = trajectory.simulator.model._repr_html_()
    assert "a &lt;box&gt;" in shown
    assert "<td>hinge</td><td>revolute</td><td>world</td><td>1</td>" in shown


def test_a_long_table_is_cut():
    scene = sim.ModelBuilder()
    for k in range(70):
        scene.add_sphere(name=f"ball {k}", radius=0.1, mass=1.0)
    shown = scene.finalize()._repr_html_()
    assert shown.count("<tr>") == 1 + 60 + 1
    assert "10 more" in shown


def test_the_class_is_shown_without_a_trajectory():
    """Its arrays are made when they are read; tools for documentation read them from the class."""
    for name in ("q", "tau", "broken"):
        assert getattr(sim.Trajectory, name) is vars(sim.Trajectory)[name]


def test_a_trajectory_is_a_table_of_its_joints(trajectory):
    shown = trajectory._repr_html_()
    last = ", ".join(f"{value:.4g}" for value in trajectory.q.numpy()[-1, 0, :7])
    assert f"<td>{last}</td>" in shown
    assert "<td>hinge</td><td>0</td>" in shown


@pytest.mark.parametrize("velocities", [False, True])
def test_plots_have_a_curve_for_each_coordinate(trajectory, velocities):
    figure = trajectory.plot(1, velocities=velocities)
    found = [line for axes in figure.axes for line in axes.get_lines()]
    values = (trajectory.qd if velocities else trajectory.q).numpy()[:, 1]
    np.testing.assert_array_equal(np.stack([line.get_ydata() for line in found], axis=1), values)
    for line in found:
        np.testing.assert_allclose(line.get_xdata(), [0.0, 0.02, 0.04, 0.05])
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == list(
        trajectory.simulator.model.joint_names
    )


@pytest.mark.parametrize("world", [2, -1, 0.5])
def test_a_world_that_is_not_there_is_refused(trajectory, world):
    with pytest.raises(sim.ModelError, match="world"):
        trajectory.plot(world)
