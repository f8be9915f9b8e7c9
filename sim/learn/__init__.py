"""Training of policies in :mod:`sim.envs`, with and without gradients through the simulator; see docs/learning.md."""

from sim.learn.algorithms import ALGORITHMS, load_task, make_learner
from sim.learn.apg import Apg, ApgSettings
from sim.learn.evaluation import Evaluation, evaluate, write_animation
from sim.learn.learner import Learner
from sim.learn.networks import Policy
from sim.learn.policy_files import load_policy, save_policy
from sim.learn.sac import Sac, SacSettings
from sim.learn.shac import Shac, ShacSettings
from sim.learn.training import Training, run

__all__ = [
    "ALGORITHMS",
    "Apg",
    "ApgSettings",
    "Evaluation",
    "Learner",
    "Policy",
    "Sac",
    "SacSettings",
    "Shac",
    "ShacSettings",
    "Training",
    "evaluate",
    "load_policy",
    "load_task",
    "make_learner",
    "run",
    "save_policy",
    "write_animation",
]
