"""Passes over the links of a world by a team of threads, see :mod:`warp_kernels.team`.

Links are processed level by level (:class:`warp_kernels.dynamics.team.levels.LinkLevels`): those of a level don't
depend on each other. What doesn't depend on other links is a phase over all of them. Links read what their children
have found, which don't add to it.
"""
