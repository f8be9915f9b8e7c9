"""Rollouts whose steps are kept for the backward pass, and the memory that they take together."""

import weakref
from collections.abc import Sequence

from sim.errors import ModelError
from sim.model.checks import is_whole
from sim.simulation.engine.kept_steps import KeptBlock
from sim.simulation.engine.shard import Shard


class KeptRollout:
    """First steps of a rollout, whose working arrays are kept until its backward pass or until this object is freed.

    Args:
        shards: shards of the rollout.
        steps: number of steps.

    Attributes:
        blocks: memory of each shard.
        bytes: bytes of the kept arrays.
    """

    def __init__(self, shards: Sequence[Shard], steps: int):
        self.blocks: dict[Shard, KeptBlock] = {}
        self._returns: list[weakref.finalize] = []
        for shard in shards:
            block = self.blocks[shard] = shard.kept.take(steps)
            # Not bound to this object, which it would keep alive.
            give_back = weakref.finalize(self, shard.kept.give_back, block)
            give_back.atexit = False
            self._returns.append(give_back)
        self.bytes = sum(block.bytes for block in self.blocks.values())

    def release(self) -> None:
        """Give the memory back: a backward pass overwrites some of the arrays that it reads."""
        self.blocks, self.bytes = {}, 0
        for give_back in self._returns:
            give_back()

    def prepared(self, shards: Sequence[Shard], names: frozenset[str]) -> dict[Shard, KeptBlock]:
        """Return the memory of each shard, ready for a backward pass; empty if its steps must be run again. Call it
        from one thread only.

        Args:
            shards: shards with the parameters of the rollout; others than its own if theirs have been dropped.
            names: parameters whose gradients to compute.
        """
        if self.blocks.keys() != set(shards) or not _record(shards, names):
            return {}
        for shard, block in self.blocks.items():
            shard.prepare_kept(names, block)
        return self.blocks


def _record(shards: Sequence[Shard], names: frozenset[str]) -> bool:
    """Capture kept steps of all shards; return whether their adjoints read kept arrays alone."""
    return all(shard.record_kept(names) for shard in shards)


class KeptRollouts:
    """Rollouts of a simulator whose steps are kept."""

    def __init__(self) -> None:
        self._rollouts: weakref.WeakSet[KeptRollout] = weakref.WeakSet()

    @property
    def bytes(self) -> int:
        """Return the bytes that they take."""
        return sum(rollout.bytes for rollout in self._rollouts)

    def begin(self, shards: Sequence[Shard], steps: int, keep_bytes: int, names: frozenset[str]) -> KeptRollout | None:
        """Return memory for the first steps of a rollout, as many as fit; None if none does.

        Args:
            shards: shards of the rollout.
            steps: number of steps.
            keep_bytes: bytes that all rollouts may take.
            names: parameters whose gradients will be requested.
        """
        if not _record(shards, names):
            return None
        taken, of_step = self.bytes, sum(shard.kept.bytes_of_step for shard in shards)
        count = min(steps, (keep_bytes - taken) // of_step)
        if count < 1:
            return None
        if taken + count * of_step + sum(shard.kept.bytes_with(count) for shard in shards) > keep_bytes:
            for shard in shards:
                shard.kept.free()
        rollout = KeptRollout(shards, count)
        self._rollouts.add(rollout)
        return rollout if rollout.prepared(shards, names) else None


def require_keep_bytes(keep_bytes: int, interval: int, stages: int) -> None:
    """Check the argument ``keep_bytes`` of a rollout.

    Args:
        keep_bytes: the argument.
        interval: number of steps between stored states.
        stages: stages of a step whose velocities are stored.

    Raises:
        ModelError: naming the argument and the remedy.
    """
    if not is_whole(keep_bytes, 0):
        raise ModelError(f"rollout: keep_bytes is {keep_bytes!r}; it must be a whole number of at least 0")
    if keep_bytes and interval > 1:
        raise ModelError(
            f"rollout: keep_bytes is {keep_bytes} and checkpoint_interval {interval}, whose steps are run again; "
            "remove one of them"
        )
    if keep_bytes and stages:
        raise ModelError(
            f"rollout: keep_bytes is {keep_bytes}, but steps of integrator='rk4' are run again; remove keep_bytes or "
            "choose another integrator"
        )
