"""Policy training with gradients through the simulator; docs/learning.md explains it."""
