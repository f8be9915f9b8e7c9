"""Rollouts: the steps that are taken, what is kept of them, and the way back."""
