"""Models written as USD: Newton, which reads the file, moves them as we do."""

import newton
import numpy as np
import pytest
from newton.usd import SchemaResolverMjc, SchemaResolverNewton, SchemaResolverPhysx
from numpy.testing import assert_allclose

import sim
from sim.usd import write_usd
from tests.errors import quietly

INERTIA = np.diag([0.1, 0.2, 0.15])
DURATION = 0.2


def read_by_newton(path):
    builder = newton.ModelBuilder()
    quietly(builder.add_usd, str(path), schema_resolvers=[SchemaResolverNewton(), SchemaResolverPhysx()])
    return quietly(builder.finalize, device="cpu")


def links_of(peer):
    return [label.rsplit("/", 1)[-1] for label in peer.body_label]


def poses_by_newton(model, peer, qd, dt, touching=False):
    """Poses of the bodies after the duration, in the order of the model; velocities are given by name of the joint."""
    xpbd, featherstone = newton.solvers.SolverXPBD, newton.solvers.SolverFeatherstone
    engine = quietly(xpbd, peer) if touching else quietly(featherstone, peer, angular_damping=0.0)
    control = peer.control()
    state, other = peer.state(), peer.state()
    velocity, starts = state.joint_qd.numpy(), peer.joint_qd_start.numpy()
    for joint, start in zip((label.rsplit("/", 1)[-1] for label in peer.joint_label), starts[:-1], strict=True):
        if joint in qd:
            velocity[start : start + len(qd[joint])] = qd[joint]
    state.joint_qd.assign(velocity)
    newton.eval_fk(peer, state.joint_q, state.joint_qd, state)
    pipeline = newton.CollisionPipeline(peer) if touching else None
    contacts = pipeline.contacts() if pipeline else None
    for _ in range(round(DURATION / dt)):
        state.clear_forces()
        if pipeline:
            pipeline.collide(state, contacts)
        engine.step(state, other, control, contacts, dt)
        state, other = other, state
    if not touching:
        newton.eval_fk(peer, state.joint_q, state.joint_qd, state)
    names = links_of(peer)
    return state.body_q.numpy()[[names.index(name) for name in model.link_names if name in names]].astype(float)


def poses_here(model, q, qd, dt, **options):
    simulator, velocity = sim.Simulator(model, dt=dt, device="cpu", **options), np.zeros((1, model.nv))
    for joint, value in qd.items():
        velocity[0, model.qd_slice(joint)] = value
    state = simulator.rollout(simulator.state(q[None], velocity), steps=round(DURATION / dt)).final_state
    return sim.forward_kinematics(model, state.q).numpy()[0]


def same_sign(poses, others):
    signs = np.sign(np.sum(poses[:, 3:] * others[:, 3:], axis=1, keepdims=True))
    return np.concatenate([poses[:, :3], poses[:, 3:] * signs], axis=1)


def written(tmp_path, model, q):
    path = tmp_path / "model.usda"
    quietly(write_usd, path, model, sim.forward_kinematics(model, q[None]), fps=30)
    return path


def chain(**options):
    builder, rng = sim.ModelBuilder(), np.random.default_rng(1)
    for k in range(3):
        builder.add_link(f"link{k}", mass=1.0 + k, inertia=INERTIA, com=(0.02, 0.1, -0.3))
        builder.add_joint(
            f"joint{k}", "revolute", child=f"link{k}", parent=f"link{k - 1}" if k else "world", axis=rng.normal(size=3),
            position=(0, 0, -0.5 if k else 2.0), orientation=(0.1, 0.2, 0.3, 1), q0=0.4, **options,
        )  # fmt: skip
    model = builder.finalize("float64")
    return model, model.q0, {"joint0": (1.0,), "joint1": (-2.0,), "joint2": (3.0,)}


def cart_pole():
    builder = sim.ModelBuilder()
    builder.add_link("cart", mass=2.0, inertia=INERTIA)
    builder.add_joint("slide", "prismatic", child="cart", axis=(1, 1, 0), q0=0.2,
                      spring=sim.Spring(damping=3.0, stiffness=100.0, rest=0.1))  # fmt: skip
    builder.add_link("pole", mass=0.5, inertia=INERTIA / 10, com=(0, 0, 0.5))
    builder.add_joint("hinge", "revolute", parent="cart", child="pole", axis=(0, 1, 0), q0=0.3)
    model = builder.finalize("float64")
    return model, model.q0, {"slide": (0.5,), "hinge": (1.0,)}


