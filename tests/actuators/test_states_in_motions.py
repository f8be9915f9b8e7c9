"""States of actuators in environments, searches and fits: MuJoCo, Riccati, closed forms and central differences."""

import mujoco
import numpy as np
import pytest
import torch

import sim
import sim.envs
import sim.optimise as so
from sim.envs import Task, TaskState, VectorEnv
from sim.identify import Log, fit_trajectories
from sim.identify.trajectories.segments import cut
from sim.identify.trajectories.sensitivity import Simulators
from sim.identify.trajectories.shooting import Shooting
from sim.identify.unknown.unknowns import Unknowns
from tests.errors import raises_naming, refuses
from tests.optimise.problems import riccati

DT = 0.01
MJCF = """<mujoco><option timestep="0.01" integrator="Euler"/><worldbody>
<body><joint name="a" axis="0 1 0" damping="0.1"/><geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="1"
 contype="0" conaffinity="0"/><body pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.1"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="1" contype="0" conaffinity="0"/></body></body></worldbody>
<actuator><general joint="a" dyntype="integrator" gainprm="3" biastype="affine" biasprm="0 -3 -0.1"/>
<motor joint="a"/><general joint="b" dyntype="filterexact" dynprm="0.05" gainprm="2"/></actuator></mujoco>"""


