"""The index of pending workloads in Redis (or Valkey): ordered sets behind server-side functions.

Redis is never the record. `fill` names a new incarnation and drops what older ones left. Both
sides count the calls that change something; a reading that finds another incarnation, no functions
or another count (a restart without its data, FLUSHALL, a replica that lagged, an older file)
raises IndexLost, and the owner fills it again.

Changes are kept back and sent together with the next reading, so that one round trip serves both.
Nothing is sent twice: after a failure it is not known what got through, and only a fill helps.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files

import redis.asyncio as redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from federation.core.queueing import Entry, IndexLost, uid_of
from federation.edge.redis_errors import translated

ANSWER_S = 10.0
"""Seconds after which Redis counts as away."""
_CONNECT_S = 2.0
_ENTRIES = 100
"""Workloads in one call: it must not keep Redis from others for more than a few milliseconds."""
_TEXTS = 20_000
"""Arguments in one round trip: some ten milliseconds of ours to write them."""
_KEYS = 1000
_READINGS = frozenset({"heads", "ahead", "waiting", "counts"})
"""Calls that change nothing."""

_Call = tuple[str, ...]
"""Name of a function, and its arguments behind the incarnation."""


def _library() -> tuple[str, str]:
    """Name and text of the functions. The name has a digest of the text, so that two versions, or
    somebody else's library, are never taken for one another.
    """
    text = files("federation.edge").joinpath("pending_index.lua").read_text()
    name = f"fedq_{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
    return name, text.replace("@NAME@", name)


def _me() -> str:
    """Who fills the index, for people: host and process."""
    return re.sub(r"[^\w.:/-]", "_", f"{socket.gethostname()}/{os.getpid()}")


class RedisIndex:
    """`PendingIndex` in Redis. One owner per shard at a time (the leader of the shard)."""

    def __init__(self, url: str, *, shard: str = "0") -> None:
        """`shard` sets it apart from others in the same Redis."""
        self._redis = redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=_CONNECT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._server = _place(self._redis.connection_pool.connection_kwargs)
        self._name, self._text = _library()
        self._prefix = f"{{fedq:{shard}}}"
        self._incarnation = ""
        self._seq = 0
        self._changes: list[_Call] = []
        self._lost = "it has not been filled yet"
        self._lock = asyncio.Lock()
        self.round_trips = 0
        """Requests that were waited for."""
        self.caution = ""
        """What may go wrong with this server, as its settings are; '' if nothing."""

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

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        """See PendingIndex."""
        names = list(queues)
        answer = iter(await self._read("ahead", str(depth), *names))
        found = {}
        for name in names:
            pairs = [(next(answer), next(answer)) for _ in range(int(next(answer)))]
            found[name] = [Entry(uid_of(text), int(number), text) for number, text in pairs]
        return found

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """See PendingIndex."""
        texts = (text for uid, generation in entries.items() for text in (uid, str(generation)))
        return frozenset(await self._read("claim", *texts))

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """See PendingIndex."""
        return [uid_of(member) for member in await self._read("waiting", queue, str(limit))]

    async def counts(self, queues: Iterable[str]) -> dict[str, int]:
        """See PendingIndex."""
        names = list(queues)
        return dict(zip(names, map(int, await self._read("counts", *names)), strict=True))

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
        if seq != self._seq:
            raise IndexLost(
                f"the index in Redis at {self._server} is lost: it has {seq} changes, and"
                f" {self._seq} were made (did a replica that lagged become the primary?)"
            )

    async def _send(self, calls: Iterable[_Call]) -> list[str]:
        """Make calls in order, in as few round trips as that takes; the answer to the last."""
        answer: list[str] = []
        for batch in _batches(_merged(calls)):
            async with self._redis.pipeline(transaction=False) as pipe:
                for name, *args in batch:
                    self._seq += name not in _READINGS
                    pipe.fcall(f"{self._name}_{name}", 1, self._prefix, self._incarnation, *args)
                self.round_trips += 1
                answers = await pipe.execute(raise_on_error=False)
            _be_cancelled()
            if error := next((found for found in answers if isinstance(found, RedisError)), None):
                raise error  # as Redis put it: the client would say it with all arguments
            answer = answers[-1]
        return answer

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A request that fails, or is cancelled, may or may not have got through: only a fill puts
        that right.
        """
        try:
            yield
        except BaseException as error:  # a cancellation too leaves it open what was done
            found = translated(error, self._server) if isinstance(error, RedisError) else error
            self._lost, self._changes = str(found) or "a request was broken off", []
            if found is error:
                raise
            _be_cancelled()
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
                await self._send(wanted)

    async def _start_anew(self) -> None:
        """Drop what is there, load the functions, and mark the index as this owner's.

        By a new connection: the name of the server may lead to another one now. Room is made
        before anything is asked that needs room.
        """
        await self._redis.connection_pool.disconnect()
        meta = f"{self._prefix}:meta"
        await self._redis.unlink(meta)  # first, so that another owner sees that it is gone
        found = self._redis.scan_iter(match=f"{self._prefix}:*", count=_KEYS)
        stale = [key async for key in found]
        async with self._redis.pipeline(transaction=False) as pipe:
            for start in range(0, len(stale), _KEYS):
                pipe.unlink(*stale[start : start + _KEYS])
            pipe.function_load(self._text, replace=True)
            pipe.hset(meta, items=["incarnation", self._incarnation, "owner", _me(), "seq", 0])
            pipe.info("memory")
            *answers, memory = await pipe.execute(raise_on_error=False)
        if error := next((found for found in answers if isinstance(found, RedisError)), None):
            raise error
        self.caution = _caution(memory) if isinstance(memory, dict) else ""


def _be_cancelled() -> None:
    """The client writes by `asyncio.wait_for`, which loses a cancellation that comes as it ends
    (Python 3.11): a manager that is told to stop would go on.
    """
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


def _caution(memory: Mapping[str, object]) -> str:
    """What the settings of the server let happen to the index."""
    policy = str(memory.get("maxmemory_policy", ""))
    if not policy.startswith("allkeys"):
        return ""
    return (
        f"Redis drops parts of the queue when it is full (maxmemory-policy {policy}); they are put"
        " back, again and again. To do: set maxmemory-policy noeviction"
    )


def _place(settings: Mapping[str, object]) -> str:
    """Where Redis is, without the password that the URL may have."""
    return str(settings.get("path") or f"{settings.get('host')}:{settings.get('port')}")


def _merged(calls: Iterable[_Call]) -> Iterator[_Call]:
    """The same calls, with enqueueings that follow each other put together."""
    together: list[str] = []
    for call in calls:
        if call[0] == "enqueue" and len(together) < 4 * _ENTRIES:
            together += call[1:]
            continue
        if together:
            yield ("enqueue", *together)
            together = []
        if call[0] == "enqueue":
            together += call[1:]
        else:
            yield call
    if together:
        yield ("enqueue", *together)


def _batches(calls: Iterable[_Call]) -> Iterator[list[_Call]]:
    """Calls that go together."""
    batch: list[_Call] = []
    size = 0
    for call in calls:
        batch.append(call)
        size += len(call)
        if size >= _TEXTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _texts(entry: Entry) -> tuple[str, str, str]:
    return entry.uid, str(entry.generation), entry.member
