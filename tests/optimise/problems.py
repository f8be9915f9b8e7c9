"""Small problems that several tests share."""

import numpy as np

import sim
import sim.optimise as so
from scenes import pendulum
from sim.optimise.methods.ilqr import IterativeLQR


def sliders(count: int = 2, dt: float = 0.1, damping: float = 0.0) -> sim.Simulator:
    """Masses on rails without gravity: a linear system."""
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    parent = None
    for k in range(count):
        builder.add_link(f"link_{k}", mass=1.0 + k, com=(0.0, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
        axis = (1.0, 0.0, 0.0) if k % 2 == 0 else (0.6, 0.8, 0.0)
        given = {} if parent is None else {"parent": parent}
        builder.add_joint(
            f"rail_{k}", "prismatic", child=f"link_{k}", axis=axis, spring=sim.Spring(damping=damping), **given
        )
        parent = f"link_{k}"
    return sim.Simulator(builder.finalize("float64"), dt, device="cpu", threads=1)


def swing(limit: float = 3.0, dtype: str = "float64", **options: object) -> so.Problem:
    """A pendulum that hangs, to be swung up by less torque than holds it sideways, and to rest there."""
    scene = pendulum.build(1, dtype, angle=0.0, damping=0.02)
    simulator = sim.Simulator(scene.model, 0.02, device="cpu", threads=1)
    costs = [so.Effort(1e-2), so.Posture([np.pi], 100.0, at=-1), so.Velocity(weight=10.0, at=-1)]
    return so.Problem(simulator, 50, costs, hold=2, q0=[0.0], limits=(-limit, limit), **options)


def riccati(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, last: np.ndarray, x: np.ndarray, stages: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Least cost, controls [stages, size] and first gains of a linear-quadratic problem, by Riccati's recursion."""
    P, gains = last, []
    for _ in range(stages):
        K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A - B @ K)
        gains.append(K)
    cost, controls = 0.5 * x @ P @ x, []
    for K in reversed(gains):
        controls.append(-K @ x)
        x = A @ x + B @ controls[-1]
    return float(cost), np.array(controls), gains[-1]


def slopes_of_stages(problem: so.Problem, x: np.ndarray) -> np.ndarray:
    """Derivatives of the cost in the controls, from iLQR's expansions of costs and steps about controls x."""
    search = IterativeLQR(problem)
    search.begin(x.reshape(problem.stages, 1, -1), (problem.q0, problem.qd0, problem.act0))
    slope = search.quadratics(search.dynamics.motion(search.states)).slope[:, 0]
    A, B = (matrix[:, 0] for matrix in search.dynamics.linearise(search.states))
    n = A.shape[2]
    found, ahead = np.zeros((problem.stages, problem.space.size)), slope[-1, :n]
    for stage in reversed(range(problem.stages)):
        found[stage] = slope[stage, n:] + B[stage].T @ ahead
        ahead = slope[stage, :n] + A[stage].T @ ahead
    return found.reshape(-1)
