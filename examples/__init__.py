"""Runnable examples, one file per use: ``python -m examples.throw``."""

import sys

from examples.garbage import importing

with importing():
    from examples.ahead import begin

    # Before the imports of PyTorch and other shared packages: the compiler builds the kernels' common code meanwhile.
    begin(sys.orig_argv)
    import torch  # noqa: F401

    import examples.outputs  # noqa: F401
