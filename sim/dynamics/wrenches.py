"""External wrenches at frames, as a free function by the rules of :mod:`sim.dynamics`."""

from collections.abc import Sequence

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.dynamics.arguments import Names, frame_names, reference_code
from sim.dynamics.bodies import Poses
from sim.dynamics.differentiable_op import (
    Array,
    DifferentiableOp,
    any_leading_shape,
    batch,
    launch_last,
    on_device,
    run,
    taped_backward,
)
from sim.model.model import Model
from warp_kernels.dynamics.link_forces import wrench_kernels


@any_leading_shape
def link_wrenches(
    model: Model | DeviceModel,
    q: Array,
    wrench: Array,
    frames: Sequence[str],
    reference: str = "local_world_aligned",
) -> wp.array:
    """Return external wrenches at frames as the wrenches on links that :func:`sim.inverse_dynamics` takes.

    Args:
        model: the model.
        q: joint coordinates [num_worlds, nq].
        wrench: moment [N m], then force [N], at each frame [num_worlds, len(frames), 6]. A wrench at a static frame has
            no effect.
        frames: names of frames; several wrenches on one link add up.
        reference: "local_world_aligned" for wrenches about the frame's origin along world axes; "world" about the
            world's origin along world axes; "local" about the frame's origin along the frame's axes.

    Returns:
        [num_worlds, num_links, 6].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> push = np.array([[[0.0, 0, 0, 10, 0, 0]]] * 2)  # 10 N along x at the tip, moment first [2, 1, 6]
        >>> wrench = sim.link_wrenches(model, np.zeros((2, model.nq)), push, ["link7"])
        >>> wrench.shape
        (2, 7, 6)
    """
    m = on_device(model, q, wrench)
    q = batch(m, "q", q, (m.model.nq,))
    names = frame_names(m.model, frames)
    wrench = batch(m, "wrench", wrench, (len(names), 6), q.shape[0])
    return run(m, link_wrench_operation(m.model, names, reference), [q, wrench])


def link_wrench_operation(model: Model, names: Names, reference: str) -> DifferentiableOp:
    """Return the operation of :func:`link_wrenches`."""
    code = reference_code(reference)

    def forward(m: DeviceModel, result: wp.array, q: wp.array, wrench: wp.array) -> None:
        bodies = Poses(m, q)
        launch_last(
            wrench_kernels(m.types.scalar).wrench_to_link, q.shape[0], bodies, m, m.frame_arrays(names),
            device=m.device, reference=code, wrench=wrench, link_wrench=result,
        )  # fmt: skip

    return DifferentiableOp((model.num_links, 6), forward, taped_backward(forward), ("joint_placement",))
