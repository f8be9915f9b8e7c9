"""Cache of a robot's repeated calls: methods, engines and signatures."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch

from sim.arrays.critical_sections import serialized
from sim.dynamics.differentiable_op import DifferentiableOp
from sim.errors import ModelError
from sim.model.model import Model
from sim.torch.arrays import DTYPES
from sim.torch.robot.arguments import Arguments
from sim.torch.runtime.call_signature import CallSignature, next_use, pop_least_recent, tensor_signature
from sim.torch.runtime.engine import Engine

# Capacity for signatures: those of every method at five batch shapes. Each takes a few kilobytes; most memory is in the
# graphs, see :class:`sim.torch.runtime.engine.Engine`.
SIGNATURES = 128


@dataclass(frozen=True, eq=False, slots=True)
class Method:
    """A method's operation, and the form in which it returns the result.

    Attributes:
        key: distinguishes it from other methods, and from the same one with other frames or constants.
        operation: the operation to compute.
        single: True to drop the first dimension of the result, that of frames.
        split: sizes of the parts of its last dimension that become separate tensors; empty to keep it whole.
    """

    key: Hashable
    operation: DifferentiableOp
    single: bool
    split: tuple[int, ...]


class RobotCalls:
    """The calls of a robot's methods. A copy starts empty: arrays and graphs are created when they are needed.

    Args:
        model: the robot's original model.
        threads_per_world: threads of a GPU that share out the work of one row.

    Attributes:
        methods: methods of the signatures, by their keys.
        engines: one for each device and dtype that the robot has been on.
        signatures: by engine, method, and shapes and types of a call's tensors.
    """

    def __init__(self, model: Model, threads_per_world: int):
        self.model, self.threads_per_world = model, threads_per_world
        self.methods: dict[Hashable, Method] = {}
        self.engines: dict[tuple[torch.device, torch.dtype], Engine] = {}
        self.signatures: dict[tuple, CallSignature] = {}
        self._arguments = Arguments(model)

    def __reduce__(self) -> tuple[type["RobotCalls"], tuple[Model, int]]:
        return RobotCalls, (self.model, self.threads_per_world)

    def method(
        self, key: Hashable, make: Callable[[], DifferentiableOp], single: bool, split: tuple[int, ...]
    ) -> Method:
        """Return the method with this key; a new one is kept from its first signature on."""
        found = self.methods.get(key)
        return Method(key, make(), single, split) if found is None else found

    def signature(
        self, method: Method, like: torch.Tensor, inputs: Mapping[str, torch.Tensor], tensors: Sequence[torch.Tensor]
    ) -> tuple[Engine, CallSignature]:
        """Return the signature of a call, and the engine that runs it.

        Args:
            method: the called method.
            like: a tensor of the robot's dtype on its device.
            inputs: the inputs by the names of arguments.
            tensors: the inputs, then the parameters that the operation reads.

        Raises:
            ModelError: for a wrong shape, dtype or device, and for anything but a tensor.
        """
        engine = self.engines.get((like.device, like.dtype))
        try:
            signature = self.signatures.get((engine, method, *tensor_signature(tensors)))
        except (
            AttributeError,
            TypeError,
            RuntimeError,
        ):  # the second for Warp arrays, whose devices have no torch index
            self._arguments.batch(inputs, like)  # raises for anything but a tensor
            raise
        if engine is None or signature is None:
            engine = self._engine(like)
            signature = self._new_signature(engine, method, like, inputs, tensors)
        signature.used = next_use()
        return engine, signature

    @serialized
    def _new_signature(
        self,
        engine: Engine,
        method: Method,
        like: torch.Tensor,
        inputs: Mapping[str, torch.Tensor],
        tensors: Sequence[torch.Tensor],
    ) -> CallSignature:
        operation = method.operation
        batch = self._arguments.batch(inputs, like)
        self._arguments.check_parameters(operation.parameters, tensors[len(inputs) :], batch.numel(), like)
        inner = [x.shape[x.dim() - len(self._arguments.inner[name]) :] for name, x in inputs.items()]
        shape = torch.Size((*batch, *operation.shape[method.single :]))
        if len(self.signatures) == SIGNATURES:
            pop_least_recent(self.signatures)
            kept = {key[1] for key in self.signatures}
            self.methods = {key: other for key, other in self.methods.items() if other in kept}
        self.methods[method.key] = method
        signature = CallSignature(operation, batch, inner, tensors, shape, method.split)
        self.signatures[(engine, method, *tensor_signature(tensors))] = signature
        return signature

    @serialized
    def _engine(self, like: torch.Tensor) -> Engine:
        key = (like.device, like.dtype)
        if key not in self.engines:
            if like.dtype not in DTYPES:
                raise ModelError(f"the robot's parameters are {like.dtype}; use torch.float32 or torch.float64")
            self.engines[key] = Engine(self.model, *key, self.threads_per_world)
        return self.engines[key]
