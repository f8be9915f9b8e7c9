"""Reading of untrusted files in a separate process with limits.

Parsers are large libraries written in C++. A damaged or malicious file may make them crash, run for hours or exhaust
memory, which would end or freeze the calling process. In a separate process this becomes an error message. The model
comes back as arrays and plain data (:mod:`sim.importers.model_file`), not as a pickle, which could run code in the
caller's process. The separate process has the rights of the caller: a file that takes it over can do what the user can.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from sim import errors
from sim.errors import ImportFileError, ModelError
from sim.importers.model_file import model_from_bytes
from sim.model.model import Model
from sim.output import WritingFolder

STARTING = 120.0  # maximum startup time of the process [s]
# One thread each, since thread pools take address space, which is limited.
ENVIRONMENT = {"PXR_WORK_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Limits:
    """Limits for reading an untrusted file.

    Attributes:
        seconds: elapsed time [s].
        cpu_seconds: processor time [s].
        memory: memory beyond that of the libraries [bytes].

    Example:
        >>> from sim.importers.untrusted import Limits, ReadingProcess
        >>> limits = Limits(seconds=30.0, memory=5e8)
        >>> with ReadingProcess(limits) as process:
        ...     model = process.load("scenes/robots/arm.urdf", {"floating_base": True})
        >>> model.nv
        15
    """

    seconds: float = 120.0
    cpu_seconds: float = 60.0
    memory: float = 2e9


def load_untrusted(path: str | os.PathLike[str], limits: Limits, options: Mapping[str, Any]) -> Model:
    """Load a file as :func:`sim.load` does, in a separate process.

    Args:
        path: the file.
        limits: limits for reading it.
        options: further arguments of :func:`sim.load`.

    Raises:
        ImportFileError: see :func:`sim.load`; also for a file that needs too much time or memory, or that makes a
            library crash.
        ModelError: see :func:`sim.load`; also on systems without such limits.
    """
    with ReadingProcess(limits) as process:
        return process.load(path, options)


class ReadingProcess:
    """A process that reads files one after another, and is replaced by a new one when it ends.

    Use it in a ``with`` block, which ends the process.

    Args:
        limits: limits for reading a file.

    Example:
        >>> from sim.importers.untrusted import Limits, ReadingProcess
        >>> with ReadingProcess(Limits()) as process:
        ...     models = [process.load(f"scenes/robots/{name}.urdf", {}) for name in ("arm", "golfer")]
        >>> [model.num_links for model in models]
        [9, 3]
    """

    def __init__(self, limits: Limits):
        if not Path("/proc/self/statm").exists():
            raise ModelError(
                "untrusted files can only be read on Linux, where the resources of a process can be limited"
            )
        self._limits = limits
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._folder = WritingFolder(Path(tempfile.gettempdir()), "backswing_reading_")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.close()

    def load(self, path: str | os.PathLike[str], options: Mapping[str, Any]) -> Model:
        """Return the model of a file; arguments and errors as for :func:`load_untrusted`."""
        result = self._folder.path / "model"
        request = {
            "path": os.fspath(path), "options": {name: _plain(value) for name, value in options.items()},
            "cpu_seconds": self._limits.cpu_seconds, "memory": self._limits.memory, "result": str(result),
        }  # fmt: skip
        reply = json.loads(self._ask(path, json.dumps(request) + "\n"))
        if reply["tired"]:
            self._stop()
        for kind, text in reply["warnings"]:
            warnings.warn(text, getattr(errors, kind, UserWarning), stacklevel=4)
        if reply["error"] is not None:
            kind, text = reply["error"]
            raise ModelError(text) if kind == "ModelError" else ImportFileError(path, text)
        try:
            return model_from_bytes(result.read_bytes())
        except ValueError as error:
            raise ImportFileError(
                path,
                f"the reading process returned a damaged model: {error}; read the file again, or report this error",
            ) from None
        finally:
            result.unlink(missing_ok=True)

    def _ask(self, path: object, request: str) -> str:
        """Return the answer to a request. Raise ImportFileError if the process ends or times out."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
            line = self._lines.get(timeout=self._limits.seconds)
        except BrokenPipeError:
            line = ""
        except queue.Empty:
            self._stop()
            raise ImportFileError(path, f"took longer than {self._limits.seconds:g} s to read") from None
        except BaseException:
            self._stop()
            raise
        if not line:
            raise ImportFileError(path, self._last_words(process))
        return line

    def _last_words(self, process: "subprocess.Popen[str]") -> str:
        """Return how a process ended."""
        code = process.wait()
        self._stop()
        if code == -signal.SIGXCPU:
            return f"took more than {self._limits.cpu_seconds:g} s of processor time to read"
        if code < 0:
            name = signal.Signals(-code).name
            return (
                f"made the process that read it crash ({name}: {signal.strsignal(-code)}); it is damaged, or needs "
                f"more than {self._limits.memory / 1e6:.0f} MB"
            )
        return f"made the process that read it end with exit status {code}"

    def _start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "sim.importers.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )  # fmt: skip
        self._process, self._lines = process, queue.Queue()
        threading.Thread(target=_pass_on, args=(process, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=STARTING)
        except queue.Empty:
            ready = ""
        if not ready:
            self._stop()
            raise ModelError("the process that reads untrusted files failed to start; check the Python installation")
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()


def _pass_on(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> None:
    """Put the lines that a process writes into a queue, and an empty one when it ends."""
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            lines.put(line)
    lines.put("")


def _plain(value: Any) -> Any:
    """Convert an option of :func:`sim.load` to JSON types."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
