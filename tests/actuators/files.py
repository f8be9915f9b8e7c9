"""Files of actuators: written, read again and compared."""

from pathlib import Path

import numpy as np

import sim
import sim.exporters
from sim.usd import write_usd


def written_and_read(model: sim.Model, path: Path) -> sim.Model:
    """The model of the MJCF or USD file that this model is written to."""
    if path.suffix == ".xml":
        sim.exporters.write_mjcf(path, model)
    else:
        write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=1)
    return sim.load(path, dtype="float64")


def require_same_actuators(model: sim.Model, again: sim.Model) -> None:
    """Names, laws, dynamics and parameters of all actuators agree."""
    assert again.actuator_names == model.actuator_names
    for name in ("actuator_kind", "actuator_dynamics", "actuator_early"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for name, value in model.parameters.items():
        if name.startswith("actuator_"):
            np.testing.assert_allclose(again.parameters[name], value, rtol=1e-12, atol=1e-14, err_msg=name)


def with_forces_read(text: str, names: tuple[str, ...]) -> str:
    """An MJCF text with a sensor of each actuator's force."""
    read = "".join(f'<actuatorfrc name="force of {name}" actuator="{name}"/>' for name in names)
    return text.replace("</mujoco>", f"<sensor>{read}</sensor></mujoco>")
