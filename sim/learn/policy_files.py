"""Files of policies: with their task, to play and train again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sim.errors import ModelError
from sim.learn.learner import stored
from sim.learn.networks import Policy
from sim.output import write_file


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
    try:
        kept = torch.load(path, weights_only=True)
        state, task, task_options = kept["state"], kept["task"], kept["options"]
        weights = [value for name, value in state.items() if name.startswith("mean.") and value.dim() == 2]
        sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        policy = Policy(sizes[0], state["low"], state["high"], sizes[1:-1]).to(state["low"].dtype)
        policy.load_state_dict(state)
    except OSError:
        raise
    except Exception as error:  # PyTorch's reader raises errors of many types for other files
        raise ModelError(f"{path}: not a policy.pt written by a training ({type(error).__name__})") from None
    return policy, task, task_options
