"""Curves beside the scene: those of the motion, of its sensors and contacts, and the cost of a search."""

import mujoco
import numpy as np
import pytest

import sim
from sim.optimise import Effort, Posture, Problem, cmaes, gradient, ilqr, lbfgs
from sim.render.tendons import num_tendon_pieces, tendon_pieces
from sim.viewer import Viewer
from tests.errors import raises_naming
from tests.viewer.worlds import arm_and_box, node

DT = 1 / 240


def plotted(viewer, name, world=0):
    """Times [n] and curves [n, k] of a choice, as they are sent to the page."""
    plots = viewer._plots
    viewer._world.value = str(world)
    plots._choice.value = name
    plots.redraw()
    data = plots._chart.data
    assert len(plots._chart.series) == len(data)
    return data[0], np.stack(data[2:], axis=1)


@pytest.fixture(scope="module")
def fallen():
    """The arm falls, and the box drops by 5 cm; different in both worlds."""
    builder = sim.ModelBuilder()
    builder.add_ground(surface=sim.Surface(friction=0.5))
    builder.add_link("upper", mass=1.0, com=(0.3, 0, 0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="upper", position=(0, 0, 1.5), axis=(0, -1, 0))
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, name="box", position=(0, 0.8, 0.15))
    builder.add_sensor("speed", "joint_velocity", "hinge")
    builder.add_sensor("upright", "frame_z_axis", "box")
    simulator = sim.Simulator(builder.finalize("float64"), DT, 2)
    q = np.tile(simulator.model.q0, (2, 1))
    q[1, 0] = 0.5
    return simulator, simulator.rollout(simulator.state(q), steps=120)


def test_curves_are_those_of_the_trajectory(fallen):
    simulator, trajectory = fallen
    model = simulator.model
    q, qd = trajectory.q.numpy(), trajectory.qd.numpy()
    with Viewer(model, 2, port=0) as viewer:
        viewer.play(trajectory, playing=False, readings={"height above all": q[:, :, 3]})
        assert viewer._plots._choice.options == (
            "Joint positions", "Positions of free bodies", "Joint velocities", "Contact forces", "Sensor speed",
            "Sensor upright", "height above all",
        )  # fmt: skip
        for world in (0, 1):
            times, hinge = plotted(viewer, "Joint positions", world)
            np.testing.assert_allclose(times, np.arange(121) * DT, atol=1e-12)
            np.testing.assert_array_equal(hinge, q[:, world, :1])
            np.testing.assert_array_equal(plotted(viewer, "Positions of free bodies", world)[1], q[:, world, 1:4])
            np.testing.assert_array_equal(plotted(viewer, "Joint velocities", world)[1], qd[:, world, :1])
            np.testing.assert_array_equal(plotted(viewer, "height above all", world)[1], q[:, world, 3:4])
            speed = plotted(viewer, "Sensor speed", world)[1]
            np.testing.assert_allclose(speed[:-1], qd[:-1, world, :1], atol=1e-12)
            assert speed[-1] == speed[-2]  # a step's readings are those of the state before it
            assert plotted(viewer, "Sensor upright", world)[1].shape == (121, 3)
        times, force = plotted(viewer, "Contact forces")
        assert force[0] == 0.0  # in the air
        assert force[-1, 0] == pytest.approx(2.0 * 9.81, rel=1e-3)  # at rest, its weight


def test_the_chart_shows_what_has_been_played(fallen):
    simulator, trajectory = fallen
    with Viewer(simulator.model, 2, port=0) as viewer:
        viewer.play(trajectory, playing=False)
        viewer._sliders_shown = 0.0
        viewer._player.seek(30)
        played = viewer._plots._chart.data[1]
        np.testing.assert_array_equal(played, np.arange(121) <= 30)
        assert f"hinge [rad]: {trajectory.q.numpy()[30, 0, 0]:.4g}" in viewer._plots._legend.content
        q = np.tile(simulator.model.q0, (1000, 2, 1))
        viewer.play(q, 0.01, playing=False)  # without a simulator nobody knows forces and velocities
        assert viewer._plots._choice.options == ("Joint positions", "Positions of free bodies")
        assert len(viewer._plots._chart.data[0]) == 300  # no more than can be seen
        assert viewer._plots._chart.data[0][-1] == pytest.approx(9.99)


def test_a_live_simulation_grows():
    model = arm_and_box()
    simulator = sim.Simulator(model, DT, 1)
    with Viewer(model, port=0) as viewer:
        viewer.offer_simulation(simulator)
        viewer._simulate._impl.update_cb[0](None)
        viewer._player.seek(0)
        viewer._plots._computed = 0.0
        viewer._player.step(5)
        viewer._plots._computed = 0.0
        viewer._plots.mark(5)
        assert len(viewer._plots._chart.data[0]) == len(viewer._player._motion) > 5


