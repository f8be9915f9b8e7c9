"""What the viewer sends to the browser, and what it makes of what the user does there."""

import asyncio
import socket
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from sim.render import Camera
from sim.render.tessellation import sphere, tessellate
from sim.viewer import Viewer
from sim.viewer.geometries import split_creases
from sim.viewer.pull import Pull
from sim.viewer.sliders import to_angles
from sim.viewer.viewer import above_panel
from tests.errors import raises_naming
from tests.viewer.worlds import arm_and_box, arrows, control, node

DT = 1 / 240


@pytest.fixture(scope="module")
def model():
    return arm_and_box()


@pytest.fixture
def viewer(model):
    with Viewer(model, 2, port=0, spacing=3.0) as viewer:
        yield viewer


def set_by_user(viewer, label, value):
    """As the browser does it, when all that it causes is done."""
    handle = control(viewer, label)
    handle._impl.value = value
    act(handle)


def act(handle):
    """Run the callbacks of a value that the browser has sent."""
    client = type("Event", (), {"client_id": 0, "client": None, "target": handle})()
    for callback in handle._impl.update_cb:
        callback(client)


def test_shapes_are_where_kinematics_puts_them(model, viewer):
    q = np.tile(model.q0, (2, 1))
    q[1, model.q_slice("hinge")] = 0.7
    q[0, -7:] = [0.3, -0.4, 0.9, *Rotation.from_rotvec([0.3, 0.5, -0.2]).as_quat()]
    viewer.show(q)
    np.testing.assert_array_equal(viewer.q, q)
    red, green = (node(viewer, f"/shapes/{k}") for k in named_shapes(model))
    turned = Rotation.from_rotvec([0, -0.7, 0])
    offsets = np.array([[-1.5, 0, 0], [1.5, 0, 0]])
    middles = np.array([[0.5, 0, 0], turned.apply([0.5, 0, 0])]) + np.array([0, 0, 1])
    np.testing.assert_allclose(red.batched_positions - offsets, middles, atol=1e-6)
    np.testing.assert_allclose(red.batched_wxyzs[1, [1, 2, 3, 0]], turned.as_quat(), atol=1e-6)
    np.testing.assert_allclose(green.batched_positions - offsets, [q[0, -7:-4], model.q0[-7:-4]], atol=1e-6)
    np.testing.assert_allclose(green.batched_wxyzs[0, [1, 2, 3, 0]], q[0, -4:], atol=1e-6)


def named_shapes(model):
    solids = [geometry for geometry in model.geometries if geometry.visible and geometry.name != "ground"]
    return [f"{number}_{geometry.name.replace('/', '_')}" for number, geometry in enumerate(solids)]


def test_edges_stay_sharp_and_surfaces_smooth(model):
    box = tessellate(model.geometries[-1])
    vertices, faces = split_creases(box)
    assert len(vertices) == 24
    np.testing.assert_array_equal(vertices[faces], box.vertices[box.faces])
    ball = sphere(1.0, 16)
    assert len(split_creases(ball)[0]) == len(ball.vertices)


def test_sliders_have_limits_units_and_angles(model, viewer):
    hinge, wheel, slide = (control(viewer, label) for label in ("hinge [rad]", "wheel [rad]", "slide [m]"))
    assert (hinge.min, hinge.max, hinge.value) == (-0.5, 1.5, 0.0)
    assert (wheel.min, wheel.max) == (-3.1416, 3.1416)
    assert slide.disabled
    set_by_user(viewer, "World", "1")
    set_by_user(viewer, "hinge [rad]", 1.0)
    set_by_user(viewer, "box_free x [m]", 0.25)
    set_by_user(viewer, "box_free yaw [rad]", 1.0)
    set_by_user(viewer, "box_free pitch [rad]", -0.5)
    expected = np.tile(model.q0, (2, 1))
    expected[1, model.q_slice("hinge")] = 1.0
    expected[1, model.q_slice("slide")] = 0.6  # it follows: 0.5 * 1.0 + 0.1
    expected[1, -7:] = [0.25, 0.8, 0.2, *Rotation.from_euler("xyz", [0, -0.5, 1.0]).as_quat()]
    np.testing.assert_allclose(viewer.q, expected, atol=1e-9)
    assert slide.value == 0.6
    q = model.q0.copy()
    q[model.q_slice("hinge")], q[model.q_slice("wheel")] = 1.7, 7.0
    viewer.show(q)
    assert (hinge.max, hinge.value) == (1.7, 1.7)  # beyond its limit, as it is
    assert wheel.value == round(7.0 - 2 * np.pi, 4)


