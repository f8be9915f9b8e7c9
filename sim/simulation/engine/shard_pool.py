"""The threads that step the shards of a simulator side by side."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from sim.arrays.critical_sections import interruptible
from sim.simulation.engine.shard import Shard


class ShardPool:
    """A pool of threads, made when it is first needed.

    Args:
        threads: how many work at a time.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, work: Callable[[Shard], None], shards: Sequence[Shard]) -> None:
        """Do the work on every shard; the only one's in this thread.

        Whatever ends this early, an error in one of the threads or an interrupt in this one, is raised once all of them
        have stopped: the arrays that they write to are freed after that.
        """
        if len(shards) == 1:
            work(shards[0])
            return
        futures: list[Future[None]] = []
        try:
            futures += [self._executor().submit(work, shard) for shard in shards]
            with interruptible():
                wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()
        finally:
            for shard in shards:
                shard.stopped = True
            wait(futures)
            for shard in shards:
                shard.stopped = False

    def _executor(self) -> ThreadPoolExecutor:
        # Made here and not before: a forked process has none of its parent's threads.
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.threads), os.getpid()
        return self._pool