@pytest.mark.parametrize(
    ("readings", "named"),
    [({"x": np.zeros((7, 2))}, "'x'"), ({"x": np.zeros((121, 3))}, "'x'"), ({"y": np.full((121, 2), np.nan)}, "'y'")],
)
def test_readings_that_do_not_fit(fallen, readings, named):
    simulator, trajectory = fallen
    with Viewer(simulator.model, 2, port=0) as viewer, pytest.raises(sim.ModelError, match=named):
        viewer.play(trajectory, readings=readings)


MUSCLE = """
<mujoco>
  <worldbody>
    <site name="wall" pos="-0.3 0 1.1"/>
    <geom name="pin" type="sphere" size="0.08" pos="0 0 1" contype="0" conaffinity="0"/>
    <body pos="0 0 0.95">
      <joint name="elbow" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" mass="1" contype="0" conaffinity="0"/>
      <site name="hand" pos="0.4 0 0.03"/>
    </body>
  </worldbody>
  <tendon><spatial name="cord"><site site="wall"/><geom geom="pin"/><site site="hand"/></spatial></tendon>
</mujoco>
"""


def test_tendons_are_drawn_and_measured(tmp_path):
    path = tmp_path / "muscle.xml"
    path.write_text(MUSCLE)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    model = builder.finalize("float64")
    q = np.linspace(-0.5, 0.8, 5)[:, None, None] * np.ones((1, 2, 1))
    peer = mujoco.MjModel.from_xml_string(MUSCLE)
    data, lengths = mujoco.MjData(peer), []
    for angle in q[:, 0, 0]:
        data.qpos[:] = angle
        mujoco.mj_forward(peer, data)
        lengths.append(data.ten_length[0])
    with Viewer(model, 2, port=0, spacing=2.0) as viewer:
        viewer.play(q, 0.1, playing=False)
        np.testing.assert_allclose(plotted(viewer, "Tendon lengths")[1][:, 0], lengths, atol=1e-9)
        viewer._player.seek(3)
        drawn = node(viewer, "/tendons").points.reshape(2, num_tendon_pieces(model), 2, 3)
        expected = tendon_pieces(model, sim.forward_kinematics(model, q[3, :1]).numpy()[0])
        np.testing.assert_allclose(drawn[1] - [1, 0, 0], expected, atol=1e-6)
        viewer._picture._tendons.show(False)
        assert not node(viewer, "/tendons").visible


@pytest.fixture(scope="module")
def problem():
    builder = sim.ModelBuilder()
    builder.add_link("rod", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("hinge", "revolute", child="rod", axis=(0, 1, 0))
    simulator = sim.Simulator(builder.finalize("float64"), 0.02, device="cpu")
    return Problem(simulator, 10, [Posture(np.array([1.0]), weight=10.0, at=-1), Effort(1e-3)], hold=2)


@pytest.mark.parametrize(
    ("method", "starts", "options"),
    [(ilqr, 3, {"starts": 3}), (gradient, 3, {"starts": 3}), (lbfgs, 1, {}), (cmaes, 6, {"population": 6})],
)
def test_a_search_is_watched_and_not_disturbed(problem, method, starts, options):
    seen = []
    found = method(problem, iterations=4, watch=lambda each: seen.append((each, each.q)), **options)
    alone = method(problem, iterations=4, **options)
    np.testing.assert_array_equal(found.controls, alone.controls)
    assert found.history == alone.history
    assert [len(each.history) for each, _ in seen] == sorted({len(each.history) for each, _ in seen})
    assert list(seen[-1][0].history) == found.history[: len(seen[-1][0].history)]
    for each, q in seen:
        assert q.shape == (11, starts, 1)
        assert each.dt == 0.04
        controls = each.unknowns[0].reshape(10, 1)
        np.testing.assert_allclose(q[:, 0], problem.states_of(controls)[0][::2], atol=1e-9)


def test_the_viewer_follows_a_search(problem, monkeypatch):
    monkeypatch.setattr("sim.viewer.viewer.WATCH_PERIOD", 0.0)
    with Viewer(problem.simulator.model, 2, port=0) as viewer:
        shown = []

        def watch(iteration):
            viewer.watch(iteration)
            viewer._player.seek(10)
            shown.append(viewer.q[:, 0])
            np.testing.assert_allclose(viewer.q, iteration.q[-1, :2])

        found = ilqr(problem, starts=3, iterations=4, watch=watch)
        assert viewer._plots._choice.value == "Cost over iterations"
        np.testing.assert_allclose(viewer._plots._chart.data[1], found.history[: len(shown)])
        assert f"cost {found.history[len(shown) - 1]:.5g}" in viewer._plots._legend.content
        assert len({tuple(each) for each in shown}) > 1
        np.testing.assert_allclose(plotted(viewer, "Joint positions", 1)[1][-1], shown[-1][1])

        class Diverged:
            history, dt = [3.0], 0.1
            q = np.where(np.arange(5)[:, None, None] < 3, np.arange(5.0)[:, None, None], np.nan) * np.ones((1, 2, 1))

        viewer.watch(Diverged())
        viewer._player.seek(4)
        np.testing.assert_array_equal(viewer.q, 2.0)  # it stands where it was last finite
        Diverged.q = Diverged.q[:, :1]
        with raises_naming("2 worlds"):
            viewer.watch(Diverged())
