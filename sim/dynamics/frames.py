"""Names of frames and references, as arguments of functions."""

from collections.abc import Sequence

from sim.errors import ModelError
from sim.model.checks import names_in
from sim.model.model import Model
from warp_kernels.kinematics import frames as codes

REFERENCES = {"local_world_aligned": codes.LOCAL_WORLD_ALIGNED, "world": codes.WORLD, "local": codes.LOCAL}
Names = tuple[str, ...]


def frame_names(model: Model, frames: Sequence[str] | None) -> Names:
    """Names of frames, those of all links for None. Raises ModelError for a single string and for an unknown frame."""
    if frames is None:
        return model.link_names
    if isinstance(frames, str):
        raise ModelError(f"frames is the string '{frames}'; give a sequence of names, such as ['{frames}']")
    names = names_in("frames", frames)
    for name in names:
        model.frame(name)
    return names


def reference_code(name: str | None) -> int:
    """The code of a reference by its name. Raises ModelError for an unknown one."""
    if not isinstance(name, str) or name not in REFERENCES:
        raise ModelError(f"unknown reference '{name}'; known are {', '.join(REFERENCES)}")
    return REFERENCES[name]
