"""Kinematics and dynamics of a model as free functions on batches of states.

Every function takes a :class:`sim.Model` or a :class:`sim.DeviceModel` and batches as Warp or NumPy arrays, and returns
a new Warp array in the model's dtype. It is differentiable by :class:`wp.Tape` in the Warp arrays that require a
gradient and in the parameters that the DeviceModel names in ``requires_grad``. Gradients in q are ambient; those of
quaternions are tangent to the unit sphere. Arguments are never written to. A wrong shape, dtype or device and an
unknown frame raise :class:`sim.ModelError`.

Each function has an ``..._operation``, which describes the work without arguments and from which :mod:`sim.torch` makes
operations of PyTorch.
"""
