"""Types of public names under both names of the package. mypy checks them in `make lint`; nothing here runs."""

from typing import assert_type

import backswing
import backswing.torch as bt
import sim
from backswing import ModelBuilder
from sim.model.model import Model
from sim.optimise.methods.mpc import MPC
from sim.torch.robot.robot import Robot


def types_under_backswing(problem: backswing.optimise.Problem) -> None:
    assert_type(ModelBuilder().finalize(), Model)
    assert_type(bt.Robot("arm.urdf"), Robot)
    assert_type(backswing.torch.Robot("arm.urdf"), Robot)
    assert_type(backswing.optimise.MPC(problem), MPC)
    assert_type(backswing.__version__, str)


def types_under_sim(problem: sim.optimise.Problem) -> None:
    assert_type(sim.torch.Robot("arm.urdf"), Robot)
    assert_type(sim.optimise.MPC(problem), MPC)
