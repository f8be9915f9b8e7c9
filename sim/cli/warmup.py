"""Compile and cache kernels ahead of time: those that a file needs, or all of one precision."""

import argparse
import time

import numpy as np
import warp as wp

from sim.arrays.device_model import find_device
from sim.arrays.kernels import load_modules
from sim.cli.files import READING, UsageError, add_file, read_file, refuse_unused, say
from sim.simulation.simulator import Simulator
from warp_kernels.registry import all_modules
from warp_kernels.types import DTYPES, LANES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser, optional=True)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float32", help="precision (default: float32)")
    parser.add_argument(
        "--gradients", action="store_true", help="with FILE: also compile the kernels of the backward pass"
    )
    parser.add_argument("--device", default="cpu", help="Warp device: cpu (default), or a GPU such as cuda:0")


def run(given: argparse.Namespace) -> int:
    """Run the command."""
    began = time.perf_counter()
    if given.file is not None:
        refuse_unused(given, ["base_height"], "kernels don't depend on it; remove it")
        _run_once(given)
    elif given.gradients:
        raise UsageError("--gradients requires FILE; without a file all kernels are compiled")
    else:
        refuse_unused(given, READING, "there is no FILE, and all kernels are compiled; remove them")
        device = find_device(given.device)
        lanes = (1, LANES) if device.is_cpu else (1,)
        modules = all_modules(DTYPES[given.dtype], lanes, looping=device.is_cpu)
        load_modules(modules, device)
    print(f"ready after {time.perf_counter() - began:.1f} s; the kernel cache is {wp.config.kernel_cache_dir}")
    return 0


def _run_once(given: argparse.Namespace) -> None:
    """Load all kernels that the model needs, by one step and, for gradients, its backward pass."""
    model, notes = read_file(given, given.dtype, pictures=False)
    say(notes)
    simulator = Simulator(model, 1e-3, device=given.device)
    trajectory = simulator.rollout(simulator.initial_state(), steps=1)
    if given.gradients:
        trajectory.backward(np.ones((1, model.nq)), np.ones((1, model.nv)))
