"""Files of policies: with their task, to play them again, and for other programs."""

import copy
import importlib.util
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sim.errors import ModelError
from sim.learn.learner import stored
from sim.learn.networks import Policy
from sim.model.checks import require_names, require_path, require_type
from sim.output import check_target, write_file

EXPORTS = (".ts", ".onnx")  # TorchScript and ONNX


def save_policy(path: str | Path, policy: Policy, task: str, task_options: Mapping[str, Any]) -> None:
    """Write a policy to a .pt file, with the normalisation of its observations.

    Args:
        path: the file.
        policy: the policy.
        task: name of its task, see :func:`sim.learn.load_task`.
        task_options: options of the task.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> import sim.learn
        >>> policy = sim.learn.Policy(3, torch.tensor([-1.0]), torch.tensor([1.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "policy.pt"
        ...     sim.learn.save_policy(file, policy, "CartpoleSwingup", {})
        ...     again, task, options = sim.learn.load_policy(file)
        >>> task
        'CartpoleSwingup'
    """
    require_type("save_policy: policy", policy, Policy, "a sim.learn.Policy")
    require_type("save_policy: task_options", task_options, Mapping, "a dictionary, from names to values")
    require_names("save_policy", task=task)
    kept = {"task": task, "options": dict(task_options), "state": policy.state_dict()}
    write_file(path, (".pt",), lambda name: Path(name).write_bytes(stored(kept)))


def load_policy(path: str | Path) -> tuple[Policy, str, dict[str, Any]]:
    """Load a policy that a training has written, its task and the task's options.

    Raises:
        ModelError: for any other file.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> import sim.learn
        >>> policy = sim.learn.Policy(3, torch.tensor([-1.0]), torch.tensor([1.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "policy.pt"
        ...     sim.learn.save_policy(file, policy, "CartpoleSwingup", {})
        ...     again, task, options = sim.learn.load_policy(file)
        >>> bool((again(torch.ones(1, 3)) == policy(torch.ones(1, 3))).all())
        True
    """
    require_path(path)
    try:
        kept = torch.load(path, weights_only=True)
        state, task, task_options = kept["state"], kept["task"], kept["options"]
        weights = [value for name, value in state.items() if name.startswith("mean.") and value.dim() == 2]
        sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        policy = Policy(sizes[0], state["low"], state["high"], sizes[1:-1]).to(state["low"].dtype)
        policy.load_state_dict(state)
    except OSError as error:
        raise ModelError(f"{path}: can't be read: {error.strerror or error}") from None
    except Exception as error:  # PyTorch's reader raises errors of many types for other files
        raise ModelError(f"{path}: not a policy.pt written by a training ({type(error).__name__})") from None
    return policy, task, task_options


def export_policy(path: str | Path, policy: Policy) -> None:
    """Write a policy for robots and other programs, which need neither Backswing nor its task.

    It has one input, ``observation`` [n, observations] as the task gives it, and one output, ``action`` [n, actions]
    without randomness: the normalisation of observations and the bounds of actions are part of it.

    Args:
        path: the file: .ts for TorchScript (``torch.jit.load``, libtorch in C++), .onnx for ONNX.
        policy: the policy.

    Raises:
        ModelError: for another suffix, a file that can't be written, or ONNX without its packages.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> import sim.learn
        >>> policy = sim.learn.Policy(3, torch.tensor([-1.0]), torch.tensor([1.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "policy.ts"
        ...     sim.learn.export_policy(file, policy)
        ...     file.stat().st_size > 1000
        True
    """
    target = check_export(path)
    require_type("export_policy: policy", policy, Policy, "a sim.learn.Policy")
    write = _write_onnx if target.suffix.lower() == ".onnx" else _write_torchscript
    copied = copy.deepcopy(policy).cpu().eval().requires_grad_(False)
    example = torch.zeros(2, policy.num_observations, dtype=copied.low.dtype)
    write_file(target, EXPORTS, lambda name: write(name, copied, example))


def check_export(path: str | Path) -> Path:
    """Return the path of a file that :func:`export_policy` can write; raises as it does."""
    target = check_target(path, EXPORTS)
    if target.suffix.lower() == ".onnx" and not all(map(importlib.util.find_spec, ("onnx", "onnxscript"))):
        raise ModelError("ONNX files need the packages onnx and onnxscript: pip install 'backswing[learn]'")
    return target


def _write_torchscript(name: str, policy: Policy, example: torch.Tensor) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit")  # deprecated, but what libtorch reads
        torch.jit.trace(policy, example).save(name)


def _write_onnx(name: str, policy: Policy, example: torch.Tensor) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            policy, (example,), name, input_names=["observation"], output_names=["action"], dynamo=True,
            dynamic_shapes={"observation": {0: torch.export.Dim("n")}}, external_data=False, verbose=False,
        )  # fmt: skip
