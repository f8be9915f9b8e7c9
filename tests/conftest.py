"""Shared by all tests: the devices, quiet Warp, reproducible hypothesis."""

import pytest
import warp as wp
from hypothesis import HealthCheck, settings

# Warp's warnings come through the warnings module, so that pytest's filterwarnings = error makes failures of them.
wp.config.log_level = wp.LOG_WARNING
wp.init()
# Tests that name no device run on the CPU, on a machine with a GPU too.
wp.set_device("cpu")

# The last is of pytest itself: it runs files of tests in a test.
pytest_plugins = ["tests.quick", "tests.rehearsal", "tests.index_checks", "tests.sanitizer", "tests.skips", "pytester"]

DEVICES = ["cpu", *(["cuda:0"] if wp.is_cuda_available() else [])]

# The same examples on every run; the first call of a kernel compiles it, which no deadline foresees.
settings.register_profile("backswing", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("backswing")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Every device of the machine: "cpu", and "cuda:0" where there is one."""
    return request.param
