"""The triangular part of a small matrix, without waking the threads of OpenMP."""

import subprocess
import sys

import pytest
import torch

from sim.torch.robot.parametrisations import below_diagonal, from_log_cholesky, log_cholesky

# The threads of OpenMP start with the first operation that is done in parallel.
COUNT_THREADS = """if True:
    import os
    import torch
    from sim.torch.robot.parametrisations import from_log_cholesky
    torch.set_num_threads(2)
    free = torch.eye(4, dtype=torch.float64, requires_grad=True)
    count = lambda: len(os.listdir("/proc/self/task"))
    before = count()
    from_log_cholesky(free).sum().backward()
    after = count()
    free.tril(-1)
    print(after - before, count() - after)"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_tril(dtype):
    matrix = torch.randn(4, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    matrix[0, 3] = torch.nan  # ignored
    weight = torch.arange(16.0, dtype=dtype).view(4, 4)
    results = []
    for function in (below_diagonal, lambda x: x.tril(-1)):
        leaf = matrix.clone().requires_grad_()
        value = function(leaf)
        (weight * value).sum().backward()
        results.append((value.detach(), leaf.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=0.0)
        assert ours.dtype == dtype


def test_log_cholesky_comes_back():
    root = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix = root @ root.T + torch.eye(4, dtype=torch.float64)
    free = log_cholesky(matrix)
    torch.testing.assert_close(from_log_cholesky(free), matrix, rtol=1e-12, atol=1e-12)
    assert torch.equal(free.triu(1), torch.zeros(4, 4, dtype=torch.float64))


def test_openmp_is_left_asleep():
    done = subprocess.run([sys.executable, "-c", COUNT_THREADS], capture_output=True, text=True, check=True)
    ours, by_tril = map(int, done.stdout.split())
    assert ours == 0
    assert by_tril > 0, "the count tells OpenMP's threads"
