"""Kernels around the steps of a rollout: records, checkpoints, trajectories, switches and replay."""
