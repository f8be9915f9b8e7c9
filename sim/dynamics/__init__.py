"""Kinematics and dynamics of a model as free functions on batches of states.

Every function takes a :class:`sim.Model` or a :class:`sim.DeviceModel` and batches as Warp or NumPy arrays, returns a
fresh Warp array in the model's dtype, and is differentiable by :class:`wp.Tape` in the Warp arrays that require a
gradient and in the parameters that the DeviceModel names in ``requires_grad``. Gradients in q are ambient; those of
quaternions are tangent to the unit sphere. Arguments are never written to. A :class:`sim.ModelError` is raised for a
wrong shape, dtype or device and for an unknown frame.

For each there is a function ``..._operation`` that describes the work without arguments, of which :mod:`sim.torch`
makes operations of PyTorch.
"""
