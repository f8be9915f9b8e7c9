"""Models written to files and read again."""

import sim


def write(path, model):
    """As MJCF or USD, by the ending of the path."""
    if path.suffix == ".xml":
        sim.exporters.write_mjcf(path, model)
    else:
        sim.usd.write_usd(path, model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=30.0)
