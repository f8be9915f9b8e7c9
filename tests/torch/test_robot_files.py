"""Robots of files of every format."""

import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.exporters import write_mjcf, write_urdf
from sim.usd import write_usd


def arm():
    builder = sim.ModelBuilder()
    for link, parent in (("upper", "world"), ("lower", "upper")):
        builder.add_link(link, mass=1.0, com=(0.0, 0.1, 0.0), inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{link}_hinge", "revolute", parent=parent, child=link, position=(0, 0, 0.5), axis=(0, 1, 0))
    return builder.finalize("float64")


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".usda"])
def test_a_robot_of_a_file_is_that_of_the_model(suffix, tmp_path):
    model, path = arm(), tmp_path / f"arm{suffix}"
    if suffix == ".urdf":
        write_urdf(path, model)
    elif suffix == ".xml":
        write_mjcf(path, model)
    else:
        write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=25.0)
    robot = sim.torch.Robot(path, dtype=torch.float64)
    q = torch.tensor([0.3, -0.4], dtype=torch.float64)
    expected = sim.forward_kinematics(model, q.numpy()[None], ["lower"]).numpy()[0, 0]
    position, _ = robot.forward_kinematics(q, "lower")
    np.testing.assert_allclose(position.numpy(), expected[:3], atol=1e-7)
    assert robot.joint_names == model.joint_names