@pytest.mark.parametrize("label", ["State", "hinge [rad]"])
def test_the_last_value_typed_counts(model, viewer, monkeypatch, label):
    """A browser sends every keystroke. The last one arrives while the program still acts on the first."""
    viewer.play(np.tile(model.q0, (100, 2, 1)), 0.01, playing=False)
    slider, show = control(viewer, label), viewer._show_pose

    def show_slowly(*args, **options):
        slider._impl.value = 1.25 if label != "State" else 99
        show(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(viewer, "_show_pose", show_slowly)
        set_by_user(viewer, label, 1)
    act(slider)
    assert slider.value == pytest.approx(viewer._player.number if label == "State" else viewer.q[0, 0])
    assert slider.value > 1
    act(slider)  # nothing is left to do
    viewer.play(np.tile(model.q0, (50, 2, 1)), 0.01, playing=False)  # and the program moves it again
    assert slider.value == 0


def test_spherical_joints_have_three_angles():
    builder = sim.ModelBuilder()
    builder.add_link("ball", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("socket", "spherical", child="ball", limits=sim.Limits(swing=0.5))
    model = builder.finalize()
    with Viewer(model, port=0) as viewer:
        assert control(viewer, "socket roll [rad]").hint.endswith("swing at most 0.5 rad")
        set_by_user(viewer, "socket roll [rad]", 0.4)
        np.testing.assert_allclose(viewer.q[0], Rotation.from_rotvec([0.4, 0, 0]).as_quat(), atol=1e-9)


@pytest.mark.parametrize("angles", [(0.3, -0.8, 2.5), (-3.0, 1.5, -3.1), (0.4, np.pi / 2, 0.3), (0.4, -np.pi / 2, 0.3)])
def test_angles_make_the_same_orientation(angles):
    turn = Rotation.from_euler("xyz", angles)
    again = Rotation.from_euler("xyz", to_angles(turn.as_quat()))
    assert (turn * again.inv()).magnitude() < 1e-6
    if abs(angles[1]) < 1.55:
        np.testing.assert_allclose(to_angles(turn.as_quat()), angles, atol=1e-12)


def test_play_pause_step_and_scrub(model, viewer):
    q = np.tile(model.q0, (100, 2, 1))
    q[:, 1, model.q_slice("hinge").start] = np.linspace(0, 1, 100)
    viewer.play(q, 0.01, playing=False)
    np.testing.assert_array_equal(viewer.q, q[0])
    viewer._player.step(3)
    np.testing.assert_array_equal(viewer.q, q[3])
    viewer._player.step(-5)
    np.testing.assert_array_equal(viewer.q, q[0])
    set_by_user(viewer, "State", 40)
    np.testing.assert_array_equal(viewer.q, q[40])
    viewer._player.play()
    wait_for(lambda: viewer._player.number not in (40, 0))
    viewer.show(model.q0)
    assert not viewer._player.playing
    viewer._player.seek(99)
    set_by_user(viewer, "Loop", False)
    viewer._player.play()
    wait_for(lambda: not viewer._player.playing)
    assert viewer._player.number == 99


def test_contacts_of_a_trajectory(model, viewer):
    """The box lies still, so that the forces on it are its weight; the arrow of its weight has the usual length."""
    simulator = sim.Simulator(model, DT, 2)
    trajectory = simulator.rollout(simulator.initial_state(), steps=4)
    viewer.play(trajectory, playing=False)
    viewer._player.seek(2)
    expected = simulator.contacts(trajectory.state(2))
    drawn = arrows(viewer, "/contacts")
    scale = 0.5 * picture_height(model) / (2.0 * 9.81)
    bearing = np.linalg.norm(expected.force, axis=1) > 0
    np.testing.assert_allclose(drawn, scale * expected.force[bearing], atol=1e-6)
    assert bearing.sum() == 8
    np.testing.assert_allclose(drawn.sum(axis=0), [0, 0, 2 * 0.5 * picture_height(model)], atol=5e-3)
    tails = node(viewer, "/contacts/arrows").points[:, 0]
    np.testing.assert_allclose(tails, expected.point[bearing] + viewer._offsets[expected.world[bearing]], atol=1e-6)
    set_by_user(viewer, "Arrow length", 2.0)
    np.testing.assert_allclose(arrows(viewer, "/contacts"), 2 * drawn, atol=1e-6)
    assert "contact force of 19.6 N" in viewer._legend.content
    viewer._player.seek(4)  # no step begins at the last state
    assert len(arrows(viewer, "/contacts")) == 0
    viewer.show_contacts(expected)
    assert len(arrows(viewer, "/contacts")) == 8
    viewer.show(model.q0)
    assert len(arrows(viewer, "/contacts")) == 0


def picture_height(model):
    camera = sim.render.fit_camera(model, sim.forward_kinematics(model, model.q0[None]).numpy())
    return 2.0 * camera.distance * np.tan(np.radians(camera.fov) / 2.0)


def test_simulation_from_the_pose_that_is_shown(model, viewer):
    simulator = sim.Simulator(model, DT, 2)
    viewer.offer_simulation(simulator)
    q = model.q0.copy()
    q[-5] = 1.0
    viewer.show(q)
    for callback in control(viewer, "Simulate from here")._impl.update_cb:
        callback(None)
    wait_for(lambda: viewer._player.number > 30)
    viewer._player.play(False)
    viewer._player.seek(24)
    assert viewer.q[0, -5] == pytest.approx(1.0 - 9.81 * DT**2 * 24 * 25 / 2, abs=1e-5)
    expected = simulator.rollout(simulator.state(q), steps=24)
    np.testing.assert_array_equal(viewer.q, expected.q.numpy()[-1])


@pytest.mark.filterwarnings("ignore::sim.errors.NotFiniteWarning")
def test_a_simulation_that_blows_up_stops_and_says_so(model):
    with Viewer(model, port=0) as viewer:
        viewer.offer_simulation(sim.Simulator(model, DT), qd=np.full(model.nv, 1e37))
        for callback in control(viewer, "Simulate from here")._impl.update_cb:
            callback(None)
        wait_for(lambda: "isn't finite after" in viewer._player._text.content)
        assert not viewer._player.playing
        assert np.isfinite(viewer.q).all()


def test_gradients_at_points_and_links(model, viewer):
    viewer.show_gradients([[1, 2, 3], [0, 0, 0]], [[0, 0, 5], [0, 2, 0]], worlds=[1, 0])
    length = 0.2 * picture_height(model)
    np.testing.assert_allclose(arrows(viewer, "/gradients"), [[0, 0, length], [0, 0.4 * length, 0]], atol=1e-6)
    np.testing.assert_allclose(node(viewer, "/gradients/arrows").points[0, 0], [2.5, 2, 3], atol=1e-6)
    vectors = np.zeros((1, 2, model.num_links, 3))
    vectors[0, 1, model.link("box")] = [0, 3, 0]
    viewer.play(np.tile(model.q0, (2, 2, 1)), 0.1, gradients=vectors, playing=False)
    np.testing.assert_allclose(arrows(viewer, "/gradients"), [[0, length, 0]], atol=1e-6)
    np.testing.assert_allclose(node(viewer, "/gradients/arrows").points[0, 0], [1.5, 0.8, 0.2], atol=1e-6)
    viewer._player.step(1)
    assert len(arrows(viewer, "/gradients")) == 0


def test_switches(viewer, model):
    for label in ("Link names", "Joint names", "Link axes", "Collision shapes"):
        set_by_user(viewer, label, True)
    texts = {node(viewer, f"/link_names/{k}").text for k in range(model.num_links)}
    assert texts == set(model.link_names)
    wheel = model.link("wheel")
    np.testing.assert_allclose(node(viewer, f"/joint_names/{wheel}").position, [-1.5, 0, 1], atol=1e-6)
    assert node(viewer, "/axes").visible
    assert node(viewer, "/colliders").visible
    set_by_user(viewer, "Shapes", False)
    assert not node(viewer, "/shapes").visible


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.01)


def rest(viewer, states):
    return np.tile(viewer.model.q0, (states, 2, 1))


def nan_at(viewer, states):
    q = rest(viewer, states)
    q[1, 1, viewer.model.q_slice("wheel")] = np.nan
    return q


def rolled(viewer, **options):
    simulator = sim.Simulator(viewer.model, 0.1, 2)
    return simulator.rollout(simulator.initial_state(), steps=4, **options)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda v: v.show(np.zeros(3)), r"show: q has shape \(3,\); the model has 10 coordinates"),
        (lambda v: v.show(nan_at(v, 2)[1]), "q isn't finite in state 0, world 1, joint 'wheel'"),
        (lambda v: v.show(np.zeros(10)), "q has a zero quaternion in state 0, world 0, joint 'box_free'"),
        (lambda v: v.play(np.zeros((4, 2, 9)), 0.1), "has 10 coordinates and the viewer 2 worlds"),
        (lambda v: v.play(nan_at(v, 3), 0.1), "q isn't finite in state 1, world 1, joint 'wheel'"),
        (lambda v: v.play(rest(v, 3)), "dt is None"),
        (lambda v: v.play(rolled(v), 0.1), "dt is given"),
        (lambda v: v.play(rolled(v, checkpoint_interval=2)), "does not store all"),
        (lambda v: v.play(rest(v, 3), 0.1, gradients=np.zeros((3, 2, 1, 3))), "gradients have shape"),
        (lambda v: v.show_gradients([[0, 0, 0]], [[0, 0, 1], [1, 0, 0]]), r"vectors \(2, 3\)"),
        (lambda v: v.show_gradients([[0, 0, 0]], [[0, 0, np.nan]]), "aren't finite"),
        (lambda v: v.show_gradients([[0, 0, 0]], [[0, 0, 1]], worlds=2), "worlds.* 0 and 1"),
        (lambda v: v.offer_simulation(sim.Simulator(v.model, 0.1)), "has 1 worlds.* 2 worlds"),
        (lambda v: v.offer_simulation(sim.Simulator(v.model, 0.1, 2), control=[1.0]), r"control has shape \(1,\)"),
        (lambda v: Viewer(v.model, 0), "num_worlds is 0"),
        (lambda v: Viewer(v.model, port=70000), "port is 70000"),
        (lambda v: Viewer(v.model, port=v._server.get_port()), "Address already in use; choose another port"),
        (lambda v: Viewer(v.model, host="192.0.2.1", port=0), "cannot listen on 192.0.2.1"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(viewer, work, message):
    with pytest.raises(sim.ModelError, match=message):
        work(viewer)


def test_without_viser_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "viser", None)
    with raises_naming("[view]"):
        Viewer(model)


