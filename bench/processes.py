"""Processes that answer requests. Both are lines of JSON, so a process may use another environment and crash alone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tqdm import tqdm


class Process:
    """A process that runs :func:`serve`. Use it as a context manager, which ends the process.

    Args:
        name: name for messages.
        command: command that starts it.
        environment: its environment variables.
    """

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str]):
        self.name = name
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, bufsize=0, env=environment, stdin=pipe, stdout=pipe)
        self._ended = ""

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)

    def ask(self, do: str, **arguments: Any) -> tuple[Any, str]:
        """Send a request; return the answer and an empty text, or None and the reason."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._ended:
            return None, self._ended
        try:
            self._process.stdin.write((json.dumps([do, arguments]) + "\n").encode())
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            self._ended = f"its process ended with status {self._process.wait()}"
            tqdm.write(f"{self.name}: {self._ended}; its remaining columns stay empty")
            return None, self._ended
        answer, why = json.loads(line)
        return answer, why


def serve(answer: Callable[..., tuple[Any, str]]) -> None:
    """Serve requests until there are no more. Anything printed meanwhile goes to standard error.

    Args:
        answer: takes a request's name and its keyword arguments; returns what :meth:`Process.ask` returns.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        do, arguments = json.loads(line)
        print(json.dumps(answer(do, **arguments)), file=answers, flush=True)
