"""Training of policies in :mod:`sim.envs`, with and without gradients through the simulator; see docs/learning.md."""

from sim.learn.algorithms import ALGORITHMS, load_task, make_learner
from sim.learn.apg import Apg, ApgSettings
from sim.learn.evaluation import Evaluation, evaluate, write_animation
from sim.learn.jobs import train
from sim.learn.learner import ActorCriticSettings, Learner
from sim.learn.networks import Policy
from sim.learn.policy_files import export_policy, load_policy, save_policy
from sim.learn.ppo import Ppo, PpoSettings
from sim.learn.sac import Sac, SacSettings
from sim.learn.shac import Shac, ShacSettings
from sim.learn.training import Training, run

__all__ = [
    "ALGORITHMS",
    "ActorCriticSettings",
    "Apg",
    "ApgSettings",
    "Evaluation",
    "Learner",
    "Policy",
    "Ppo",
    "PpoSettings",
    "Sac",
    "SacSettings",
    "Shac",
    "ShacSettings",
    "Training",
    "evaluate",
    "export_policy",
    "load_policy",
    "load_task",
    "make_learner",
    "run",
    "save_policy",
    "train",
    "write_animation",
]
