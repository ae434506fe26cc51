"""The index of pending workloads in Redis (or Valkey): ordered sets behind server-side functions.

Redis is never the record. `fill` names a new incarnation and drops what older ones left; a call
that finds another incarnation, no functions, or a sequence that went backwards (a restart without
its data, FLUSHALL, a replica that lagged) raises IndexLost, and the owner fills it again.

Changes are kept back and sent together with the next reading, so that one round trip serves both.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files

import redis.asyncio as redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from federation.core.queueing import Entry, IndexLost, IndexUnavailable, uid_of

_LIBRARY = files("federation.edge").joinpath("pending_index.lua")
_GONE = ("LOST", "Function not found")
_BATCH = 500

_Call = tuple[str, ...]
"""Name of a function, and its arguments behind the incarnation."""


class RedisIndex:
    """`PendingIndex` in Redis. One owner per shard at a time (the leader of the shard)."""

    def __init__(self, url: str, *, shard: str = "0") -> None:
        self._redis = redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=5.0,
            socket_connect_timeout=2.0,
            retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), 2),
        )
        self._prefix = f"{{fedq:{shard}}}"
        self._incarnation = ""
        self._seq = 0
        self._changes: list[_Call] = []
        self._lost = "it has not been filled yet"
        self._lock = asyncio.Lock()
        self.round_trips = 0
        """Requests that were waited for."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    # Changes

    def _change(self, *call: str) -> None:
        if not self._lost:
            self._changes.append(call)

    def enqueue(self, queue: str, entry: Entry) -> None:
        """See PendingIndex."""
        self._change("enqueue", queue, *_texts(entry))

    def park(self, uid: str, generation: int) -> None:
        """See PendingIndex."""
        self._change("park", uid, str(generation))

    def block(self, queue: str, shape: str) -> None:
        """See PendingIndex."""
        self._change("block", queue, shape)

    def reactivate(self, queues: Iterable[str]) -> None:
        """See PendingIndex."""
        self._change("reactivate", *queues)

    def drop(self, uid: str) -> None:
        """See PendingIndex."""
        self._change("drop", uid)

    # Readings

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        """See PendingIndex."""
        names = list(queues)
        answer = iter(await self._read("heads", *names))
        return {
            name: Entry(uid_of(member), int(generation), member)
            for name, generation, member in zip(names, answer, answer, strict=True)
            if member
        }

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """See PendingIndex."""
        texts = (text for uid, generation in entries.items() for text in (uid, str(generation)))
        return frozenset(await self._read("claim", *texts))

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """See PendingIndex."""
        return [uid_of(member) for member in await self._read("waiting", queue, str(limit))]

    async def _read(self, *call: str) -> list[str]:
        async with self._lock:
            if self._lost:
                raise IndexLost(self._lost)
            changes, self._changes = self._changes, []
            with self._guarded():
                seq, *answer = await self._send([*changes, call])
                self._check(int(seq))
            return answer

    def _check(self, seq: int) -> None:
        if seq < self._seq:
            raise IndexLost(f"sequence went back from {self._seq} to {seq}")
        self._seq = seq

    async def _send(self, calls: list[_Call]) -> list[str]:
        """Make calls in order, in as few round trips as that takes; the answer to the last."""
        answers: list[list[str]] = [[]]
        for start in range(0, len(calls), _BATCH):
            async with self._redis.pipeline(transaction=False) as pipe:
                for name, *args in calls[start : start + _BATCH]:
                    pipe.fcall(f"fedq_{name}", 1, self._prefix, self._incarnation, *args)
                self.round_trips += 1
                answers = await pipe.execute()
        return answers[-1]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A request that fails, or is cancelled, may or may not have got through: only a fill puts
        that right.
        """
        try:
            yield
        except BaseException as error:
            found = _translated(error) if isinstance(error, RedisError) else error
            self._lost, self._changes = str(found) or "a request was broken off", []
            if found is error:
                raise
            raise found from error

    # Filling

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """See PendingIndex."""
        async with self._lock:
            self._lost, self._changes = "", []
            self._incarnation, self._seq = uuid.uuid4().hex, 0
            wanted: list[_Call] = [("enqueue", name, *_texts(found)) for name, found in entries]
            with self._guarded():
                await self._start_anew()
                if wanted:
                    await self._send(wanted)

    async def _start_anew(self) -> None:
        """Load the functions, drop what is there, and mark the index as this owner's."""
        await self._redis.function_load(_LIBRARY.read_text(), replace=True)
        stale = [key async for key in self._redis.scan_iter(match=f"{self._prefix}:*")]
        for start in range(0, len(stale), _BATCH):
            await self._redis.unlink(*stale[start : start + _BATCH])
        meta = f"{self._prefix}:meta"
        await self._redis.hset(meta, items=["incarnation", self._incarnation, "seq", 0])


def _texts(entry: Entry) -> tuple[str, str, str]:
    return entry.uid, str(entry.generation), entry.member


def _translated(error: RedisError) -> IndexLost | IndexUnavailable:
    """Our words for what Redis says."""
    if isinstance(error, ResponseError) and any(word in str(error) for word in _GONE):
        return IndexLost(str(error))
    if isinstance(error, RedisConnectionError | RedisTimeoutError):
        return IndexUnavailable(f"Redis cannot be reached: {error}")
    return IndexUnavailable(f"Redis refused: {error}")