def test_a_scene_in_which_nothing_moves():
    builder = sim.ModelBuilder()
    builder.add_ground()
    for geometries in (0, 1):
        if geometries:
            builder.add_heightfield(np.zeros((3, 3)), half_extents=(1, 1))
        model = builder.finalize()
        with Viewer(model, 2, port=0) as viewer:
            viewer.show(model.q0)


def test_closing_frees_the_port(model):
    viewer = Viewer(model, port=0)
    port = viewer._server.get_port()
    viewer.close()
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.mark.parametrize("size", [1e-3, 0.3, 1e3])
def test_scenes_of_all_sizes_and_many_worlds_are_seen_on_their_ground(size):
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.5 * size, mass=1.0, position=(0, 0, 0.5 * size), name="ball")
    builder.add_sphere(radius=0.5 * size, mass=1.0, position=(0, 0, 2 * size), rgba=(1, 0, 0, 0))  # not drawn
    with Viewer(builder.finalize(), 100, port=0) as viewer:
        camera = viewer._server.initial_camera
        balls = node(viewer, "/shapes/0_ball_geometry").batched_positions
        away = np.linalg.norm(balls - np.asarray(camera.position), axis=1)
        ground = node(viewer, "/ground/0")
        assert camera.near < 0.2 * (away.min() - size)
        assert camera.far > 5 * away.max()
        assert ground.fade_distance > 3 * away.max()
        assert 0.003 < ground.cell_size / away.min() < 1
        assert "/shapes/1" not in str([handle.name for handle in viewer._server.scene._handle_from_node_name.values()])


