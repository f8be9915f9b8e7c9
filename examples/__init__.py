"""Runnable examples, one file per use: ``python -m examples.throw``."""

import sys

from examples.garbage import importing

with importing():
    from examples.ahead import begin

    # Before PyTorch and what all examples use are imported: meanwhile the compiler makes what all kernels share.
    begin(sys.orig_argv)
    import torch  # noqa: F401

    import examples.outputs  # noqa: F401
