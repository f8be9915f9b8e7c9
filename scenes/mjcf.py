"""Conversion of a model to MJCF, to run the same robot in MuJoCo."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np

from sim.errors import MJCFWarning
from sim.exporters.files import number, numbers
from sim.exporters.losses import Losses
from sim.exporters.mjcf.exporter import mjcf_tree
from sim.model.model import Model


def to_mjcf(model: Model, *, dt: float, sweeps: int) -> str:
    """Convert the links, joints and colliding geometries of a model to MJCF, with a solver like Backswing's.

    :func:`sim.exporters.write_mjcf` writes the whole model to a file.

    Args:
        model: the model. Its restitution, which MuJoCo does not have, is left to the caller.
        dt: time step [s]. MuJoCo's implicit integrators use the velocity at the end of the step but the position at its
            start. With dt times its stiffness added to its damping, an actuator exerts the same force as in Backswing.
        sweeps: iterations of the projected Gauss-Seidel solver, without early termination.

    Returns:
        the text of the file.

    Raises:
        ModelError: for anything that MJCF cannot represent, and for a colliding mesh, which would need a separate file.
    """
    losses = Losses("backswing", "MJCF", MJCFWarning, lossy=False)
    parameters = model.parameters | {"restitution": np.zeros(model.num_geometries)}
    root = mjcf_tree(replace(model, parameters=parameters), losses, None)
    losses.refuse()
    root.find("option").attrib |= {  # type: ignore[union-attr]
        "timestep": number(dt), "solver": "PGS", "iterations": str(sweeps), "tolerance": "0",
        "integrator": "implicitfast" if model.nu else "Euler",
    }  # fmt: skip
    for servo in root.iter("position"):
        servo.set("kv", number(float(servo.get("kv", 0.0)) + dt * float(servo.get("kp", 0.0))))
    for actuator in root.iter("general"):
        for name in ("gainprm", "biasprm"):
            constant, length, velocity = (float(value) for value in str(actuator.get(name)).split())
            actuator.set(name, numbers([constant, length, velocity + dt * length]))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")
