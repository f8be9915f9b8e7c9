"""The arm's problem of bench/motions.py in Crocoddyl, run in a separate environment, since their packages differ.

    python -m venv out/crocoddyl
    out/crocoddyl/bin/pip install crocoddyl==3.2.1 'libpinocchio<4.1'
    python -m bench.motions --crocoddyl out/crocoddyl/bin/python

Reads the problem from standard input and writes controls, iterations and seconds to standard output, as JSON.
Crocoddyl 3.2.1 with Pinocchio 4.1, pip's choice, computes other accelerations than Pinocchio itself.
"""

import json
import sys
import time
from typing import Any

import crocoddyl
import numpy as np
import pinocchio as pin


def shooting_problem(given: dict[str, Any]) -> crocoddyl.ShootingProblem:
    """Make the same arm, costs and time steps: semi-implicit Euler, and halves of weighted squares."""
    model = pin.buildModelFromUrdf(given["urdf"])
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    running, last = crocoddyl.CostModelSum(state), crocoddyl.CostModelSum(state)
    # A running cost is multiplied by the time step.
    effort = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state))
    running.addCost("effort", effort, given["effort"] / given["dt"])
    goal = crocoddyl.ResidualModelFrameTranslation(state, model.getFrameId(given["link"]), np.array(given["target"]))
    last.addCost("position", crocoddyl.CostModelResidual(state, goal), given["position"])
    of_velocities = crocoddyl.ActivationModelWeightedQuad(np.repeat([0.0, 1.0], model.nv))
    rest = crocoddyl.CostModelResidual(state, of_velocities, crocoddyl.ResidualModelState(state, state.zero()))
    last.addCost("rest", rest, given["rest"])

    def action(costs: crocoddyl.CostModelSum, dt: float) -> crocoddyl.IntegratedActionModelEuler:
        motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        stage = crocoddyl.IntegratedActionModelEuler(motion, dt)
        stage.u_lb, stage.u_ub = -model.upperEffortLimit, model.upperEffortLimit
        return stage

    start = np.concatenate([given["q0"], np.zeros(model.nv)])
    stages = [action(running, given["dt"])] * given["stages"]
    return crocoddyl.ShootingProblem(start, stages, action(last, 0.0))


def main() -> None:
    given = json.load(sys.stdin)
    problem = shooting_problem(given)
    guess = list(np.array(given["guess"]))
    runs = []
    for _ in range(given["repeats"]):
        search = crocoddyl.SolverBoxFDDP(problem)
        begun = time.process_time()
        search.solve(problem.rollout(guess), guess, given["iterations"], True)
        runs.append(time.process_time() - begun)
    json.dump({"controls": np.array(search.us).tolist(), "cost": search.cost, "iterations": search.iter,
               "seconds": float(np.median(runs))}, sys.stdout)  # fmt: skip


if __name__ == "__main__":
    main()
