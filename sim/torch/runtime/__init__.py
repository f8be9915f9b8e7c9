"""From a robot's call to the kernels: signatures, captured graphs and their tensors. See docs/robot-calls.md."""