def gantry():
    """A slide along x from the world's origin, away from zero."""
    builder = sim.ModelBuilder()
    builder.add_link("trolley", mass=2.0, inertia=INERTIA)
    builder.add_joint("slide", "prismatic", child="trolley", axis=(1, 0, 0), q0=0.3)
    builder.add_link("load", mass=0.5, inertia=INERTIA / 10, com=(0, 0, -0.5))
    builder.add_joint("hinge", "revolute", parent="trolley", child="load", axis=(0, 1, 0), q0=0.4)
    model = builder.finalize("float64")
    return model, model.q0, {"slide": (0.5,), "hinge": (1.0,)}


def ball_and_servo():
    """A ball joint with an armature and a damper, and a servo on a hinge, whose input is zero."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=2.0, inertia=INERTIA, com=(0.1, 0, 0.2))
    builder.add_joint("ball", "spherical", child="arm", armature=0.03, spring=sim.Spring(damping=0.4))
    builder.add_link("tip", mass=0.5, inertia=INERTIA, com=(0, 0, 0.5))
    builder.add_joint("hinge", "revolute", parent="arm", child="tip", axis=(0, 1, 0), position=(0, 0, 0.4), q0=-0.3)
    builder.add_actuator("hinge", "position", gains=sim.Gains(kp=30.0, kd=1.0))
    model = builder.finalize("float64")
    return model, model.q0, {"hinge": (2.0,)}


def quadruped():
    """In the air, away from the limits of its legs, which turn."""
    builder = sim.ModelBuilder()
    builder.add_urdf("scenes/robots/quadruped.urdf", floating_base=True, position=(0, 0, 2), collision=False)
    model = builder.finalize("float64")
    q, rates = model.q0.copy(), np.linspace(-1.0, 1.5, 12)
    q[7:] = np.tile([0.1, 0.5, -1.3], 4)
    return model, q, {joint: (rate,) for joint, rate in zip(model.joint_names[1:], rates, strict=True)}


IN_SERIES = """<mujoco><compiler autolimits="true"/><worldbody>
  <body name="cart" pos="0 0 1">
    <joint name="y" type="slide" axis="0 1 0" stiffness="30" springref="0.3" damping="2"/>
    <joint name="x" type="slide" axis="1 0 0" damping="1" armature="0.3"/>
    <joint name="yaw" axis="0 0 1" pos="0.1 0 0" ref="-30" stiffness="3"/>
    <geom type="box" size="0.2 0.1 0.1" mass="2"/>
    <body name="arm" pos="0.3 0 0" quat="0.9 0.1 0.3 0">
      <joint name="swing" axis="0 1 0.2" pos="0 0 0.1" damping="0.1"/>
      <joint name="roll" axis="1 0 0" pos="0 0 0.1" range="-80 80" armature="0.01"/>
      <joint name="fold" axis="0 0.6 0.8" pos="0 0 0.1"/>
      <geom type="capsule" size="0.05 0.2" pos="0.1 0.2 -0.2" mass="1.5"/></body>
  </body>
</worldbody></mujoco>"""


def joints_in_series(tmp_path):
    """Two bodies with three joints each, whose names aren't in the order of the joints."""
    path = tmp_path / "series.xml"
    path.write_text(IN_SERIES)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path, collision=False)
    model = builder.finalize("float64")
    q = model.q0 + np.array([0.1, -0.2, 0.3, 0.7, -0.4, 0.5])
    return model, q, {}


CASES = {
    "chain": chain,
    "chain with armature": lambda: chain(armature=0.1),
    "chain with springs": lambda: chain(spring=sim.Spring(damping=0.5, stiffness=20.0, rest=0.1)),
    "cart-pole": cart_pole,
    "gantry": gantry,
    "ball and servo": ball_and_servo,
    "quadruped": quadruped,
    "joints in series": joints_in_series,
}


