"""Compilation and loading of kernels: several modules at a time, with one line of progress unless they are cached.

A checksum is stored next to each compiled module in the cache. A file that a full disk or a crash truncated or changed
may still load, and fail or compute wrong results later; it is compiled again.

At its default log level INFO, Warp prints a greeting and a line for every module. While this package starts Warp and
loads modules the level is WARNING; any other level, chosen by the user, is not changed.
"""

import contextlib
import ctypes
import functools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

import warp as wp
from tqdm import tqdm

from sim.arrays import shipped
from sim.arrays.critical_sections import interruptible
from sim.arrays.headers import Headers, require_space_on_disk
from sim.cores import usable_cores
from sim.errors import ModelError
from sim.output import reason

NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"
# Threads of a block on CUDA. A thread that works on one world needs many registers: more of the smaller blocks fit on a
# multiprocessor at a time, and few worlds are spread over all multiprocessors.
BLOCK_THREADS = 64
CACHE_HINT = "set WARP_CACHE_PATH to a writable folder with free space"


@functools.cache
def warp_runtime() -> Any:
    """Return Warp's runtime, which knows devices and the recording tape, after starting Warp."""
    start_warp()
    return wp._src.context.runtime  # Warp has no public name for it


@functools.cache  # even a redundant wp.init takes longer than many kernels
def start_warp() -> None:
    """Start Warp once, without its greeting, and without the warning on a machine without CUDA.

    Raises:
        ModelError: if its kernel cache cannot be created.
    """
    try:
        with quiet(), contextlib.nullcontext() if _has_cuda_driver() else _without_driver_warning():
            wp.init()
    except OSError as error:
        raise ModelError(
            f"Warp's kernel cache cannot be created in {error.filename}: {reason(error)}; {CACHE_HINT}"
        ) from None


def block_threads(device: wp.DeviceLike) -> int:
    """Return the threads of a block of a launch; a CPU has no blocks."""
    return BLOCK_THREADS if wp.get_device(device).is_cuda else 1


# Checksum files of the modules that this process has loaded.
_intact: set[Path] = set()


class CachedModule:
    """Files of a module in Warp's cache for one device.

    Args:
        module: the module.
        device: device that it is compiled for.
    """

    def __init__(self, module: wp.Module, device: wp.Device):
        block = block_threads(device)
        self._module, self._block = module, block
        self.folder = Path(str(wp.config.kernel_cache_dir)) / module.get_module_identifier(block)
        named = getattr(module, "_get_compile_output_name", None)  # Warp has no public name for either
        described = getattr(module, "_get_meta_name", None)
        self._patterns = ["*.o", "*.cubin", "*.ptx"] if named is None else [named(device, block_dim=block)]
        self._meta = None if described is None else described(block_dim=block)

    @property
    def exists(self) -> bool:
        """Return whether Warp finds the compiled module; there may be some for other processors and GPUs."""
        return any(any(self.folder.glob(name)) for name in self._patterns)

    @property
    def damaged(self) -> bool:
        """Return whether the files exist and differ from their checksum."""
        if self._meta is None or self._checksum_file in _intact or not self.exists:
            return False
        try:
            return int(self._checksum_file.read_text()) != self._checksum()
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True

    @property
    def compiled(self) -> shipped.Compiled | None:
        """Return its files, as an archive of compiled kernels names them; None with a Warp that has other names."""
        if self._meta is None or len(self._patterns) != 1:
            return None
        digest = self._module.get_module_hash(self._block).hex()
        return shipped.Compiled(digest, self.folder, self._patterns[0], self._meta)

    def seal(self) -> None:
        """Store a checksum of the files, unless it exists or the folder isn't writable."""
        if self._meta is None or self._checksum_file in _intact:
            return
        _intact.add(self._checksum_file)
        if self._checksum_file.exists():
            return
        with contextlib.suppress(OSError):
            written = self._checksum_file.with_name(f"{self._checksum_file.name}.{os.getpid()}")
            written.write_text(str(self._checksum()))
            written.replace(self._checksum_file)

    @property
    def _checksum_file(self) -> Path:
        return self.folder / (self._patterns[0] + shipped.CHECKSUM)

    def _checksum(self) -> int:
        """Return the checksum of the binary and its description."""
        assert self._meta is not None
        return shipped.checksum((self.folder / self._patterns[0]).read_bytes(), (self.folder / self._meta).read_bytes())


def load_modules(modules: Iterable[wp.Module], device: wp.Device) -> None:
    """Load modules, and compile those that aren't cached, on all cores.

    Raises:
        ModelError: if the compiled kernels cannot be written to Warp's cache.
    """
    modules = list(modules)
    with quiet():
        cached = {m: CachedModule(m, device) for m in modules}
        _discard([files for files in cached.values() if files.damaged])
        ahead = _compiled_ahead(os.getpid())
        waiting = [ahead[m.name] for m in modules if m.name in ahead and not ahead[m.name].done()]
        missing = _missing({m: files for m, files in cached.items() if m.name not in ahead}, device)
        if waiting or missing:
            _compile(missing, device, waiting)
        failed = [m for m in modules if m.name in ahead and not cached[m].exists]
        if failed:
            _compile(failed, device, [])
        for module, files in cached.items():
            try:
                wp.load_module(module, device, block_dim=block_threads(device))
            except Exception:
                if module in [*missing, *failed]:
                    raise
                _discard([files])
                _compile([module], device, [])
            files.seal()


