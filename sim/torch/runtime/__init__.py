"""How a call of a robot's method reaches the kernels: captured graphs, their tensors and memory."""