@pytest.mark.parametrize("name", CASES)
def test_newton_moves_what_is_written(tmp_path, name):
    """Steps differ to first order in dt, since dampers act at their end here and at their start there: extrapolate."""
    model, q, qd = CASES[name](*([tmp_path] if CASES[name] is joints_in_series else []))
    peer, ends = read_by_newton(written(tmp_path, model, q)), []
    kept = np.flatnonzero(model.parameters["mass"])
    start = sim.forward_kinematics(model, q[None]).numpy()[0, kept]
    for poses in (lambda dt: poses_by_newton(model, peer, qd, dt), lambda dt: poses_here(model, q, qd, dt)[kept]):
        coarse, fine = poses(5e-4), poses(2.5e-4)
        ends.append(same_sign(2.0 * same_sign(fine, coarse) - coarse, start))
    assert_allclose(ends[0], ends[1], rtol=0, atol=1e-5)
    assert np.abs(ends[1] - start).max() > 0.05
    assert peer.body_count == len(start)


@pytest.mark.slow  # it compiles Newton's collisions
def test_a_box_slides_in_newton(tmp_path):
    """Newton takes the mean of two frictions, we their product: with equal ones of 1 both are the same."""
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.2, 0.15, 0.05), mass=3.0, name="box", position=(0, 0, 0.05))
    model = builder.finalize("float64")
    peer = read_by_newton(written(tmp_path, model, model.q0))
    velocity = (2.5, 0, 0, 0, 0, 0)
    (theirs,) = poses_by_newton(model, peer, {peer.joint_label[0].rsplit("/", 1)[-1]: velocity}, 1e-3, touching=True)
    (ours,) = poses_here(model, model.q0, {model.joint_names[0]: velocity}, 1e-3)
    assert_allclose(theirs[:3], ours[:3], atol=2e-3)
    assert_allclose(ours[0], 2.5 * DURATION - 0.5 * 9.81 * DURATION**2, rtol=5e-3)


def test_numbers_of_joints_in_newton(tmp_path):
    """What Newton's solvers don't all use: dry friction, limits and efforts."""
    model, _, _ = chain(armature=0.1, friction_loss=0.3, limits=sim.Limits(-0.5, 0.7, effort=11.0))
    peer = read_by_newton(written(tmp_path, model, model.q0))
    assert [label.rsplit("/", 1)[-1] for label in peer.joint_label] == list(model.joint_names)
    for theirs, ours in (("joint_armature", "armature"), ("joint_friction", "friction_loss"),
                         ("joint_limit_lower", "lower_limit"), ("joint_limit_upper", "upper_limit")):  # fmt: skip
        assert_allclose(getattr(peer, theirs).numpy(), model.parameters[ours], rtol=1e-6, err_msg=theirs)
    assert_allclose(peer.joint_q.numpy(), model.q0, rtol=1e-6)


def test_newton_leads_kinematic_bodies(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("hand", mass=1.0, inertia=INERTIA)
    builder.add_joint("lead", "free", child="hand", position=(0, 0, 1), kinematic=True)
    builder.add_link("arm", mass=1.0, inertia=INERTIA, com=(0, 0, -0.3))
    builder.add_joint("elbow", "revolute", parent="hand", child="arm", axis=(0, 1, 0), q0=0.5)
    model = builder.finalize("float64")
    peer = read_by_newton(written(tmp_path, model, model.q0))
    flags = dict(zip(links_of(peer), peer.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC), strict=True))
    assert {name: bool(flag) for name, flag in flags.items()} == {"hand": True, "arm": False}
    theirs, ours = poses_by_newton(model, peer, {}, 5e-4), poses_here(model, model.q0, {}, 5e-4)
    assert_allclose(same_sign(theirs, ours), ours, atol=1e-5)
    assert_allclose(ours[0], [0, 0, 1, 0, 0, 0, 1], atol=1e-12)


def test_newton_reads_the_spring_of_a_ball(tmp_path):
    """From MuJoCo's schema; Newton's solvers other than MuJoCo's don't use it."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=INERTIA, com=(0, 0, -0.3))
    builder.add_joint("ball", "spherical", child="arm", spring=sim.Spring(stiffness=7.0, damping=0.3))
    model = builder.finalize("float64")
    reader, path = newton.ModelBuilder(), written(tmp_path, model, model.q0)
    assert '"MjcJointAPI"' in path.read_text()  # of which mjc:stiffness is a property
    resolvers = [SchemaResolverMjc(), SchemaResolverNewton()]
    quietly(reader.add_usd, str(path), schema_resolvers=resolvers)
    peer = quietly(reader.finalize, device="cpu")
    assert_allclose(peer.joint_stiffness.numpy(), [7.0, 7.0, 7.0])
    assert_allclose(peer.joint_rest_q.numpy(), [0.0, 0.0, 0.0, 1.0])