def compile_ahead(kernels: Iterable[wp.Kernel], device: wp.Device) -> None:
    """Compile the modules of kernels that a CPU will need, unless they are cached.

    This happens in the background. There is no line of progress until something has to wait for them; at its default
    log level Warp names the modules. The first one makes the shared header, see :mod:`sim.arrays.headers`. Modules of
    one call are compiled before those of later ones. Nothing is raised: a module that could not be compiled is compiled
    when it is needed, which reports the reason.
    """
    ahead = _compiled_ahead(os.getpid())
    modules = {kernel.module.name: kernel.module for kernel in kernels if device.is_cpu}
    missing = _missing({m: CachedModule(m, device) for m in modules.values() if m.name not in ahead}, device)
    if missing:
        with contextlib.suppress(OSError):
            pool, headers = _compilers(os.getpid())
            asked = headers.ask()
            ahead.update({m.name: pool.submit(_compile_silently, m, device, headers, asked) for m in missing})


def _missing(modules: dict[wp.Module, CachedModule], device: wp.Device) -> list[wp.Module]:
    """Return the modules that are neither cached nor shipped; those that are shipped are cached then."""
    missing = [module for module, files in modules.items() if not files.exists]
    if device.is_cpu:
        shipped.unpack(compiled for module in missing if (compiled := modules[module].compiled) is not None)
        missing = [module for module in missing if not modules[module].exists]
    return missing


def _discard(damaged: list[CachedModule]) -> None:
    """Remove damaged modules from the cache, with one line that names their folder.

    Raises:
        ModelError: if they can't be removed.
    """
    if damaged:
        folder = damaged[0].folder if len(damaged) == 1 else f"{len(damaged)} folders of {damaged[0].folder.parent}"
        print(f"the cached kernels in {folder} are damaged; compiling them again", file=sys.stderr, flush=True)
    for files in damaged:
        try:
            shutil.rmtree(files.folder)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as error:
            raise ModelError(f"damaged kernels cannot be removed: {reason(error)}; remove {files.folder}") from None


def _compile_silently(module: wp.Module, device: wp.Device, headers: Headers, asked: int) -> None:
    with contextlib.suppress(Exception):
        headers.compile(module, device, block_threads(device), asked)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress Warp's messages in a context at its default log level, except warnings and errors."""
    before = wp.config.log_level
    if before == wp.LOG_INFO:
        wp.config.log_level = wp.LOG_WARNING
    try:
        yield
    finally:
        wp.config.log_level = before


def _compile(modules: list[wp.Module], device: wp.Device, ahead: list[Future]) -> None:
    """Compile modules in several threads, and wait for those that are compiled in the background.

    The compiler doesn't block other threads.
    """
    pool, headers = _compilers(os.getpid())
    asked, block = headers.ask(), block_threads(device)
    futures: list[Future] = []
    try:
        with interruptible():
            futures += [
                pool.submit(headers.compile, module, device, block, asked) for module in _in_good_order(modules)
            ]
            for future in _shown([*ahead, *futures]):
                future.result()
    except Exception as error:
        problem = error if isinstance(error, OSError) else _cache_problem()
        if problem is None:
            raise
        folder = wp.config.kernel_cache_dir
        raise ModelError(f"kernels cannot be written to {folder}: {reason(problem)}; {CACHE_HINT}") from None
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


def _in_good_order(modules: list[wp.Module]) -> list[wp.Module]:
    """Return modules in order of compilation: first those with rare flags, since two sets of flags can't be mixed.

    Of the others the last come first, because the modules of the backward pass take longest.
    """
    flags = [module.options.get("cpu_compiler_flags") for module in modules]
    common = Counter(flags).most_common(1)[0][0] if flags else None
    rare = [module for module, own in zip(modules, flags, strict=True) if own != common]
    return rare + [module for module, own in zip(modules[::-1], flags[::-1], strict=True) if own == common]


@functools.cache
def _compilers(process: int) -> tuple[ThreadPoolExecutor, Headers]:
    """Return a process's compiler threads, more than cores since some generate code meanwhile, and its headers."""
    cores = len(usable_cores())
    return ThreadPoolExecutor(4 * cores), Headers(cores)


@functools.cache
def _compiled_ahead(process: int) -> dict[str, Future]:
    """Return the modules that a process compiles in the background, by name; a forked process has others."""
    return {}


def _shown(futures: list[Future]) -> Iterator[Future]:
    """Yield the futures as they complete, with a line of progress on standard error."""
    count = len(futures)
    if not sys.stderr.isatty():
        print(f"compiling {count} {'module' if count == 1 else 'modules'} of kernels", file=sys.stderr, flush=True)
    form = "compiling {n_fmt} of {total_fmt} modules of kernels [{elapsed}]"
    with tqdm(total=count, bar_format=form, leave=False, disable=not sys.stderr.isatty()) as progress:
        for future in as_completed(futures):
            progress.update()
            yield future


def _cache_problem() -> OSError | None:
    """Return the system's error on writing another module to the cache; the compiler's own error doesn't tell."""
    try:
        require_space_on_disk(Path(str(wp.config.kernel_cache_dir)))
    except OSError as error:
        return error
    return None


def _has_cuda_driver() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _without_driver_warning() -> Iterator[None]:
    """Suppress the warning of Warp's native library, written to standard error, about a missing driver."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as written:
        stderr = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            written.seek(0)
            for line in written:
                if NO_DRIVER not in line:
                    os.write(2, line)
