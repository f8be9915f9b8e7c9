"""Steps from stored states with other actions, for simulated policy gradients and sample enhancement."""

from collections.abc import Mapping

import torch

from sim.envs import TaskState, VectorEnv
from sim.envs.returned import failures_of, reward_of
from sim.errors import ModelError
from sim.learn.learner import group
from sim.torch import Robot

Batch = dict[str, torch.Tensor]
Outcome = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def beside(env: VectorEnv, worlds: int, differentiable: bool) -> VectorEnv:
    """Make an environment of the same task, to simulate stored states in.

    Raises:
        ModelError: for a task with more state of an episode than is stored: data, random parameters or readings.
    """
    env.reset(seed=0)
    kept = env.get_state()
    more = [
        *kept["data"],
        *kept["parameters"],
        *kept["readings"],
        *([] if kept["act"] is None else ["states of actuators"]),
    ]
    if more:
        raise ModelError(
            f"{type(env.task).__name__}: stored states can't be simulated again, since episodes differ in "
            f"{', '.join(more)}; leave out extras and the simulated enhancement"
        )
    threads = env.simulator.threads
    other = VectorEnv(
        env.task, worlds, device=str(env.device), differentiable=differentiable, autoreset_mode="disabled",
        threads=threads,
    )  # fmt: skip
    other.reset(seed=0)
    return other


def simulate(env: VectorEnv, states: Mapping[str, torch.Tensor], action: torch.Tensor) -> Outcome:
    """Step stored states, one in each world: return reward, mask of terminal steps, and observation after the
    actions.
    """
    begun = {name: states[name] for name in ("q", "qd", "steps")}
    env.set_state(env.get_state() | begun | {"ended": torch.zeros_like(states["final"])})
    _, reward, terminated, truncated, info = env.step(action)
    return reward, env.task.is_final(terminated, truncated), group(info["final_obs"], "policy")


class Simulated:
    """Several actions from each state, simulated.

    Args:
        env: an environment with a world for each of them, see :func:`beside`.
    """

    def __init__(self, env: VectorEnv):
        self.env = env

    def __call__(self, rows: Batch, action: torch.Tensor) -> Outcome:
        """Simulate actions [k n, actions], those of a transition adjacent.

        Args:
            rows: n transitions.
            action: k actions for each of them.
        """
        count = len(action) // len(rows["q"])
        return simulate(self.env, {name: value.repeat_interleave(count, dim=0) for name, value in rows.items()}, action)


class FirstOrder:
    """Several actions near the one that was taken from each state, by the derivative of the state after it.

    The derivative is the product of those of the steps within an action (:meth:`sim.Simulator.linearise`). The task
    computes rewards, ends and observations from the predicted states. With a joint at its limit or a foot on the
    ground, a derivative is one-sided, and neighbours on the other side are wrong.

    Args:
        env: an environment with a world for each state, see :func:`beside`.
    """

    def __init__(self, env: VectorEnv):
        self.env, self.robot = env, Robot(env.simulator.model)

    def __call__(self, rows: Batch, action: torch.Tensor) -> Outcome:
        """Predict the results of actions, like :meth:`Simulated.__call__`; the actions in ``rows`` are used, too."""
        task, count = self.env.task, len(action) // len(rows["q"])
        before = TaskState(rows["q"], rows["qd"], rows["steps"])
        q, qd, slope = self.linearised(before, rows["action"])
        q, qd, slope, taken = (x.repeat_interleave(count, dim=0) for x in (q, qd, slope, rows["action"]))
        low, high = self.env.action_low, self.env.action_high
        change = (slope @ (action.clamp(low, high) - taken.clamp(low, high)).unsqueeze(-1)).squeeze(-1)
        turn, faster = change.split(qd.shape[1], dim=1)
        old_q, old_qd, steps = (rows[name].repeat_interleave(count, dim=0) for name in ("q", "qd", "steps"))
        begun = TaskState(old_q, old_qd, steps)
        after = TaskState(self.robot.integrate(q, turn), qd + faster, begun.steps + 1)
        final = task.is_final(failures_of(task, after)[0], after.steps >= task.max_episode_length)
        return reward_of(task, begun, action, after)[0], final, group(task.observe(after), "policy")

    def linearised(self, before: TaskState, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Linearise the state after an action in that action.

        Returns:
            q [n, nq], qd [n, nv] and the derivative [n, 2 nv, actions], of q in tangent coordinates.
        """
        task, simulator = self.env.task, self.env.simulator
        with torch.enable_grad():
            given = action.clone().requires_grad_()
            inputs = task.inputs(before, given.clamp(self.env.action_low, self.env.action_high))
            slopes = {name: derivatives(value, given).double().cpu() for name, value in inputs.items()}
        driven = {name: value.detach().cpu().numpy() for name, value in inputs.items()}
        state = simulator.state(before.q.cpu().numpy(), before.qd.cpu().numpy())
        total = torch.zeros(len(action), 2 * simulator.model.nv, action.shape[1], dtype=torch.float64)
        for _ in range(task.frame_skip):
            found = simulator.linearise(state, **driven)
            state = found.next_state
            direct = {"tau": found.B_tau, "control": found.B_control}
            total = torch.as_tensor(found.A).double() @ total
            for name, slope in slopes.items():
                total = total + torch.as_tensor(direct[name]).double() @ slope
        q, qd = (torch.as_tensor(x.numpy()).to(action.device) for x in (state.q, state.qd))
        return q, qd, total.to(q)


def derivatives(outputs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Compute derivatives of outputs [n, k] in actions [n, actions]: [n, k, actions], by one backward pass for each of
    the k.
    """
    columns = [
        torch.autograd.grad(column.sum(), action, retain_graph=True, materialize_grads=True)[0]
        for column in outputs.unbind(dim=1)
    ]
    return torch.stack(columns, dim=1)