def test_a_chosen_world_is_seen_alone_with_what_is_fixed_in_it():
    builder = sim.ModelBuilder()
    builder.add_geometry("world", "box", size=(0.2, 0.2, 0.1), name="table")
    builder.add_sphere(radius=0.1, mass=1.0, position=(0, 0, 0.2))
    with Viewer(builder.finalize(), 9, port=0, spacing=5.0) as viewer:
        first, last = (viewer._picture.camera_at(world) for world in (0, 8))
    assert last.distance == pytest.approx(first.distance)
    np.testing.assert_allclose(np.subtract(last.target, first.target), [10, 10, 0], atol=1e-6)


def drag(viewer, name, phase, world, start, end):
    """As the browser does it when a shape is dragged with Ctrl: points are where they are drawn."""
    event = SimpleNamespace(instance_index=world, phase=phase, start_position=start, end_position=end)
    callbacks = node(viewer, name)._impl.drag_cb
    assert [(each.button, each.modifier) for each in callbacks] == [("left", "cmd/ctrl")]
    asyncio.run(callbacks[0].callback(event))


def test_links_of_a_running_simulation_are_pulled(model, viewer):
    box = named_shapes(model)[-1]
    viewer.offer_simulation(sim.Simulator(model, DT, 2))
    for callback in control(viewer, "Simulate from here")._impl.update_cb:
        callback(None)
    wait_for(lambda: viewer._player.number > 2)
    offset = np.array([1.5, 0, 0])  # of the second world
    viewer._player._lock.acquire()  # the simulation waits for the drag
    start = viewer.q[1, -7:-4]
    goal = start + np.array([0, 0, 0.5])
    began = len(viewer._live) - 1
    drag(viewer, f"/shapes/{box}", "start", 1, offset + start, offset + start)
    drag(viewer, f"/shapes/{box}", "update", 1, offset + start, offset + goal)
    viewer._player._lock.release()
    wait_for(lambda: len(viewer._live) > began + 400)
    line = node(viewer, "/pull")
    assert line.visible
    np.testing.assert_allclose(line.points[0, 1], offset + goal, atol=1e-6)
    drag(viewer, f"/shapes/{box}", "end", 1, offset + start, offset + goal)
    assert viewer._live.pull is None
    # A critically damped spring of 10 rad/s, whatever the mass, that the weight extends; the other world stays.
    height = viewer._live.q_of(np.arange(began, began + 400))[..., -5]
    end = goal[2] - 9.81 / 10.0**2
    t = 10.0 * DT * np.arange(400)
    np.testing.assert_allclose(height[:, 1], end - (end - start[2]) * (1.0 + t) * np.exp(-t), atol=0.02)
    np.testing.assert_allclose(height[:, 0], height[0, 0], atol=1e-4)
    wait_for(lambda: not line.visible)


