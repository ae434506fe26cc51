"""The index of pending workloads in Redis (or Valkey): ordered sets behind server-side functions.

Redis is never the record. `fill_anew` names a new incarnation and drops what older ones left; a
call that finds another incarnation, no functions, or a sequence that went backwards (a restart
without its data, FLUSHALL, a replica that lagged) raises IndexLost, and the owner fills it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.resources import files
from typing import Any

import redis.asyncio as redis
from pydantic import TypeAdapter
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from federation.core.queueing import IndexLost, IndexUnavailable, Sizes, member
from federation.core.types import Pending

_CODEC = TypeAdapter(Pending)
_LIBRARY = files("federation.edge").joinpath("pending_index.lua")
_GONE = ("LOST", "Function not found")
_BATCH = 500


class RedisIndex:
    """`PendingIndex` in Redis. One owner per shard at a time (the leader of the shard)."""

    def __init__(self, url: str, incarnation: str, *, shard: str = "0") -> None:
        """`incarnation` is unique to this owner's lifetime; it changes with `fill_anew`."""
        self._redis = redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=5.0,
            socket_connect_timeout=2.0,
            retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), 2),
        )
        self._prefix = f"{{fedq:{shard}}}"
        self._incarnation = incarnation
        self._seq = 0

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def fill_anew(self, incarnation: str, items: Iterable[Pending]) -> None:
        """Load the functions, drop what is there, and make `items` ready."""
        self._incarnation, self._seq = incarnation, 0
        try:
            await self._redis.function_load(_LIBRARY.read_text(), replace=True)
            stale = [key async for key in self._redis.scan_iter(match=f"{self._prefix}:*")]
            for start in range(0, len(stale), _BATCH):
                await self._redis.unlink(*stale[start : start + _BATCH])
            await self._redis.hset(
                f"{self._prefix}:meta", mapping={"incarnation": incarnation, "seq": 0}
            )
        except RedisError as error:
            raise _translated(error) from error
        await self._enqueue_all(items)

    async def _enqueue_all(self, items: Iterable[Pending]) -> None:
        batch: list[Pending] = []
        for item in items:
            batch.append(item)
            if len(batch) == _BATCH:
                await self._pipeline(batch)
                batch = []
        if batch:
            await self._pipeline(batch)

    async def _pipeline(self, batch: list[Pending]) -> None:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for item in batch:
                    pipe.fcall("fedq_enqueue", 1, self._prefix, *self._enqueue_args(item, False))
                await pipe.execute()
        except RedisError as error:
            raise _translated(error) from error

    def _enqueue_args(self, item: Pending, sticky: bool) -> tuple[str, ...]:
        return (
            self._incarnation,
            item.uid,
            str(item.generation),
            item.cluster_queue,
            member(item, sticky=sticky),
            _CODEC.dump_json(item).decode(),
        )

    async def _call(self, name: str, *args: str) -> Any:
        try:
            return await self._redis.fcall(f"fedq_{name}", 1, self._prefix, *args)
        except RedisError as error:
            raise _translated(error) from error

    async def enqueue(self, item: Pending, *, sticky: bool = False) -> None:
        """See PendingIndex."""
        await self._call("enqueue", *self._enqueue_args(item, sticky))

    async def heads(self, queue: str, limit: int, without: Collection[str] = ()) -> list[Pending]:
        """See PendingIndex."""
        args = (self._incarnation, str(limit), queue, *without)
        seq, *bodies = await self._call("heads", *args)
        if int(seq) < self._seq:
            raise IndexLost(f"sequence went back from {self._seq} to {seq}")
        self._seq = int(seq)
        return [_CODEC.validate_json(body) for body in bodies]

    async def park(self, uid: str, generation: int) -> None:
        """See PendingIndex."""
        await self._call("park", self._incarnation, uid, str(generation))

    async def reactivate(self, queues: Iterable[str]) -> None:
        """See PendingIndex."""
        await self._call("reactivate", self._incarnation, *queues)

    async def claim(self, uid: str, generation: int) -> bool:
        """See PendingIndex."""
        return bool(await self._call("claim", self._incarnation, uid, str(generation)))

    async def release(self, uid: str) -> None:
        """See PendingIndex."""
        await self._call("release", self._incarnation, uid)

    async def drop(self, uid: str) -> None:
        """See PendingIndex."""
        await self._call("drop", self._incarnation, uid)

    async def sizes(self, queue: str) -> Sizes:
        """See PendingIndex."""
        return Sizes(*await self._call("sizes", self._incarnation, queue))

    async def position(self, uid: str) -> int | None:
        """See PendingIndex."""
        rank = int(await self._call("position", self._incarnation, uid))
        return None if rank < 0 else rank


def _translated(error: RedisError) -> Exception:
    """Our words for what Redis says."""
    if isinstance(error, ResponseError) and any(word in str(error) for word in _GONE):
        return IndexLost(str(error))
    if isinstance(error, RedisConnectionError | RedisTimeoutError):
        return IndexUnavailable(f"Redis cannot be reached: {error}")
    return IndexUnavailable(f"Redis refused: {error}")
