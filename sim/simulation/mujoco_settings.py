"""Settings of a simulator that steps a model as MuJoCo steps its file."""

from typing import Any

from sim.errors import ModelError
from sim.model.checks import require_type
from sim.model.model import Model, MujocoOptions
from sim.simulation.options import contact_of_file


def agreed_options(model: Model) -> MujocoOptions | None:
    """Return MuJoCo's options of the MJCF files of a model's parts; None without such files, and if they differ."""
    options = {part.mujoco for part in model.parts} - {None}
    return options.pop() if len(options) == 1 else None


def mujoco_settings(model: Model) -> dict[str, Any]:
    """Return time step, integrator and contact options of the MJCF file that a model was read from.

    ``sim.Simulator(model, **sim.mujoco_settings(model))`` steps as MuJoCo does, with its soft contacts;
    docs/contact/mujoco.md compares the two.

    Args:
        model: read from an MJCF file, or composed of parts from files that agree.

    Returns:
        ``dt``, ``integrator`` and ``contact``: arguments of :class:`sim.Simulator`.

    Raises:
        ModelError: for a model without a part from an MJCF file, and for files that disagree.

    Example:
        >>> import sim
        >>> model = sim.envs.make("Ant", device="cpu").simulator.model  # from an MJCF file
        >>> settings = sim.mujoco_settings(model)
        >>> settings["dt"], settings["integrator"], settings["contact"].friction
        (0.01, 'rk4', 'pyramid')
    """
    require_type("mujoco_settings: model", model, Model, "a sim.Model")
    stated = {(part.timestep, part.mujoco): part.name for part in model.parts if part.mujoco is not None}
    if not stated:
        raise ModelError("mujoco_settings: no part of the model is from an MJCF file; set dt and options explicitly")
    if len(stated) > 1:
        raise ModelError(
            f"mujoco_settings: the files of the parts {', '.join(stated.values())} have different options; set dt, "
            "integrator and sim.MujocoContact explicitly"
        )
    ((timestep, options),) = stated
    assert options is not None
    return {"dt": timestep, "integrator": options.integrator, "contact": contact_of_file(options)}