def test_a_pull_off_centre_turns_a_link(model):
    """The force at a lever has a moment; the force is that of the mass at the point, and damped by its velocity."""
    q, qd = np.tile(model.q0, (2, 1)), np.zeros((2, model.nv))
    poses = sim.forward_kinematics(model, q).numpy().astype(np.float64)
    link = model.link_names.index("box")
    corner = poses[1, link, :3] + [0.2, 0.1, 0.2]
    pull = Pull.at(poses, 1, link, corner, corner + np.array([0.0, 0.0, 0.1]))
    np.testing.assert_allclose(pull.grabbed(poses), corner, atol=1e-6)
    tau = pull.joint_forces(model, q, qd)
    np.testing.assert_array_equal(tau[0], 0.0)
    lever, moment = np.array([0.2, 0.1, 0.2]), 2.0 * 0.4**2 / 6.0
    cross = np.array([[0, -lever[2], lever[1]], [lever[2], 0, -lever[0]], [-lever[1], lever[0], 0]])
    mass = 3.0 / np.trace(np.eye(3) / 2.0 - cross @ cross / moment)
    force = np.array([0.0, 0.0, 100.0 * mass * 0.1])
    np.testing.assert_allclose(tau[1, -6:], [*force, *np.cross(lever, force)], rtol=1e-4, atol=1e-5)
    qd[1, -6:] = [0.0, 0.0, 1.0, 0.5, 0.0, 0.0]  # upwards, and about x
    moving = np.array([0.0, 0.0, 1.0]) + np.cross([0.5, 0.0, 0.0], lever)
    damped = force - 20.0 * mass * moving
    np.testing.assert_allclose(pull.joint_forces(model, q, qd)[1, -6:-3], damped, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("free", [0.4, 1.0])
def test_above_a_panel_a_picture_is_the_same(free):
    """Points in the plane of the target have the same pixels in the upper share of a higher picture."""
    camera = Camera((2.0, -3.0, 1.5), (0.2, 0.1, 0.6), fov=35.0)
    sight = np.subtract(camera.target, camera.position)
    right = np.cross(sight, camera.up) / np.linalg.norm(np.cross(sight, camera.up))
    upwards = np.cross(right, sight) / np.linalg.norm(sight)
    higher = above_panel(camera, free)
    for x, y in ((0.0, 0.0), (0.5, 0.3), (-0.4, -0.6)):
        point = camera.target + x * right + y * upwards
        np.testing.assert_allclose(
            higher.project(point, 390, round(400 / free)), camera.project(point, 390, 400), atol=1e-9
        )