class Arm(Task):
    """Two links, an integrated servo, a motor and a filtered motor, under MuJoCo's law."""

    dt, frame_skip, max_episode_length = DT, 3, 6

    def __init__(self, arm: sim.Model, act: float | None = None):
        super().__init__("float64")
        self.arm, self.act = arm, act

    def model(self) -> sim.Model:
        return self.arm

    def contact(self) -> sim.ContactMethod:
        return sim.mujoco_settings(self.arm)["contact"]

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        q, qd = (self.uniform((n, 2), generator, -1.0, 1.0) for _ in range(2))
        return self.episodes(q, qd, act=None if self.act is None else torch.full_like(q, self.act))

    def observe(self, state: TaskState) -> torch.Tensor:
        return torch.cat([state.q, state.qd, state.act], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        return after.q.sin().sum(1) + after.act.square().sum(1)


@pytest.fixture(scope="module")
def arm(tmp_path_factory) -> sim.Model:
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(MJCF)
    return sim.load(path, dtype="float64")


def env(arm: sim.Model, n: int = 3, act: float | None = None, **options) -> VectorEnv:
    return VectorEnv(Arm(arm, act), n, device="cpu", seed=1, threads=1, **options)


def action(n: int, seed: int = 0) -> torch.Tensor:
    return 2.0 * torch.rand(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1.0


def test_an_episode_is_that_of_mujoco(arm):
    one = env(arm, 1, act=0.2)
    first = one.reset()[0][0].numpy()
    np.testing.assert_array_equal(first[4:], 0.2)
    peer = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:], data.act[:] = first[:2], first[2:4], first[4:]
    for seed in range(5):
        given = action(1, seed)
        observation = one.step(given)[0][0].numpy()
        data.ctrl[:] = given[0].numpy()
        for _ in range(3):
            mujoco.mj_step(peer, data)
        np.testing.assert_allclose(observation, np.concatenate([data.qpos, data.qvel, data.act]), atol=1e-10)


def test_resets_begin_with_zeros_and_leave_others_alone(arm):
    some = env(arm)
    some.reset()
    for seed in range(4):
        some.step(action(3, seed))
    kept = some.state.act.clone()
    assert (kept[:, 0] != 0.0).all()
    some.reset(options={"reset_mask": torch.tensor([False, True, False])})
    assert torch.equal(some.state.act[[0, 2]], kept[[0, 2]])
    assert torch.equal(some.state.act[1], torch.zeros(2, dtype=torch.float64))


def test_saved_states_go_on_bit_for_bit(arm):
    some = env(arm)
    some.reset()
    some.step(action(3))
    saved = some.get_state()
    other = env(arm)
    other.set_state(saved)
    for seed in range(8):  # the episodes end within them
        for a, b in zip(some.step(action(3, seed))[:4], other.step(action(3, seed))[:4], strict=True):
            assert torch.equal(a, b)
    with raises_naming("act None", "(3, 2)"):
        other.set_state(saved | {"act": None})


def test_gradients_through_an_episode(arm):
    some = env(arm, 2, differentiable=True, act=0.1)
    some.reset()
    state = some.get_state()
    given = torch.stack([action(2, seed) for seed in range(4)])
    act = state["act"].clone()

    def total(controls: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        some.set_state(state)
        some._state = TaskState(some.state.q, some.state.qd, some.state.steps, {}, act)
        return sum(some.step(each)[1].sum() for each in controls)

    inner = given.requires_grad_(), act.requires_grad_()
    total(*inner).backward()
    rng = torch.Generator().manual_seed(0)
    along = [torch.randn(x.shape, generator=rng, dtype=torch.float64) for x in inner]
    with torch.no_grad():
        up, down = (total(*(x + h * d for x, d in zip(inner, along, strict=True))) for h in (1e-6, -1e-6))
    found = sum((x.grad * d).sum() for x, d in zip(inner, along, strict=True))
    assert found.item() == pytest.approx((up - down).item() / 2e-6, rel=1e-7)


def test_the_bound_of_the_adjoint_counts_the_states():
    x = [torch.ones(1, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    clipped = sim.torch.clip_adjoint(x[0], x[1], 1.0, x[2])
    (3.0 * clipped[0].sum() + 4.0 * clipped[2].sum()).backward()
    norm = np.sqrt(2 * (3.0**2 + 4.0**2))
    np.testing.assert_allclose(x[0].grad.numpy(), 3.0 / norm)
    np.testing.assert_allclose(x[2].grad.numpy(), 4.0 / norm)


def slider(dynamics: str = "filter") -> sim.Simulator:
    """A mass on a rail that a filtered force pushes, a linear system of three numbers."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_link("mass", mass=2.0, com=(0.0, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint("rail", "prismatic", child="mass", axis=(1.0, 0.0, 0.0), spring=sim.Spring(damping=0.3))
    builder.add_actuator(
        "rail", "torque", activation=sim.Activation(dynamics, time_constant=0.0 if dynamics == "none" else 0.3)
    )
    return sim.Simulator(builder.finalize("float64"), 0.1, device="cpu", threads=1)


def linear_problem(stages: int = 20) -> so.Problem:
    costs = [so.Posture([0.0], 3.0), so.Velocity(weight=0.5), so.ActuatorState(weight=0.2), so.Effort(0.1)]
    return so.Problem(slider(), stages, costs, q0=[1.0], qd0=[0.2], act0=[0.4])


def test_iterative_lqr_is_riccatis_answer():
    problem = linear_problem()
    found = so.ilqr(problem, iterations=1)
    # The closed form of a step: damping at its end, the force of the state at its beginning.
    m = 2.0 + 0.1 * 0.3
    A = np.array([[1.0, 0.1 * 2.0 / m, 0.1 * 0.1 / m], [0.0, 2.0 / m, 0.1 / m], [0.0, 0.0, 1.0 - 0.1 / 0.3]])
    B = np.array([[0.0], [0.0], [0.1 / 0.3]])
    Q, x = np.diag([3.0, 0.5, 0.2]), np.array([1.0, 0.2, 0.4])
    cost, controls, gains = riccati(A, B, Q, 0.1 * np.eye(1), Q, x, 20)
    assert found.cost == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(found.controls, controls, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.gains[0], -gains, rtol=1e-9, atol=1e-12)
    for k, u in enumerate(found.controls):
        x = A @ x + B @ u
        np.testing.assert_allclose([found.q[k + 1, 0], found.qd[k + 1, 0], found.act[k + 1, 0]], x, atol=1e-13)
    slope = problem.evaluate(found.unknowns[None]).gradient[0]
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)


def test_a_receding_horizon_answers_to_the_states():
    control = so.MPC(linear_problem())
    far, near = (so.ilqr(linear_problem_from(act), iterations=1).controls[0] for act in (0.4, -1.0))
    np.testing.assert_allclose(control([1.0], [0.2], [0.4]), far, rtol=1e-8)
    np.testing.assert_allclose(so.MPC(linear_problem())([1.0], [0.2], [-1.0]), near, rtol=1e-8)
    assert control.gains.shape == (20, 1, 3)
    assert np.isfinite(control([0.9], [0.1], [0.3])).all()
    with raises_naming("act"):
        control([1.0], [0.2])


def linear_problem_from(act: float) -> so.Problem:
    problem = linear_problem()
    problem.act0 = np.array([act])
    return problem


def test_gradients_of_a_search_and_of_a_policy(arm):
    simulator = sim.Simulator(arm, DT, device="cpu", threads=1)
    costs = [so.Posture([0.3, -0.2]), so.ActuatorState([0.1, 0.2], [2.0, 3.0], at=-1)]
    module = torch.nn.Linear(6, 3).double()  # sees q, qd and act
    rng = np.random.default_rng(0)
    for controls in (so.PerStage(), so.Policy(module)):
        problem = so.Problem(simulator, 4, costs, hold=2, controls=controls, q0=[0.1, 0.2], act0=[0.3, -0.4])
        x, direction = rng.standard_normal((2, problem.size))
        found = problem.evaluate(x[None])
        up, down = problem.costs_of(np.stack([x + 1e-6 * direction, x - 1e-6 * direction]))
        assert found.gradient[0] @ direction == pytest.approx((up - down) / 2e-6, rel=1e-7)
    refuses(lambda: so.Problem(simulator, 4, [so.ActuatorState([0.1])]), "target", "shape")
    stateless = slider("none")
    refuses(lambda: so.Problem(stateless, 4, [so.ActuatorState()]), "no actuator", "state")


def recorded(model: sim.Model, keep: bool, act: float = 0.0, every: int = 5, noise: float = 1e-4) -> Log:
    """Two seconds of the arm with a time constant of 0.08 s in place of 0.05, and steps of the inputs."""
    constants = model.parameters["actuator_time_constant"].copy()
    constants[2] = 0.08
    simulator = sim.Simulator(model, DT, device="cpu", parameters={"actuator_time_constant": constants})
    rng = np.random.default_rng(2)
    control = np.repeat(rng.uniform(-1.0, 1.0, (41, 3)), every, axis=0)
    state = simulator.state([0.1, -0.2], [0.0, 0.0], [act, act])
    motion = simulator.rollout(state, control=control[: 40 * every, None])
    q = motion.q.numpy()[::every, 0]
    q = q + noise * rng.standard_normal(q.shape)
    states = motion.act.numpy()[::every, 0] if keep else None
    return Log(model, DT * every * np.arange(41), q, control=control[::every], act=states)


@pytest.mark.parametrize("segment", [None, 0.5])
@pytest.mark.parametrize("keep", [True, False])
def test_a_time_constant_is_identified(arm, segment, keep):
    log = recorded(arm, keep, act=0.3 if keep else 0.0)
    name = f"time_constant of {arm.actuator_names[2]}"
    fit = fit_trajectories(arm, log, [name], dt=DT, noise={"q": 1e-4}, segment=segment)
    assert fit.estimate.converged
    assert fit.estimate.deviation(name) < 1e-3
    assert abs(fit.estimate[name] - 0.08) < 3.0 * fit.estimate.deviation(name)
    assert 0.8 < fit.residual.min() <= fit.residual.max() < 1.2
    # The segments' states are joined: those of the log to what the search leaves open.
    if keep and segment:
        np.testing.assert_allclose(fit.motion.act[0].numpy(), log.act[:40:10], atol=2e-3)


@pytest.mark.parametrize("known_start", [False, True])
def test_derivatives_of_a_fit(arm, known_start):
    log = recorded(arm, keep=False)
    unknowns = Unknowns(arm, [f"time_constant of {arm.actuator_names[2]}", "mass of *"])
    start = {"q": 0.0, "qd": 0.0} if known_start else {}
    segments = cut(arm, [log, log], DT, {"q": 0.01}, None if known_start else 0.5, start)
    problem = Shooting(unknowns, Simulators(arm, DT, segments.hold, unknowns.parameters), segments)
    assert problem.extra == (0 if known_start else 8 * 6 - 2 * 2)
    rng = np.random.default_rng(0)
    start = unknowns.start.numpy()
    x = np.append(start + 0.05 * rng.standard_normal(len(start)), 0.3 * rng.standard_normal(problem.extra))
    direction = rng.standard_normal(len(x))
    difference = (problem.values(x + 1e-6 * direction) - problem.values(x - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(problem.jacobian(x) @ direction, difference, atol=1e-7 * np.abs(difference).max())
