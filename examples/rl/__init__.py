"""Policies trained with gradients through the simulator; docs/learning.md explains them."""
