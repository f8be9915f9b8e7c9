"""The way of a robot's call to the kernels: signatures, captured graphs, their tensors. See docs/robot-calls.md."""
